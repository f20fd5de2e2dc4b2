"""Autoscalers of roles, and the ratio of prefill to decode replicas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fusioninfer_pulumi.api.autoscaling import (
    AutoscalingArgs,
    AutoscalingEngine,
    AutoscalingMetricArgs,
    MetricSource,
    PrefillDecodeRatioArgs,
)
from fusioninfer_pulumi.api.role import ComponentType
from fusioninfer_pulumi.api.rollout import Layout
from fusioninfer_pulumi.api.service import InferenceServiceArgs
from fusioninfer_pulumi.findings import (
    Finding,
    Location,
    Rule,
    error,
    info,
    path_text,
    shown,
    warning,
)
from fusioninfer_pulumi.kube.metadata import metadata
from fusioninfer_pulumi.pods.scheduling import role_labels
from fusioninfer_pulumi.rules.common import (
    CLUSTER_MUST_HAVE,
    FIELD_OUT_OF_PLACE,
    FIELD_REQUIRED,
    INVALID_FORMAT,
    OUT_OF_RANGE,
    UNKNOWN_VALUE,
)
from fusioninfer_pulumi.topology.leader_worker_set import API_VERSION, KIND
from fusioninfer_pulumi.topology.role import RolePlan
from fusioninfer_pulumi.topology.topology import Topology

PREFILL_DECODE_RATIO_EXCEEDED = Rule(
    "prefill-decode-ratio-exceeded",
    ("error", "warning"),
    "The ratio of prefill to decode is within its bounds, at every scale.",
    remedy="Change the replicas, the autoscaling, or the bounds.",
)

AUTOSCALING_METRIC_ACROSS_GROUPS = Rule(
    "autoscaling-metric-across-groups",
    "error",
    "A role of several serving groups is scaled by a metric of each group.",
    remedy="Use engine HPA and a metric of source Pods.",
)

#: Values that the API takes in `behavior`; its schemas say a string.
_SELECT_POLICIES = ("Max", "Min", "Disabled")
_POLICY_TYPES = ("Pods", "Percent")


@dataclass(frozen=True)
class AutoscalerPlan:
    """The autoscaler of one LeaderWorkerSet.

    Attributes:
        name: Name of the LeaderWorkerSet, and of the object.
    """

    role: str
    name: str
    args: AutoscalingArgs

    @property
    def kind(self) -> str:
        """Kind of the object."""
        keda = self.args.engine is AutoscalingEngine.KEDA
        return "ScaledObject" if keda else "HorizontalPodAutoscaler"


def autoscalers(
    args: InferenceServiceArgs, roles: Sequence[RolePlan], *, gang_scheduled: bool
) -> tuple[tuple[AutoscalerPlan, ...], list[Finding]]:
    """Returns an autoscaler for each LeaderWorkerSet of a scaled role, and the findings."""
    minima = args.scheduling_strategy.gang_policy.min_role_replicas
    planned: list[AutoscalerPlan] = []
    found: list[Finding] = []
    for role in roles:
        given = role.args.autoscaling
        if given is None:
            continue
        at = ("roles", role.position, "autoscaling")
        if args.layout is not Layout.PER_ROLE:
            found.append(
                error(
                    FIELD_OUT_OF_PLACE,
                    at,
                    "needs layout: PerRole: an autoscaler scales one LeaderWorkerSet, and here "
                    "each replica is one of its own",
                )
            )
        found += _replicas(role, given, at)
        if gang_scheduled:
            found += _gang(role, given, minima, at)
        found += _metrics(given, at)
        found += _behavior(given, at)
        if (args.groups or 1) > 1:
            found += _groups(given, at)
        planned += [AutoscalerPlan(role.name, each.name, given) for each in role.lws]
    return tuple(planned), found


def _replicas(role: RolePlan, given: AutoscalingArgs, at: Location) -> Iterator[Finding]:
    if given.engine is AutoscalingEngine.HPA and given.min_replicas == 0:
        yield error(
            FIELD_OUT_OF_PLACE,
            (*at, "minReplicas"),
            "must be at least 1 with engine HPA, got 0: Kubernetes takes 0 only behind a feature "
            "gate; KEDA scales to 0",
        )
    count = role.args.replicas
    if count == 0:
        yield error(
            FIELD_OUT_OF_PLACE,
            at,
            "a parked role (replicas: 0) has nothing to scale; remove one of the two",
        )
    elif not given.min_replicas <= count <= given.max_replicas:
        yield error(
            OUT_OF_RANGE,
            ("roles", role.position, "replicas"),
            f"is what the role starts with, and must be within autoscaling's bounds "
            f"({given.min_replicas} to {given.max_replicas}), got {count}",
        )


def _groups(given: AutoscalingArgs, at: Location) -> Iterator[Finding]:
    for index, metric in enumerate(given.metrics):
        if metric.query is not None or metric.source is MetricSource.EXTERNAL:
            yield error(
                AUTOSCALING_METRIC_ACROSS_GROUPS,
                (*at, "metrics", index),
                "is one number for all serving groups, and the role is scaled in each of them: use "
                "engine HPA and a metric of source Pods",
            )


def _gang(
    role: RolePlan, given: AutoscalingArgs, minima: Mapping[str, int] | None, at: Location
) -> Iterator[Finding]:
    field = ("schedulingStrategy", "gangPolicy", "minRoleReplicas", role.name)
    if minima is None or role.name not in minima:
        yield error(
            FIELD_REQUIRED,
            at,
            f"needs {path_text(field)}: without it the gang needs every replica, and one more "
            f"would hold back all of them until there is room; give at most minReplicas "
            f"({given.min_replicas})",
        )
    elif minima[role.name] > given.min_replicas:
        yield error(
            OUT_OF_RANGE,
            field,
            f"must be at most autoscaling's minReplicas ({given.min_replicas}), got "
            f"{minima[role.name]}: with fewer replicas the gang would never be complete",
        )


def _behavior(given: AutoscalingArgs, at: Location) -> Iterator[Finding]:
    """What no schema says of how fast replicas are added and removed."""
    for direction, rules in (given.behavior or {}).items():
        if not isinstance(rules, Mapping):
            continue
        where = (*at, "behavior", direction)
        policy = rules.get("selectPolicy")
        if isinstance(policy, str) and policy not in _SELECT_POLICIES:
            message = f"must be one of {', '.join(_SELECT_POLICIES)}, got {shown(policy)}"
            yield error(UNKNOWN_VALUE, (*where, "selectPolicy"), message)
        yield from _seconds((*where, "stabilizationWindowSeconds"), rules, 0, 3600)
        policies = rules.get("policies")
        for index, item in enumerate(policies if isinstance(policies, (list, tuple)) else ()):
            if isinstance(item, Mapping):
                here = (*where, "policies", index)
                kind = item.get("type")
                if isinstance(kind, str) and kind not in _POLICY_TYPES:
                    message = f"must be one of {', '.join(_POLICY_TYPES)}, got {shown(kind)}"
                    yield error(UNKNOWN_VALUE, (*here, "type"), message)
                yield from _seconds((*here, "periodSeconds"), item, 1, 1800)


def _seconds(
    at: tuple[str | int, ...], rules: Mapping[str, Any], least: int, most: int
) -> Iterator[Finding]:
    value = rules.get(str(at[-1]))
    if isinstance(value, int) and not least <= value <= most:
        message = f"must be an integer from {least} to {most}, got {value}"
        yield error(OUT_OF_RANGE, at, message)


def _metrics(given: AutoscalingArgs, at: Location) -> Iterator[Finding]:
    keda = given.engine is AutoscalingEngine.KEDA
    if keda and given.prometheus is None:
        yield error(
            FIELD_REQUIRED,
            (*at, "prometheus"),
            "is required with engine KEDA: the address for its queries",
        )
    if not keda and given.prometheus is not None:
        yield error(FIELD_OUT_OF_PLACE, (*at, "prometheus"), "belongs to engine KEDA; remove it")
    yield from _keda(given, at)
    apis = set()
    for index, metric in enumerate(given.metrics):
        where = (*at, "metrics", index)
        if keda:
            if metric.query is None:
                yield error(FIELD_REQUIRED, (*where, "query"), "is required with engine KEDA")
            if metric.source is not None:
                yield error(
                    FIELD_OUT_OF_PLACE,
                    (*where, "source"),
                    "belongs to engine HPA; remove it",
                )
            if metric.selector:
                yield error(
                    FIELD_OUT_OF_PLACE,
                    (*where, "selector"),
                    "belongs to engine HPA; remove it",
                )
            continue
        if metric.unsafe_ssl:
            yield error(
                FIELD_OUT_OF_PLACE,
                (*where, "unsafeSsl"),
                "belongs to engine KEDA; remove it",
            )
        if metric.name is None:
            yield error(FIELD_REQUIRED, (*where, "name"), "is required with engine HPA")
        elif "/" in metric.name or "%" in metric.name:
            message = f"must be the name of a metric, without / and %, got {shown(metric.name)}"
            yield error(INVALID_FORMAT, (*where, "name"), message)
        if metric.query is not None:
            yield error(FIELD_OUT_OF_PLACE, (*where, "query"), "belongs to engine KEDA; remove it")
        external = metric.source is MetricSource.EXTERNAL
        apis.add(f"{'external' if external else 'custom'}.metrics.k8s.io")
    if apis:
        yield info(
            CLUSTER_MUST_HAVE,
            (*at, "metrics"),
            f"the cluster has to serve {' and '.join(sorted(apis))}, as prometheus-adapter does",
        )


def _keda(given: AutoscalingArgs, at: Location) -> Iterator[Finding]:
    if given.keda is None:
        return
    if given.engine is not AutoscalingEngine.KEDA:
        yield error(FIELD_OUT_OF_PLACE, (*at, "keda"), "belongs to engine KEDA; remove it")
    idle = given.keda.idle_replica_count
    if idle is not None and idle >= given.min_replicas:
        yield error(
            OUT_OF_RANGE,
            (*at, "keda", "idleReplicaCount"),
            f"must be below minReplicas ({given.min_replicas}), got {idle}",
        )


_RATIO = ("prefillDecodeRatio",)


def ratio_findings(
    given: PrefillDecodeRatioArgs | None, roles: Sequence[RolePlan]
) -> Iterator[Finding]:
    """Yields findings of replicas outside `prefillDecodeRatio`.

    An error for the replicas now, a warning for what autoscalers may reach. Parked roles are not
    compared.
    """
    if given is None:
        return
    prefill = [role for role in roles if role.component_type is ComponentType.PREFILLER]
    decode = [role for role in roles if role.component_type is ComponentType.DECODER]
    if not prefill or not decode:
        yield error(
            FIELD_OUT_OF_PLACE,
            _RATIO,
            "needs roles of prefiller and decoder; remove it",
        )
        return
    now = (
        sum(role.group_replicas for role in prefill),
        sum(role.group_replicas for role in decode),
    )
    if 0 in now:
        return
    beyond = _beyond(given, *now)
    if beyond:
        yield error(PREFILL_DECODE_RATIO_EXCEEDED, _RATIO, f"must be {beyond}, got {_ratio(*now)}")
        return
    for few, many in ((True, False), (False, True)):
        far = (_bound(prefill, fewest=few), _bound(decode, fewest=many))
        beyond = _beyond(given, *far) if 0 not in far else None
        if beyond:
            yield warning(
                PREFILL_DECODE_RATIO_EXCEEDED,
                _RATIO,
                f"must be {beyond}; autoscaling may bring it to {_ratio(*far)}",
            )


def _bound(roles: Sequence[RolePlan], *, fewest: bool) -> int:
    """Returns the fewest replicas that autoscalers leave, or the most that they create."""
    total = 0
    for role in roles:
        scaled = role.args.autoscaling
        if scaled is None:
            total += role.group_replicas
        else:
            total += scaled.min_replicas if fewest else scaled.max_replicas
    return total


def _beyond(given: PrefillDecodeRatioArgs, prefill: int, decode: int) -> str | None:
    if given.max is not None and prefill / decode > given.max:
        return f"at most {given.max:g}"
    if given.min is not None and prefill / decode < given.min:
        return f"at least {given.min:g}"
    return None


def _ratio(prefill: int, decode: int) -> str:
    return f"{prefill / decode:.3g} (prefill {prefill}, decode {decode})"


Manifest = dict[str, Any]


def autoscaler(plan: Topology, planned: AutoscalerPlan) -> Manifest:
    """Builds a HorizontalPodAutoscaler or a ScaledObject."""
    (role,) = (each for each in plan.roles if each.name == planned.role)
    own = metadata(plan, planned.name, role_labels(plan, role.args))
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
                **(
                    args.keda.model_dump(by_alias=True, exclude_none=True)
                    if args.keda is not None
                    else {}
                ),
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
    unsafe = {"unsafeSsl": "true"} if given.unsafe_ssl else {}
    return {
        "type": "prometheus",
        **({"name": given.name} if given.name is not None else {}),
        "metricType": "AverageValue",
        "metadata": {
            "serverAddress": address,
            "query": given.query,
            "threshold": given.target,
            **unsafe,
        },
    }
