"""Checks of a service: its names, its gang, its replicas, and how clients reach it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from fusioninfer_pulumi.api.router import MetricsMode
from fusioninfer_pulumi.checks.between_services import count_groups
from fusioninfer_pulumi.checks.gangs import (
    kueue_label_findings,
    network_topology_findings,
    scheduling_findings,
)
from fusioninfer_pulumi.checks.model_checks import model_findings
from fusioninfer_pulumi.checks.routes import SERVING_PORTS_DIFFER
from fusioninfer_pulumi.findings import Finding, Location, Rule, error, shown, warning
from fusioninfer_pulumi.kube import object_names
from fusioninfer_pulumi.kube.object_names import DNS_1035_LABEL, DNS_LABEL_LIMIT
from fusioninfer_pulumi.kube.pulumi_outputs import is_output
from fusioninfer_pulumi.plan.service_builder import BuiltService
from fusioninfer_pulumi.pods.model_cache import DIGEST_LENGTH
from fusioninfer_pulumi.rules.common import (
    INVALID_FORMAT,
    NAME_TOO_LONG,
    OUTPUT_NOT_ALLOWED,
    SET_BY_LIBRARY,
)

PREFILL_DECODE_WITHOUT_ROUTER = Rule("prefill-decode-without-router")
PLACEMENT_NOT_APPLIED = Rule("placement-not-applied")
SERVICE_NAME_BREAKS_ENGINE = Rule("service-name-breaks-engine")

#: Role names that collide with the names of the router's objects. An empty service name leaves
#: the suffix of each name.
RESERVED_ROLES = frozenset(
    format_name("").removeprefix("-")
    for format_name in (
        object_names.endpoint_picker,
        object_names.endpoint_picker_config,
        object_names.inference_pool,
        object_names.http_route,
        object_names.gateway,
    )
)

Check = Callable[[BuiltService], Iterable[Finding]]


def _name(built: BuiltService) -> Iterator[Finding]:
    service = built.plan.service
    if DNS_1035_LABEL.fullmatch(service) is None or len(service) > DNS_LABEL_LIMIT:
        yield error(
            INVALID_FORMAT,
            ("metadata", "name"),
            "must be a DNS-1035 label (a-z 0-9 -, starts with a letter, at most "
            f"{DNS_LABEL_LIMIT} characters), got {shown(service)}",
        )


def _namespace(built: BuiltService) -> Iterator[Finding]:
    """Check that names and queries that contain the namespace can be written."""
    plan, monitoring = built.plan, built.args.monitoring
    if not is_output(plan.namespace):
        return
    features = {
        "autoscaling.target": any(
            role.autoscaling is not None and role.autoscaling.target is not None
            for role in built.args.roles
        ),
        "monitoring.alerts": monitoring is not None and monitoring.alerts is not None,
        "monitoring.dashboards": monitoring is not None and monitoring.dashboards is not None,
        "endpointPicker.metrics Authenticated": plan.picker is not None
        and plan.picker.epp.args.metrics is MetricsMode.AUTHENTICATED,
        "referenceGrants": plan.routing is not None
        and bool(plan.routing.args.reference_grants)
        and any(grant.from_namespace is plan.namespace for grant in plan.routing.grants),
    }
    used = [name for name, is_used in features.items() if is_used]
    if used:
        yield error(
            OUTPUT_NOT_ALLOWED,
            ("metadata", "namespace"),
            f"is part of names or queries of {', '.join(used)}: pass the string, and depend on the "
            "Namespace with ResourceOptions(depends_on=[...]); got a pulumi Output",
        )


def _role_names(built: BuiltService) -> Iterator[Finding]:
    """Check that no role has the name of one of the router's objects."""
    for role in built.plan.roles:
        at = ("roles", role.position, "name")
        if role.name in RESERVED_ROLES:
            yield error(
                SET_BY_LIBRARY,
                at,
                f'"{role.name}" is taken by the router\'s objects; '
                f"not allowed: {', '.join(sorted(RESERVED_ROLES))}",
            )


