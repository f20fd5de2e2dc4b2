"""Converts Kthena's autoscaling policies to `autoscaling` of the roles that they scale."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fusioninfer_importers.conversion import ConversionReport
from fusioninfer_importers.kthena.models import (
    Behavior,
    BindingSpec,
    DisaggregatedTarget,
    HomogeneousTarget,
    Metric,
    MetricSource,
    PodSource,
    PolicySpec,
    Ratio,
    StablePolicy,
    TargetRef,
)
from fusioninfer_importers.kthena.pods import NAME, PREFIX, ROLE, read_index_from_lws_label
from fusioninfer_importers.kthena.serving import DECODER, PREFILLER, Serving
from fusioninfer_importers.rules import DOCUMENT_UNUSED, REFERENCE_MISSING
from fusioninfer_pulumi.plugins.importers import (
    Rule,
    SourceDocument,
    SourceField,
    parse_duration,
    quantity,
)

REPLICA_RATIO_NOT_ENFORCED = Rule("replica-ratio-not-enforced")
CUSTOM_METRICS_NEEDED = Rule("custom-metrics-needed")
SCALING_TOLERANCE_VERSION = Rule("scaling-tolerance-version")

_GROUPS_UNSUPPORTED = (
    "scales whole serving groups, which have no scale subresource that an autoscaler could use; "
    "scale roles instead (disaggregatedTarget; until Kthena 0.4 subTargets of kind Role), and "
    "write groups of one replica as replicas of their role"
)
_SHARING_UNSUPPORTED = (
    "distributes instances across several ModelServings by cost, which no Kubernetes autoscaler "
    "does; create a policy for each"
)
_ADAPTER_NEEDED = (
    "Kthena reads it from the pods; a HorizontalPodAutoscaler reads {name} from "
    "custom.metrics.k8s.io: set monitoring, and install a metrics adapter"
)
#: Default of Kubernetes and of Kthena's CRD.
_DEFAULT_TOLERANCE = 10
# Bounds of autoscaling/v2.
_MAX_WINDOW_SECONDS = 3600
_MAX_PERIOD_SECONDS = 1800
# Defaults for policies that are not set (pkg/autoscaler/webhook/autoscalingpolicy_mutator.go), and
# the CRD's defaults for single fields.
_UP = StablePolicy.model_construct(instances=4, percent=100, period="1m", stabilization_window="0s")
_DOWN = StablePolicy.model_construct(
    instances=0, percent=100, period="1m", stabilization_window="5m"
)
_INSTANCES, _PERCENT, _PERIOD = 1, 100, "15s"


@dataclass(frozen=True)
class Policy:
    """An AutoscalingPolicy and its document."""

    document: SourceDocument
    spec: PolicySpec


@dataclass(frozen=True)
class _RoleAutoscaling:
    """Autoscaling of one role.

    Attributes:
        name: Name of the role.
        bounds: Minimum and maximum number of replicas.
        metrics: Metrics with their fields.
        sources: Sources of the metrics by name, with their fields.
        field: The field that configures it.
    """

    name: str
    bounds: tuple[int, int]
    metrics: Sequence[tuple[Metric, SourceField]]
    sources: Mapping[str, tuple[MetricSource, SourceField]]
    field: SourceField


def convert_policies(
    report: ConversionReport,
    policies: Sequence[Policy],
    bindings: Iterable[tuple[SourceDocument, BindingSpec]],
    servings: Sequence[Serving],
) -> None:
    """Convert policies to `autoscaling` of the roles that they scale."""
    used = set()
    for document, spec in bindings:
        field, name = document.at("spec"), spec.policy_ref.name
        report.consume(field / "policyRef")
        key = (document.namespace, name)
        matching = [
            candidate
            for candidate in policies
            if (candidate.document.namespace, candidate.document.name) == key
        ]
        if not matching:
            report.unsupported(
                field / "policyRef",
                f"AutoscalingPolicy {name} is not in this input",
                REFERENCE_MISSING,
            )
            report.left_out(field, "has no policy; ignored")
            continue
        used.add(matching[0].document)
        _convert_targets(
            report, matching[0], field, spec.homogeneous_target, spec.heterogeneous_target, servings
        )
    for policy in policies:
        policy_spec, field = policy.spec, policy.document.at("spec")
        targets = (
            policy_spec.homogeneous_target,
            policy_spec.heterogeneous_target,
            policy_spec.disaggregated_target,
        )
        count = sum(target is not None for target in targets)
        if count > 1:
            report.invalid(field, "must have one target")
        elif policy_spec.disaggregated_target is not None:
            _convert_disaggregated(report, policy, policy_spec.disaggregated_target, servings)
        elif count:
            _convert_targets(
                report,
                policy,
                field,
                policy_spec.homogeneous_target,
                policy_spec.heterogeneous_target,
                servings,
            )
        elif policy.document not in used:
            report.warning(
                DOCUMENT_UNUSED,
                field,
                "has no target, and no AutoscalingPolicyBinding refers to it; ignored",
            )


def _convert_targets(
    report: ConversionReport,
    policy: Policy,
    field: SourceField,
    homogeneous: HomogeneousTarget | None,
    heterogeneous: Mapping[str, Any] | None,
    servings: Sequence[Serving],
) -> None:
    if heterogeneous is not None:
        report.unsupported(field / "heterogeneousTarget", _SHARING_UNSUPPORTED)
    if homogeneous is None:
        _report_unused(report, policy)
        return
    block = field / "homogeneousTarget"
    target, sub_target = homogeneous.target, homogeneous.target.sub_targets
    serving = _find_serving(report, target.target_ref, block / "target" / "targetRef", servings)
    if serving is None or sub_target is None or sub_target.kind != "Role":
        if serving is not None:
            report.unsupported(block, _GROUPS_UNSUPPORTED)
        _report_unused(report, policy, block)
        return
    report.consume(block / "target" / "subTargets")
    sources = {
        key: (source, block / "target" / "metricSources" / key)
        for key, source in (target.metric_sources or {}).items()
    }
    metrics = _zip_fields(policy.spec.metrics, policy.document.at("spec", "metrics"))
    if target.metric_endpoint is not None:
        subfield = block / "target" / "metricEndpoint"
        endpoint = MetricSource(pod=target.metric_endpoint)
        sources = {**{metric.key: (endpoint, subfield) for metric, _ in metrics}, **sources}
    bounds = (homogeneous.min_replicas, homogeneous.max_replicas)
    scaled = [_RoleAutoscaling(sub_target.name or "", bounds, metrics, sources, block)]
    _add_autoscalers(report, policy, serving, scaled)


def _convert_disaggregated(
    report: ConversionReport,
    policy: Policy,
    scaling_target: DisaggregatedTarget,
    servings: Sequence[Serving],
) -> None:
    field = policy.document.at("spec", "disaggregatedTarget")
    serving = _find_serving(report, scaling_target.target_ref, field / "targetRef", servings)
    if serving is None:
        _report_unused(report, policy, field)
        return
    defaults = _zip_fields(policy.spec.metrics, policy.document.at("spec", "metrics"))
    scaled = []
    for name, role in scaling_target.roles.items():
        block = field / "roles" / name
        sources = {
            key: (source, block / "metricSources" / key)
            for key, source in (role.metric_sources or {}).items()
        }
        metrics = defaults if role.metrics is None else _zip_fields(role.metrics, block / "metrics")
        bounds = (role.min_replicas, role.max_replicas)
        scaled.append(_RoleAutoscaling(name, bounds, metrics, sources, block))
    _add_autoscalers(report, policy, serving, scaled)
    if scaling_target.ratio_constraint is not None:
        _convert_ratio(report, serving, scaling_target.ratio_constraint, field / "ratioConstraint")


def _report_unused(report: ConversionReport, policy: Policy, *other_fields: SourceField) -> None:
    for field in (policy.document.at("spec"), *other_fields):
        report.left_out(field, "scales no role; ignored")


def _find_serving(
    report: ConversionReport, ref: TargetRef, field: SourceField, servings: Sequence[Serving]
) -> Serving | None:
    report.consume(field)
    if ref.kind not in (None, "", "ModelServing"):
        report.invalid(field / "kind", f"must be ModelServing, got {ref.kind}")
        return None
    namespace = field.document.namespace
    key = (ref.namespace or namespace, ref.name)
    matching = [
        serving
        for serving in servings
        if (serving.builder.main.namespace, serving.builder.main.name) == key
    ]
    if not matching:
        report.unsupported(
            field / "name",
            f"ModelServing {ref.name} is not in this input; pass the documents together",
            REFERENCE_MISSING,
        )
        return None
    return matching[0]


def _zip_fields(
    metrics: Sequence[Metric] | None, field: SourceField
) -> list[tuple[Metric, SourceField]]:
    """Return metrics with their fields."""
    return [(metric, field / index) for index, metric in enumerate(metrics or ())]


def _add_autoscalers(
    report: ConversionReport, policy: Policy, serving: Serving, scaled: Sequence[_RoleAutoscaling]
) -> None:
    """Add autoscalers to roles."""
    behavior = convert_behavior(report, policy.spec, policy.document.at("spec"))
    builder, has_autoscaler = serving.builder, False
    for role_scaling in scaled:
        indexes = [i for i, role in enumerate(serving.roles) if role.name == role_scaling.name]
        if not indexes:
            report.unsupported(
                role_scaling.field,
                f'the ModelServing has no role "{role_scaling.name}"',
                REFERENCE_MISSING,
            )
            continue
        target = ("spec", "roles", indexes[0])
        if builder.get((*target, "autoscaling")) is not None:
            report.unsupported(
                role_scaling.field,
                f"{role_scaling.name} is scaled by another policy; remove one of them",
            )
            continue
        report.consume(role_scaling.field)
        for document in (policy.document, role_scaling.field.document):
            builder.add_source(document)
        minimum, maximum = role_scaling.bounds
        if minimum > maximum:
            report.invalid(
                role_scaling.field / "minReplicas",
                f"must be at most maxReplicas ({maximum}), got {minimum}",
            )
            minimum = maximum  # so that the other fields are checked as well
        _set_initial_replicas(report, serving, indexes[0], role_scaling)
        if minimum == maximum and not role_scaling.metrics:
            report.left_out(
                role_scaling.field,
                f"{role_scaling.name} has {maximum} replicas; without metrics nothing scales it",
            )
            continue
        autoscaling = convert_metrics(
            report,
            role_scaling.name,
            serving,
            role_scaling.metrics,
            role_scaling.sources,
            role_scaling.field,
        )
        if not autoscaling["metrics"]:
            report.unsupported(role_scaling.field, "has no supported metric")
            continue
        bounds = {"minReplicas": minimum, "maxReplicas": maximum}
        builder.derive(
            (*target, "autoscaling"),
            {**autoscaling, **bounds, "behavior": behavior},
            role_scaling.field,
        )
        builder.set_origin(
            (*target, "autoscaling", "behavior"), policy.document.at("spec", "behavior")
        )
        builder.default(("spec", "layout"), "PerRole", role_scaling.field)
        for index, _ in enumerate(serving.roles):
            read_index_from_lws_label(builder, ("spec", "roles", index))
        serving.minimum_replicas[role_scaling.name] = (minimum, role_scaling.field)
        has_autoscaler = True
    if not has_autoscaler:
        _report_unused(report, policy)
    elif policy.spec.metrics:
        metrics_field = policy.document.at("spec", "metrics")
        report.translated(metrics_field, "apply to the roles that set no metrics")


def _set_initial_replicas(
    report: ConversionReport, serving: Serving, index: int, role_scaling: _RoleAutoscaling
) -> None:
    """Set replicas within the bounds, because Kthena's autoscaler applies the bounds at once."""
    replicas = serving.roles[index].replicas
    minimum, maximum = role_scaling.bounds
    initial = 1 if replicas is None else replicas
    start = min(max(initial, minimum), maximum)
    if start != initial:
        replicas_field = serving.builder.main.at("spec", "template", "roles", index, "replicas")
        serving.builder.derive(("spec", "roles", index, "replicas"), start, replicas_field)
        report.translated(
            role_scaling.field,
            f"{role_scaling.name} starts with {start} replicas, within its bounds",
        )


