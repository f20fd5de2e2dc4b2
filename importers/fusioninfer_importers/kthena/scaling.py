"""Kthena's autoscaling policies as `autoscaling` of the roles that they scale."""

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
from fusioninfer_importers.kthena.pods import NAME, PREFIX, ROLE, use_group_of_lws
from fusioninfer_importers.kthena.serving import DECODER, PREFILLER, Serving
from fusioninfer_importers.rules import DOCUMENT_UNUSED, REFERENCE_MISSING
from fusioninfer_pulumi.plugins.importers import (
    Rule,
    SourceDocument,
    SourceField,
    quantity,
    seconds,
)

REPLICA_RATIO_NOT_ENFORCED = Rule("replica-ratio-not-enforced")
CUSTOM_METRICS_NEEDED = Rule("custom-metrics-needed")
SCALING_TOLERANCE_VERSION = Rule("scaling-tolerance-version")

_GROUPS = (
    "scales whole serving groups, which have no scale subresource that an autoscaler could use; "
    "scale roles (disaggregatedTarget, to 0.4 subTargets of kind Role), and write groups of one "
    "replica as replicas of their role"
)
_SEVERAL = (
    "shares instances out over several ModelServings by their cost, which no autoscaler of "
    "Kubernetes does; give each its own policy"
)
_SCRAPED = (
    "Kthena asks the pods itself; a HorizontalPodAutoscaler asks custom.metrics.k8s.io for {name}: "
    "have it scraped (monitoring) and served by an adapter"
)
#: Default of Kubernetes and of Kthena's CRD.
_TOLERANCE = 10
# Bounds of autoscaling/v2.
_LONGEST_WINDOW = 3600
_LONGEST_PERIOD = 1800
# Defaults of whole policies (pkg/autoscaler/webhook/autoscalingpolicy_mutator.go), and the CRD's
# defaults for single fields.
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
class _Scaled:
    """Autoscaling of one role."""

    name: str
    bounds: tuple[int, int]
    metrics: Sequence[tuple[Metric, SourceField]]
    sources: Mapping[str, tuple[MetricSource, SourceField]]
    at: SourceField


def convert_policies(
    report: ConversionReport,
    policies: Sequence[Policy],
    bindings: Iterable[tuple[SourceDocument, BindingSpec]],
    servings: Sequence[Serving],
) -> None:
    """Convert policies to `autoscaling` of the roles that they scale."""
    used = set()
    for document, spec in bindings:
        at, name = document.at("spec"), spec.policy_ref.name
        report.consume(at / "policyRef")
        wanted = (document.namespace, name)
        matching = [
            candidate
            for candidate in policies
            if (candidate.document.namespace, candidate.document.name) == wanted
        ]
        if not matching:
            report.unsupported(
                at / "policyRef",
                f"AutoscalingPolicy {name} is not in this input",
                REFERENCE_MISSING,
            )
            report.left_out(at, "has no policy; ignored")
            continue
        used.add(matching[0].document)
        _convert_targets(
            report, matching[0], at, spec.homogeneous_target, spec.heterogeneous_target, servings
        )
    for policy in policies:
        binding, at = policy.spec, policy.document.at("spec")
        targets = (
            binding.homogeneous_target,
            binding.heterogeneous_target,
            binding.disaggregated_target,
        )
        count = sum(target is not None for target in targets)
        if count > 1:
            report.invalid(at, "must have one target")
        elif binding.disaggregated_target is not None:
            _convert_disaggregated(report, policy, binding.disaggregated_target, servings)
        elif count:
            _convert_targets(
                report,
                policy,
                at,
                binding.homogeneous_target,
                binding.heterogeneous_target,
                servings,
            )
        elif policy.document not in used:
            report.warning(
                DOCUMENT_UNUSED,
                at,
                "has no target, and no AutoscalingPolicyBinding refers to it; ignored",
            )


