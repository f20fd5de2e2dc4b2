"""Router roles: findings of several roles, and partial templates of the endpoint picker."""

from __future__ import annotations

from typing import Any

import pytest
from routed import ROUTE, routed, router
from samples import problems, role, service


def test_all_findings_of_all_roles_are_reported_together() -> None:
    manifest = service(
        router(strategy="pd-disaggregation", httproute={**ROUTE, "hostnames": ["a:80"]}),
        role(replicas=-1),
    )
    expected = [line.split(": ")[0] for line in problems(manifest)]
    assert expected == ["roles[1].replicas", "roles[0].httproute.hostnames[0]"]


@pytest.mark.parametrize(
    "override",
    [
        {"livenessProbe": {"grpc": {"service": "inference-extension"}}},
        {"volumeMounts": [{"name": "plugins-config-volume", "readOnly": True}]},
    ],
)
def test_picker_template_may_be_partial(override: Any) -> None:
    template = {"spec": {"containers": [{"name": "epp", **override}]}}
    assert problems(routed(endpointPicker={"template": template})) == []
