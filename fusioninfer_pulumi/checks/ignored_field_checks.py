"""Fields that are valid but have no effect on this service."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from fusioninfer_pulumi.api.autoscaling import AutoscalingTarget
from fusioninfer_pulumi.api.monitoring import TracingArgs
from fusioninfer_pulumi.api.role import Strategy
from fusioninfer_pulumi.api.rollout import Layout, RolloutStrategy, WaitLevel
from fusioninfer_pulumi.api.router import MetricsMode
from fusioninfer_pulumi.api.scheduling import GangBackend, GangMode
from fusioninfer_pulumi.api.service import InferenceServiceArgs
from fusioninfer_pulumi.api.service_shape import DEFAULT_SCHEDULER
from fusioninfer_pulumi.api.spec_model import SpecModel
from fusioninfer_pulumi.findings import Finding, Location, error, warning
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.presets.expansion import library_generates_container
from fusioninfer_pulumi.routing.routing_plan import Routing
from fusioninfer_pulumi.rules.common import FIELD_WITHOUT_EFFECT
from fusioninfer_pulumi.topology.role_plan import RolePlan

#: Dotted Python path of a field in the checked args, whether the field has no effect, and the
#: reason, or what to do.
_Row = tuple[str, bool, str]

#: Ignoring these would deploy something other than what the user asked for, so they are errors;
#: the others are warnings.
_REJECTED = {
    "autoscaling.target_requests",
    "autoscaling.time_per_token",
    "autoscaling.time_to_first_token",
    "endpoint_picker.service_levels.evict",
    "engine",
    "gpus",
    "model.cache.compile_cache",
    "prefill_decode_ratio",
    "rollout.level",
    "httproute.split",
    "endpoint_picker.flow_control",
    "endpoint_picker.group_pairing",
    "endpoint_picker.service_levels",
    "endpoint_picker.session",
    "endpoint_picker.threshold",
}
_NO_GANG = "these pods are not gang-scheduled; gangPolicy.mode: On would gang-schedule them"
_NOT_ROLLING = "only roles with strategy Rolling use it, and none does"
_OWN_CONFIG = "endpointPickerConfig sets the plugins"
_SINGLE_POD = "a replica is a single pod"
_LATENCY = "requires target: latency; remove it"


def check_ignored_fields(user_args: InferenceServiceArgs, plan: ServicePlan) -> Iterator[Finding]:
    """Report the fields of a user's spec that differ from their defaults and have no effect."""
    yield from _check_rows((), user_args, _build_service_rows(user_args, plan))
    for role in plan.roles:
        user_role = user_args.roles[role.position]
        generates = library_generates_container(user_args, user_role)
        rows = _build_role_rows(role, plan, generates=generates)
        yield from _check_rows(("roles", role.position), user_role, rows)
    if plan.routing is not None:
        yield from _check_rows(plan.routing.at, plan.routing.args, _build_router_rows(plan.routing))


def _check_rows(at: Location, args: SpecModel, rows: Iterable[_Row]) -> Iterator[Finding]:
    """Report each set field that has no effect, with the reason of its first row that applies."""
    reported = set()
    for field, is_ignored, reason in rows:
        path = _locate_set_field(args, field) if is_ignored else ()
        if path and field not in reported:
            reported.add(field)
            make_finding = error if field in _REJECTED else warning
            yield make_finding(FIELD_WITHOUT_EFFECT, (*at, *path), f"has no effect: {reason}")


def _locate_set_field(model: Any, path: str) -> Location:
    """Return the location of a field in YAML; empty if the field is unset or has its default."""
    location: list[str] = []
    default = None
    for name in path.split("."):
        if model is None:
            return ()
        field = type(model).model_fields[name]
        default = field.get_default(call_default_factory=True)
        location.append(field.alias or name)
        model = getattr(model, name)
    return () if model in (None, default) else tuple(location)


