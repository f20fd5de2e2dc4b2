"""Reports fields that users set but that have no effect on their service."""

from __future__ import annotations

from functools import partial

from fusioninfer_pulumi.api.autoscaling import AutoscalingTarget, scales_to_zero
from fusioninfer_pulumi.api.field_rules import FieldRule, check_fields, no_effect_rule
from fusioninfer_pulumi.api.monitoring import TracingArgs
from fusioninfer_pulumi.api.role import Strategy
from fusioninfer_pulumi.api.rollout import Layout, RolloutStrategy, WaitLevel
from fusioninfer_pulumi.api.router import MetricsMode
from fusioninfer_pulumi.api.scheduling import GangBackend, GangMode
from fusioninfer_pulumi.api.service import InferenceServiceArgs
from fusioninfer_pulumi.api.service_shape import DEFAULT_SCHEDULER
from fusioninfer_pulumi.findings import Finding, Location, Rule, Severity
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.routing.routing_plan import Routing
from fusioninfer_pulumi.topology.role_plan import RolePlan

# An ignored field is an error if the service would differ from what the user asked for.
_error_rule = partial(no_effect_rule, severity=Severity.ERROR)
_NOT_ROLLING = "no role that uses it has strategy Rolling"  # a field of the service's `rollout`
PLACEMENT_NOT_APPLIED = Rule("placement-not-applied")
# `place` replaces these fields with node selectors.
_placement_rule = partial(
    FieldRule,
    message="has no effect by itself: call `place` in a program, or pass `--inventory`",
    rule=PLACEMENT_NOT_APPLIED,
    severity=Severity.WARNING,
)


def check_ignored_fields(plan: ServicePlan) -> list[Finding]:
    """Report the fields of a user's spec that differ from their defaults and have no effect."""
    user_args = plan.provenance.spec
    findings = [*check_fields((), user_args, *_list_service_rules(user_args, plan))]
    for role in plan.roles:
        user_role = user_args.roles[role.position]
        rules = _list_role_rules(role, plan)
        findings += check_fields(("roles", role.position), user_role, *rules)
    if plan.routing is not None:
        rules = _list_router_rules(plan.routing)
        findings += check_fields(plan.routing.location, plan.routing.router, *rules)
    # A field may be ignored for more than one reason; only the first is reported.
    first_findings: dict[Location, Finding] = {}
    for finding in findings:
        first_findings.setdefault(finding.location, finding)
    return list(first_findings.values())


def _list_service_rules(args: InferenceServiceArgs, plan: ServicePlan) -> tuple[FieldRule, ...]:
    shape, picker, policy = plan.shape, plan.picker, args.scheduling_strategy.gang_policy
    is_kueue = policy.backend is GangBackend.KUEUE
    is_native = policy.backend is GangBackend.NATIVE
    lacks_volcano_gang = policy.backend is GangBackend.VOLCANO and not shape.needs_gang
    engines = [role.pods.command.engine for role in plan.roles]
    topology, minima = policy.network_topology, policy.min_role_replicas or {}
    reads_token = picker is not None and picker.epp.args.metrics is MetricsMode.AUTHENTICATED
    monitors_picker = args.monitoring is not None and args.monitoring.picker is not False
    queue_field, gang_field = "scheduling_strategy.queue", "scheduling_strategy.gang_policy"
    return (
        _error_rule(
            "engine", "every role has its own container", when=not plan.provenance.generated_roles
        ),
        no_effect_rule(
            "image_registry",
            "templates set all images",
            when=args.model is None and shape.router is None,
        ),
        _error_rule(
            "model.cache.compile_cache",
            "only vLLM uses this cache; remove it",
            when=all(engine and not engine.compile_cache_variable for engine in engines),
        ),
        no_effect_rule(queue_field, "Kubernetes' own gangs have no queue", when=is_native),
        no_effect_rule(
            queue_field,
            "with gangPolicy.mode Off replicas do not wait in a LocalQueue",
            when=is_kueue and policy.mode is GangMode.OFF,
        ),
        no_effect_rule(
            queue_field,
            "a Volcano queue requires scheduler volcano, and these pods use another one",
            when=lacks_volcano_gang and shape.scheduler in (None, DEFAULT_SCHEDULER),
        ),
        no_effect_rule(
            (
                f"{gang_field}.min_role_replicas",
                f"{gang_field}.required_replicas",
                f"{gang_field}.min_resources",
            ),
            "these pods are not gang-scheduled; gangPolicy.mode: On would gang-schedule them",
            when=lacks_volcano_gang,
        ),
        no_effect_rule(
            f"{gang_field}.required_replicas", "Kueue has no minimum for each role", when=is_kueue
        ),
        no_effect_rule(
            f"{gang_field}.required_replicas", "all replicas are required", when=is_native
        ),
        no_effect_rule(
            f"{gang_field}.required_replicas",
            "no role has minRoleReplicas above 0; set it for a role",
            when=not any(minima.values()),
        ),
        no_effect_rule(
            f"{gang_field}.min_resources",
            "Kueue counts the requests of every replica",
            when=is_kueue,
        ),
        no_effect_rule(
            f"{gang_field}.min_resources",
            "Kubernetes' own gangs have no queue that counts resources",
            when=is_native,
        ),
        no_effect_rule(
            f"{gang_field}.network_topology",
            "neither groupPolicy nor rolePolicy is set; set one",
            when=topology is not None and not (topology.group_policy or topology.role_policy),
        ),
        _error_rule(
            "prefill_decode_ratio",
            "requires prefiller and decoder roles; remove it",
            when=not shape.is_disaggregated,
        ),
        _error_rule("rollout.level", "level Group requires groups", when=args.groups is None),
        _placement_rule("placement.colocate"),
        no_effect_rule("rollout.role_order", "only one role runs pods", when=len(plan.roles) == 1),
        no_effect_rule(
            "rollout.max_unavailable",
            _NOT_ROLLING,
            when=not _is_used_when_rolling(plan, "max_unavailable"),
        ),
        no_effect_rule(
            "rollout.max_surge",
            _NOT_ROLLING,
            when=shape.layout is Layout.PER_ROLE and not _is_used_when_rolling(plan, "max_surge"),
        ),
        no_effect_rule(
            "wait.level",
            "these pods are not gang-scheduled; use Available or None",
            when=args.wait.level is WaitLevel.SCHEDULED and not shape.needs_gang,
        ),
        no_effect_rule(
            "monitoring.picker_token",
            "only a monitored endpoint picker with metrics Authenticated requires a token",
            when=not (reads_token and monitors_picker),
        ),
        no_effect_rule(
            "tracing",
            "neither an endpoint picker nor an engine sends traces",
            when=args.tracing is not None and not _has_traced_component(args.tracing, plan),
        ),
    )


