"""The scorers that a user may weigh, and the plugin that each is in a picker.

The names and weights are those of KServe's scoring table (`spec/kserve-llm-inference-service.md`:
prefix cache 2.0, load-aware 1.0, queue); the plugin types are upstream's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fusioninfer_pulumi.findings import Finding, error, join, shown
from fusioninfer_pulumi.pickers.family import PickerFamily
from fusioninfer_pulumi.pickers.request import (
    KV_CACHE,
    LORA_AFFINITY,
    PD_DISAGGREGATION,
    PREFIX_CACHE,
    QUEUE_SIZE,
    PickerRequest,
)


@dataclass(frozen=True)
class Scorer:
    """One scorer: the plugin that does it, and what it prefers, in words."""

    plugin: str
    words: str


#: In the order in which a configuration lists them.
SCORERS = {
    "prefix-cache": Scorer("prefix-cache-scorer", "longest shared prefix"),
    "kv-cache": Scorer("kv-cache-utilization-scorer", "most free KV cache"),
    "queue": Scorer("queue-scorer", "fewest waiting requests"),
    # llm-d's load-aware-scorer: 0.5 for an empty queue, down to 0 at a threshold (128 waiting).
    "load": Scorer("load-aware-scorer", "least load"),
    "running": Scorer("running-requests-size-scorer", "fewest running requests"),
    "lora": Scorer("lora-affinity-scorer", "LoRA adapter loaded"),
}

#: What each strategy scores by; the router document gives it alone a weight.
OWN_SCORER = {
    PREFIX_CACHE: "prefix-cache",
    KV_CACHE: "kv-cache",
    QUEUE_SIZE: "queue",
    LORA_AFFINITY: "lora",
    PD_DISAGGREGATION: "prefix-cache",
}

# The document's weights. A lone scorer's weight changes nothing, but leaving it out crashes 1.2.1.
_ALONE = 100
_ALONE_PD = 50


def weights(request: PickerRequest) -> dict[str, int | float]:
    """Weights by plugin type, in the order of `SCORERS`.

    Args:
        request: A request that `check_scorers` has nothing to say about.
    """
    if request.scorers is None:
        alone = _ALONE_PD if request.strategy == PD_DISAGGREGATION else _ALONE
        return {SCORERS[OWN_SCORER[request.strategy]].plugin: alone}
    return {
        scorer.plugin: _plain(request.scorers[name])
        for name, scorer in SCORERS.items()
        if name in request.scorers
    }


def registered(family: PickerFamily) -> list[str]:
    """Names of the scorers that a picker has."""
    return [name for name, scorer in SCORERS.items() if family.registers(scorer.plugin)]


def check_scorers(family: PickerFamily, request: PickerRequest) -> list[Finding]:
    """What is wrong with a request's `scorers`."""
    if request.scorers is None:
        return []
    findings = [
        problem
        for name, weight in request.scorers.items()
        for problem in _check_one(family, name, weight)
    ]
    own = OWN_SCORER.get(request.strategy)
    if own is not None and own not in request.scorers:
        message = (
            f"strategy {request.strategy} scores by {own}, which is not among "
            f"{shown(list(request.scorers))}: add it, or choose another strategy"
        )
        findings.append(error("scorers", message))
    return findings


def _check_one(family: PickerFamily, name: str, weight: object) -> list[Finding]:
    path = join("scorers", name)
    scorer = SCORERS.get(name)
    allowed = registered(family)
    if scorer is None:
        message = f"no such scorer; {family.name} has {', '.join(allowed)}"
        return [error(path, message)]
    if name not in allowed:
        message = f"{family.name} has no {scorer.plugin}; it has {', '.join(allowed)}"
        if name == "load":
            message += " (queue reads the same metric, the requests that wait)"
        return [error(path, message)]
    if isinstance(weight, bool) or not isinstance(weight, (int, float)):
        return [error(path, f"must be a number above 0, got {shown(weight)}")]
    if not (math.isfinite(weight) and weight > 0):
        return [error(path, f"must be a number above 0, got {weight}")]
    if family.integer_weights and weight != int(weight):
        message = f"must be a whole number for {family.name}, got {weight}: only ratios matter"
        return [error(path, message)]
    return []


def _plain(weight: float) -> int | float:
    return int(weight) if weight == int(weight) else float(weight)
