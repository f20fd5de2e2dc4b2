"""The capacity model, compared with pods that Volcano binds."""

from __future__ import annotations

import pytest

from e2e import inputs, scheduling
from e2e.harness import Cluster, Object
from e2e.scheduling import Bound, Case
from fusioninfer_pulumi.plan.service_plan import compute_capacity_for_gpus
from fusioninfer_pulumi.topology.capacity_model import build_pools

TOPOLOGIES, MIXED = 40, 16
GROUPED = 15
BATCH = 50
"""Number of cases that run at once."""

STORY = inputs.prefill_decode()
MINIMUM = {"prefill": 1, "decode": 1}
PARTIAL = inputs.prefill_decode(minimum=MINIMUM)
LOWEST_ORDINALS = inputs.prefill_decode(minimum=MINIMUM, required="LowestOrdinals")
MEASURED = {
    # Bound pods of prefill-0, decode-0 and decode-1 by number of accelerators.
    "all-or-nothing": {80: (2, 4, 4), 64: (0, 0, 0), 48: (0, 0, 0), 32: (0, 0, 0), 16: (0, 0, 0)},
    "partial": {80: (2, 4, 4), 64: (2, 4, 0), 48: (2, 4, 0), 32: (0, 0, 0), 16: (0, 0, 0)},
}
PER_ROLE = {"layout": "PerRole"}
GANGS = {"all-or-nothing": STORY, "partial": PARTIAL}


def assert_matches_model(bound: Bound) -> None:
    """Assert that replicas equal the model if it is exact, and otherwise do not exceed it."""
    model = bound.case.model
    assert not bound.incomplete, f"{bound.case.title}: incomplete replicas {bound.incomplete}"
    if model.exact:
        assert bound.running == model.running, f"{bound.case.title}: model {model}"
    for role, count in bound.running.items():
        assert count <= model.running[role], f"{bound.case.title}: exceeds {model}"


def assert_match_model(cluster: Cluster, cases: list[Case]) -> list[Bound]:
    bound = [
        result
        for start in range(0, len(cases), BATCH)
        for result in scheduling.schedule(cluster, cases[start : start + BATCH])
    ]
    errors = []
    for result in bound:
        try:
            assert_matches_model(result)
        except AssertionError as error:
            errors.append(f"{error.args[0]}; bound {result.pods}")
    assert not errors, "\n".join(errors)
    return bound


@pytest.mark.verifies(
    "All-or-nothing and partial gangs schedule what the capacity model says at 16 to 80 GPUs"
)
@pytest.mark.parametrize(
    ("layout", "gangs"),
    [({}, GANGS), (PER_ROLE, GANGS), ({}, {"partial": LOWEST_ORDINALS})],
    ids=["PerReplica", "PerRole", "LowestOrdinals"],
)
def test_gangs_schedule_measured_capacity(
    cluster: Cluster, layout: dict[str, str], gangs: dict[str, Object]
) -> None:
    services = {
        gang: {**manifest, "spec": {**manifest["spec"], **layout}}
        for gang, manifest in gangs.items()
    }
    cases = {
        (gang, gpus): Case(f"{gang} {gpus}", services[gang], build_pools(gpus, 8))
        for gang in gangs
        for gpus in MEASURED[gang]
    }
    results = scheduling.schedule(cluster, list(cases.values()))
    table: dict[str, dict[int, tuple[int, ...]]] = {gang: {} for gang in gangs}
    for (gang, gpus), bound in zip(cases, results, strict=True):
        table[gang][gpus] = tuple(bound.pods.values())
        assert_matches_model(bound)
        (model,) = compute_capacity_for_gpus(bound.case.plan, [gpus])
        assert bound.running == model.running
        assert bound.pod_group is not None
        is_waiting = bound.pod_group["status"]["phase"] == "Inqueue"
        assert is_waiting == (model.status == "Blocked")
    assert table == {gang: MEASURED[gang] for gang in gangs}


@pytest.mark.verifies(
    f"The capacity model equals Volcano on {TOPOLOGIES} random topologies of one pod size"
)
def test_random_topologies_of_one_pod_size_run_as_modeled(cluster: Cluster) -> None:
    bound = assert_match_model(cluster, scheduling.generate_cases(1, TOPOLOGIES, mixed=False))
    assert all(item.case.model.exact for item in bound)
    # The random topologies cover every outcome.
    assert {item.case.model.status for item in bound} == {"Full", "Partial", "Blocked"}


@pytest.mark.verifies(
    f"Volcano never exceeds the model on {MIXED} random topologies of mixed pod sizes"
)
def test_random_topologies_of_mixed_sizes_never_exceed_model(cluster: Cluster) -> None:
    bound = assert_match_model(cluster, scheduling.generate_cases(2, MIXED, mixed=True))
    assert {item.case.model.exact for item in bound} == {True, False}


@pytest.mark.verifies(f"Serving groups start as the model says on {GROUPED} random topologies")
def test_random_topologies_with_groups_run_as_modeled(cluster: Cluster) -> None:
    cases = scheduling.generate_cases(9, GROUPED, mixed=False, groups=True)
    bound = assert_match_model(cluster, cases)
    started = {item.case.title: item.started_groups for item in bound}
    assert started == {item.case.title: item.case.model.groups for item in bound}
    assert {item.case.model.exact for item in bound} == {True, False}
    assert {item.case.model.status for item in bound} == {"Full", "Partial", "Blocked"}
