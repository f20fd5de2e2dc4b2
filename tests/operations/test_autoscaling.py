"""Autoscalers: of one set of all replicas, within a gang that does not grow with them."""

from __future__ import annotations

from typing import Any

import pytest
from cli.printed import plan_text
from routed import only
from samples import nodes, prefill_decode, problems, rendered, role, service, warnings

from fusioninfer_pulumi.checks.stages import plan_service
from fusioninfer_pulumi.loading import load
from fusioninfer_pulumi.plan.service_objects import render
from fusioninfer_pulumi.rollout.update_order import update_order

Manifest = dict[str, Any]
WAITING = {"name": "vllm_num_requests_waiting", "target": 5}
PODS_POLICY = {"type": "Pods", "value": 1, "periodSeconds": 60}
QUERY = {"query": 'sum(queue{fusioninfer_io_service="svc"})', "target": "5"}


def scaled(given: Manifest | None = None, spec: Manifest | None = None, **more: Any) -> Manifest:
    """A service of one role that is scaled between 1 and 4."""
    autoscaling = {"maxReplicas": 4, "metrics": [WAITING], **(given or {})}
    autoscaling = {key: value for key, value in autoscaling.items() if value is not None}
    return service(role(autoscaling=autoscaling, **more), **{"layout": "PerRole", **(spec or {})})


def keda(**more: Any) -> Manifest:
    return {"engine": "KEDA", "prometheus": "http://p:9090", "metrics": [QUERY], **more}


def test_layout_follows_from_autoscaling_where_none_is_written() -> None:
    unwritten = scaled()
    del unwritten["spec"]["layout"]
    assert problems(unwritten) == []
    assert rendered(unwritten) == rendered(scaled())
    text = shown(unwritten)
    assert "PerRole, required by the autoscaler of inference; updated by" in text
    assert "PerRole" not in shown(service(role()))


def shown(manifest: Manifest) -> str:
    plan = plan_service(load(manifest)[0])
    return " ".join(plan_text(plan, render(plan)).split())


def test_each_serving_group_is_scaled_by_itself() -> None:
    manifest = scaled(spec={"groups": 2})
    assert problems(manifest) == []
    found = [each for each in rendered(manifest) if each["kind"] == "HorizontalPodAutoscaler"]
    targets = [each["spec"]["scaleTargetRef"]["name"] for each in found]
    assert targets == [each["metadata"]["name"] for each in found]
    lws = [each for each in rendered(manifest) if each["kind"] == "LeaderWorkerSet"]
    assert targets == [each["metadata"]["name"] for each in lws]
    assert len(targets) == 2
    (problem,) = problems(scaled(keda(), {"groups": 2}))
    assert "metrics[0]: is one number for all serving groups" in problem


def test_engine_leaves_the_replicas_alone() -> None:
    for manifest, expected in ((scaled(), True), (service(role(), layout="PerRole"), False)):
        (args,) = load(manifest)
        (step,) = update_order(plan_service(args))
        assert step.scaled_externally == expected


def test_gang_asks_for_no_more_than_the_fewest_replicas() -> None:
    gang = {"schedulingStrategy": {"gangPolicy": {"minRoleReplicas": {"inference": 2}}}}
    manifest = scaled({"minReplicas": 2}, gang, replicas=3, multinode=nodes(2))
    assert problems(manifest) == []
    assert only(manifest, "PodGroup")["spec"]["minMember"] == 4


