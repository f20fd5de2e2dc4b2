"""Autoscalers of roles, and the ratio of prefill to decode replicas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fusioninfer_pulumi.api.autoscaling import (
    AutoscalingArgs,
    AutoscalingEngine,
    AutoscalingMetricArgs,
    MetricSource,
)
from fusioninfer_pulumi.kube.metadata import metadata
from fusioninfer_pulumi.operations.scaling_target import target_metrics
from fusioninfer_pulumi.pods.scheduling import role_labels
from fusioninfer_pulumi.routing.router import RouterPlan
from fusioninfer_pulumi.topology.leader_worker_set import API_VERSION, KIND
from fusioninfer_pulumi.topology.role import RolePlan
from fusioninfer_pulumi.topology.topology import Topology


@dataclass(frozen=True)
class AutoscalerPlan:
    """The autoscaler of one LeaderWorkerSet.

    Attributes:
        name: Name of the LeaderWorkerSet, and of the object.
        target_metrics: The metrics of the role's `target`, none without one.
    """

    role: str
    name: str
    args: AutoscalingArgs
    target_metrics: tuple[AutoscalingMetricArgs, ...] = ()

    @property
    def kind(self) -> str:
        """Kind of the object."""
        keda = self.args.engine is AutoscalingEngine.KEDA
        return "ScaledObject" if keda else "HorizontalPodAutoscaler"


def autoscalers(
    service: str, namespace: Any, roles: Sequence[RolePlan], router: RouterPlan | None
) -> tuple[AutoscalerPlan, ...]:
    """Returns an autoscaler for each LeaderWorkerSet of a scaled role."""
    return tuple(
        AutoscalerPlan(
            role.name,
            lws.name,
            role.args.autoscaling,
            target_metrics(service, namespace, role, roles, router),
        )
        for role in roles
        if role.args.autoscaling is not None
        for lws in role.lws
    )


Manifest = dict[str, Any]


def autoscaler(plan: Topology, planned: AutoscalerPlan) -> Manifest:
    """Builds a HorizontalPodAutoscaler or a ScaledObject."""
    (role,) = (role for role in plan.roles if role.name == planned.role)
    named = metadata(plan, planned.name, role_labels(plan, role.args))
    target = {"apiVersion": API_VERSION, "kind": KIND, "name": planned.name}
    args = planned.args
    behavior = {"behavior": args.behavior} if args.behavior is not None else {}
    if args.engine is AutoscalingEngine.KEDA:
        advanced = {"advanced": {"horizontalPodAutoscalerConfig": behavior}} if behavior else {}
        return {
            "apiVersion": "keda.sh/v1alpha1",
            "kind": planned.kind,
            "metadata": named,
            "spec": {
                "scaleTargetRef": target,
                "minReplicaCount": args.min_replicas,
                "maxReplicaCount": args.max_replicas,
                **(
                    args.keda.model_dump(by_alias=True, exclude_none=True)
                    if args.keda is not None
                    else {}
                ),
                **advanced,
                "triggers": [
                    *(
                        _strict(_trigger(args.prometheus or "", metric))
                        for metric in planned.target_metrics
                    ),
                    *(_trigger(args.prometheus or "", metric) for metric in args.metrics),
                ],
            },
        }
    return {
        "apiVersion": "autoscaling/v2",
        "kind": planned.kind,
        "metadata": named,
        "spec": {
            "scaleTargetRef": target,
            "minReplicas": args.min_replicas,
            "maxReplicas": args.max_replicas,
            **behavior,
            "metrics": [_metric(metric) for metric in (*planned.target_metrics, *args.metrics)],
        },
    }


def _metric(metric: AutoscalingMetricArgs) -> Manifest:
    external = metric.source is MetricSource.EXTERNAL
    named: Manifest = {"name": metric.name}
    if metric.selector:
        named["selector"] = {"matchLabels": dict(metric.selector)}
    return {
        "type": "External" if external else "Pods",
        "external" if external else "pods": {
            "metric": named,
            "target": {"type": "AverageValue", "averageValue": metric.target},
        },
    }


def _trigger(address: str, metric: AutoscalingMetricArgs) -> Manifest:
    unsafe = {"unsafeSsl": "true"} if metric.unsafe_ssl else {}
    return {
        "type": "prometheus",
        **({"name": metric.name} if metric.name is not None else {}),
        "metricType": "AverageValue",
        "metadata": {
            "serverAddress": address,
            "query": metric.query,
            "threshold": metric.target,
            **unsafe,
        },
    }


def _strict(trigger: Manifest) -> Manifest:
    """A query without a result is an error, which leaves the replicas alone, and not zero."""
    return {**trigger, "metadata": {**trigger["metadata"], "ignoreNullValues": "false"}}
