"""Whether a picker can do what is asked, and what that means in words."""

from __future__ import annotations

from fusioninfer_pulumi.findings import Finding, error, shown
from fusioninfer_pulumi.pickers.family import PickerFamily
from fusioninfer_pulumi.pickers.group_pairing import check_pairing
from fusioninfer_pulumi.pickers.request import (
    KV_CACHE,
    LORA_AFFINITY,
    PD_DISAGGREGATION,
    PREFIX_CACHE,
    QUEUE_SIZE,
    STRATEGIES,
    PickerRequest,
)
from fusioninfer_pulumi.pickers.scorers import SCORERS, check_scorers
from fusioninfer_pulumi.pickers.table import FAMILIES

_ALONE = {
    PREFIX_CACHE: "requests with the longest shared prefix go to the same pod",
    KV_CACHE: "each request goes to the pod with the most free KV cache",
    QUEUE_SIZE: "each request goes to the pod with the fewest waiting requests",
    LORA_AFFINITY: "each request goes to a pod that has its LoRA adapter loaded",
    PD_DISAGGREGATION: "the pod with the longest shared prefix of each role",
}


def strategy_in_words(request: PickerRequest) -> str:
    """One sentence for people about where requests go.

    Args:
        request: A request that `check_strategy` has nothing against.
    """
    if request.strategy == PD_DISAGGREGATION:
        return _prefill_decode_in_words(request)
    if request.scorers is None:
        return _ALONE[request.strategy]
    return f"each request goes to the pod with the highest score: {_sum(request)}"


def check_strategy(family: PickerFamily, request: PickerRequest) -> list[Finding]:
    """What speaks against a request on a picker, whatever roles the service has.

    Args:
        family: The picker.
        request: What it shall do.

    Returns:
        Findings with paths relative to the router role (`strategy`, `scorers.load`).
    """
    if request.strategy not in STRATEGIES:
        message = f"must be one of {', '.join(STRATEGIES)}, got {shown(request.strategy)}"
        return [error("strategy", message)]
    findings = check_scorers(family, request)
    if request.block_size is not None and request.block_size < 1:
        findings.append(error("blockSize", f"must be at least 1, got {request.block_size}"))
    if request.strategy == PD_DISAGGREGATION:
        findings += _check_prefill_decode(family, request)
    return findings


def _check_prefill_decode(family: PickerFamily, request: PickerRequest) -> list[Finding]:
    findings: list[Finding] = []
    if not family.supports_pd:
        able = ", ".join(each.image for each in FAMILIES.values() if each.supports_pd)
        message = (
            f"{PD_DISAGGREGATION} needs plugins that no {family.name} image has; "
            f"images that have them: {able}"
        )
        findings.append(error("strategy", message))
    findings += check_pairing(family, request.prefill_decode)
    threshold = request.prefill_decode.threshold
    if threshold < 0:
        findings.append(error("threshold", f"must be at least 0 characters, got {threshold}"))
    elif threshold and family.supports_pd and not family.pd_threshold:
        # Its decider reads what only the prepareDataPlugins feature gate prepares, and without
        # the gate never disaggregates (llm-d-inference-scheduler v0.7.1
        # pkg/plugins/profile/prefix_based_pd_decider.go).
        able = ", ".join(each.image for each in FAMILIES.values() if each.pd_threshold)
        message = (
            f"must be 0 for {family.name}, got {threshold}: it can only disaggregate every "
            f"prompt; images that can decide by length: {able}"
        )
        findings.append(error("threshold", message))
    return findings


def _prefill_decode_in_words(request: PickerRequest) -> str:
    threshold = request.prefill_decode.threshold
    when = (
        f"prompts with at least {threshold} characters that are not cached there are computed by"
        if threshold
        else "every prompt is computed by"
    )
    groups = request.prefill_decode.groups
    where = ""
    if groups is not None:
        where = " of the same group" if groups.strict else " of the same group if it has one"
    how = "the longest shared prefix" if request.scorers is None else f"score: {_sum(request)}"
    return (
        f"each request goes to a decode pod, and {when} a prefill pod{where} first; "
        f"both are chosen by {how}"
    )


def _sum(request: PickerRequest) -> str:
    chosen = request.scorers or {}
    return " + ".join(
        f"{chosen[name]:g} x {scorer.words}" for name, scorer in SCORERS.items() if name in chosen
    )
