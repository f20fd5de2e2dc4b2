"""Renamed roles, and services of equal names in two namespaces."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.engine.services import NO_GANG, TWO_NODES, Stack, role, service
from e2e.harness import Object

SLOW: dict[str, Any] = {"replicas": 2, "behavior": "slow"}
FOUR_NODES: dict[str, Any] = {"multinode": {"nodeCount": 4, "launcher": "none"}}
RENAMED: dict[str, tuple[Any, ...]] = {
    # Old role, what changes with its name, further roles, and other fields of the service.
    "A renamed role becomes available before the old one is deleted": (
        role(**SLOW, **TWO_NODES, gpus=8), {}, [], {}),
    "A renamed role joins a gang while the old replicas serve": (
        role(replicas=2, gpus=8), {}, [role("big", replicas=1, gpus=8, **TWO_NODES)], {}),
    "Renaming the role changes subGroupPolicy without an outage": (
        role(**SLOW, **FOUR_NODES), {"subGroupPolicy": {"subGroupSize": 2}}, [], NO_GANG),
}  # fmt: skip


@pytest.mark.parametrize(
    ("old", "changes", "others", "spec"),
    [pytest.param(*case, marks=pytest.mark.verifies(claim)) for claim, case in RENAMED.items()],
)
def test_renamed_role_is_available_before_deletion(
    stack: Stack, old: Object, changes: Object, others: list[Object], spec: Object
) -> None:
    stack.cluster.add_nodes(8)
    stack.deploy(old, **spec)
    wanted = stack.service({**old, "name": "other", **changes}, *others, **spec)
    min_ready = stack.roll_services(wanted)
    # Fewer old replicas are allowed only once the new role is ready.
    assert min_ready["total"] == 2, min_ready
    stack.assert_objects(wanted)
    ready = {item["name"]: item["replicas"] for item in others}
    assert stack.count_ready() == {"other": 2, **ready}


TWO_COMPONENTS_PROGRAM = """\
from pathlib import Path

import yaml

from fusioninfer_pulumi import InferenceService

for text in Path("services.yaml").read_text().split("\\n---\\n"):
    args = yaml.safe_load(text)
    if args is not None:
        InferenceService(args["metadata"]["labels"]["component"], args)
"""


@pytest.mark.verifies("Components with services of one name in two namespaces stay separate")
def test_equal_service_names_in_two_namespaces_stay_separate(
    stack: Stack, other_namespace: str
) -> None:
    stack.cluster.add_nodes(4)

    def make_service(where: str, component: str, replicas: int = 2, **more: Any) -> dict[str, Any]:
        labels = {"labels": {"component": component}}
        one = role(replicas=replicas, **FOUR_NODES, **more)
        return service(where, one, metadata=labels, **NO_GANG)

    stack.program = TWO_COMPONENTS_PROGRAM
    east = make_service(stack.namespace, "east")
    policy = {"subGroupPolicy": {"subGroupSize": 2}}
    stack.deploy_services(east)
    before = stack.pods()
    for replicas in (1, 2):
        # If the two services were confused, this would be rejected as a changed subGroupPolicy.
        stack.deploy_services(make_service(other_namespace, "west", replicas, **policy), east)
        assert stack.count_ready(other_namespace) == {"serve": replicas}
        assert stack.pods() == before
    assert stack.preview() == {}
