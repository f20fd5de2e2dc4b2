"""One LeaderWorkerSet for each role: its name, its gang, its rolling update, and rejected names."""

from __future__ import annotations

from typing import Any

import pytest
from rows import each_row
from samples import (
    container,
    kinds,
    nodes,
    plan_of,
    prefill_decode,
    rendered,
    role,
    service,
    template,
)

from fusioninfer_pulumi.checks.plan_service import plan_services
from fusioninfer_pulumi.kube.durations import multiply_duration
from fusioninfer_pulumi.loading import load
from fusioninfer_pulumi.plan.service_plan import compute_capacity_for_gpus
from fusioninfer_pulumi.rollout.update_order import choose_next_lws, order_update
from fusioninfer_pulumi.topology.role_plan import LwsPlan

PER_ROLE = {"layout": "PerRole"}
WIDE = {"template": template(container(gpus="8")), "multinode": nodes(2, launcher="none")}


def spec_of(manifest: Any, name: str) -> Any:
    return next(
        item["spec"]
        for item in rendered(manifest)
        if (item["kind"], item["metadata"]["name"]) == ("LeaderWorkerSet", name)
    )


def updating(manifest: Any, name: str = "svc-inference") -> Any:
    return spec_of(manifest, name)["rolloutStrategy"]["rollingUpdateConfiguration"]


def updated(rollout: Any, replicas: int = 4, **more: Any) -> Any:
    return service(role(replicas=replicas, **more), rollout=rollout, **PER_ROLE)


def test_per_role_layout_has_one_lws_with_all_replicas() -> None:
    manifest = prefill_decode({"replicas": 3}, {"replicas": 0}, **PER_ROLE)
    assert kinds(manifest) == ["PodGroup/svc", "LeaderWorkerSet/svc-prefill", "Service/svc"]
    assert spec_of(manifest, "svc-prefill")["replicas"] == 3
    (prefill, decode) = plan_of(manifest).roles
    assert [replica.name for replica in prefill.replicas] == [
        "svc-prefill-0", "svc-prefill-1", "svc-prefill-2",
    ]  # fmt: skip
    assert prefill.lws == (LwsPlan("svc-prefill", "prefill", prefill.replicas, None),)
    assert decode.lws == decode.replicas == ()
    assert (prefill.total_pods, decode.total_pods) == (3, 0)


def test_per_role_gang_separates_replicas_by_group_index() -> None:
    group, *lws, _ = rendered(prefill_decode(**PER_ROLE))
    for item in lws:
        metadata = item["spec"]["leaderWorkerTemplate"]["workerTemplate"]["metadata"]
        name = metadata["labels"]["fusioninfer.io/role-name"]
        assert metadata["annotations"] == {
            "scheduling.k8s.io/group-name": "svc", "volcano.sh/task-spec": name,
        }  # fmt: skip
    assert "minTaskMember" not in group["spec"]
    assert group["spec"]["minMember"] == 3
    keys = [entry["matchLabelKeys"] for entry in group["spec"]["subGroupPolicy"]]
    assert keys == [["leaderworkerset.sigs.k8s.io/group-index"]] * 2
    assert [entry["minSubGroups"] for entry in group["spec"]["subGroupPolicy"]] == [1, 2]


def test_per_role_service_is_all_or_nothing_by_default() -> None:
    wide = prefill_decode(WIDE, {**WIDE, "replicas": 2, "multinode": nodes(4, launcher="none")})
    for minima in (None, {"prefill": 1, "decode": 1}):
        policy = {} if minima is None else {"gangPolicy": {"minRoleReplicas": minima}}
        wide["spec"]["schedulingStrategy"] = policy
        per_replica = plan_of(wide)
        per_role = plan_of({**wide, "spec": {**wide["spec"], **PER_ROLE}})
        requests = (80, 64, 48, 32, 16)
        assert compute_capacity_for_gpus(per_role, requests) == compute_capacity_for_gpus(
            per_replica, requests
        )


