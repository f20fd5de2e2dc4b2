"""Checks what services need of a cluster against what it has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, TypeVar

from fusioninfer_pulumi.api.autoscaling import AutoscalingEngine, MetricSource
from fusioninfer_pulumi.checks.gang_backends import KUEUE_FRAMEWORK, backends_of, proposal
from fusioninfer_pulumi.checks.quotas import check_quotas, queues_of
from fusioninfer_pulumi.component.prerequisites import _table as table
from fusioninfer_pulumi.component.prerequisites._read import ClusterFacts, Definition
from fusioninfer_pulumi.component.prerequisites._table import (
    Feature,
    Minimum,
    NamedObject,
    Release,
    Served,
    release_text,
)
from fusioninfer_pulumi.findings import Finding, Rule, error, warning
from fusioninfer_pulumi.kube.outputs import is_output
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.pods.device_claims import claim_templates, claimed_classes
from fusioninfer_pulumi.routing.router import RouterPlan, gateway_extras
from fusioninfer_pulumi.rules.cluster import (
    CLUSTER_NOT_CHECKED,
    CRD_NOT_INSTALLED,
    FEATURE_GATE_OFF_BY_DEFAULT,
    KUEUE_INTEGRATION_OFF,
    LWS_GANG_PROVIDER_ON,
    NAMED_OBJECT_MISSING,
    RELEASE_NOT_SUPPORTED,
    RELEASE_UNKNOWN,
    STATEFULSET_KEEPS_BROKEN_PODS,
)
from fusioninfer_pulumi.topology.role import RolePlan

_Row = TypeVar("_Row")


#: Each row that is needed, and the services that need it.
Needs = Mapping[Minimum, Sequence[str]]

#: Each object that is named, and the services that name it.
Named = Mapping[NamedObject, Sequence[str]]


def check(plans: Sequence[ServicePlan], facts: ClusterFacts) -> list[Finding]:
    """Everything that a cluster lacks, with what to install; warnings for what was not read."""
    problems = [
        warning(CLUSTER_NOT_CHECKED, (), f"not checked: {reason}") for reason in facts.unread
    ]
    for row, services in needs(plans).items():
        if row.definition in facts.definitions:
            needing = [plan for plan in plans if plan.service in services]
            problems += _check_row(row, needing, facts)
    gangs = [plan.service for plan in plans if plan.gang is not None and not plan.gang.native]
    if gangs and facts.lws_provider:
        problems.append(
            error(
                LWS_GANG_PROVIDER_ON,
                (),
                "LeaderWorkerSet: its own gang provider is on "
                f"(gangSchedulingManagement.schedulerProvider: {facts.lws_provider}) and would "
                f"overwrite the PodGroup of every pod of {', '.join(gangs)}; remove "
                "gangSchedulingManagement from its configuration and restart its manager",
            )
        )
    elif gangs and facts.lws_provider is None:
        problems.append(
            warning(
                RELEASE_UNKNOWN,
                (),
                "LeaderWorkerSet: whether its own gang provider is off was not checked: its "
                "configuration was not found; gangSchedulingManagement must not be set in it",
            )
        )
    problems += _check_kueue(plans, facts)
    problems += chain(*check_quotas(plans, facts.quotas))
    return [*problems, *check_built_in(plans, facts), *check_named(plans, facts)]


def _check_kueue(plans: Sequence[ServicePlan], facts: ClusterFacts) -> Iterator[Finding]:
    queued = [plan.service for plan in plans if plan.local_queue is not None]
    # Where Kueue is missing, that is said.
    if not queued or facts.definitions.get(table.KUEUE.definition) is None:
        return
    if facts.kueue_frameworks is None:
        yield warning(
            RELEASE_UNKNOWN,
            (),
            f"Kueue: whether it manages LeaderWorkerSets was not checked: its configuration was "
            f"not found; integrations.frameworks must have {KUEUE_FRAMEWORK}",
        )
    elif KUEUE_FRAMEWORK not in facts.kueue_frameworks:
        yield error(
            KUEUE_INTEGRATION_OFF,
            (),
            f"Kueue: it does not manage LeaderWorkerSets, and pods of {', '.join(queued)} would "
            f"start one by one beside its queues; add {KUEUE_FRAMEWORK} to "
            "integrations.frameworks in its configuration and restart its manager",
        )


def needs(plans: Iterable[ServicePlan]) -> Needs:
    """Definitions that services need, with the services: of each the most demanding row."""
    users = _users((row, plan.service) for plan in plans for row in _rows(plan))
    chosen: dict[str, Minimum] = {row.definition: row for row in table.ROWS if row in users}
    by_minimum: dict[Minimum, Sequence[str]] = {}
    for row in table.ROWS:
        if chosen.get(row.definition) is row:
            same = [users[user] for user in users if user.definition == row.definition]
            by_minimum[row] = list(dict.fromkeys(name for names in same for name in names))
    return by_minimum


def named_objects(plans: Sequence[ServicePlan]) -> Named:
    """Objects that services name, each with the services."""
    return _users((named, plan.service) for plan in plans for named in _named(plan))


def _rows(plan: ServicePlan) -> Iterator[Minimum]:
    yield table.LEADER_WORKER_SET
    if plan.gang is not None and not plan.gang.native:
        yield table.ALL_OR_NOTHING if plan.gang.sub_groups is None else table.PARTIAL_GANG
    if plan.local_queue is not None:
        yield table.KUEUE
    yield from _monitors(plan)
    if any(
        autoscaler.args.engine is AutoscalingEngine.KEDA
        for autoscaler in plan.operations.autoscalers
    ):
        yield table.SCALED_OBJECT
    if plan.router is not None:
        yield from _picker(plan.router)
    router = plan.routing
    if router is None:
        return
    if router.gateway is not None:
        yield table.GATEWAY
    if router.created_grants:
        yield table.REFERENCE_GRANT
    if router.route is not None:
        yield table.ROUTE
        if any(rule.request_timeout or rule.written.get("timeouts") for rule in router.route.rules):
            yield table.ROUTE_TIMEOUTS
        if router.route.use_default_gateways is not None:
            yield table.DEFAULT_GATEWAYS
    for extra in gateway_extras(plan, router):
        yield table.GATEWAY_EXTRAS[extra["kind"]]


def _picker(router: RouterPlan) -> Iterator[Minimum]:
    yield table.INFERENCE_POOL
    if router.epp.family.needs_inference_objective_crd:
        yield table.INFERENCE_OBJECTIVE
    if router.rewrites is not None:
        llm_d = router.rewrites.api_version.startswith("llm-d.ai/")
        yield table.LLM_D_MODEL_REWRITE if llm_d else table.MODEL_REWRITE


def _monitors(plan: ServicePlan) -> Iterator[Minimum]:
    monitoring = plan.operations.monitoring
    if monitoring is None:
        return
    for monitor in monitoring.engines:
        yield table.POD_MONITOR if monitor.port_name is not None else table.POD_MONITOR_NUMBER
    if monitoring.picker:
        yield table.SERVICE_MONITOR
    if monitoring.args.alerts is not None and (monitoring.engines or monitoring.picker):
        yield table.PROMETHEUS_RULE


def _check_row(
    row: Minimum, plans: Sequence[ServicePlan], facts: ClusterFacts
) -> Iterator[Finding]:
    stored = facts.definitions[row.definition]
    services = list(dict.fromkeys(plan.service for plan in plans))
    wanted = f"{_services_need(services)} {_wanted(row)}"
    is_file = row.install.startswith("https:")
    install = f"kubectl apply --server-side -f {row.install}" if is_file else row.install
    problem = _problem(row, stored, facts)
    if problem is not None:
        rule, text = problem
        other = "" if stored is not None else _other_backend(row, plans, facts)
        yield error(rule, (), f"{row.product}: {text}; {wanted}: {install}{other}")
    elif stored is not None and not row.field_since_least and _release(row, stored, facts) is None:
        yield warning(
            RELEASE_UNKNOWN,
            (),
            f"{row.product}: its release was not found, so it was not checked; {wanted}: {install}",
        )


def _other_backend(row: Minimum, plans: Sequence[ServicePlan], facts: ClusterFacts) -> str:
    """What the cluster has instead of the backend of a gang that it lacks; empty if nothing."""
    if row not in (table.ALL_OR_NOTHING, table.PARTIAL_GANG, table.KUEUE):
        return ""
    managed = facts.kueue_frameworks
    if row is not table.KUEUE and managed is not None and KUEUE_FRAMEWORK not in managed:
        return "; Kueue is there, but does not manage LeaderWorkerSets"
    proposals = dict.fromkeys(
        proposal(plan, backends_of(facts.apis or {}), facts.queues.get(str(plan.namespace), ()))
        for plan in plans
    )
    return "".join(f"; the cluster has another: {text}" for text in proposals if text)


def _problem(
    row: Minimum, stored: Definition | None, facts: ClusterFacts
) -> tuple[Rule, str] | None:
    """Rule and message of what is wrong with a definition, None where nothing is."""
    if stored is None:
        return CRD_NOT_INSTALLED, f"{row.definition} is not installed"
    if row.served is not None and row.served not in stored.schemas:
        served = ", ".join(stored.schemas) or "no version"
        text = f"{row.definition} serves {served}, not {row.served}"
        return CRD_NOT_INSTALLED, text
    if row.field and row.served and not stored.has(row.served, row.field):
        return CRD_NOT_INSTALLED, f"{row.definition} has no field {row.field}"
    release = _release(row, stored, facts)
    least = row.least or (0, 0, 0)
    if release is not None and (release < least or release in row.broken):
        return RELEASE_NOT_SUPPORTED, f"{release_text(release)} is installed"
    return None


def _release(row: Minimum, stored: Definition, facts: ClusterFacts) -> Release | None:
    return stored.release or facts.releases.get(row.product)


def _wanted(row: Minimum) -> str:
    if row.least is None:
        return "it"
    if row.last is not None:
        return f"{release_text(row.least)} to {release_text(row.last)}"
    unless = f" (not {', '.join(map(release_text, row.broken))})" if row.broken else ""
    return f"{release_text(row.least)} or later{unless}"


def check_built_in(plans: Sequence[ServicePlan], facts: ClusterFacts) -> Iterator[Finding]:
    """What Kubernetes itself lacks: APIs and features.

    Warnings for what could not be read, and for a release in which updates repair nothing.
    """
    first, last = table.STALLED
    if plans and facts.kubernetes is not None and first <= facts.kubernetes <= last:
        yield warning(
            STATEFULSET_KEEPS_BROKEN_PODS,
            (),
            f"Kubernetes: {release_text(facts.kubernetes)} does not replace what is broken "
            "(kubernetes#137409): a replica that never became ready stays so through an update "
            "that repairs it, until its leader pod is deleted or the update has strategy "
            f"Recreate; wanted before {release_text(first)}, or after {release_text(last)}",
        )
    apis = _users((row, plan.service) for plan in plans for row in _apis(plan))
    missing: set[str] = set()
    for row in table.SERVED if facts.apis is not None else ():
        served = (facts.apis or {}).get(row.group, frozenset())
        if row in apis and row.group not in missing and not served & set(row.versions):
            missing.add(row.group)
            has = f" ({', '.join(sorted(served))} is)" if served else ""
            yield error(
                CRD_NOT_INSTALLED,
                (),
                f"{row.product}: {row.group}/{' or '.join(row.versions)} is not served{has}; "
                f"{_services_need(apis[row])} it: {row.install}",
            )
    gangs = apis.get(table.NATIVE_GANGS)
    if gangs and facts.apis is not None and table.NATIVE_GANGS.group not in missing:
        yield warning(
            FEATURE_GATE_OFF_BY_DEFAULT,
            (),
            f"{table.NATIVE_GANGS.product}: {_services_need(gangs)} the feature gate "
            "GenericWorkload in the scheduler, too, where nothing shows it from outside; without "
            "it pods start one by one",
        )
    features = _users((row, plan.service) for plan in plans for row in _features(plan))
    for feature in table.FEATURES if facts.kubernetes is not None else ():
        if feature in features:
            yield from _check_feature(feature, features[feature], facts)


def _check_feature(row: Feature, services: Sequence[str], facts: ClusterFacts) -> Iterator[Finding]:
    release = facts.kubernetes
    if release is None or release >= row.on:
        return
    wanted = f"{_services_need(services)} Kubernetes {release_text(row.on)} or later"
    if release < row.least:
        yield error(
            RELEASE_NOT_SUPPORTED,
            (),
            f"{row.product}: {release_text(release)} does not have them; {wanted}",
        )
    else:
        yield warning(
            FEATURE_GATE_OFF_BY_DEFAULT,
            (),
            f"{row.product}: need the feature gate {row.gate} in {release_text(release)}, where it "
            f"is off by default and which nothing shows from outside; {wanted}, or the gate",
        )


def _apis(plan: ServicePlan) -> Iterator[Served]:
    if plan.gang is not None and plan.gang.native:
        yield table.NATIVE_GANGS
    for role in plan.roles:
        for claim in role.args.resource_claims or ():
            yield table.CLAIM_TEMPLATES if claim.made else table.CLAIMS
        if any(spec.get("resourceClaims") for spec in _pods(role)):
            yield table.CLAIMS
    for scaled in plan.operations.autoscalers:
        if scaled.args.engine is AutoscalingEngine.HPA:
            for metric in (*scaled.target_metrics, *scaled.args.metrics):
                external = metric.source is MetricSource.EXTERNAL
                yield table.EXTERNAL_METRICS if external else table.POD_METRICS


def _features(plan: ServicePlan) -> Iterator[Feature]:
    for scaled in plan.operations.autoscalers:
        policies = (scaled.args.behavior or {}).values()
        if any(isinstance(policy, Mapping) and "tolerance" in policy for policy in policies):
            yield table.TOLERANCES
    epp = plan.router.epp if plan.router is not None else None
    if epp is not None and epp.pauses:
        yield table.SLEEP
    for role in plan.roles:
        for spec in _pods(role):
            if any("image" in volume for volume in spec.get("volumes") or ()):
                yield table.IMAGE_VOLUMES
            if any(
                container.get("restartPolicy") == "Always"
                for container in spec.get("initContainers") or ()
            ):
                yield table.SIDECARS


def check_named(plans: Sequence[ServicePlan], facts: ClusterFacts) -> Iterator[Finding]:
    """Named objects that do not exist; warnings for those that the program may create."""
    for named, services in named_objects(plans).items():
        if facts.named.get(named, True):
            continue
        kind = named.kind
        finding_of = warning if kind.beside_services else error
        within = "" if named.namespace is None else f" in {named.namespace}"
        yield finding_of(
            NAMED_OBJECT_MISSING,
            (),
            f"{kind.product}: there is no {kind.kind} {named.name}{within}; "
            f"{_services_need(services)} it: {kind.way_out}",
        )


def _named(plan: ServicePlan) -> Iterator[NamedObject]:
    for role in plan.roles:
        for template in claim_templates(plan.service, role.args):
            for name in claimed_classes(template.spec):
                yield NamedObject(table.DEVICE_CLASS, None, name)
    specs = (spec for role in plan.roles for spec in _pods(role))
    named = (plan.priority_class, *(spec.get("priorityClassName") for spec in specs))
    for priority in named:
        if isinstance(priority, str) and priority:
            yield NamedObject(table.PRIORITY_CLASS, None, priority)
    if plan.queue and plan.scheduler_name and not is_output(plan.queue):
        yield NamedObject(table.QUEUE, None, plan.queue)
    for namespace, name in queues_of([plan]):
        yield NamedObject(table.LOCAL_QUEUE, namespace, name)


def _pods(role: RolePlan) -> list[Mapping[str, Any]]:
    """The pod specs of a role."""
    return [template.get("spec") or {} for template in (role.leader_template, role.worker_template)]


def _users(pairs: Iterable[tuple[_Row, str]]) -> dict[_Row, list[str]]:
    services_of: dict[_Row, dict[str, None]] = {}
    for row, service in pairs:
        services_of.setdefault(row, {})[service] = None
    return {row: list(services) for row, services in services_of.items()}


def _services_need(services: Sequence[str]) -> str:
    """Subject and verb of a sentence: `a needs`, `a, b need`."""
    return f"{', '.join(services)} need{'s' if len(services) == 1 else ''}"
