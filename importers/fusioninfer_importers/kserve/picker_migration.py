"""Migrates configurations of older endpoint pickers, as KServe's controller does.

A service may keep a configuration for llm-d 0.6 to 0.8: KServe rewrites it for a newer image
(schedulerTransform in its scheduler.go).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import Any

#: Current API version and plugin for each older name.
_VERSIONS = {"inference.networking.x-k8s.io/v1alpha1": "llm-d.ai/v1alpha1"}
_PLUGINS = {
    "prefill-header-handler": "disagg-headers-handler",
    "pd-profile-handler": "disagg-profile-handler",
    "model-server-protocol-metrics": "core-metrics-extractor",
}
_HANDLER, _SCORER = "disagg-profile-handler", "prefix-cache-scorer"
#: Parameters of the scorer in current releases.
_SCORER_PARAMETERS = {"prefixMatchInfoProducerName"}
TOKEN_PRODUCER, PRECISE_SCORER = "token-producer", "precise-prefix-cache-scorer"
_PRECISE_PRODUCER = "precise-prefix-cache-producer"
_POD_SOURCE = "endpoint-notification-source"
_ALWAYS, _BY_PREFIX = "always-disagg-pd-decider", "prefix-based-pd-decider"
#: Factor by which KServe converts thresholds.
_CHARACTERS_PER_TOKEN = 4


def migrate(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration for llm-d 0.9 or later; unchanged if it is current."""
    migrated = copy.deepcopy(dict(config))
    if "apiVersion" in migrated:
        migrated["apiVersion"] = _VERSIONS.get(migrated["apiVersion"], migrated["apiVersion"])
    plugins: list[Any] = []
    for plugin in _list_mappings(migrated, "plugins"):
        for key in ("type", "name"):
            if plugin.get(key) in _PLUGINS:
                plugin[key] = _PLUGINS[plugin[key]]
        parameters = plugin.get("parameters")
        if isinstance(parameters, dict):
            parameters.pop("hashBlockSize", None)
            if plugin.get("type") == _SCORER:
                parameters = {key: parameters[key] for key in _SCORER_PARAMETERS & set(parameters)}
                plugin["parameters"] = parameters
            if plugin.get("type") == _HANDLER:
                plugins += _add_decider(parameters, _list_mappings(migrated, "plugins"))
            if not parameters:
                del plugin["parameters"]
        plugins.append(plugin)
    if isinstance(migrated.get("plugins"), list) and plugins:
        migrated["plugins"] = plugins
    for profile in _list_mappings(migrated, "schedulingProfiles"):
        for reference in _list_mappings(profile, "plugins"):
            if reference.get("pluginRef") in _PLUGINS:
                reference["pluginRef"] = _PLUGINS[reference["pluginRef"]]
    return migrated


def _add_decider(parameters: dict[str, Any], plugins: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Replace the handler's threshold with a decider; return the decider's plugin if missing."""
    if "deciders" in parameters:
        return []
    threshold = parameters.pop("threshold", None)
    decider = parameters.pop("deciderPluginName", None)
    if decider is not None:
        parameters["deciders"] = {"prefill": decider}
        return []
    if not isinstance(threshold, (int, float)):
        return []
    name = _BY_PREFIX if threshold else _ALWAYS
    parameters["deciders"] = {"prefill": name}
    if any(plugin.get("type") == name for plugin in plugins):
        return []
    tokens = {"nonCachedTokens": max(math.ceil(threshold / _CHARACTERS_PER_TOKEN), 1)}
    return [{"type": name, **({"parameters": tokens} if threshold else {})}]


def _list_mappings(mapping: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    """Return the mappings of a list; other values are left to the configuration's own checks."""
    items = mapping.get(key)
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def connect_tokenizer(config: dict[str, Any], parameters: Mapping[str, Any]) -> None:
    """Connect `token-producer` to the tokenizer, and replace the scorer that contained one.

    KServe does so in withDecomposePrecisePrefixCacheScorer and withInjectTokenProducerConfig.
    """
    plugins = _list_mappings(config, "plugins")
    scorer = next((plugin for plugin in plugins if plugin.get("type") == PRECISE_SCORER), None)
    if scorer is not None:
        index = plugins.index(scorer)
        current = [item for item in plugins if item.get("type") not in (PRECISE_SCORER, _SCORER)]
        options = _migrate_scorer_parameters(scorer)
        current[index:index] = [
            {"type": TOKEN_PRODUCER},
            {"type": _PRECISE_PRODUCER, **({"parameters": options} if options else {})},
            {"type": _SCORER, "parameters": {"prefixMatchInfoProducerName": _PRECISE_PRODUCER}},
        ]
        config["plugins"] = plugins = current
        for profile in _list_mappings(config, "schedulingProfiles"):
            references = _list_mappings(profile, "plugins")
            for reference in references:
                if reference.get("pluginRef") == PRECISE_SCORER:
                    reference["pluginRef"] = _SCORER
            # A profile may now refer to the scorer twice: keep the first reference.
            scorers = [item for item in references if item.get("pluginRef") == _SCORER]
            profile["plugins"] = [
                item
                for item in references
                if item.get("pluginRef") != _SCORER or item is scorers[0]
            ]
    for plugin in plugins:
        if plugin.get("type") == TOKEN_PRODUCER:
            settings = plugin["parameters"] = {**(plugin.get("parameters") or {})}
            settings.setdefault("modelName", parameters["modelName"])
            settings["vllm"] = {**parameters["vllm"], **(settings.get("vllm") or {})}
    _add_pod_discovery(config, plugins)


def _add_pod_discovery(config: dict[str, Any], plugins: list[dict[str, Any]]) -> None:
    """Add the plugin that discovers the pods to whose KV events a producer subscribes.

    Without it, llm-d 0.9 and 0.10 ignore `discoverPods` (Extract in the producer's extractor.go).
    KServe does not add it, so its samples subscribe to no pod.
    """
    producers = [
        plugin
        for plugin in plugins
        if plugin.get("type") == _PRECISE_PRODUCER and _discovers_pods(plugin)
    ]
    if not producers or "dataLayer" in config:
        return
    extractors = [{"pluginRef": item.get("name", _PRECISE_PRODUCER)} for item in producers]
    config["plugins"] = [*config["plugins"], {"type": _POD_SOURCE}]
    config["dataLayer"] = {"sources": [{"pluginRef": _POD_SOURCE, "extractors": extractors}]}


def _discovers_pods(producer: Mapping[str, Any]) -> bool:
    events = (producer.get("parameters") or {}).get("kvEventsConfig") or {}
    return "zmqEndpoint" not in events and events.get("discoverPods") is not False


def _migrate_scorer_parameters(scorer: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the parameters of an older scorer to those of its producer."""
    parameters = dict(scorer.get("parameters") or {})
    indexer = dict(parameters.pop("indexerConfig", None) or {})
    indexer.pop("tokenizersPoolConfig", None)
    processor = indexer.pop("tokenProcessorConfig", None)
    if processor is not None:
        parameters.setdefault("tokenProcessorConfig", processor)
    return {**parameters, **({"indexerConfig": indexer} if indexer else {})}