def _convert_ratio(
    report: ConversionReport, serving: Serving, ratio: Ratio, field: SourceField
) -> None:
    types = {role["name"]: role["componentType"] for role in serving.builder.roles}
    pair = (types.get(ratio.numerator_role), types.get(ratio.denominator_role))
    try:
        minimum, maximum = (
            float(quantity.parse(bound)) for bound in (ratio.min_ratio, ratio.max_ratio)
        )
    except ValueError:
        report.invalid(field, f"needs two numbers, got {ratio.min_ratio} and {ratio.max_ratio}")
        return
    # Our ratio is prefill to decode. A bound of 0 means that there is none.
    if pair == (DECODER, PREFILLER):
        minimum, maximum = (1 / bound if bound > 0 else 0 for bound in (maximum, minimum))
    elif pair != (PREFILLER, DECODER):
        report.unsupported(field, "applies only to a pair of prefill and decode roles")
        return
    bounds = {name: value for name, value in (("min", minimum), ("max", maximum)) if value > 0}
    serving.builder.derive(("spec", "prefillDecodeRatio"), bounds, field)
    report.warning(
        REPLICA_RATIO_NOT_ENFORCED,
        field,
        "checked only at preview; the autoscalers of the two roles are independent",
    )


def convert_metrics(
    report: ConversionReport,
    role: str,
    serving: Serving,
    metrics: Sequence[tuple[Metric, SourceField]],
    sources: Mapping[str, tuple[MetricSource, SourceField]],
    field: SourceField,
) -> dict[str, Any]:
    """Build `engine`, `metrics` and `prometheus` of a role's autoscaling.

    As in Kthena, targets of pod metrics are per pod, targets of queries are totals, and the metric
    that requires the most instances wins (pkg/autoscaler/algorithm/recommendation.go).
    """
    pod_metrics: list[dict[str, Any]] = []
    queries: list[dict[str, Any]] = []
    address: str | None = None
    for metric, metric_field in metrics:
        report.consume(metric_field)
        source, source_field = sources.get(metric.key, (MetricSource(), metric_field))
        target = str(metric.target_value)
        if source.prometheus is not None:
            prometheus = source_field / "prometheus"
            if address not in (None, source.prometheus.server_url):
                report.unsupported(
                    prometheus / "serverURL", "must be the same address for all metrics of a role"
                )
                continue
            address = source.prometheus.server_url
            report.consume(source_field)
            queries.append({"query": source.prometheus.query, "target": target})
            continue
        report.consume(source_field)
        pod = source.pod or PodSource()
        name = pod.name or metric.key
        report.warning(CUSTOM_METRICS_NEEDED, source_field, _ADAPTER_NEEDED.format(name=name))
        _check_selector(report, role, serving, pod, source_field / "pod")
        pod_metrics.append({"name": name, "target": target})
    for key, (_, source_field) in sources.items():
        if all(metric.key != key for metric, _ in metrics):
            report.left_out(source_field, "no metric has this name; ignored")
    if queries and pod_metrics:
        report.unsupported(
            field,
            "mixes pod metrics and Prometheus queries; an autoscaler has one source; express pod "
            "metrics as queries (they are ignored)",
        )
    if queries:
        return {"engine": "KEDA", "prometheus": address, "metrics": queries}
    return {"metrics": pod_metrics}


