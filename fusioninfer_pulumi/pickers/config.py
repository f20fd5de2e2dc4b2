"""Writes the EndpointPickerConfig that a picker understands.

It is a file format, not an object of the cluster: no metadata, no spec. Weights are always written,
because v1.2.1 crashes on a scorer without one that stands after the picker, and feature gates never
are, because each release knows other ones.
"""

from __future__ import annotations

from typing import Any

import yaml

from fusioninfer_pulumi.pickers.family import KIND, PickerFamily, PrefixKeys
from fusioninfer_pulumi.pickers.group_pairing import pairing_plugins, prefill_references
from fusioninfer_pulumi.pickers.request import PD_DISAGGREGATION, PickerRequest, PrefillDecode
from fusioninfer_pulumi.pickers.scorers import weights

_PICKER = "max-score-picker"
_PREFIX = "prefix-cache-scorer"
_PRODUCER = "approx-prefix-cache-producer"
_HANDLER = "disagg-profile-handler"
_HEADERS = "disagg-headers-handler"
_ALWAYS = "always-disagg-pd-decider"
_BY_LENGTH = "prefix-based-pd-decider"
_PREFILL_PODS = "prefill-pods"
_DECODE_PODS = "decode-pods"

# The document's parameters. Its blockSize of 5 characters only counts until the first pod's metrics
# are scraped: autoTune, on by default, then takes the engine's own block size (v1.2.1
# pkg/epp/scheduling/framework/plugins/multi/prefix/plugin.go, getBlockSize).
_DOCUMENT_BLOCK_SIZE = 5
_MAX_BLOCKS = 256
_LRU_CAPACITY = 31250

# What upstream takes for the length of a token, in the prefix index and in the decider alike.
_CHARACTERS_PER_TOKEN = 4
# Smaller blocks are raised to this with a warning in the log (v0.10.0 approximateprefix/plugin.go).
_LEAST_PRODUCER_BLOCK = 64


def picker_config(family: PickerFamily, request: PickerRequest) -> dict[str, Any]:
    """The configuration as data, in the order in which it is written.

    Args:
        family: The picker that will read it.
        request: What the picker shall do, a request that `check_strategy` has nothing against.
    """
    scored = weights(request)
    scoring = [plugin for scorer in scored for plugin in _scorer(family, scorer, request)]
    references: list[dict[str, Any]] = [{"pluginRef": _PICKER}]
    references += [{"pluginRef": scorer, "weight": weight} for scorer, weight in scored.items()]
    header = {"apiVersion": family.api_versions[0], "kind": KIND}
    if request.strategy != PD_DISAGGREGATION:
        return {
            **header,
            "plugins": [*scoring, {"type": _PICKER}],
            "schedulingProfiles": [{"name": "default", "plugins": references}],
        }
    return {
        **header,
        "plugins": [
            *_headers(family),
            *pairing_plugins(request.prefill_decode),
            *_filters(family, request.prefill_decode),
            *scoring,
            {"type": _PICKER},
            *_disaggregation(request.prefill_decode),
        ],
        # The prefix index finds the prefill pod by the profile's literal name (`prefill`).
        "schedulingProfiles": [
            {
                "name": "prefill",
                "plugins": [
                    {"pluginRef": _PREFILL_PODS},
                    *prefill_references(request.prefill_decode.groups),
                    *references,
                ],
            },
            {"name": "decode", "plugins": [{"pluginRef": _DECODE_PODS}, *references]},
        ],
    }


def picker_config_text(config: dict[str, Any]) -> str:
    """The configuration as the YAML text that the ConfigMap carries.

    The same data always gives the same text, because the picker's pods restart when it changes.
    """
    # Copied, so that PyYAML finds no object twice and writes no anchors.
    return str(yaml.safe_dump(_copy(config), sort_keys=False, width=100))


def _scorer(family: PickerFamily, scorer: str, request: PickerRequest) -> list[dict[str, Any]]:
    if scorer != _PREFIX:
        return [{"type": scorer}]
    block = request.block_size
    limits = {"maxPrefixBlocksToMatch": _MAX_BLOCKS, "lruCapacityPerServer": _LRU_CAPACITY}
    if family.prefix_keys is PrefixKeys.CHARACTERS:
        size = _DOCUMENT_BLOCK_SIZE if block is None else block * _CHARACTERS_PER_TOKEN
        return [{"type": _PREFIX, "parameters": {"blockSize": size, **limits}}]
    tokens = {} if block is None else {"blockSizeTokens": block}
    if family.prefix_keys is PrefixKeys.TOKENS:
        return [{"type": _PREFIX, "parameters": {**tokens, **limits}}]
    if block is not None and block < _LEAST_PRODUCER_BLOCK:
        tokens = {}
    # A limit in blocks is deprecated there; the default limit is 131072 tokens.
    parameters = {**tokens, "lruCapacityPerServer": _LRU_CAPACITY}
    return [{"type": _PRODUCER, "parameters": parameters}, {"type": _PREFIX}]


def _headers(family: PickerFamily) -> list[dict[str, Any]]:
    return [{"type": _HEADERS}] if family.pd_needs_headers_handler else []


def _filters(family: PickerFamily, pods: PrefillDecode) -> list[dict[str, Any]]:
    roles = ((_PREFILL_PODS, pods.prefill), (_DECODE_PODS, pods.decode))
    if family.registers("label-selector-filter"):
        return [
            {
                "type": "label-selector-filter",
                "name": name,
                "parameters": {"matchLabels": {pods.label: value}},
            }
            for name, value in roles
        ]
    return [
        {
            "type": "by-label",
            "name": name,
            "parameters": {"label": pods.label, "validValues": [value]},
        }
        for name, value in roles
    ]


def _disaggregation(pods: PrefillDecode) -> list[dict[str, Any]]:
    # A threshold of 0 means always, but nonCachedTokens of 0 means never.
    decider: dict[str, Any] = {"type": _ALWAYS}
    if pods.threshold:
        tokens = -(-pods.threshold // _CHARACTERS_PER_TOKEN)
        decider = {"type": _BY_LENGTH, "parameters": {"nonCachedTokens": tokens}}
    # The decider stands first: up to v0.9 the handler looks it up while it is made.
    handler = {"type": _HANDLER, "parameters": {"deciders": {"prefill": decider["type"]}}}
    return [decider, handler]


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copy(item) for item in value]
    return value