def _convert_targets(
    report: ConversionReport,
    policy: Policy,
    at: SourceField,
    one: HomogeneousTarget | None,
    several: Mapping[str, Any] | None,
    servings: Sequence[Serving],
) -> None:
    if several is not None:
        report.unsupported(at / "heterogeneousTarget", _SEVERAL)
    if one is None:
        _report_unused(report, policy)
        return
    here = at / "homogeneousTarget"
    target, sub = one.target, one.target.sub_targets
    serving = _find_serving(report, target.target_ref, here / "target" / "targetRef", servings)
    if serving is None or sub is None or sub.kind != "Role":
        if serving is not None:
            report.unsupported(here, _GROUPS)
        _report_unused(report, policy, here)
        return
    report.consume(here / "target" / "subTargets")
    sources = {
        key: (source, here / "target" / "metricSources" / key)
        for key, source in (target.metric_sources or {}).items()
    }
    metrics = _metrics(policy.spec.metrics, policy.document.at("spec", "metrics"))
    if target.metric_endpoint is not None:
        place = here / "target" / "metricEndpoint"
        endpoint = MetricSource(pod=target.metric_endpoint)
        sources = {**{metric.key: (endpoint, place) for metric, _ in metrics}, **sources}
    bounds = (one.min_replicas, one.max_replicas)
    _add_autoscalers(
        report, policy, serving, [_Scaled(sub.name or "", bounds, metrics, sources, here)]
    )


def _convert_disaggregated(
    report: ConversionReport,
    policy: Policy,
    scaling_target: DisaggregatedTarget,
    servings: Sequence[Serving],
) -> None:
    at = policy.document.at("spec", "disaggregatedTarget")
    serving = _find_serving(report, scaling_target.target_ref, at / "targetRef", servings)
    if serving is None:
        _report_unused(report, policy, at)
        return
    shared = _metrics(policy.spec.metrics, policy.document.at("spec", "metrics"))
    scaled = []
    for name, role in scaling_target.roles.items():
        here = at / "roles" / name
        sources = {
            key: (source, here / "metricSources" / key)
            for key, source in (role.metric_sources or {}).items()
        }
        metrics = shared if role.metrics is None else _metrics(role.metrics, here / "metrics")
        bounds = (role.min_replicas, role.max_replicas)
        scaled.append(_Scaled(name, bounds, metrics, sources, here))
    _add_autoscalers(report, policy, serving, scaled)
    if scaling_target.ratio_constraint is not None:
        _convert_ratio(report, serving, scaling_target.ratio_constraint, at / "ratioConstraint")


def _report_unused(report: ConversionReport, policy: Policy, *more: SourceField) -> None:
    for at in (policy.document.at("spec"), *more):
        report.left_out(at, "scales no role; ignored")


def _find_serving(
    report: ConversionReport, ref: TargetRef, at: SourceField, servings: Sequence[Serving]
) -> Serving | None:
    report.consume(at)
    if ref.kind not in (None, "", "ModelServing"):
        report.invalid(at / "kind", f"must be ModelServing, got {ref.kind}")
        return None
    namespace = at.document.namespace
    wanted = (ref.namespace or namespace, ref.name)
    matching = [
        serving
        for serving in servings
        if (serving.builder.main.namespace, serving.builder.main.name) == wanted
    ]
    if not matching:
        report.unsupported(
            at / "name",
            f"ModelServing {ref.name} is not in this input; pass the documents together",
            REFERENCE_MISSING,
        )
        return None
    return matching[0]


def _metrics(listed: Sequence[Metric] | None, at: SourceField) -> list[tuple[Metric, SourceField]]:
    return [(metric, at / index) for index, metric in enumerate(listed or ())]


def _add_autoscalers(
    report: ConversionReport, policy: Policy, serving: Serving, scaled: Sequence[_Scaled]
) -> None:
    """Add autoscalers to roles."""
    behavior = behavior_of(report, policy.spec, policy.document.at("spec"))
    builder, done = serving.builder, False
    for scaled_role in scaled:
        indexes = [at for at, role in enumerate(serving.roles) if role.name == scaled_role.name]
        if not indexes:
            report.unsupported(
                scaled_role.at,
                f'the ModelServing has no role "{scaled_role.name}"',
                REFERENCE_MISSING,
            )
            continue
        target = ("spec", "roles", indexes[0])
        if builder.get((*target, "autoscaling")) is not None:
            report.unsupported(scaled_role.at, f"{scaled_role.name} has another policy already")
            continue
        report.consume(scaled_role.at)
        for document in (policy.document, scaled_role.at.document):
            builder.add_source(document)
        least, most = scaled_role.bounds
        if least > most:
            report.invalid(
                scaled_role.at / "minReplicas",
                f"must be at most maxReplicas ({most}), got {least}",
            )
            least = most  # to check the rest as well
        _set_initial_replicas(report, serving, indexes[0], scaled_role)
        if least == most and not scaled_role.metrics:
            report.left_out(
                scaled_role.at,
                f"{scaled_role.name} has {most} replicas; nothing scales it",
            )
            continue
        built = metrics_of(
            report,
            scaled_role.name,
            serving,
            scaled_role.metrics,
            scaled_role.sources,
            scaled_role.at,
        )
        if not built["metrics"]:
            report.unsupported(scaled_role.at, "no supported metric is left")
            continue
        bounds = {"minReplicas": least, "maxReplicas": most}
        builder.derive(
            (*target, "autoscaling"), {**built, **bounds, "behavior": behavior}, scaled_role.at
        )
        builder.set_origin(
            (*target, "autoscaling", "behavior"), policy.document.at("spec", "behavior")
        )
        builder.default(("spec", "layout"), "PerRole", scaled_role.at)
        for index, _ in enumerate(serving.roles):
            use_group_of_lws(builder, ("spec", "roles", index))
        serving.minimum_replicas[scaled_role.name] = (least, scaled_role.at)
        done = True
    if not done:
        _report_unused(report, policy)
    elif policy.spec.metrics:
        place = policy.document.at("spec", "metrics")
        report.translated(place, "apply to roles without metrics of their own")


