"""Autoscalers of roles: HorizontalPodAutoscaler (autoscaling/v2), or KEDA's ScaledObject."""

from __future__ import annotations

from typing import Any

from fusioninfer_pulumi.manifests.leader_worker_set import API_VERSION, KIND
from fusioninfer_pulumi.manifests.metadata import metadata
from fusioninfer_pulumi.manifests.pod_template import role_labels
from fusioninfer_pulumi.plan.day_two.records import AutoscalerPlan
from fusioninfer_pulumi.plan.records import ServicePlan
from fusioninfer_pulumi.spec.autoscaling import (
    AutoscalingEngine,
    AutoscalingMetricArgs,
    MetricSource,
)

Manifest = dict[str, Any]


def autoscaler(plan: ServicePlan, planned: AutoscalerPlan) -> Manifest:
    """Builds the autoscaler of one role.

    Args:
        plan: The service.
        planned: The autoscaler.

    Returns:
        A HorizontalPodAutoscaler or a ScaledObject.
    """
    (role,) = (each for each in plan.roles if each.name == planned.role)
    own = metadata(plan, planned.name, role_labels(plan, role))
    target = {"apiVersion": API_VERSION, "kind": KIND, "name": planned.name}
    args = planned.args
    behavior = {"behavior": args.behavior} if args.behavior is not None else {}
    if args.engine is AutoscalingEngine.KEDA:
        advanced = {"advanced": {"horizontalPodAutoscalerConfig": behavior}} if behavior else {}
        return {
            "apiVersion": "keda.sh/v1alpha1",
            "kind": planned.kind,
            "metadata": own,
            "spec": {
                "scaleTargetRef": target,
                "minReplicaCount": args.min_replicas,
                "maxReplicaCount": args.max_replicas,
                **advanced,
                "triggers": [_trigger(args.prometheus or "", each) for each in args.metrics],
            },
        }
    return {
        "apiVersion": "autoscaling/v2",
        "kind": planned.kind,
        "metadata": own,
        "spec": {
            "scaleTargetRef": target,
            "minReplicas": args.min_replicas,
            "maxReplicas": args.max_replicas,
            **behavior,
            "metrics": [_metric(each) for each in args.metrics],
        },
    }


def _metric(given: AutoscalingMetricArgs) -> Manifest:
    external = given.source is MetricSource.EXTERNAL
    named: Manifest = {"name": given.name}
    if given.selector:
        named["selector"] = {"matchLabels": dict(given.selector)}
    return {
        "type": "External" if external else "Pods",
        "external" if external else "pods": {
            "metric": named,
            "target": {"type": "AverageValue", "averageValue": given.target},
        },
    }


def _trigger(address: str, given: AutoscalingMetricArgs) -> Manifest:
    return {
        "type": "prometheus",
        "metricType": "AverageValue",
        "metadata": {
            "serverAddress": address,
            "query": given.query,
            "threshold": given.target,
        },
    }
