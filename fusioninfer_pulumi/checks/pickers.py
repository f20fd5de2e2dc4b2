"""Checks of endpoint pickers: their configuration, flags and metrics."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from fusioninfer_pulumi.api.role import Strategy
from fusioninfer_pulumi.endpoint_pickers.picker_config import (
    LOAD_SCORERS,
    OWNED_FLAGS,
    SCORERS,
    STRATEGIES,
    ConfigNotYamlError,
    EppRequest,
    build_pairing_plugins,
    can_read_metrics,
    find_load_scorers,
    read_config,
)
from fusioninfer_pulumi.endpoint_pickers.picker_families import (
    EPP_CONFIG_KIND,
    FAMILIES,
    PICKER_FAMILY_UNKNOWN,
    EppFamily,
    find_closest_image,
    find_family,
)
from fusioninfer_pulumi.findings import Finding, Rule, error, show, warning
from fusioninfer_pulumi.kube.pulumi_outputs import is_output
from fusioninfer_pulumi.routing.epp import EppPlan
from fusioninfer_pulumi.routing.routing_plan import Routing
from fusioninfer_pulumi.rules.common import (
    ENGINE_WITHOUT_METRICS,
    FIELD_REQUIRED,
    FIELDS_EXCLUDE_EACH_OTHER,
    OUT_OF_RANGE,
    RELEASE_WITHOUT_FEATURE,
    SET_BY_LIBRARY,
    UNKNOWN_VALUE,
)

PICKER_CONFIG_INVALID = Rule("picker-config-invalid")
PLUGIN_NOT_REGISTERED = Rule("plugin-not-registered")
SCORERS_WITHOUT_LOAD = Rule("scorers-without-load")


#: A check of a router role and its planned endpoint picker.
Check = Callable[[Routing, EppPlan], Iterable[Finding]]


def _engine_metrics(parts: Routing, epp: EppPlan) -> Iterator[Finding]:
    """Check that the endpoint picker can read the metrics of its scorers and flow control."""
    scorers = [] if epp.request is None else list(find_load_scorers(epp.request))
    # With service levels flow control counts requests itself.
    reads_load = parts.intent.flow_control and epp.args.service_levels is None
    features = ["flow control"] if reads_load else []
    if scorers:
        features.append(f"{'scorers' if len(scorers) > 1 else 'scorer'} {', '.join(scorers)}")
    if not features:
        return
    # Without metrics, scorers choose pods at random, and flow control queues every request.
    make_finding = error if reads_load else warning
    without = f"the endpoint picker's {' and '.join(features)} cannot work"
    reported = set()
    for role in parts.served:
        command = role.pods.command
        if command.engine is None:
            continue
        reported.add(command.engine.metrics)
        reason = command.engine.explain_missing_metrics(command)
        if reason is not None:
            message = f"{without} without metrics of {role.name}: {reason}"
            yield make_finding(ENGINE_WITHOUT_METRICS, ("roles", role.position), message)
    at = (*parts.at, "endpointPicker")
    for metrics in reported if epp.request is not None else ():
        if not can_read_metrics(epp.family, metrics):
            image = find_closest_image(epp.family, partial(can_read_metrics, metrics=metrics))
            message = (
                f"{without}: {epp.family.name} cannot read {metrics.waiting} and "
                f"{metrics.kv_cache}; use {image}"
            )
            yield make_finding(RELEASE_WITHOUT_FEATURE, (*at, "image"), message)


def _config(parts: Routing, epp: EppPlan) -> Iterator[Finding]:
    if parts.intent.strategy is None:
        own_image = is_output(epp.image) or find_family(epp.image) is None
        for finding in check_config(epp.config, epp.family, own_image=own_image):
            yield finding.under(*parts.at, "endpointPickerConfig")


def check_config(text: str, family: EppFamily, *, own_image: bool = False) -> Iterator[Finding]:
    """Check that a user's configuration is YAML, and that the picker has its kind and plugins.

    The endpoint picker itself rejects other errors. A custom image (`own_image`) may have plugins
    that its family does not have.
    """
    try:
        config = read_config(text)
    except ConfigNotYamlError as problem:
        yield error(PICKER_CONFIG_INVALID, (), str(problem))
        return
    if not isinstance(config, dict):
        message = f"must be a mapping, got {show(config) if config else 'an empty text'}"
        yield error(PICKER_CONFIG_INVALID, (), message)
        return
    # Both keys are optional in every endpoint picker (tested).
    for key, allowed in (("kind", (EPP_CONFIG_KIND,)), ("apiVersion", family.api_versions)):
        if config.get(key, "") not in ("", *allowed):
            message = f"must be {' or '.join(allowed)} for {family.name}, got {show(config[key])}"
            yield error(PICKER_CONFIG_INVALID, (key,), message)
    plugins = config.get("plugins")
    for index, plugin in enumerate(plugins if isinstance(plugins, list) else ()):
        name = plugin.get("type") if isinstance(plugin, dict) else None
        if not isinstance(name, str) or family.registers(name):
            continue
        families = [other.name for other in FAMILIES.values() if other.registers(name)]
        message = f"{family.name} has no plugin {show(name)} and exits because of it"
        if families:
            message += f"; {', '.join(families)} have it"
        # A type that no upstream release has may be the user's own plugin.
        make_finding = error if families and not own_image else warning
        yield make_finding(PLUGIN_NOT_REGISTERED, ("plugins", index, "type"), message)


def _family(parts: Routing, epp: EppPlan) -> Iterator[Finding]:
    known = None if is_output(epp.image) else find_family(epp.image)
    if known is not None and known is not epp.family:
        message = (
            f"is {epp.family.name}, but {epp.image} looks like {known.name}; remove one of them"
        )
        yield warning(PICKER_FAMILY_UNKNOWN, (*parts.at, "endpointPicker", "family"), message)


def _strategy(parts: Routing, epp: EppPlan) -> Iterator[Finding]:
    # `pool_findings` checks the roles.
    for finding in check_strategy(epp.family, epp.request) if epp.request is not None else ():
        yield finding.under(*parts.at)


def _flow_control(parts: Routing, epp: EppPlan) -> Iterator[Finding]:
    at = (*parts.at, "endpointPicker")
    if epp.request is not None and epp.args.service_levels and not parts.intent.flow_control:
        message = "conflicts with serviceLevels, whose requests wait there; remove one of them"
        yield error(FIELDS_EXCLUDE_EACH_OTHER, (*at, "flowControl"), message)
    elif parts.intent.flow_control and epp.family.flow_control is None:
        yield error(
            RELEASE_WITHOUT_FEATURE,
            at,
            f"{epp.family.name} cannot queue requests: it answers 503 while no pod is ready; "
            "remove the image, or use v1.3.1 or later, or llm-d's",
        )


def _arguments(parts: Routing, epp: EppPlan) -> Iterator[Finding]:
    for index, argument in enumerate(epp.args.args or ()):
        name = argument.lstrip("-").partition("=")[0]
        if argument.startswith("-") and name in OWNED_FLAGS:
            at = (*parts.at, "endpointPicker", "args", index)
            yield error(SET_BY_LIBRARY, at, f"--{name} is set by the library; remove it")


def check_strategy(family: EppFamily, request: EppRequest) -> list[Finding]:
    """Check a request; locations are relative to the router role (`strategy`, `scorers.load`)."""
    findings = [*_scorer_findings(family, request), *_newer_features(family, request)]
    if request.strategy is Strategy.PD_DISAGGREGATION:
        findings += _pairing_findings(family, request)
    return findings


def _newer_features(family: EppFamily, request: EppRequest) -> Iterator[Finding]:
    """Check that the endpoint picker's release has service levels and session IDs."""
    if family.objective_api is not None:
        return
    needed = {"serviceLevels": request.service_levels, "session IDs": request.uses_sessions}
    image = find_closest_image(family, lambda family: family.objective_api is not None)
    for name in filter(needed.get, needed):
        message = f"{family.name} does not support {name}; use {image}"
        yield error(RELEASE_WITHOUT_FEATURE, ("endpointPicker", "image"), message)


