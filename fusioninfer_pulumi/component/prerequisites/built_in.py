"""What services need of Kubernetes itself: APIs and features."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from fusioninfer_pulumi.component.prerequisites import table
from fusioninfer_pulumi.component.prerequisites.facts import ClusterFacts
from fusioninfer_pulumi.component.prerequisites.rows import Feature, Served, written
from fusioninfer_pulumi.findings import Finding, error, warning
from fusioninfer_pulumi.plan.records import RolePlan, ServicePlan
from fusioninfer_pulumi.spec.autoscaling import AutoscalingEngine, MetricSource

_Row = TypeVar("_Row")


def check_built_in(plans: Sequence[ServicePlan], facts: ClusterFacts) -> Iterator[Finding]:
    """Finds what Kubernetes lacks.

    Args:
        plans: The services that it shall run.
        facts: What is known of the cluster.

    Yields:
        Errors for what is missing, warnings for what could not be told and for a release in which
        updates repair nothing.
    """
    first, last = table.STALLED
    if plans and facts.kubernetes is not None and first <= facts.kubernetes <= last:
        yield warning(
            "Kubernetes",
            f"{written(facts.kubernetes)} does not replace what is broken (kubernetes#137409): a "
            "replica that never became ready stays so through an update that repairs it, until "
            "its leader pod is deleted or the update has strategy Recreate; wanted before "
            f"{written(first)}, or after {written(last)}",
        )
    apis = _users((row, plan.service) for plan in plans for row in _apis(plan))
    missing: set[str] = set()
    for row in table.SERVED if facts.apis is not None else ():
        served = (facts.apis or {}).get(row.group, frozenset())
        if row in apis and row.group not in missing and not served & set(row.versions):
            missing.add(row.group)
            has = f" ({', '.join(sorted(served))} is)" if served else ""
            yield error(
                row.product,
                f"{row.group}/{' or '.join(row.versions)} is not served{has}; "
                f"{_need(apis[row])} it: {row.install}",
            )
    features = _users((row, plan.service) for plan in plans for row in _features(plan))
    for feature in table.FEATURES if facts.kubernetes is not None else ():
        if feature in features:
            yield from _feature(feature, features[feature], facts)


def _feature(row: Feature, services: Sequence[str], facts: ClusterFacts) -> Iterator[Finding]:
    found = facts.kubernetes
    if found is None or found >= row.on:
        return
    wanted = f"{_need(services)} Kubernetes {written(row.on)} or later"
    if found < row.least:
        yield error(row.product, f"{written(found)} does not have them; {wanted}")
    else:
        yield warning(
            row.product,
            f"need the feature gate {row.gate} in {written(found)}, where it is off by default and "
            f"which nothing shows from outside; {wanted}, or the gate",
        )


def _apis(plan: ServicePlan) -> Iterator[Served]:
    for role in plan.roles:
        for claim in role.args.resource_claims or ():
            yield table.CLAIM_TEMPLATES if claim.made else table.CLAIMS
        if any(spec.get("resourceClaims") for spec in _pods(role)):
            yield table.CLAIMS
    for scaled in plan.day_two.autoscalers:
        if scaled.args.engine is AutoscalingEngine.HPA:
            for metric in scaled.args.metrics:
                external = metric.source is MetricSource.EXTERNAL
                yield table.EXTERNAL_METRICS if external else table.POD_METRICS


def _features(plan: ServicePlan) -> Iterator[Feature]:
    for scaled in plan.day_two.autoscalers:
        paces = (scaled.args.behavior or {}).values()
        if any(isinstance(pace, Mapping) and "tolerance" in pace for pace in paces):
            yield table.TOLERANCES
    for role in plan.roles:
        for spec in _pods(role):
            if any("image" in volume for volume in spec.get("volumes") or ()):
                yield table.IMAGE_VOLUMES
            if any(
                each.get("restartPolicy") == "Always" for each in spec.get("initContainers") or ()
            ):
                yield table.SIDECARS


def _pods(role: RolePlan) -> list[Mapping[str, Any]]:
    """The pod specs of a role, with its sidecar."""
    return [
        template.get("spec") or {} for template in (role.requesting_leader, role.worker_template)
    ]


def _users(pairs: Iterable[tuple[_Row, str]]) -> dict[_Row, list[str]]:
    found: dict[_Row, dict[str, None]] = {}
    for row, service in pairs:
        found.setdefault(row, {})[service] = None
    return {row: list(services) for row, services in found.items()}


def _need(services: Sequence[str]) -> str:
    return f"{', '.join(services)} need{'s' if len(services) == 1 else ''}"
