"""Names of services that break their own pods."""

from __future__ import annotations

from typing import Any

import pytest
from routed import router
from samples import Manifest, container, role, rules, service, template

from fusioninfer_pulumi.findings import Severity

AT = "metadata.name"


def named(name: str, namespace: str | None = "default", *roles: Any, **pods: Any) -> Manifest:
    metadata = {"name": name, **({} if namespace is None else {"namespace": namespace})}
    return service(*(roles or (role(template=template(container(), **pods)),)), metadata=metadata)


def of(rule: str, manifest: Manifest) -> list[str]:
    return [at for findings, at in rules(manifest, Severity.ERROR) if findings == rule]


LINKS = "service-name-breaks-engine"


@pytest.mark.parametrize("name", ["vllm", "vllm-dp-master"])
def test_service_whose_variables_the_engine_reads_is_rejected(name: str) -> None:
    assert of(LINKS, named(name)) == [AT]
    assert of(LINKS, named(name, "models")) == [AT]
    assert of(LINKS, named(name, "default", enableServiceLinks=False)) == []
    assert of(LINKS, named(name, "default", enableServiceLinks=True)) == [AT]
    assert of(LINKS, named(f"{name}-x")) == []
    assert of(LINKS, named(name, "default", router(), role())) == []


def test_other_engines_and_user_variables_are_unchanged() -> None:
    sglang = container(
        image="lmsysorg/sglang:v0.5.3", command=["python3", "-m"], args=["sglang.launch_server"]
    )
    assert of(LINKS, named("vllm", "default", role(template=template(sglang)))) == []
    user_container = container(env=[{"name": "VLLM_PORT", "value": "5000"}])
    assert of(LINKS, named("vllm", "default", role(template=template(user_container)))) == []