def _name_lengths(built: BuiltService) -> Iterator[Finding]:
    """Check the longest names: of objects, and of what controllers derive from them."""
    plan, model = built.plan, built.args.model
    service, routing = plan.service, plan.routing
    names: list[tuple[Location, str, str, int]] = []
    for role in plan.roles:
        if role.lws:
            groups = count_groups(role, role.lws[-1])
            limit = object_names.leader_worker_set_limit(role.nodes, groups)
            place = ("roles", role.position, "name")
            names.append((place, "LeaderWorkerSet", role.lws[-1].name, limit))
    derived: list[tuple[Location, str, str]] = []
    if model is not None and model.cache is not None and model.cache.warm_up:
        job = object_names.model_warm_up(service, "0" * DIGEST_LENGTH)
        derived.append((("model", "cache", "warmUp"), "Job", job))
    if routing is not None and routing.args.picks_endpoints:
        picker = object_names.endpoint_picker(service)
        derived.append((("metadata", "name"), "endpoint picker", picker))
    if routing is not None and routing.gateway is not None:
        derived.append((("metadata", "name"), "Gateway", routing.gateway.name))
    # These names become values of labels, which have at most 63 characters.
    names += [(*name, DNS_LABEL_LIMIT) for name in derived]
    for at, kind, name, limit in names:
        if len(name) > limit:
            yield error(
                NAME_TOO_LONG,
                at,
                f"the name of {kind} {name} has {len(name)} characters, at most {limit} are "
                f"allowed; shorten the name of the service or role by {len(name) - limit}",
            )


def _service_link_variables(built: BuiltService) -> Iterator[Finding]:
    """Reject a service name whose `*_PORT` service link variable breaks an engine."""
    plan = built.plan
    if not plan.has_serving_service:
        return
    service_name = object_names.serving_service(plan.service)
    # Every pod of the namespace has these variables, for each Service with an address.
    variable = f"{service_name.upper().replace('-', '_')}_PORT"
    for role in plan.roles:
        engine = role.pods.command.engine
        if engine is None or variable not in engine.port_variables:
            continue
        spec, variables = role.leader_template["spec"], role.pods.leader.container.get("env") or ()
        overridden = any(item.get("name") == variable for item in variables)
        if spec.get("enableServiceLinks") is not False and not overridden:
            yield error(
                SERVICE_NAME_BREAKS_ENGINE,
                ("metadata", "name"),
                f"for a Service named {service_name}, pods get {variable}=tcp://..., and "
                f"{engine.title} fails; rename the service, or set enableServiceLinks: false",
            )
            return


def _reachability(built: BuiltService) -> Iterator[Finding]:
    """Check which roles and ports clients reach without an endpoint picker."""
    plan = built.plan
    if plan.shape.picks_endpoints:
        return
    lacking, remedy = "router", "add a role of componentType router"
    if plan.routing is not None:
        lacking, remedy = "endpoint picker", "remove endpointPicker.enabled: false"
    if plan.shape.is_prefill_decode:
        yield warning(
            PREFILL_DECODE_WITHOUT_ROUTER,
            ("roles",),
            f"no {lacking}: nothing pairs prefill with decode, and clients reach only the "
            f"decoders; {remedy}",
        )
    entry_roles = [role for role in plan.roles if role.component_type in plan.shape.entry_types]
    for role in entry_roles:
        if role.pods.rank_ports == 1:
            continue
        asked = role.args.parallelism is not None and role.args.parallelism.port_per_rank
        make_finding = error if asked else warning
        field = ("parallelism", "portPerRank") if asked else ()
        yield make_finding(
            SERVING_PORTS_DIFFER,
            ("roles", role.position, *field),
            f"{role.name} serves on ports {role.pods.ports_text}, but the Service reaches only "
            f"{role.pods.port}, so the other ranks receive no requests; {remedy}, or let the "
            "ranks share a port",
        )
    ports = {role.pods.port for role in entry_roles}
    if len(ports) > 1:
        listed = ", ".join(f"{role.name} {role.pods.port}" for role in entry_roles)
        yield warning(
            SERVING_PORTS_DIFFER,
            ("roles",),
            f"the roles serve on different ports ({listed}): the Service reaches only "
            f"{entry_roles[0].pods.port}; give them one port",
        )


def _placement(built: BuiltService) -> Iterator[Finding]:
    """Warn of a `placement` that has no effect; `place` removes it once applied."""
    message = "has no effect by itself: call `place` in a program, or pass `--inventory`"
    if built.args.placement.colocate is not None:
        yield warning(PLACEMENT_NOT_APPLIED, ("placement", "colocate"), message)
    for index, role in enumerate(built.args.roles):
        if role.placement is not None:
            yield warning(PLACEMENT_NOT_APPLIED, ("roles", index, "placement"), message)


CHECKS: tuple[Check, ...] = (
    model_findings,
    _name,
    _namespace,
    _role_names,
    _name_lengths,
    _service_link_variables,
    scheduling_findings,
    kueue_label_findings,
    network_topology_findings,
    _reachability,
    _placement,
)