@each_row(
    ("rollout", "expected"),
    [
        ({}, (0, 1, 0)),
        ({"maxUnavailable": 2, "partition": 3}, (3, 2, 0)),
        # LeaderWorkerSet rounds the one down, and rejects 0; the other one up.
        ({"maxUnavailable": "10%", "maxSurge": "10%"}, (0, 1, 1)),
        ({"maxUnavailable": "60%", "maxSurge": "60%"}, (0, 2, 3)),
        ({"maxUnavailable": 0, "maxSurge": 9}, (0, 0, 4)),
        ({"strategy": "AllAtOnce", "partition": 1}, (1, "100%", 0)),
        ({"strategy": "Recreate"}, (0, 1, 0)),
    ],
)
def test_rolling_update_follows_rollout(rollout: Any, expected: Any) -> None:
    assert tuple(updating(updated(rollout)).values()) == expected
    # A role's own words come first.
    inner = service(role(replicas=4, rollout=rollout), rollout={"maxUnavailable": 3}, **PER_ROLE)
    if "maxUnavailable" in rollout:
        assert tuple(updating(inner).values()) == expected


def test_step_timeout_grows_with_the_replicas() -> None:
    # One after the other, also where several may be down: that takes a feature gate.
    rows = [({}, "2400s"), ({"maxUnavailable": 3, "maxSurge": 1}, "3000s"),
            ({"strategy": "AllAtOnce"}, "2400s"), ({"strategy": "Recreate"}, "10m")]  # fmt: skip
    for rollout, expected in rows:
        (step,) = order_update(plan_of(updated({"timeout": "10m", **rollout})))
        assert (step.timeout, step.is_frozen) == (expected, False)
    assert multiply_duration("1.5s", 3) == "5s"
    assert multiply_duration("2000000h", 1000) == multiply_duration("2500000h", 1000)


def test_per_role_updates_may_be_sequential() -> None:
    order = {"rollout": {"roleOrder": "Sequential"}}
    steps = order_update(plan_of(prefill_decode(**order, **PER_ROLE)))
    assert [step.name for step in steps] == ["svc-prefill", "svc-decode"]
    both = {"svc-prefill", "svc-decode"}
    assert choose_next_lws(steps, both, (), ()) == ["svc-prefill"]
    assert choose_next_lws(steps, {"svc-decode"}, {"svc-prefill"}, ()) == []


def test_update_waits_only_for_required_replicas() -> None:
    minima = {"gangPolicy": {"minRoleReplicas": {"prefill": 0, "decode": 1}}}
    manifest = prefill_decode({"replicas": 2}, **PER_ROLE, schedulingStrategy=minima)
    steps = order_update(plan_of(manifest))
    assert {step.name: (step.is_required, step.has_optional_replicas) for step in steps} == {
        "svc-prefill": (False, True), "svc-decode": (True, True),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("roles", "kind"),
    [
        # The workers of group 0 of role a are run by a StatefulSet of that name.
        ([role("a", multinode=nodes(2)), role("a-0")], 'StatefulSet "svc-a-0"'),
        ([role("a", multinode=nodes(2), rollout={"maxSurge": 1}), role("a-1")],
         'StatefulSet "svc-a-1"'),
        ([role("a", networkConfig={"subdomainPolicy": "UniquePerReplica"}, replicas=2),
          role("a-1")], 'Service "svc-a-1"'),
    ],
)  # fmt: skip
def test_role_name_collision_is_rejected(roles: Any, kind: str) -> None:
    (plan,) = plan_services(load(service(*roles, **PER_ROLE)))
    assert any(kind in str(finding) for finding in plan.findings), plan.findings


def test_role_name_collision_with_another_service_is_rejected() -> None:
    # The headless Service of the role's set, and the Service in front of the other one.
    pair = [service(role("a"), **PER_ROLE), service(role("b"), name="svc-a")]
    _, other = plan_services([args for item in pair for args in load(item)])
    assert 'Service "svc-a" would also belong to role a of service svc' in str(other.findings[0])
