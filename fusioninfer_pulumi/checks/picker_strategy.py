"""Checks of a router's strategy against the release of its endpoint picker."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from fusioninfer_pulumi.api.role import Strategy
from fusioninfer_pulumi.endpoint_pickers.config import (
    LOAD_SCORERS,
    SCORERS,
    STRATEGIES,
    EppRequest,
    pairing_plugins,
)
from fusioninfer_pulumi.endpoint_pickers.families import FAMILIES, EppFamily
from fusioninfer_pulumi.findings import Finding, Rule, error, shown, warning
from fusioninfer_pulumi.rules.common import (
    FIELD_REQUIRED,
    OUT_OF_RANGE,
    RELEASE_WITHOUT_FEATURE,
    UNKNOWN_VALUE,
)

SCORERS_WITHOUT_LOAD = Rule(
    "scorers-without-load",
    "warning",
    "A router that scores by prefix or adapter scores by load, too.",
    remedy="Add `kv-cache` and `queue` to `scorers`, or leave `scorers` out.",
    source="measured with the pickers 1.2.1, 1.5.0 and llm-d 0.10.0 (docs/routing.md)",
)


def check_strategy(family: EppFamily, request: EppRequest) -> list[Finding]:
    """Findings about a request, located in the router role (`strategy`, `scorers.load`)."""
    findings = list(_scorer_findings(family, request))
    if request.strategy is Strategy.PD_DISAGGREGATION:
        findings += _pairing_findings(family, request)
    return findings


def without_load(scorers: str) -> str:
    """What happens with these scorers alone, with the figures of docs/routing.md."""
    return (
        f"without kv-cache or queue beside {scorers} the picker does not see load: one of three "
        "pods got 100 % of the requests with one prompt, 86 % of those with one hot adapter, and "
        "37 % with load (docs/routing.md)"
    )


def _scorer_findings(family: EppFamily, request: EppRequest) -> Iterator[Finding]:
    if request.scorers is None:
        return
    able = [name for name, scorer in SCORERS.items() if family.registers(scorer.plugin)]
    for name, weight in request.scorers.items():
        at = ("scorers", name)
        if name not in SCORERS:
            message = f"no such scorer; {family.name} has {', '.join(able)}"
            yield error(UNKNOWN_VALUE, at, message)
        elif name not in able:
            message = f"{family.name} has no {SCORERS[name].plugin}; it has {', '.join(able)}"
            if name == "load":
                message += " (queue reads the same metric, the requests that wait)"
            yield error(RELEASE_WITHOUT_FEATURE, at, message)
        elif not (math.isfinite(weight) and weight > 0):
            yield error(OUT_OF_RANGE, at, f"must be a number above 0, got {weight}")
        elif family.integer_weights and weight != int(weight):
            message = f"must be a whole number for {family.name}, got {weight}: only ratios matter"
            yield error(OUT_OF_RANGE, at, message)
    scorer = next(iter(STRATEGIES[request.strategy]))
    if scorer not in request.scorers:
        message = (
            f"strategy {request.strategy.value} scores by {scorer}, which is not among "
            f"{shown(list(request.scorers))}: add it, or choose another strategy"
        )
        yield error(FIELD_REQUIRED, ("scorers",), message)
    if request.scorers and not set(LOAD_SCORERS).intersection(request.scorers):
        yield warning(SCORERS_WITHOUT_LOAD, ("scorers",), without_load(", ".join(request.scorers)))


def _pairing_findings(family: EppFamily, request: EppRequest) -> Iterator[Finding]:
    def images(able: Callable[[EppFamily], bool]) -> str:
        return ", ".join(candidate.image for candidate in FAMILIES.values() if able(candidate))

    def pairs(candidate: EppFamily) -> bool:
        return all(
            candidate.registers(plugin["type"]) for plugin in pairing_plugins(request.groups)
        )

    if not family.supports_pd:
        message = (
            f"{request.strategy.value} needs plugins that no {family.name} image has; "
            f"images that have them: {images(lambda candidate: candidate.supports_pd)}"
        )
        yield error(RELEASE_WITHOUT_FEATURE, ("strategy",), message)
        return
    if not pairs(family):
        message = (
            f"{family.name} cannot keep prefill and decode of a request in one group; images that "
            f"can: {images(pairs)}"
        )
        yield error(RELEASE_WITHOUT_FEATURE, ("endpointPicker", "image"), message)
