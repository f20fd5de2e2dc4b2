"""Autoscalers of roles; the gang's minimum does not grow with the replicas."""

from __future__ import annotations

from typing import Any

from cli.printed import plan_text
from routed import only
from samples import nodes, problems, rendered, role, service

from fusioninfer_pulumi.checks.plan_service import plan_service
from fusioninfer_pulumi.loading import load
from fusioninfer_pulumi.plan.service_objects import render
from fusioninfer_pulumi.rollout.update_order import order_update

Manifest = dict[str, Any]
WAITING = {"name": "vllm_num_requests_waiting", "target": 5}
QUERY = {"query": 'sum(queue{fusioninfer_io_service="svc"})', "target": "5"}


def scaled(fields: Manifest | None = None, spec: Manifest | None = None, **more: Any) -> Manifest:
    """Return a service with one role that is scaled between 1 and 4 replicas."""
    autoscaling = {"maxReplicas": 4, "metrics": [WAITING], **(fields or {})}
    autoscaling = {key: value for key, value in autoscaling.items() if value is not None}
    return service(role(autoscaling=autoscaling, **more), **{"layout": "PerRole", **(spec or {})})


def keda(**more: Any) -> Manifest:
    return {"engine": "KEDA", "prometheus": "http://p:9090", "metrics": [QUERY], **more}


def test_default_layout_follows_from_autoscaling() -> None:
    unwritten = scaled()
    del unwritten["spec"]["layout"]
    assert problems(unwritten) == []
    assert rendered(unwritten) == rendered(scaled())
    text = shown(unwritten)
    assert "PerRole, required by the autoscaler of inference " in text
    assert "PerRole" not in shown(service(role()))


def shown(manifest: Manifest) -> str:
    plan = plan_service(load(manifest)[0])
    return " ".join(plan_text(plan, render(plan)).split())


def test_each_serving_group_is_scaled_separately() -> None:
    manifest = scaled(spec={"groups": 2})
    assert problems(manifest) == []
    result = [item for item in rendered(manifest) if item["kind"] == "HorizontalPodAutoscaler"]
    targets = [item["spec"]["scaleTargetRef"]["name"] for item in result]
    assert targets == [item["metadata"]["name"] for item in result]
    lws = [item for item in rendered(manifest) if item["kind"] == "LeaderWorkerSet"]
    assert targets == [item["metadata"]["name"] for item in lws]
    assert len(targets) == 2
    (problem,) = problems(scaled(keda(), {"groups": 2}))
    assert "metrics[0]: is one number for all serving groups" in problem


def test_update_keeps_autoscaled_replicas() -> None:
    for manifest, expected in ((scaled(), True), (service(role(), layout="PerRole"), False)):
        (args,) = load(manifest)
        (step,) = order_update(plan_service(args))
        assert step.is_autoscaled == expected


def test_gang_needs_at_most_the_minimum_replicas() -> None:
    gang = {"schedulingStrategy": {"gangPolicy": {"minRoleReplicas": {"inference": 2}}}}
    manifest = scaled({"minReplicas": 2}, gang, replicas=3, multinode=nodes(2))
    assert problems(manifest) == []
    assert only(manifest, "PodGroup")["spec"]["minMember"] == 4