def _set_initial_replicas(
    report: ConversionReport, serving: Serving, index: int, scaled: _Scaled
) -> None:
    """Set initial replicas within the bounds; Kthena scales to them at once."""
    replicas = serving.roles[index].replicas
    least, most = scaled.bounds
    start = min(max(1 if replicas is None else replicas, least), most)
    if start != (1 if replicas is None else replicas):
        place = serving.builder.main.at("spec", "template", "roles", index, "replicas")
        serving.builder.derive(("spec", "roles", index, "replicas"), start, place)
        report.translated(
            scaled.at,
            f"{scaled.name} starts with {start} replicas, within its bounds",
        )


def _convert_ratio(
    report: ConversionReport, serving: Serving, ratio: Ratio, at: SourceField
) -> None:
    types = {role["name"]: role["componentType"] for role in serving.builder.roles}
    pair = (types.get(ratio.numerator_role), types.get(ratio.denominator_role))
    try:
        least, most = (float(quantity.parse(bound)) for bound in (ratio.min_ratio, ratio.max_ratio))
    except ValueError:
        report.invalid(
            at,
            f"needs two numbers, got {ratio.min_ratio} and {ratio.max_ratio}",
        )
        return
    if pair == (DECODER, PREFILLER) and least > 0 and most > 0:
        least, most = 1 / most, 1 / least
    elif pair != (PREFILLER, DECODER):
        report.unsupported(
            at,
            "applies only to a pair of prefill and decode roles",
        )
        return
    bounds = {name: value for name, value in (("min", least), ("max", most)) if value > 0}
    serving.builder.derive(("spec", "prefillDecodeRatio"), bounds, at)
    report.warning(
        REPLICA_RATIO_NOT_ENFORCED,
        at,
        "checked only at preview; the autoscalers of the two roles are independent",
    )


def metrics_of(
    report: ConversionReport,
    role: str,
    serving: Serving,
    metrics: Sequence[tuple[Metric, SourceField]],
    sources: Mapping[str, tuple[MetricSource, SourceField]],
    at: SourceField,
) -> dict[str, Any]:
    """Build `engine`, `metrics` and `prometheus` of a role's autoscaling.

    Both systems have a target per pod for metrics of pods and a total target for queries, and use
    the metric that asks for most instances (pkg/autoscaler/algorithm/recommendation.go).
    """
    of_pods: list[dict[str, Any]] = []
    queries: list[dict[str, Any]] = []
    servers: dict[str, None] = {}
    for metric, place in metrics:
        report.consume(place)
        source, where = sources.get(metric.key, (MetricSource(), place))
        target = str(metric.target_value)
        if source.prometheus is not None:
            prometheus = where / "prometheus"
            servers[source.prometheus.server_url] = None
            if len(servers) > 1:
                servers.popitem()
                report.unsupported(
                    prometheus / "serverURL",
                    "must be the same address for all metrics of a role",
                )
                continue
            report.consume(where)
            queries.append({"query": source.prometheus.query, "target": target})
            continue
        report.consume(where)
        pod = source.pod or PodSource()
        name = pod.name or metric.key
        report.warning(CUSTOM_METRICS_NEEDED, where, _SCRAPED.format(name=name))
        _check_selector(report, role, serving, pod, where / "pod")
        of_pods.append({"name": name, "target": target})
    for key, (_, where) in sources.items():
        if all(metric.key != key for metric, _ in metrics):
            report.left_out(where, "no metric has this name; ignored")
    if queries and of_pods:
        report.unsupported(
            at,
            "mixes pod metrics and Prometheus queries; an autoscaler has one source; express pod "
            "metrics as queries (they are ignored)",
        )
    if queries:
        return {"engine": "KEDA", "prometheus": next(iter(servers)), "metrics": queries}
    return {"metrics": of_pods}