@pytest.mark.parametrize(
    ("manifest", "problem"),
    [
        (scaled(spec={"layout": "PerReplica"}), "roles[0].autoscaling: requires layout: PerRole"),
        (scaled({"minReplicas": 0}), "roles[0].autoscaling.minReplicas: must be at least 1 with"),
        (scaled({"minReplicas": 5}), "minReplicas (5) is above maxReplicas (4)"),
        (scaled(replicas=5), "roles[0].replicas: is the initial count and must be within"),
        (scaled(replicas=0), "roles[0].autoscaling: conflicts with replicas: 0; remove one of"),
        (
            scaled(multinode=nodes(2)),
            "roles[0].autoscaling: needs schedulingStrategy.gangPolicy.minRoleReplicas.inference",
        ),
        (
            scaled(
                spec={"schedulingStrategy": {"gangPolicy": {"minRoleReplicas": {"inference": 2}}}},
                replicas=2,
                multinode=nodes(2),
            ),
            "minRoleReplicas.inference: must be at most autoscaling's minReplicas (1), got 2",
        ),
        (scaled({"metrics": [QUERY]}), "roles[0].autoscaling.metrics[0].name: is required with"),
        (scaled({"metrics": [QUERY]}), "metrics[0].query: belongs to engine KEDA; remove it"),
        (scaled({"prometheus": "http://p"}), "autoscaling.prometheus: belongs to engine KEDA"),
        (scaled(keda(prometheus=None)), "autoscaling.prometheus: is required with engine KEDA"),
        (scaled(keda(metrics=[WAITING])), "metrics[0].query: is required with engine KEDA"),
        (
            scaled(keda(metrics=[{**QUERY, "source": "Pods"}])),
            "metrics[0].source: belongs to engine HPA; remove it",
        ),
        (scaled({"keda": {"pollingInterval": 5}}), "autoscaling.keda: belongs to engine KEDA"),
        (
            scaled({"metrics": [{**WAITING, "unsafeSsl": True}]}),
            "metrics[0].unsafeSsl: belongs to engine KEDA; remove it",
        ),
        (
            scaled(keda(minReplicas=1, keda={"idleReplicaCount": 1})),
            "autoscaling.keda.idleReplicaCount: must be below minReplicas (1), got 1",
        ),
        (
            scaled({"behavior": {"up": {}}}),
            "autoscaling.behavior.up: unknown key; allowed: scaleDown, scaleUp",
        ),
        (
            scaled({"metrics": [{**WAITING, "name": "vllm/waiting"}]}),
            'metrics[0].name: must be the name of a metric, without / and %, got "vllm/waiting"',
        ),
        (scaled({"metrics": []}), "roles[0].autoscaling: needs target or metrics"),
        (
            scaled(disruptionBudget={"minAvailable": 1}),
            "roles[0].disruptionBudget.minAvailable: inference is autoscaled: set",
        ),
        (
            scaled(disruptionBudget={"maxUnavailable": "50%"}),
            "roles[0].disruptionBudget.maxUnavailable: inference is autoscaled: set",
        ),
        (
            scaled({"maxReplicas": 1000}, name="x" * 45, multinode=nodes(2)),
            "the name of LeaderWorkerSet",
        ),
    ],
)
def test_invalid_autoscaling_is_rejected(manifest: Manifest, problem: str) -> None:
    assert any(problem in each for each in problems(manifest)), problems(manifest)


def ratio(prefill: int, decode: int, more: Manifest | None = None, **bounds: float) -> Manifest:
    scaled_too = {"autoscaling": more} if more else {}
    return prefill_decode(
        {"replicas": prefill},
        {"replicas": decode, **scaled_too},
        prefillDecodeRatio=bounds,
        layout="PerRole",
        schedulingStrategy={"gangPolicy": {"mode": "Off"}},
    )


@pytest.mark.parametrize(
    ("manifest", "problem"),
    [
        (ratio(1, 2, min=0.5, max=0.5), None),
        (ratio(2, 1, max=2), None),
        (ratio(0, 2, max=1), None),  # parked: nothing to compare
        (ratio(1, 0, min=1), None),
        (ratio(3, 1, max=2), "must be at most 2, got 3 (prefill 3, decode 1)"),
        (ratio(1, 4, min=0.5), "must be at least 0.5, got 0.25 (prefill 1, decode 4)"),
        (ratio(1, 1, min=2, max=1), "min (2) is above max (1)"),
        (ratio(1, 1), "needs min, max or both"),
        (service(role(), prefillDecodeRatio={"max": 1}), "requires prefiller and decoder roles"),
    ],
)
def test_ratio_of_prefill_to_decode_is_kept(manifest: Manifest, problem: str | None) -> None:
    found = [each for each in problems(manifest) if "prefillDecodeRatio" in each]
    assert [problem is not None and problem in each for each in found] == [True] * bool(problem)


def test_autoscalers_that_may_leave_the_ratio_are_a_warning() -> None:
    given = {"maxReplicas": 4, "metrics": [WAITING]}
    (found,) = [warning for warning in warnings(ratio(1, 2, given, min=0.5)) if "Ratio" in warning]
    assert "autoscaling may bring it to 0.25 (prefill 1, decode 4)" in found
    assert [warning for warning in warnings(ratio(1, 2, given, max=1)) if "Ratio" in warning] == []