def _check_selector(
    report: ConversionReport, role: str, serving: Serving, pod: PodSource, field: SourceField
) -> None:
    """Report a selector unless it selects the role's entry pods, whose metrics are always used."""
    selector = pod.label_selector
    if selector is None:
        return
    known = {NAME: str(serving.builder.main.name), ROLE: role, f"{PREFIX}entry": "true"}
    is_equal = all(known.get(key) == value for key, value in (selector.match_labels or {}).items())
    if selector.match_expressions or not is_equal:
        report.unsupported(
            field / "labelSelector",
            f"the metric covers all entry pods of {role}; remove the selector",
        )


def convert_behavior(
    report: ConversionReport, spec: PolicySpec, field: SourceField
) -> dict[str, Any]:
    """Convert the behavior of a policy to that of a HorizontalPodAutoscaler."""
    behavior = spec.behavior or Behavior()
    up, up_field = behavior.scale_up, field / "behavior" / "scaleUp"
    stable = (up.stable_policy if up is not None else None) or _UP
    rules_by_direction = {
        "scaleUp": _convert_rules(report, stable, up_field / "stablePolicy", _UP),
        "scaleDown": _convert_rules(
            report, behavior.scale_down or _DOWN, field / "behavior" / "scaleDown", _DOWN
        ),
    }
    report.consume(field / "behavior")
    panic = up.panic_policy if up is not None else None
    if panic is not None and panic.percent == 0:
        report.left_out(up_field / "panicPolicy", "adds no instance (percent: 0); ignored")
    elif panic is not None:
        report.unsupported(
            up_field / "panicPolicy",
            "is not supported by HorizontalPodAutoscaler; raise percent and period of "
            "stablePolicy instead",
        )
    report.consume(field / "tolerancePercent")
    if spec.tolerance_percent not in (None, _DEFAULT_TOLERANCE):
        report.warning(
            SCALING_TOLERANCE_VERSION,
            field / "tolerancePercent",
            f"{spec.tolerance_percent} needs Kubernetes 1.35, or the feature gate "
            f"HPAConfigurableTolerance of 1.33; otherwise the tolerance is {_DEFAULT_TOLERANCE}",
        )
        for rules in rules_by_direction.values():
            rules["tolerance"] = f"{10 * (spec.tolerance_percent or 0)}m"  # 10% is 100m
    return rules_by_direction


