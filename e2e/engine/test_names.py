"""Renamed roles, and services of equal names in two namespaces."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.engine.services import NO_GANG, Stack, rendered, role, service, state_objects


@pytest.mark.proves("A renamed role becomes available before the old one is deleted")
def test_renamed_role_is_available_before_deletion(stack: Stack) -> None:
    stack.cluster.add_nodes(8)
    spread: dict[str, Any] = {"multinode": {"nodeCount": 2, "launcher": "none"}, "gpus": 8}
    old = role("serve", replicas=2, behaviour="slow", **spread)
    stack.deploy(old)
    wanted = stack.service({**old, "name": "decode"})
    with stack.min_ready_replicas() as least:
        stack.deploy_services(wanted)
    # Fewer old replicas are allowed only once the new role is ready.
    assert least["total"] == 2, least
    assert stack.remaining_objects() == state_objects(stack.resources()) == rendered(wanted)
    assert stack.ready() == {"decode": 2}


TWO = """\
from pathlib import Path

import yaml

from fusioninfer_pulumi import InferenceService

for text in Path("services.yaml").read_text().split("\\n---\\n"):
    args = yaml.safe_load(text)
    if args is not None:
        InferenceService(args["metadata"]["labels"]["component"], args)
"""


@pytest.mark.proves("Components with services of one name in two namespaces stay separate")
def test_equal_service_names_in_two_namespaces(stack: Stack) -> None:
    stack.cluster.add_nodes(4)
    elsewhere = stack.cluster.new_namespace()
    spread: dict[str, Any] = {"multinode": {"nodeCount": 4, "launcher": "none"}}

    def made(where: str, component: str, replicas: int = 2, **more: Any) -> dict[str, Any]:
        labels = {"labels": {"component": component}}
        one = role(replicas=replicas, **spread, **more)
        return service(where, one, metadata=labels, **NO_GANG)

    try:
        stack.program = TWO
        east = made(stack.namespace, "east")
        policy = {"subGroupPolicy": {"subGroupSize": 2}}
        stack.deploy_services(east)
        before = stack.pods()
        for replicas in (1, 2):
            # If the two services were confused, this would be rejected as a changed subGroupPolicy.
            stack.deploy_services(made(elsewhere, "west", replicas, **policy), east)
            assert stack.ready(elsewhere) == {"serve": replicas}
            assert stack.pods() == before
        assert stack.preview() == {}
    finally:
        stack.cluster.delete_namespace(elsewhere)