def _build_service_rows(args: InferenceServiceArgs, plan: ServicePlan) -> tuple[_Row, ...]:
    shape, picker, policy = plan.shape, plan.picker, args.scheduling_strategy.gang_policy
    is_kueue = shape.backend is GangBackend.KUEUE
    is_native = shape.backend is GangBackend.NATIVE
    lacks_gang = not (is_kueue or is_native or shape.needs_gang)
    generates = any(library_generates_container(args, role) for role in args.roles)
    engines = [role.pods.command.engine for role in plan.roles]
    topology, minima = policy.network_topology, policy.min_role_replicas or {}
    reads_token = picker is not None and picker.epp.args.metrics is MetricsMode.AUTHENTICATED
    monitors_picker = args.monitoring is not None and args.monitoring.picker is not False
    queue, gang_policy = "scheduling_strategy.queue", "scheduling_strategy.gang_policy"
    return (
        ("engine", not generates, "every role has its own container"),
        ("image_registry", args.model is None and shape.router is None, "templates set all images"),
        (
            "model.cache.compile_cache",
            all(engine and not engine.compile_cache_variable for engine in engines),
            "only vLLM keeps its compiled kernels there; remove it",
        ),
        (queue, is_native, "Kubernetes' own gangs have no queue"),
        (
            queue,
            is_kueue and policy.mode is GangMode.OFF,
            "with gangPolicy.mode Off replicas do not wait in a LocalQueue",
        ),
        (
            queue,
            lacks_gang and shape.scheduler in (None, DEFAULT_SCHEDULER),
            "a Volcano queue requires scheduler volcano, and these pods use another one",
        ),
        (f"{gang_policy}.min_role_replicas", lacks_gang, _NO_GANG),
        (f"{gang_policy}.required_replicas", lacks_gang, _NO_GANG),
        (f"{gang_policy}.required_replicas", is_kueue, "Kueue has no minimum for each role"),
        (f"{gang_policy}.required_replicas", is_native, "all replicas are required"),
        (
            f"{gang_policy}.required_replicas",
            not any(minima.values()),
            "no role has minRoleReplicas above 0; set it for a role",
        ),
        (f"{gang_policy}.min_resources", lacks_gang, _NO_GANG),
        (f"{gang_policy}.min_resources", is_kueue, "Kueue counts the requests of every replica"),
        (
            f"{gang_policy}.min_resources",
            is_native,
            "Kubernetes' own gangs have no queue that counts resources",
        ),
        (
            f"{gang_policy}.network_topology",
            topology is not None and not (topology.group_policy or topology.role_policy),
            "set groupPolicy or rolePolicy",
        ),
        (
            "prefill_decode_ratio",
            not shape.is_disaggregated,
            "requires prefiller and decoder roles; remove it",
        ),
        (
            "rollout.level",
            args.groups is None,
            "level Group requires groups",
        ),
        ("rollout.role_order", len(plan.roles) == 1, "only one role runs pods"),
        (
            "rollout.max_unavailable",
            not _is_used_when_rolling(plan, "max_unavailable"),
            _NOT_ROLLING,
        ),
        (
            "rollout.max_surge",
            shape.layout is Layout.PER_ROLE and not _is_used_when_rolling(plan, "max_surge"),
            _NOT_ROLLING,
        ),
        (
            "wait.level",
            args.wait.level is WaitLevel.SCHEDULED and not shape.needs_gang,
            "these pods are not gang-scheduled; use Available or None",
        ),
        (
            "monitoring.picker_token",
            not (reads_token and monitors_picker),
            "only an endpoint picker with metrics Authenticated requires a token",
        ),
        (
            "tracing",
            args.tracing is not None and not _has_traced_component(args.tracing, plan),
            "neither an endpoint picker nor an engine sends traces",
        ),
    )


def _is_used_when_rolling(plan: ServicePlan, field: str) -> bool:
    """Return whether a role with strategy Rolling uses the service's value of a rollout field."""
    return any(
        role.rollout.strategy is RolloutStrategy.ROLLING
        and role.locate_rollout_field(field)[0] == "rollout"
        for role in plan.roles
    )


def _has_traced_component(tracing: TracingArgs, plan: ServicePlan) -> bool:
    if tracing.picker and plan.picker is not None:
        return True
    commands = [role.pods.command for role in plan.roles if tracing.engines]
    return any(
        command.engine is not None
        and command.engine.telemetry.tracing_flag is not None
        and command.has(command.engine.telemetry.tracing_flag)
        for command in commands
    )


def _build_role_rows(role: RolePlan, plan: ServicePlan, *, generates: bool) -> tuple[_Row, ...]:
    is_rolling = role.rollout.strategy is RolloutStrategy.ROLLING
    per_role, scaling = plan.shape.layout is Layout.PER_ROLE, role.args.autoscaling
    has_other_target = scaling is not None and scaling.target is not AutoscalingTarget.LATENCY
    return (
        ("autoscaling.time_to_first_token", has_other_target, _LATENCY),
        ("autoscaling.time_per_token", has_other_target, _LATENCY),
        (
            "autoscaling.target_requests",
            scaling is not None and bool(scaling.latency_goals),
            "timeToFirstToken and timePerToken replace it; remove it",
        ),
        (
            "gpus",
            not generates,
            "the template defines the container; set GPU resources there, or model and engine",
        ),
        ("multinode.launcher", role.nodes == 1, _SINGLE_POD),
        ("parallelism.data_rpc_port", role.nodes == 1, _SINGLE_POD),
        ("rollout.max_unavailable", not is_rolling, "it applies to strategy Rolling only"),
        ("rollout.max_surge", per_role and not is_rolling, "it applies to strategy Rolling only"),
    )


def _build_router_rows(routing: Routing) -> tuple[_Row, ...]:
    name = Strategy.PD_DISAGGREGATION.value
    is_disaggregated = routing.intent.strategy is Strategy.PD_DISAGGREGATION
    pairs_groups = is_disaggregated and routing.spec.groups is not None
    request = routing.picker.epp.request if routing.picker is not None else None
    levels = request.service_levels if request is not None else None
    has_own_config = routing.picker is not None and request is None
    return (
        (
            "httproute.split",
            routing.route is not None and not routing.route.has_split,
            "every rule has its own backendRefs; set weights there",
        ),
        (
            "endpoint_picker.flow_control",
            has_own_config,
            "endpointPickerConfig replaces it; set featureGates: [flowControl] there",
        ),
        (
            "endpoint_picker.group_pairing",
            routing.picker is not None and not pairs_groups,
            f"requires groups and strategy {name}; remove it",
        ),
        ("endpoint_picker.service_levels", has_own_config, _OWN_CONFIG),
        (
            "endpoint_picker.service_levels.evict",
            levels is not None and all(level.priority >= 0 for level in levels.levels),
            "requires a level of negative priority; remove it",
        ),
        ("endpoint_picker.session", has_own_config, _OWN_CONFIG),
        (
            "endpoint_picker.session",
            request is not None and not request.uses_sessions,
            "requires strategy session-affinity or scorer session; remove it",
        ),
        (
            "endpoint_picker.threshold",
            routing.picker is not None and not is_disaggregated,
            f"requires strategy {name}; remove it, or set the strategy",
        ),
    )
