"""What services need of Kubernetes itself: APIs and features."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from fusioninfer_pulumi.api.autoscaling import AutoscalingEngine, MetricSource
from fusioninfer_pulumi.component.prerequisites import table
from fusioninfer_pulumi.component.prerequisites.facts import ClusterFacts, Definition
from fusioninfer_pulumi.component.prerequisites.table import (
    Feature,
    Minimum,
    Release,
    Served,
    written,
)
from fusioninfer_pulumi.findings import Finding, error, warning
from fusioninfer_pulumi.pods.device_claims import claim_templates, claimed_classes
from fusioninfer_pulumi.routing.router import gateway_extras
from fusioninfer_pulumi.service_plan import ServicePlan
from fusioninfer_pulumi.topology.role import RolePlan

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
    for scaled in plan.operations.autoscalers:
        if scaled.args.engine is AutoscalingEngine.HPA:
            for metric in scaled.args.metrics:
                external = metric.source is MetricSource.EXTERNAL
                yield table.EXTERNAL_METRICS if external else table.POD_METRICS


def _features(plan: ServicePlan) -> Iterator[Feature]:
    for scaled in plan.operations.autoscalers:
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
    return [template.get("spec") or {} for template in (role.leader_template, role.worker_template)]


def _users(pairs: Iterable[tuple[_Row, str]]) -> dict[_Row, list[str]]:
    found: dict[_Row, dict[str, None]] = {}
    for row, service in pairs:
        found.setdefault(row, {})[service] = None
    return {row: list(services) for row, services in found.items()}


def _need(services: Sequence[str]) -> str:
    return f"{', '.join(services)} need{'s' if len(services) == 1 else ''}"


@dataclass(frozen=True)
class NamedKind:
    """A kind without a namespace whose objects services name.

    Attributes:
        kind: The kind.
        group: Its API group.
        versions: Versions of the group that have it, the newest first.
        plural: Its name in paths of the API.
        product: What it belongs to.
        way_out: What brings an object of it.
        own: Whether a program commonly makes it beside its services, so that one that is not there
            yet may be no fault.
    """

    kind: str
    group: str
    versions: tuple[str, ...]
    plural: str
    product: str
    way_out: str
    own: bool = True


DEVICE_CLASS = NamedKind(
    kind="DeviceClass",
    group=table.CLAIMS.group,
    versions=table.CLAIMS.versions,
    plural="deviceclasses",
    product=table.CLAIMS.product,
    way_out="install the driver of the devices, which brings it",
    own=False,
)
# Admission refuses pods whose class is not there (plugin Priority), and so a set stays without.
PRIORITY_CLASS = NamedKind(
    kind="PriorityClass",
    group="scheduling.k8s.io",
    versions=("v1",),
    plural="priorityclasses",
    product="Priority",
    way_out="no pod is admitted without it; create it, unless this program does first",
)
# Volcano's webhook refuses a PodGroup without its queue (validate_podgroup.go of v1.14.1), and its
# scheduler leaves the job out (cache.go).
QUEUE = NamedKind(
    kind="Queue",
    group="scheduling.volcano.sh",
    versions=("v1beta1",),
    plural="queues",
    product="Volcano",
    way_out="no pod is scheduled without it; create it, unless this program does first",
)

#: Each object that is named, and the services that name it.
Named = Mapping[tuple[NamedKind, str], Sequence[str]]


def named_objects(plans: Sequence[ServicePlan]) -> Named:
    """Objects that services name, each with the services."""
    found: dict[tuple[NamedKind, str], dict[str, None]] = {}
    for plan in plans:
        for each in _named(plan):
            found.setdefault(each, {})[plan.service] = None
    return {each: list(services) for each, services in found.items()}


def check_named(plans: Sequence[ServicePlan], facts: ClusterFacts) -> Iterator[Finding]:
    """Finds the objects that are not there.

    Args:
        plans: The services that name them.
        facts: What is known of the cluster.

    Yields:
        Errors; warnings for what the program itself may be about to make.
    """
    for (kind, name), services in named_objects(plans).items():
        if facts.named.get((kind.kind, name), True):
            continue
        need = "needs" if len(services) == 1 else "need"
        tell = warning if kind.own else error
        yield tell(
            kind.product,
            f"there is no {kind.kind} {name}; {', '.join(services)} {need} it: {kind.way_out}",
        )


def _named(plan: ServicePlan) -> Iterator[tuple[NamedKind, str]]:
    for role in plan.roles:
        for template in claim_templates(plan.service, role.args):
            for name in claimed_classes(template.spec):
                yield DEVICE_CLASS, name
    named = (plan.priority_class, *(each for role in plan.roles for each in _classes(role)))
    for priority in named:
        if isinstance(priority, str) and priority:
            yield PRIORITY_CLASS, priority
    if plan.queue and plan.scheduler_name:
        yield QUEUE, plan.queue


def _classes(role: RolePlan) -> Iterator[object]:
    for template in (role.leader_template, role.worker_template):
        yield (template.get("spec") or {}).get("priorityClassName")


#: Each row that is needed, and the services that need it.
Needs = Mapping[Minimum, Sequence[str]]


def needs(plans: Iterable[ServicePlan]) -> Needs:
    """Tells what services need of a cluster.

    Args:
        plans: The services.

    Returns:
        Of each definition the most demanding row, in the order of the table.
    """
    users: dict[Minimum, dict[str, None]] = {}
    for plan in plans:
        for row in _rows(plan):
            users.setdefault(row, {})[plan.service] = None
    chosen: dict[str, Minimum] = {row.definition: row for row in table.ROWS if row in users}
    found: dict[Minimum, Sequence[str]] = {}
    for row in table.ROWS:
        if chosen.get(row.definition) is row:
            same = [users[each] for each in users if each.definition == row.definition]
            found[row] = list(dict.fromkeys(name for names in same for name in names))
    return found


def check(plans: Sequence[ServicePlan], facts: ClusterFacts) -> list[Finding]:
    """Finds everything that a cluster lacks.

    Args:
        plans: The services that it shall run.
        facts: What is known of it.

    Returns:
        Errors for what is missing or too old, with what to install, and warnings for what could
        not be told.
    """
    found = [warning("", f"not checked: {reason}") for reason in facts.unread]
    for row, services in needs(plans).items():
        if row.definition in facts.definitions:
            found += _check_row(row, services, facts)
    gangs = [plan.service for plan in plans if plan.gang is not None]
    if gangs and facts.lws_provider:
        found.append(
            error(
                "LeaderWorkerSet",
                f"its own gang provider is on (gangSchedulingManagement.schedulerProvider: "
                f"{facts.lws_provider}) and would overwrite the PodGroup of every pod of "
                f"{_listed(gangs)}; remove gangSchedulingManagement from its configuration and "
                "restart its manager",
            )
        )
    elif gangs and facts.lws_provider is None:
        found.append(
            warning(
                "LeaderWorkerSet",
                "whether its own gang provider is off was not checked: its configuration was not "
                "found; gangSchedulingManagement must not be set in it",
            )
        )
    return [*found, *check_built_in(plans, facts), *check_named(plans, facts)]


def _rows(plan: ServicePlan) -> Iterator[Minimum]:
    yield table.LEADER_WORKER_SET
    if plan.gang is not None:
        yield table.ALL_OR_NOTHING if plan.gang.sub_groups is None else table.PARTIAL_GANG
    yield from _monitors(plan)
    if any(each.args.engine is AutoscalingEngine.KEDA for each in plan.operations.autoscalers):
        yield table.SCALED_OBJECT
    router = plan.router
    if router is None:
        return
    yield table.INFERENCE_POOL
    if router.picker.family.needs_inference_objective_crd:
        yield table.INFERENCE_OBJECTIVE
    if router.gateway is not None:
        yield table.GATEWAY
    if router.grants:
        yield table.REFERENCE_GRANT
    if router.route is not None:
        yield table.ROUTE
        if any(rule.request_timeout or rule.written.get("timeouts") for rule in router.route.rules):
            yield table.ROUTE_TIMEOUTS
        if router.route.use_default_gateways is not None:
            yield table.DEFAULT_GATEWAYS
    for extra in gateway_extras(plan, router):
        yield table.GATEWAY_EXTRAS[extra["kind"]]


def _monitors(plan: ServicePlan) -> Iterator[Minimum]:
    monitoring = plan.operations.monitoring
    if monitoring is None:
        return
    for monitor in monitoring.engines:
        yield table.POD_MONITOR if monitor.port_name is not None else table.POD_MONITOR_NUMBER
    if monitoring.picker:
        yield table.SERVICE_MONITOR


def _check_row(row: Minimum, services: Sequence[str], facts: ClusterFacts) -> Iterator[Finding]:
    stored = facts.definitions[row.definition]
    wanted = f"{_listed(services)} need{'s' if len(services) == 1 else ''} {_wanted(row)}"
    is_file = row.install.startswith("https:")
    install = f"kubectl apply --server-side -f {row.install}" if is_file else row.install
    problem = _problem(row, stored, facts)
    if problem is not None:
        yield error(row.product, f"{problem}; {wanted}: {install}")
    elif stored is not None and not row.tells and _release(row, stored, facts) is None:
        yield warning(
            row.product, f"its release was not found, so it was not checked; {wanted}: {install}"
        )


def _problem(row: Minimum, stored: Definition | None, facts: ClusterFacts) -> str | None:
    if stored is None:
        return f"{row.definition} is not installed"
    if row.served not in stored.schemas:
        served = ", ".join(stored.schemas) or "no version"
        return f"{row.definition} serves {served}, not {row.served}"
    if row.field is not None and not stored.has(row.served, row.field):
        return f"{row.definition} has no field {row.field}"
    release = _release(row, stored, facts)
    least = row.least or (0, 0, 0)
    if release is not None and (release < least or release in row.broken):
        return f"{written(release)} is installed"
    return None


def _release(row: Minimum, stored: Definition, facts: ClusterFacts) -> Release | None:
    return stored.release or facts.releases.get(row.product)


def _wanted(row: Minimum) -> str:
    if row.least is None:
        return "it"
    if row.last is not None:
        return f"{written(row.least)} to {written(row.last)}"
    unless = f" (not {', '.join(map(written, row.broken))})" if row.broken else ""
    return f"{written(row.least)} or later{unless}"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)
