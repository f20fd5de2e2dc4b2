"""Pods that the API server accepts but that never serve, and similar working pods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from rows import each_row
from rule_examples import find_input_findings

from fusioninfer_pulumi.rules.catalog import change_base

CONTAINER = "roles[0].template.spec.containers[0]"


def rules(fields: dict[str, Any] | None = None, **container: Any) -> set[str]:
    """Return the rules of errors and warnings about a worker role with these fields."""
    source = {f"{CONTAINER}.{key}": value for key, value in container.items()}
    result = find_input_findings([change_base("worker", {**source, **(fields or {})})])
    return {rule for rule, severity in result if severity != "info"}


#: Arguments of vLLM v0.11.0, and the rule that they violate.
REJECTED: list[tuple[Sequence[str], str]] = [
    (["--port", "0"], "argument-value-invalid"),
    (["--port", "70000"], "argument-value-invalid"),
]  # fmt: skip

#: Similar arguments that vLLM accepts.
ACCEPTED: list[Sequence[str]] = [
    ["--kv-transfer-config", ('{"kv_connector": "Mine", "kv_role": "kv_both", '
     '"kv_connector_module_path": "my.module"}')],
    ["--kv-transfer-config", '{"kv_connector": "NixlConnectorOfMine", "kv_role": "kv_both"}'],
    ["--enable-lora", "--lora-modules", "a=org/a", '{"name": "b", "path": "org/b"}'],
    ["--max-model-len", "-1"],
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "rule"), REJECTED)
def test_arguments_that_cannot_work_are_reported(arguments: list[str], rule: str) -> None:
    limits = {f"{CONTAINER}.resources.limits": {"memory": "64Gi", "nvidia.com/gpu": 8}}
    assert rule in rules(limits, args=["--model", "m", *arguments])


@each_row("arguments", ACCEPTED)
def test_similar_arguments_are_accepted(arguments: list[str]) -> None:
    result = rules(args=["--model", "m", *arguments])
    assert not result & {rule for _, rule in REJECTED}


KEY = ["--api-key", "$(K)"]
PROBES: list[tuple[dict[str, Any], Sequence[str], str]] = [
    ({"httpGet": {"path": "/health", "port": 8000}}, [], ""),
    ({"httpGet": {"path": "/v1/models", "port": 8000}}, [], ""),
    ({"httpGet": {"path": "/v1/models", "port": 8000}}, KEY, "probe-not-answered"),
    ({"httpGet": {"path": "/health", "port": 8000}}, KEY, ""),
    ({"tcpSocket": {"port": 8000}}, [], ""),
]  # fmt: skip


@each_row(("probe", "arguments", "rule"), PROBES)
def test_probe_path_must_not_need_an_api_key(
    probe: dict[str, Any], arguments: list[str], rule: str
) -> None:
    result = rules(readinessProbe=probe, args=["--model", "m", *arguments])
    assert {finding for finding in result if finding.startswith("probe-")} == (
        {rule} if rule else set()
    )


def test_arguments_have_the_values_of_their_variables() -> None:
    env = [{"name": "TP", "value": "8"}]
    limits = {f"{CONTAINER}.resources.limits": {"nvidia.com/gpu": 1}}
    result = rules(limits, env=env, args=["--model", "m", "--tensor-parallel-size=$(TP)"])
    assert "accelerators-too-few" in result
