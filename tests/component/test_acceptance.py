"""Objects other than replicas that `wait.level` waits for, and progress messages."""

from __future__ import annotations

from typing import Any

from component.awaited import awaited
from component.diagnosed import pod
from routed import ROUTE
from rows import each_row
from samples import nodes, plan_of, role, service

from fusioninfer_pulumi import render
from fusioninfer_pulumi.component.diagnosis import PodSnapshot, format_progress
from fusioninfer_pulumi.component.status import find_unaccepted, list_awaited_manifests

ACCEPTED = {"type": "Accepted", "status": "True"}
RESOLVED = {"type": "ResolvedRefs", "status": "True"}
PROGRAMMED = {"type": "Programmed", "status": "True"}


def parent(name: str, *conditions: Any, **more: str) -> dict[str, Any]:
    return {"parentRef": {"name": name, **more}, "conditions": conditions}


def find_results(*parents: Any, generation: int = 1) -> dict[str, Any]:
    return {"metadata": {"generation": generation}, "status": {"parents": parents}}


def live(**more: Any) -> dict[str, Any]:
    whole = find_results(parent("svc-gateway", ACCEPTED, RESOLVED))
    return {
        "svc-gateway": {"status": {"conditions": [ACCEPTED, PROGRAMMED]}},
        "svc-pool": whole,
        "svc-httproute": whole,
        **{f"svc-{name}": item for name, item in more.items()},
    }


def missing(objects: Any, **fields: Any) -> str | None:
    plan = plan_of(awaited(**fields))
    return find_unaccepted(plan, list_awaited_manifests(plan, render(plan)), objects)


OLD = {**ACCEPTED, "observedGeneration": 1}
REJECTED = {"type": "Accepted", "status": "False", "reason": "NotAllowedByListeners"}


@each_row(
    ("objects", "expected"),
    [
        (live(), None),
        ({}, "InferencePool svc-pool: Gateway svc-gateway has not reported a status"),
        (
            live(gateway={"status": {"conditions": [ACCEPTED]}}),
            "Gateway svc-gateway: Programmed is unknown",
        ),
        (
            live(pool=find_results()),
            "InferencePool svc-pool: Gateway svc-gateway has not reported a status",
        ),
        (
            live(httproute=find_results(parent("other", ACCEPTED, RESOLVED))),
            "HTTPRoute svc-httproute: Gateway svc-gateway has not reported a status",
        ),
        (
            live(httproute=find_results(parent("svc-gateway", REJECTED, RESOLVED))),
            "HTTPRoute svc-httproute at svc-gateway: not Accepted, NotAllowedByListeners",
        ),
        (
            live(httproute=find_results(parent("svc-gateway", OLD, RESOLVED), generation=2)),
            "HTTPRoute svc-httproute at svc-gateway: Accepted is unknown",
        ),
    ],
)
def test_unaccepted_routing_object_has_a_message(objects: Any, expected: str | None) -> None:
    assert missing(objects) == expected


def test_all_parents_must_accept_route() -> None:
    parents = [{"name": "a", "sectionName": "x"}, {"name": "a", "sectionName": "y"}]
    fields = {"httproute": {**ROUTE, "parentRefs": parents}, "gateway": None}
    one = find_results(parent("a", ACCEPTED, RESOLVED, sectionName="x"))
    both = find_results(*(parent("a", ACCEPTED, RESOLVED, sectionName=item) for item in "xy"))
    pool = find_results(parent("a", ACCEPTED, RESOLVED))
    assert missing({"svc-pool": pool, "svc-httproute": both}, **fields) is None
    assert missing({"svc-pool": pool, "svc-httproute": one}, **fields) == (
        "HTTPRoute svc-httproute: Gateway a has not reported a status"
    )


@each_row(
    ("level", "kinds"),
    [
        ("None", set()),
        ("Scheduled", set()),
        ("Available", set()),
        ("Serving", {"Gateway", "InferencePool", "HTTPRoute"}),
    ],
)
def test_level_determines_awaited_kinds(level: str, kinds: set[str]) -> None:
    plan = plan_of(awaited(level))
    assert {
        list_awaited_manifest["kind"]
        for list_awaited_manifest in list_awaited_manifests(plan, render(plan))
    } == kinds


def test_service_without_route_awaits_no_gateway() -> None:
    plan = plan_of(awaited(httproute=None, gateway=None))
    assert list_awaited_manifests(plan, render(plan)) == []


PLACED = {"type": "PodGroupInitiallyScheduled"}


@each_row(
    ("group", "expected"),
    [
        ({"status": {"phase": "Running"}}, None),
        ({"status": {"phase": "Inqueue"}}, "PodGroup svc: the PodGroup is Inqueue"),
        ({}, "PodGroup svc: the gang is not scheduled"),
        ({"status": {"conditions": [{**PLACED, "status": "True"}]}}, None),
        (
            {"status": {"conditions": [{**PLACED, "status": "False", "message": "no room"}]}},
            "PodGroup svc: no room",
        ),
    ],
)
def test_unscheduled_gang_is_awaited(group: Any, expected: str | None) -> None:
    plan = plan_of(service(role(multinode=nodes(2)), wait={"level": "Scheduled"}))
    manifests = list_awaited_manifests(plan, render(plan))
    assert find_unaccepted(plan, manifests, {"svc": group}) == expected


def test_progress_line_shows_counts_and_reason() -> None:
    plan = plan_of(service(role(replicas=2)))
    ready = {
        "status": {"readyReplicas": 1, "conditions": [{"type": "Available", "status": "True"}]}
    }
    result = {"svc-inference-0": ready}
    waiting = {"name": "vllm", "state": {"waiting": {"reason": "ImagePullBackOff"}}}
    pods = PodSnapshot([pod("svc-inference-1-0", containerStatuses=[waiting])])
    line = format_progress(plan, result, "svc-inference-1", pods, minutes=3)
    assert line == (
        "inference 1/2 available; pod svc-inference-1-0: container vllm: ImagePullBackOff; for 3m"
    )
    line = format_progress(plan, result, "svc-inference-1", PodSnapshot(), minutes=0)
    assert line == "inference 1/2 available"
