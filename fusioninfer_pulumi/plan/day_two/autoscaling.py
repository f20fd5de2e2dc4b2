"""Rules for roles that an autoscaler scales.

It writes `spec.replicas` through the scale subresource of a LeaderWorkerSet. That is the number of
replicas only where one set runs all of them. LeaderWorkerSet tells the autoscaler to look at the
leaders alone (`status.hpaPodSelector`), so a mean over pods is one over replicas.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fusioninfer_pulumi.findings import Finding, error, info, join
from fusioninfer_pulumi.plan.day_two.records import AutoscalerPlan
from fusioninfer_pulumi.plan.records import RolePlan
from fusioninfer_pulumi.spec.autoscaling import AutoscalingArgs, AutoscalingEngine, MetricSource
from fusioninfer_pulumi.spec.rollout import Layout
from fusioninfer_pulumi.spec.service import InferenceServiceArgs


def autoscalers(
    args: InferenceServiceArgs, roles: Sequence[RolePlan], *, gang_scheduled: bool
) -> tuple[tuple[AutoscalerPlan, ...], list[Finding]]:
    """Plans the autoscalers of a service.

    Args:
        args: The service's spec.
        roles: Its serving roles.
        gang_scheduled: Whether the pods are a gang.

    Returns:
        An autoscaler for each set of a role that asks for one, and what is to be said.
    """
    minima = args.scheduling_strategy.gang_policy.min_role_replicas
    planned: list[AutoscalerPlan] = []
    found: list[Finding] = []
    for role in roles:
        given = role.args.autoscaling
        if given is None:
            continue
        at = join("roles", role.position, "autoscaling")
        if args.layout is not Layout.PER_ROLE:
            found.append(
                error(
                    at,
                    "needs layout: PerRole: an autoscaler scales one LeaderWorkerSet, and here "
                    "each replica is one of its own",
                )
            )
        found += _replicas(role, given, at)
        if gang_scheduled:
            found += _gang(role, given, minima, at)
        found += _metrics(given, at)
        if (args.groups or 1) > 1:
            found += _groups(given, at)
        planned += [AutoscalerPlan(role.name, each.name, given) for each in role.sets]
    return tuple(planned), found


def _replicas(role: RolePlan, given: AutoscalingArgs, at: str) -> Iterator[Finding]:
    if given.engine is AutoscalingEngine.HPA and given.min_replicas == 0:
        yield error(
            f"{at}.minReplicas",
            "must be at least 1 with engine HPA, got 0: Kubernetes takes 0 only behind a feature "
            "gate; KEDA scales to 0",
        )
    count = role.args.replicas
    if count == 0:
        yield error(at, "a parked role (replicas: 0) has nothing to scale; remove one of the two")
    elif not given.min_replicas <= count <= given.max_replicas:
        yield error(
            join("roles", role.position, "replicas"),
            f"is what the role starts with, and must be within autoscaling's bounds "
            f"({given.min_replicas} to {given.max_replicas}), got {count}",
        )


def _groups(given: AutoscalingArgs, at: str) -> Iterator[Finding]:
    for index, metric in enumerate(given.metrics):
        if metric.query is not None or metric.source is MetricSource.EXTERNAL:
            yield error(
                f"{at}.metrics[{index}]",
                "is one number for all serving groups, and the role is scaled in each of them: use "
                "engine HPA and a metric of source Pods",
            )


def _gang(
    role: RolePlan, given: AutoscalingArgs, minima: Mapping[str, int] | None, at: str
) -> Iterator[Finding]:
    field = f"schedulingStrategy.gangPolicy.minRoleReplicas.{role.name}"
    if minima is None or role.name not in minima:
        yield error(
            at,
            f"needs {field}: without it the gang needs every replica, and one more would hold back "
            f"all of them until there is room; give at most minReplicas ({given.min_replicas})",
        )
    elif minima[role.name] > given.min_replicas:
        yield error(
            field,
            f"must be at most autoscaling's minReplicas ({given.min_replicas}), got "
            f"{minima[role.name]}: scaled below it, the gang would never be whole again",
        )


def _metrics(given: AutoscalingArgs, at: str) -> Iterator[Finding]:
    keda = given.engine is AutoscalingEngine.KEDA
    if keda and given.prometheus is None:
        yield error(f"{at}.prometheus", "is required with engine KEDA: where it asks its queries")
    if not keda and given.prometheus is not None:
        yield error(f"{at}.prometheus", "belongs to engine KEDA; remove it")
    for key in sorted(set(given.behavior or {}) - {"scaleUp", "scaleDown"}):
        yield error(f"{at}.behavior.{key}", "must be scaleUp or scaleDown")
    apis = set()
    for index, metric in enumerate(given.metrics):
        where = f"{at}.metrics[{index}]"
        if keda:
            if metric.query is None:
                yield error(f"{where}.query", "is required with engine KEDA")
            for field, value in (("name", metric.name), ("source", metric.source)):
                if value is not None:
                    yield error(f"{where}.{field}", "belongs to engine HPA; remove it")
            if metric.selector:
                yield error(f"{where}.selector", "belongs to engine HPA; remove it")
            continue
        if metric.name is None:
            yield error(f"{where}.name", "is required with engine HPA")
        if metric.query is not None:
            yield error(f"{where}.query", "belongs to engine KEDA; remove it")
        external = metric.source is MetricSource.EXTERNAL
        apis.add(f"{'external' if external else 'custom'}.metrics.k8s.io")
    if apis:
        yield info(
            f"{at}.metrics",
            f"the cluster has to serve {' and '.join(sorted(apis))}, as prometheus-adapter does",
        )