def _check_selector(
    report: ConversionReport, role: str, serving: Serving, pod: PodSource, at: SourceField
) -> None:
    """Report a selector of other pods than the role's entry pods, whose metrics are used."""
    selector = pod.label_selector
    if selector is None:
        return
    known = {NAME: str(serving.builder.main.name), ROLE: role, f"{PREFIX}entry": "true"}
    same = all(known.get(key) == value for key, value in (selector.match_labels or {}).items())
    if selector.match_expressions or not same:
        report.unsupported(
            at / "labelSelector",
            f"the metric covers all entry pods of {role}; remove the selector",
        )


def behavior_of(report: ConversionReport, spec: PolicySpec, at: SourceField) -> dict[str, Any]:
    """Convert the behavior of a policy to that of a HorizontalPodAutoscaler."""
    behavior = spec.behavior or Behavior()
    up, where = behavior.scale_up, at / "behavior" / "scaleUp"
    stable = (up.stable_policy if up is not None else None) or _UP
    built = {
        "scaleUp": _scaling_rules(report, stable, where / "stablePolicy", _UP),
        "scaleDown": _scaling_rules(
            report, behavior.scale_down or _DOWN, at / "behavior" / "scaleDown", _DOWN
        ),
    }
    report.consume(at / "behavior")
    panic = up.panic_policy if up is not None else None
    if panic is not None and panic.percent == 0:
        report.left_out(
            where / "panicPolicy",
            "adds no instance (percent: 0); ignored",
        )
    elif panic is not None:
        report.unsupported(
            where / "panicPolicy",
            "is not supported by HorizontalPodAutoscaler; raise percent and period of "
            "stablePolicy instead",
        )
    report.consume(at / "tolerancePercent")
    if spec.tolerance_percent not in (None, _TOLERANCE):
        report.warning(
            SCALING_TOLERANCE_VERSION,
            at / "tolerancePercent",
            f"{spec.tolerance_percent} needs Kubernetes 1.35, or the feature gate "
            f"HPAConfigurableTolerance of 1.33; otherwise the tolerance is {_TOLERANCE}",
        )
        for direction in built.values():
            direction["tolerance"] = f"{10 * (spec.tolerance_percent or 0)}m"
    return built


def _scaling_rules(
    report: ConversionReport, policy: StablePolicy, at: SourceField, default: StablePolicy
) -> dict[str, Any]:
    window = policy.stabilization_window or default.stabilization_window or ""
    period = _whole_seconds(report, policy.period or _PERIOD, at / "period", 1, _LONGEST_PERIOD)
    amounts = (
        ("Pods", _INSTANCES if policy.instances is None else policy.instances),
        ("Percent", _PERCENT if policy.percent is None else policy.percent),
    )
    both = policy.select_policy == "And"
    built: dict[str, Any] = {
        "stabilizationWindowSeconds": _whole_seconds(
            report, window, at / "stabilizationWindow", 0, _LONGEST_WINDOW
        )
    }
    policies = [
        {"type": kind, "value": value, "periodSeconds": period} for kind, value in amounts if value
    ]
    # Kubernetes allows no limit of 0: with And it forbids every change, with Or it adds nothing.
    if not policies or (both and len(policies) < len(amounts)):
        report.left_out(at, "allows no change (selectPolicy: Disabled)")
        return {**built, "selectPolicy": "Disabled"}
    return {**built, "policies": policies, "selectPolicy": "Min" if both else "Max"}


def _whole_seconds(
    report: ConversionReport, text: str, at: SourceField, least: int, most: int
) -> int:
    """Return a duration in whole seconds within bounds."""
    length = seconds(text)
    if length is None:
        report.invalid(at, f"must be a duration such as 30s, got {text}")
        return least
    if length.denominator != 1 or not least <= length <= most:
        report.unsupported(at, f"must be {least} to {most} whole seconds, got {text}")
        return min(max(round(length), least), most)
    return int(length)
