"""Configurations of older endpoint pickers, as KServe's controller migrates them.

KServe keeps the configuration that a user wrote for llm-d 0.6 to 0.8, and rewrites it for the image
that runs (schedulerTransform in its scheduler.go).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import Any

#: API version and plugins by their older names.
_VERSIONS = {"inference.networking.x-k8s.io/v1alpha1": "llm-d.ai/v1alpha1"}
_PLUGINS = {
    "prefill-header-handler": "disagg-headers-handler",
    "pd-profile-handler": "disagg-profile-handler",
    "model-server-protocol-metrics": "core-metrics-extractor",
}
_HANDLER, _SCORER = "disagg-profile-handler", "prefix-cache-scorer"
TOKEN_PRODUCER, PRECISE_SCORER = "token-producer", "precise-prefix-cache-scorer"
_PRECISE_PRODUCER = "precise-prefix-cache-producer"
_ALWAYS, _BY_PREFIX = "always-disagg-pd-decider", "prefix-based-pd-decider"
#: Characters of a token, by which KServe converts thresholds.
_CHARACTERS = 4


def migrate(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration for llm-d 0.9 or later; unchanged if it is current."""
    migrated = copy.deepcopy(dict(config))
    if "apiVersion" in migrated:
        migrated["apiVersion"] = _VERSIONS.get(migrated["apiVersion"], migrated["apiVersion"])
    plugins: list[Any] = []
    for plugin in _mappings(migrated, "plugins"):
        for key in ("type", "name"):
            if plugin.get(key) in _PLUGINS:
                plugin[key] = _PLUGINS[plugin[key]]
        parameters = plugin.get("parameters")
        if isinstance(parameters, dict):
            parameters.pop("hashBlockSize", None)
            if plugin.get("type") == _SCORER:
                kept = {"prefixMatchInfoProducerName"} & set(parameters)
                plugin["parameters"] = parameters = {key: parameters[key] for key in kept}
            if plugin.get("type") == _HANDLER:
                plugins += _decider(parameters, _mappings(migrated, "plugins"))
            if not parameters:
                del plugin["parameters"]
        plugins.append(plugin)
    if isinstance(migrated.get("plugins"), list) and plugins:
        migrated["plugins"] = plugins
    for profile in _mappings(migrated, "schedulingProfiles"):
        for reference in _mappings(profile, "plugins"):
            if reference.get("pluginRef") in _PLUGINS:
                reference["pluginRef"] = _PLUGINS[reference["pluginRef"]]
    return migrated


def _decider(parameters: dict[str, Any], plugins: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Name the handler's decider in place of its threshold; return the plugin if it is missing."""
    if "deciders" in parameters:
        return []
    threshold, named = parameters.pop("threshold", None), parameters.pop("deciderPluginName", None)
    if named is not None:
        parameters["deciders"] = {"prefill": named}
        return []
    if not isinstance(threshold, (int, float)):
        return []
    name = _BY_PREFIX if threshold else _ALWAYS
    parameters["deciders"] = {"prefill": name}
    if any(plugin.get("type") == name for plugin in plugins):
        return []
    tokens = {"nonCachedTokens": max(math.ceil(threshold / _CHARACTERS), 1)}
    return [{"type": name, **({"parameters": tokens} if threshold else {})}]


def _mappings(holder: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    """Return the mappings of a list; other values are left to the configuration's own checks."""
    listed = holder.get(key)
    return [item for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []


def connect_tokenizer(config: dict[str, Any], parameters: Mapping[str, Any]) -> None:
    """Give `token-producer` the tokenizer, and replace the scorer that had one of its own.

    As withDecomposePrecisePrefixCacheScorer and withInjectTokenProducerConfig of KServe do.
    """
    plugins = _mappings(config, "plugins")
    old = next((plugin for plugin in plugins if plugin.get("type") == PRECISE_SCORER), None)
    if old is not None:
        index = plugins.index(old)
        others = [item for item in plugins if item.get("type") not in (PRECISE_SCORER, _SCORER)]
        kept = _producer_parameters(old)
        others[index:index] = [
            {"type": TOKEN_PRODUCER},
            {"type": _PRECISE_PRODUCER, **({"parameters": kept} if kept else {})},
            {"type": _SCORER, "parameters": {"prefixMatchInfoProducerName": _PRECISE_PRODUCER}},
        ]
        config["plugins"] = plugins = others
        for profile in _mappings(config, "schedulingProfiles"):
            references = _mappings(profile, "plugins")
            for reference in references:
                if reference.get("pluginRef") == PRECISE_SCORER:
                    reference["pluginRef"] = _SCORER
            first = [item for item in references if item.get("pluginRef") == _SCORER][:1]
            profile["plugins"] = [
                item for item in references if item.get("pluginRef") != _SCORER or item is first[0]
            ]
    for plugin in plugins:
        if plugin.get("type") == TOKEN_PRODUCER:
            settings = plugin["parameters"] = {**(plugin.get("parameters") or {})}
            settings.setdefault("modelName", parameters["modelName"])
            settings["vllm"] = {**parameters["vllm"], **(settings.get("vllm") or {})}


def _producer_parameters(scorer: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of the older scorer that its producer has now."""
    made = dict(scorer.get("parameters") or {})
    indexer = dict(made.pop("indexerConfig", None) or {})
    indexer.pop("tokenizersPoolConfig", None)
    processor = indexer.pop("tokenProcessorConfig", None)
    if processor is not None:
        made.setdefault("tokenProcessorConfig", processor)
    return {**made, **({"indexerConfig": indexer} if indexer else {})}
