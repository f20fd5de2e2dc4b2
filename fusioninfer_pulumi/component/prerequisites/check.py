"""Compares what services need with what is known of their cluster; reads nothing itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from fusioninfer_pulumi.component.prerequisites import table
from fusioninfer_pulumi.component.prerequisites.built_in import check_built_in
from fusioninfer_pulumi.component.prerequisites.facts import ClusterFacts, Definition
from fusioninfer_pulumi.component.prerequisites.named import check_named
from fusioninfer_pulumi.component.prerequisites.rows import Minimum, Release, written
from fusioninfer_pulumi.findings import Finding, error, warning
from fusioninfer_pulumi.manifests.routing.gateway_extras import gateway_extras
from fusioninfer_pulumi.plan.records import ServicePlan
from fusioninfer_pulumi.spec.autoscaling import AutoscalingEngine

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
    if any(each.args.engine is AutoscalingEngine.KEDA for each in plan.day_two.autoscalers):
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
        if any(rule.request_timeout or rule.given.get("timeouts") for rule in router.route.rules):
            yield table.ROUTE_TIMEOUTS
        if router.route.use_default_gateways is not None:
            yield table.DEFAULT_GATEWAYS
    for extra in gateway_extras(plan, router):
        yield table.GATEWAY_EXTRAS[extra["kind"]]


def _monitors(plan: ServicePlan) -> Iterator[Minimum]:
    monitoring = plan.day_two.monitoring
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