def _is_used_when_rolling(plan: ServicePlan, field: str) -> bool:
    """Return whether a role with strategy Rolling uses a field of the service's `rollout`."""
    return any(
        role.rollout.strategy is RolloutStrategy.ROLLING
        and role.locate_rollout_field(field)[0] == "rollout"
        for role in plan.roles
    )


def _has_traced_component(tracing: TracingArgs, plan: ServicePlan) -> bool:
    if tracing.picker and plan.picker is not None:
        return True
    commands = [role.pods.command for role in plan.roles]
    return tracing.engines and any(
        command.engine is not None
        and command.engine.telemetry.tracing_flag is not None
        and command.has(command.engine.telemetry.tracing_flag)
        for command in commands
    )


def _list_role_rules(role: RolePlan, plan: ServicePlan) -> tuple[FieldRule, ...]:
    is_rolling = role.rollout.strategy is RolloutStrategy.ROLLING
    is_per_role, scaling = plan.shape.layout is Layout.PER_ROLE, role.args.autoscaling
    lacks_latency_target = scaling is not None and scaling.target is not AutoscalingTarget.LATENCY
    return (
        _placement_rule("placement"),
        _error_rule(
            ("autoscaling.time_to_first_token", "autoscaling.time_per_token"),
            "requires target: latency; remove it",
            when=lacks_latency_target,
        ),
        # A role that scales to zero also needs targetRequests: without replicas it has no latency.
        _error_rule(
            "autoscaling.target_requests",
            "timeToFirstToken and timePerToken replace it; remove it",
            when=scaling is not None
            and bool(scaling.latency_goals)
            and not scales_to_zero(scaling),
        ),
        _error_rule(
            "gpus",
            "the template defines the container; set its GPU resources, or use model and engine",
            when=role.position not in plan.provenance.generated_roles,
        ),
        no_effect_rule(
            ("multinode.launcher", "parallelism.data_rpc_port"),
            "a replica is a single pod",
            when=role.nodes == 1,
        ),
        no_effect_rule(
            "rollout.max_unavailable", "it applies to strategy Rolling only", when=not is_rolling
        ),
        no_effect_rule(
            "rollout.max_surge",
            "it applies to strategy Rolling only",
            when=is_per_role and not is_rolling,  # with PerReplica, `maxSurge` is an error
        ),
    )


def _list_router_rules(routing: Routing) -> tuple[FieldRule, ...]:
    disaggregation = Strategy.PD_DISAGGREGATION.value
    is_disaggregated = routing.epp_choice.strategy is Strategy.PD_DISAGGREGATION
    pairs_groups = is_disaggregated and routing.spec.groups is not None
    settings = routing.picker.epp.settings if routing.picker is not None else None
    service_levels = settings.service_levels if settings is not None else None
    # Settings are not generated if the user sets endpointPickerConfig.
    has_user_config = routing.picker is not None and settings is None
    return (
        _error_rule(
            "httproute.split",
            "every rule has its own backendRefs; set weights there",
            when=routing.route is not None and not routing.route.has_split,
        ),
        _error_rule(
            "endpoint_picker.flow_control",
            "endpointPickerConfig replaces it; set featureGates: [flowControl] there",
            when=has_user_config,
        ),
        _error_rule(
            "endpoint_picker.group_pairing",
            f"requires groups and strategy {disaggregation}; remove it",
            when=routing.picker is not None and not pairs_groups,
        ),
        _error_rule(
            ("endpoint_picker.service_levels", "endpoint_picker.session"),
            "endpointPickerConfig sets the plugins",
            when=has_user_config,
        ),
        _error_rule(
            "endpoint_picker.service_levels.evict",
            "requires a level with a negative priority; remove it",
            when=service_levels is not None
            and all(level.priority >= 0 for level in service_levels.levels),
        ),
        _error_rule(
            "endpoint_picker.session",
            "requires strategy session-affinity or scorer session; remove it",
            when=settings is not None and not settings.uses_sessions,
        ),
        _error_rule(
            "endpoint_picker.threshold",
            f"requires strategy {disaggregation}; remove it, or set the strategy",
            when=routing.picker is not None and not is_disaggregated,
        ),
    )
