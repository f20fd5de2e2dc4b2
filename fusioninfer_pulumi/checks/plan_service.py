"""Plans a service: applies presets, builds pods and objects, and runs all checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from fusioninfer_pulumi.api.service import InferenceServiceArgs
from fusioninfer_pulumi.checks.cross_service_checks import ClusterServices, check_targets
from fusioninfer_pulumi.checks.ignored_field_checks import check_ignored_fields
from fusioninfer_pulumi.checks.object_checks import check_objects
from fusioninfer_pulumi.checks.operations_checks import CHECKS as OPERATION_CHECKS
from fusioninfer_pulumi.checks.pods import (
    engine_checks,
    port_checks,
    prefill_decode_checks,
    resource_checks,
    template_checks,
)
from fusioninfer_pulumi.checks.rollout_checks import CHECKS as ROLLOUT_CHECKS
from fusioninfer_pulumi.checks.routing_checks import PICKER_CHECKS, ROUTE_CHECKS
from fusioninfer_pulumi.checks.service_checks import CHECKS as SERVICE_CHECKS, check_presets
from fusioninfer_pulumi.findings import Finding, Severity, filter_errors, info
from fusioninfer_pulumi.plan.service_builder import BuiltService, build_service
from fusioninfer_pulumi.plan.service_plan import RoleMemory, ServicePlan
from fusioninfer_pulumi.pods.pod import Context, RolePods
from fusioninfer_pulumi.presets.expansion import expand
from fusioninfer_pulumi.topology.role_plan import RolePlan

#: Checks of the finished pods of one role.
_POD_CHECKS: tuple[Callable[[RolePods, Context], Iterable[Finding]], ...] = (
    port_checks.check_role_port,
    resource_checks.check_accelerator_requests,
    engine_checks.check_parallelism,
    resource_checks.check_kv_cache_offloading,
    prefill_decode_checks.check_kv_transfer,
    prefill_decode_checks.check_sidecar,
    port_checks.check_startup,
    resource_checks.check_shared_memory,
    resource_checks.check_disk_limits,
    engine_checks.check_engine_release,
    engine_checks.check_engine_setup,
    engine_checks.check_engine_arguments,
    engine_checks.check_startup_policy,
    template_checks.check_role_credentials,
    template_checks.check_pods,
)
#: Checks of the finished pods of all roles of a service against each other.
_ROLE_CHECKS: tuple[Callable[[Sequence[tuple[Context, RolePods]]], Iterable[Finding]], ...] = (
    prefill_decode_checks.check_kv_connectors,
    prefill_decode_checks.check_pair_settings,
    prefill_decode_checks.check_served_names,
    resource_checks.check_volcano_claims,
)

_SEVERITY_ORDER = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.INFO: 2}


def plan_service(args: InferenceServiceArgs, name: str | None = None) -> ServicePlan:
    """Return the plan of one service, with findings for all problems.

    A plan whose findings include errors cannot be rendered.

    Args:
        args: The spec.
        name: Kubernetes name of the service, used if the spec has none.
    """
    expansion = expand(args)
    service = build_service(expansion.args, expansion.provenance, name)
    memory, memory_findings = _estimate_memory(service.plan, service.args)
    # If a field already has an error, a finding of `check_presets` there adds nothing.
    error_locations = {finding.location for finding in filter_errors(expansion.findings)}
    preset_findings = (
        finding
        for finding in check_presets(expansion.provenance)
        if finding.location not in error_locations
    )
    findings = [*expansion.findings, *preset_findings]
    other_findings = (
        *service.findings,
        *check_ignored_fields(service.plan),
        *_run_checks(service),
        *memory_findings,
    )
    # If a role's container cannot be generated, other findings about the role are meaningless.
    findings += [
        item for item in other_findings if item.location[:2] not in expansion.incomplete_roles
    ]
    plan = replace(service.plan, memory=memory, engines=expansion.engines)
    if not filter_errors(findings):
        findings += check_objects(plan)
    ordered = sorted(findings, key=lambda finding: _SEVERITY_ORDER[finding.severity])
    user_findings = []
    for finding in ordered:
        user_field, _ = plan.provenance.locate(finding.location)
        user_findings.append(finding.with_location(*user_field))
    # One user field may generate two parts, such as leader and worker, with the same finding.
    return replace(plan, findings=tuple(dict.fromkeys(user_findings)))


def _run_checks(service: BuiltService) -> Iterator[Finding]:
    for ctx, pods in service.role_pods:
        for check_role_pods in _POD_CHECKS:
            yield from check_role_pods(pods, ctx)
    for check_roles in _ROLE_CHECKS:
        yield from check_roles(service.role_pods)
    routing = service.plan.routing
    yield from template_checks.check_fetcher_and_picker_credentials(service.args.model, routing)
    for check in (*OPERATION_CHECKS, *SERVICE_CHECKS):
        yield from check(service)
    if routing is not None:
        for check_route in ROUTE_CHECKS:
            yield from check_route(routing)
        if routing.picker is not None:
            for check_picker in PICKER_CHECKS:
                yield from check_picker(routing, routing.picker.epp)
    for check_rollout in ROLLOUT_CHECKS:
        yield from check_rollout(service.plan)


def _estimate_memory(
    plan: ServicePlan, args: InferenceServiceArgs
) -> tuple[Mapping[str, RoleMemory], list[Finding]]:
    """Return memory estimates of roles whose accelerators are known, and findings about them."""
    if not any(_needs_memory_check(role) for role in plan.roles):
        return {}, []
    # Imported here, because most services need no memory check.
    from fusioninfer_pulumi.capacity_package import MEMORY_NOT_CHECKED, NEEDS_CAPACITY, load_package  # noqa: PLC0415  # see above

    package = load_package()
    if package is None:
        locations = [("roles", role.position) for role in plan.roles if role.args.accelerator]
        message = f"memory not checked: it {NEEDS_CAPACITY}"
        return {}, [info(MEMORY_NOT_CHECKED, location, message) for location in locations]
    memory, findings = package.check(plan, args)
    return memory, list(findings)


def _needs_memory_check(role: RolePlan) -> bool:
    """Return whether a role selects devices or nodes, or sets parallel sizes or a model length."""
    spec, command = role.pods.leader.template["spec"], role.pods.command
    if role.args.accelerator or role.args.resource_claims:
        return True
    if any(isinstance(spec.get(key), Mapping) for key in ("nodeSelector", "affinity")):
        return True
    engine = command.engine
    if engine is None:
        return False
    sizes = engine.sizes.flags
    return command.has(*sizes["tensor"], *sizes["pipeline"], engine.length_flag)


def plan_services(services: Sequence[InferenceServiceArgs]) -> list[ServicePlan]:
    """Return the plans of all services of one program, in the same order.

    The findings also report names that two services share, and services in `split` or `routedBy`
    that do not exist.
    """
    plans = add_collision_findings([plan_service(args) for args in services])
    return [
        replace(plan, findings=(*check_targets(plan, plans, complete=True), *plan.findings))
        for plan in plans
    ]


def add_collision_findings(plans: Sequence[ServicePlan]) -> list[ServicePlan]:
    """Return the plans with findings about names and routes that another service also has."""
    cluster = ClusterServices()
    return [
        replace(plan, findings=(*cluster.add_and_find_collisions(plan), *plan.findings))
        for plan in plans
    ]