def _convert_rules(
    report: ConversionReport, policy: StablePolicy, field: SourceField, default: StablePolicy
) -> dict[str, Any]:
    window = policy.stabilization_window or default.stabilization_window or ""
    period = _parse_seconds(
        report, policy.period or _PERIOD, field / "period", 1, _MAX_PERIOD_SECONDS
    )
    amounts = (
        ("Pods", _INSTANCES if policy.instances is None else policy.instances),
        ("Percent", _PERCENT if policy.percent is None else policy.percent),
    )
    needs_both = policy.select_policy == "And"
    rules: dict[str, Any] = {
        "stabilizationWindowSeconds": _parse_seconds(
            report, window, field / "stabilizationWindow", 0, _MAX_WINDOW_SECONDS
        )
    }
    policies = [
        {"type": kind, "value": value, "periodSeconds": period} for kind, value in amounts if value
    ]
    # Kubernetes allows no limit of 0: with And it forbids every change, with Or it adds nothing.
    if not policies or (needs_both and len(policies) < len(amounts)):
        report.left_out(field, "allows no change (selectPolicy: Disabled)")
        return {**rules, "selectPolicy": "Disabled"}
    return {**rules, "policies": policies, "selectPolicy": "Min" if needs_both else "Max"}


def _parse_seconds(
    report: ConversionReport, text: str, field: SourceField, minimum: int, maximum: int
) -> int:
    """Return a duration in whole seconds within bounds."""
    length = parse_duration(text)
    if length is None:
        report.invalid(field, f"must be a duration such as 30s, got {text}")
        return minimum
    if length.denominator != 1 or not minimum <= length <= maximum:
        report.unsupported(field, f"must be {minimum} to {maximum} whole seconds, got {text}")
        return min(max(round(length), minimum), maximum)
    return int(length)
