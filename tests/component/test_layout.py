"""Layout PerRole with mocks: objects, status and rejected updates."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from rows import each_row
from samples import nodes, plan_of, prefill_decode, role, service
from state_entries import LWS, lws_entry, urn

from fusioninfer_pulumi import InferenceService, InvalidServiceError
from fusioninfer_pulumi.component.children import build_lws_options
from fusioninfer_pulumi.component.status import compute_status
from fusioninfer_pulumi.rollout.update_order import order_update

PER_ROLE = {"layout": "PerRole"}


def live(
    ready: int, *, available: bool, generation: int = 1, observed: int = 1, **more: int
) -> Any:
    condition = {
        "type": "Available", "status": str(available), "observedGeneration": observed,
    }  # fmt: skip
    status = {"readyReplicas": ready, "conditions": [condition], **more}
    return {"metadata": {"generation": generation}, "status": status}


def deploy(engine: Any, manifest: Any, name: str = "svc") -> Any:
    def program() -> None:
        InferenceService(name, manifest)

    return engine.run(program)


def test_role_has_one_lws(engine: Any) -> None:
    result = deploy(engine, prefill_decode({"replicas": 2}, **PER_ROLE))
    assert sorted(child.key for child in result.children if child.request.type == LWS) == [
        (LWS, "svc-decode"), (LWS, "svc-prefill"),
    ]  # fmt: skip


def test_timeout_is_multiplied_by_replicas() -> None:
    manifest = service(role(replicas=4), rollout={"timeout": "10m"}, **PER_ROLE)
    (step,) = order_update(plan_of(manifest))
    assert step.timeout == "2400s"
    assert build_lws_options(step).ignore_changes is None


def test_externally_scaled_replicas_are_ignored() -> None:
    plan = plan_of(service(role(replicas=2), **PER_ROLE))
    scaled = replace(plan, roles=(replace(plan.roles[0], is_autoscaled=True),))
    (step,) = order_update(scaled)
    assert build_lws_options(step).ignore_changes == ["spec.replicas"]
    status = compute_status(scaled, {"svc-inference": live(5, available=True, replicas=5)})
    assert status["components"]["inference"] == {
        "desiredReplicas": 5, "readyReplicas": 5, "nodesPerReplica": 1, "totalPods": 5,
        "readyPods": 5, "phase": "Running",
    }  # fmt: skip


@each_row(
    ("seen", "ready", "phase", "active"),
    [
        (live(4, available=True), 4, "Running", "InferenceServiceAvailable"),
        # An update with a surge replica; one replica is not ready yet.
        (live(5, available=False), 4, "Deploying", "InferenceServiceAvailable"),
        (live(3, available=False), 3, "Deploying", "Partial"),
        (live(0, available=False), 0, "Deploying", "InferenceServiceProcessing"),
        # The status is about an older spec.
        (live(4, available=True, generation=2), 0, "Deploying", "InferenceServiceProcessing"),
        (None, 0, "Unknown", "InferenceServiceCreating"),
    ],
)
def test_status_counts_replicas_of_lws(seen: Any, ready: int, phase: str, active: str) -> None:
    manifest = service(role(replicas=4, multinode=nodes(2)), **PER_ROLE)
    status = compute_status(plan_of(manifest), {"svc-inference": seen})
    inference = status["components"]["inference"]
    assert (inference["desiredReplicas"], inference["readyReplicas"]) == (4, ready)
    assert (inference["totalPods"], inference["readyPods"], inference["phase"]) == (
        8,
        2 * ready,
        phase,
    )
    assert status["conditions"][1]["reason"] == active


PER_REPLICA_STATE = {
    urn(f"svc-inference-{index}"): lws_entry(f"svc-inference-{index}", index=str(index))
    for index in range(5)
}
PER_ROLE_STATE = {urn("svc-inference"): lws_entry("svc-inference")}


@pytest.mark.parametrize(
    ("state", "layout", "expected"),
    [
        (PER_REPLICA_STATE, "PerRole",
         "svc-inference-0, svc-inference-1, svc-inference-2 and 2 more"),
        (PER_ROLE_STATE, "PerReplica", "svc-inference"),
    ],
)  # fmt: skip
def test_layout_change_of_running_role_is_rejected(
    engine: Any, state: Any, layout: str, expected: str
) -> None:
    engine.state = state
    with pytest.raises(InvalidServiceError) as rejected:
        deploy(engine, service(layout=layout))
    other = "PerRole" if layout == "PerReplica" else "PerReplica"
    assert str(rejected.value).startswith(
        f"svc: layout: {layout} cannot replace {other} in a running role ({expected}); "
    )
    assert deploy(engine, service(layout=other)).children


def test_autoscaling_of_running_role_needs_its_layout(engine: Any) -> None:
    def without_layout(**fields: Any) -> Any:
        return service(role(replicas=5, **fields))

    scaled = {"maxReplicas": 5, "metrics": [{"name": "waiting", "target": 5}]}
    engine.state = PER_REPLICA_STATE
    with pytest.raises(InvalidServiceError, match="PerRole cannot replace PerReplica"):
        deploy(engine, without_layout(autoscaling=scaled))
    engine.state = PER_ROLE_STATE
    with pytest.raises(
        InvalidServiceError, match="write layout: PerRole to keep it, rename each role"
    ):
        deploy(engine, without_layout())
    assert deploy(engine, without_layout(autoscaling=scaled)).children


@pytest.mark.parametrize(
    ("state", "layout"), [(PER_REPLICA_STATE, "PerRole"), (PER_ROLE_STATE, "PerReplica")]
)
def test_renamed_role_can_change_layout(engine: Any, state: Any, layout: str) -> None:
    engine.state = state
    renamed = role("serve", replicas=2)
    assert deploy(engine, service(renamed, layout=layout)).children
    with pytest.raises(InvalidServiceError, match=r"wait\.level: the old replicas \(svc-inference"):
        deploy(engine, service(renamed, layout=layout, wait={"level": "Scheduled"}))
    # A role that keeps its name cannot change the layout.
    engine.state = {**state, urn("svc-a-0"): lws_entry("svc-a-0")}
    with pytest.raises(InvalidServiceError, match="in a running role"):
        deploy(engine, service(renamed, role(), layout=layout))


def test_role_named_like_old_replica_is_rejected(engine: Any) -> None:
    engine.state = PER_REPLICA_STATE
    with pytest.raises(InvalidServiceError, match=r"in a running role \(svc-inference-0\)"):
        deploy(engine, service(role("inference-0"), layout="PerRole"))


@pytest.mark.parametrize(
    "state",
    [
        None,
        {},
        {urn("svc-inference-wait", f"{LWS}Patch"): lws_entry("svc-inference")},
        # Another service, or a component with the same service in another cluster.
        {urn("svc-inference"): lws_entry("svc-inference", owner="other")},
        {urn("west-inference"): lws_entry("svc-inference")},
        {urn("svc-west-inference"): lws_entry("svc-inference")},
        {urn("svc-inference"): lws_entry("svc-inference", namespace="other")},
        # An unrelated LeaderWorkerSet, and a LeaderWorkerSet with unknown outputs.
        {urn("svc-inference"): {"type": LWS, "outputs": {"metadata": {"name": "x"}}}},
        {urn("svc-inference"): {"type": LWS, "outputs": {}}},
        {urn("svc-inference", "kubernetes:core/v1:Service"): lws_entry("svc-inference")},
    ],
)
def test_unrelated_stack_resources_are_ignored(engine: Any, state: Any) -> None:
    engine.state = state
    assert deploy(engine, service()).children
