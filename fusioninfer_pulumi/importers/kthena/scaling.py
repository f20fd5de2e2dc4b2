"""Kthena's autoscaling policies as `autoscaling` of the roles that they scale."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fusioninfer_pulumi.importers.carrier import Book
from fusioninfer_pulumi.importers.given import At, Given
from fusioninfer_pulumi.importers.kthena.behavior import behavior_of
from fusioninfer_pulumi.importers.kthena.metrics import metrics_of
from fusioninfer_pulumi.importers.kthena.roles import DECODER, PREFILLER
from fusioninfer_pulumi.importers.kthena.scaling_models import (
    BindingSpec,
    DisaggregatedTarget,
    HomogeneousTarget,
    Metric,
    MetricSource,
    PolicySpec,
    Ratio,
    TargetRef,
)
from fusioninfer_pulumi.importers.kthena.servers import Serving
from fusioninfer_pulumi.kube import quantity

_GROUPS = (
    "scales whole serving groups, which have no scale subresource that an autoscaler could use; "
    "scale roles (disaggregatedTarget, to 0.4 subTargets of kind Role), and write groups of one "
    "replica as replicas of their role"
)
_SEVERAL = (
    "shares instances out over several ModelServings by their cost, which no autoscaler of "
    "Kubernetes does; give each a policy of its own"
)


@dataclass(frozen=True)
class Policy:
    """A policy that was read."""

    document: Given
    spec: PolicySpec


@dataclass(frozen=True)
class _Scaled:
    """What a policy says of one role."""

    name: str
    bounds: tuple[int, int]
    metrics: Sequence[tuple[Metric, At]]
    sources: Mapping[str, tuple[MetricSource, At]]
    at: At


def carry_policies(
    book: Book,
    policies: Sequence[Policy],
    bindings: Iterable[tuple[Given, BindingSpec]],
    servings: Sequence[Serving],
) -> None:
    """Carries policies over to the roles that they scale.

    Args:
        book: The book of the documents.
        policies: The AutoscalingPolicies.
        bindings: The AutoscalingPolicyBindings.
        servings: The ModelServings of the input.
    """
    used = set()
    for document, spec in bindings:
        at, name = document.at("spec"), spec.policy_ref.name
        book.read(at / "policyRef")
        wanted = (document.namespace, name)
        found = [
            each for each in policies if (each.document.namespace, each.document.name) == wanted
        ]
        if not found:
            book.lost(at / "policyRef", f"{name} is no AutoscalingPolicy of this input")
            book.note(at, "is left out: it has no policy")
            continue
        used.add(found[0].document)
        _targets(book, found[0], at, spec.homogeneous_target, spec.heterogeneous_target, servings)
    for policy in policies:
        own, at = policy.spec, policy.document.at("spec")
        given = (own.homogeneous_target, own.heterogeneous_target, own.disaggregated_target)
        count = sum(each is not None for each in given)
        if count > 1:
            book.refuse(at, "must have one target")
        elif own.disaggregated_target is not None:
            _disaggregated(book, policy, own.disaggregated_target, servings)
        elif count:
            _targets(book, policy, at, own.homogeneous_target, own.heterogeneous_target, servings)
        elif policy.document not in used:
            book.warn(at, "is left out: it has no target, and no AutoscalingPolicyBinding names it")


def _targets(
    book: Book,
    policy: Policy,
    at: At,
    one: HomogeneousTarget | None,
    several: Mapping[str, Any] | None,
    servings: Sequence[Serving],
) -> None:
    if several is not None:
        book.lost(at / "heterogeneousTarget", _SEVERAL)
    if one is None:
        _unused(book, policy)
        return
    here = at / "homogeneousTarget"
    target, sub = one.target, one.target.sub_targets
    serving = _serving(book, target.target_ref, here / "target" / "targetRef", servings)
    if serving is None or sub is None or sub.kind != "Role":
        if serving is not None:
            book.lost(here, _GROUPS)
        _unused(book, policy, here)
        return
    book.read(here / "target" / "subTargets")
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
    _scale(book, policy, serving, [_Scaled(sub.name or "", bounds, metrics, sources, here)])


def _disaggregated(
    book: Book, policy: Policy, given: DisaggregatedTarget, servings: Sequence[Serving]
) -> None:
    at = policy.document.at("spec", "disaggregatedTarget")
    serving = _serving(book, given.target_ref, at / "targetRef", servings)
    if serving is None:
        _unused(book, policy, at)
        return
    shared = _metrics(policy.spec.metrics, policy.document.at("spec", "metrics"))
    scaled = []
    for name, role in given.roles.items():
        here = at / "roles" / name
        sources = {
            key: (source, here / "metricSources" / key)
            for key, source in (role.metric_sources or {}).items()
        }
        metrics = shared if role.metrics is None else _metrics(role.metrics, here / "metrics")
        bounds = (role.min_replicas, role.max_replicas)
        scaled.append(_Scaled(name, bounds, metrics, sources, here))
    _scale(book, policy, serving, scaled)
    if given.ratio_constraint is not None:
        _ratio(book, serving, given.ratio_constraint, at / "ratioConstraint")


def _unused(book: Book, policy: Policy, *more: At) -> None:
    for at in (policy.document.at("spec"), *more):
        book.note(at, "is left out: it scales no role")


def _serving(book: Book, ref: TargetRef, at: At, servings: Sequence[Serving]) -> Serving | None:
    book.read(at)
    if ref.kind not in (None, "", "ModelServing"):
        book.refuse(at / "kind", f"must be ModelServing, got {ref.kind}")
        return None
    namespace = at.document.namespace
    found = [each for each in servings if (each.carrier.main.namespace, each.carrier.main.name)
             == (ref.namespace or namespace, ref.name)]  # fmt: skip
    if not found:
        book.lost(at / "name", f"{ref.name} is no ModelServing of this input; read them together")
        return None
    return found[0]


def _metrics(given: Sequence[Metric] | None, at: At) -> list[tuple[Metric, At]]:
    return [(metric, at / index) for index, metric in enumerate(given or ())]


def _scale(book: Book, policy: Policy, serving: Serving, scaled: Sequence[_Scaled]) -> None:
    """Gives the roles their autoscalers."""
    behavior = behavior_of(book, policy.spec, policy.document.at("spec"))
    carrier, done = serving.carrier, False
    for each in scaled:
        indexes = [at for at, role in enumerate(serving.roles) if role.name == each.name]
        if not indexes:
            book.lost(each.at, f'the ModelServing has no role "{each.name}"')
            continue
        target = ("spec", "roles", indexes[0])
        if carrier.held((*target, "autoscaling")) is not None:
            book.lost(each.at, f"{each.name} is scaled by another policy already")
            continue
        book.read(each.at)
        for document in (policy.document, each.at.document):
            carrier.uses(document)
        least, most = each.bounds
        if least > most:
            book.refuse(each.at / "minReplicas", f"is above maxReplicas ({most}), got {least}")
            least = most  # so that the rest is looked at, too
        _start(book, serving, indexes[0], each)
        if least == most and not each.metrics:
            book.note(each.at, f"{each.name} has {most} replicas; nothing scales it")
            continue
        built = metrics_of(book, each.name, serving, each.metrics, each.sources, each.at)
        if not built["metrics"]:
            book.lost(each.at, "no metric is left that it could be scaled by")
            continue
        bounds = {"minReplicas": least, "maxReplicas": most}
        carrier.derive((*target, "autoscaling"), {**built, **bounds, "behavior": behavior}, each.at)
        carrier.origin((*target, "autoscaling", "behavior"), policy.document.at("spec", "behavior"))
        carrier.imply(("spec", "layout"), "PerRole", each.at)
        serving.lowest[each.name] = (least, each.at)
        done = True
    if not done:
        _unused(book, policy)
    elif policy.spec.metrics:
        place = policy.document.at("spec", "metrics")
        book.note(place, "are those of roles without metrics of their own")


def _start(book: Book, serving: Serving, index: int, scaled: _Scaled) -> None:
    """Replicas to start with: within the bounds, where Kthena brings them at once."""
    given = serving.roles[index].replicas
    least, most = scaled.bounds
    start = min(max(1 if given is None else given, least), most)
    if start != (1 if given is None else given):
        place = serving.carrier.main.at("spec", "template", "roles", index, "replicas")
        serving.carrier.derive(("spec", "roles", index, "replicas"), start, place)
        book.note(scaled.at, f"{scaled.name} starts with {start} replicas, within its bounds")


def _ratio(book: Book, serving: Serving, given: Ratio, at: At) -> None:
    types = {role["name"]: role["componentType"] for role in serving.carrier.roles}
    pair = (types.get(given.numerator_role), types.get(given.denominator_role))
    try:
        least, most = (float(quantity.parse(each)) for each in (given.min_ratio, given.max_ratio))
    except ValueError:
        book.refuse(at, f"needs two numbers, got {given.min_ratio} and {given.max_ratio}")
        return
    if pair == (DECODER, PREFILLER) and least > 0 and most > 0:
        least, most = 1 / most, 1 / least
    elif pair != (PREFILLER, DECODER):
        book.lost(at, "bounds prefill for each decode, and these roles are no such pair")
        return
    bounds = {name: value for name, value in (("min", least), ("max", most)) if value > 0}
    serving.carrier.derive(("spec", "prefillDecodeRatio"), bounds, at)
    book.warn(
        at,
        "is checked against the bounds at preview; the autoscalers of the two roles do not know of "
        "each other",
    )
