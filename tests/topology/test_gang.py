"""Roles that form a gang, and the gang's minimum numbers of pods."""

from __future__ import annotations

from typing import Any

from rows import each_row
from samples import (
    container,
    kinds,
    minima,
    nodes,
    plan_of,
    prefill_decode,
    problems,
    rendered,
    role,
    scheduling,
    service,
    template,
)

OFF = {"gangPolicy": {"mode": "Off"}}
ON = {"gangPolicy": {"mode": "On"}}
ROUTER = {"name": "router", "componentType": "router"}


def story(**spec: Any) -> dict[str, Any]:
    """Story 4: prefill 1 replica x 2 nodes, decode 2 replicas x 4 nodes, 8 GPUs each."""
    eight = template(container(gpus=8))
    return prefill_decode(
        {"multinode": nodes(2), "template": eight},
        {"multinode": nodes(4), "template": eight},
        **spec,
    )


@each_row(
    ("manifest", "gang"),
    [
        (service(), False),
        (service(role(replicas=5)), False),
        (service(role(multinode=nodes(1))), False),
        (service(role(multinode=nodes(2))), True),
        (service(role("a", "prefiller"), role("b")), False),
        (service(role("a", "decoder")), False),
        (prefill_decode(), True),
        (prefill_decode({"replicas": 0}), True),
        (prefill_decode(**scheduling(**OFF)), False),
        (service(role(multinode=nodes(2)), **scheduling(**OFF)), False),
        (service(ROUTER, role()), False),
        (service(role(replicas=5), **scheduling(**ON)), True),
        (service(role(replicas=0), **scheduling(**ON)), True),
    ],
)
def test_gang_is_needed_for_multi_node_or_paired_pods(manifest: dict[str, Any], gang: bool) -> None:
    plan = plan_of(manifest)
    assert plan.shape.needs_gang is gang
    assert plan.shape.scheduler == ("volcano" if gang else None)


@each_row(
    ("named", "expected", "members"),
    [
        ({}, {"prefill": 1, "decode": 2}, 10),
        ({"decode": 1}, {"prefill": 1, "decode": 1}, 6),
        ({"decode": 0}, {"prefill": 1, "decode": 0}, 2),
        ({"prefill": 0, "decode": 2}, {"prefill": 0, "decode": 2}, 8),
    ],
)
def test_role_without_a_minimum_needs_all_its_replicas(
    named: dict[str, int], expected: dict[str, int], members: int
) -> None:
    gang = plan_of(story(**minima(**named))).gang
    assert gang is not None
    assert gang.sub_groups is not None
    assert {group.role: group.minimum for group in gang.sub_groups} == expected
    assert gang.min_member == members
    assert gang.tasks is None


def test_replica_above_the_minimum_does_not_change_the_partial_pod_group() -> None:
    two, three = (
        rendered(prefill_decode({}, {"replicas": count}, **minima(prefill=1, decode=1)))[0]
        for count in (2, 3)
    )
    assert two == three
    assert rendered(prefill_decode())[0] != rendered(prefill_decode({}, {"replicas": 3}))[0]


def test_role_scaled_to_zero_has_no_objects() -> None:
    manifest = prefill_decode({"replicas": 0})
    assert kinds(manifest) == [
        "PodGroup/svc",
        "LeaderWorkerSet/svc-decode-0",
        "LeaderWorkerSet/svc-decode-1",
        "Service/svc",
    ]
    gang = plan_of(manifest).gang
    assert gang is not None
    assert gang.tasks == {"decode-0": 1, "decode-1": 1}
    partial = plan_of({**prefill_decode({"replicas": 0}, **minima(prefill=0, decode=1))}).gang
    assert partial is not None
    assert partial.sub_groups is not None
    assert [group.role for group in partial.sub_groups] == ["decode"]


def test_scaling_a_role_to_zero_restarts_no_other_role() -> None:
    def decoders(manifest: dict[str, Any]) -> list[Any]:
        return [item for item in rendered(manifest) if "decode" in item["metadata"]["name"]]

    assert decoders(prefill_decode()) == decoders(prefill_decode({"replicas": 0}))


def test_service_scaled_to_zero_has_no_pod_group() -> None:
    scaled_to_zero = prefill_decode({"replicas": 0}, {"replicas": 0})
    assert kinds(scaled_to_zero) == ["Service/svc"]
    assert problems(scaled_to_zero) == []
    assert (
        problems({**scaled_to_zero, "spec": {**scaled_to_zero["spec"], **minima(prefill=0)}}) == []
    )