def _scorer_findings(family: EppFamily, request: EppRequest) -> Iterator[Finding]:
    if request.scorers is None:
        return
    supported = [name for name, scorer in SCORERS.items() if family.registers(scorer.plugin)]
    for name, weight in request.scorers.items():
        at = ("scorers", name)
        if name not in SCORERS:
            message = f"unknown scorer; {family.name} has {', '.join(supported)}"
            yield error(UNKNOWN_VALUE, at, message)
        elif name not in supported:
            message = f"{family.name} has no {SCORERS[name].plugin}; it has {', '.join(supported)}"
            if name == "load":
                message += " (queue reads the same metric, waiting requests)"
            yield error(RELEASE_WITHOUT_FEATURE, at, message)
        elif not (math.isfinite(weight) and weight > 0):
            yield error(OUT_OF_RANGE, at, f"must be a number above 0, got {weight}")
        elif family.integer_weights and weight != int(weight):
            message = f"must be a whole number for {family.name}, got {weight}: only ratios matter"
            yield error(OUT_OF_RANGE, at, message)
    scorer = next(iter(STRATEGIES[request.strategy]))
    if scorer not in request.scorers:
        message = (
            f"strategy {request.strategy.value} uses scorer {scorer}, which is not in "
            f"{show(list(request.scorers))}; add it, or choose another strategy"
        )
        yield error(FIELD_REQUIRED, ("scorers",), message)
    if request.scorers and not set(LOAD_SCORERS).intersection(request.scorers):
        yield warning(
            SCORERS_WITHOUT_LOAD,
            ("scorers",),
            f"with {', '.join(request.scorers)} but neither kv-cache nor queue, the endpoint "
            "picker ignores load: one of three pods got 100 % of the requests with one prompt, "
            "86 % of those with one hot adapter, and 37 % with load (docs/routing.md)",
        )


def _pairing_findings(family: EppFamily, request: EppRequest) -> Iterator[Finding]:
    def pairs(candidate: EppFamily) -> bool:
        return all(
            candidate.registers(plugin["type"])
            for plugin in build_pairing_plugins(request.affinity)
        )

    if not family.supports_pd:
        image = find_closest_image(family, lambda candidate: candidate.supports_pd)
        message = (
            f"{request.strategy.value} needs plugins that no {family.name} image has; use {image}"
        )
        yield error(RELEASE_WITHOUT_FEATURE, ("strategy",), message)
        return
    if not pairs(family):
        message = (
            f"{family.name} cannot keep prefill and decode of a request in one group; use "
            f"{find_closest_image(family, pairs)}"
        )
        yield error(RELEASE_WITHOUT_FEATURE, ("endpointPicker", "image"), message)


def model_rewrite_findings(parts: Routing, epp: EppPlan) -> Iterator[Finding]:
    """Check that the endpoint picker supports `modelRewrites`."""
    rewrites, at = parts.args.model_rewrites, (*parts.at, "modelRewrites")
    if rewrites and epp.family.rewrite_api is None:
        image = find_closest_image(epp.family, lambda family: family.rewrite_api is not None)
        yield error(
            RELEASE_WITHOUT_FEATURE,
            at,
            f"{epp.family.name} ignores InferenceModelRewrites, so requests would keep their "
            f"model names; use {image}",
        )
        return


CHECKS: tuple[Check, ...] = (
    _engine_metrics,
    _family,
    _strategy,
    _flow_control,
    _config,
    _arguments,
    model_rewrite_findings,
)
