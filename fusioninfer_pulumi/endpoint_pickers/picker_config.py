"""Writes an endpoint picker's EndpointPickerConfig and flags, and reads a user's configuration.

The configuration is a file, not a Kubernetes object, so it has neither metadata nor spec. Scorers
always get a weight, because GAIE v1.2.1 crashes if a scorer without a weight follows the picker
plugin (`max-score-picker`) in a profile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import yaml

from fusioninfer_pulumi.api.role import ComponentType, Strategy
from fusioninfer_pulumi.api.router import (
    EndpointPickerArgs,
    MetricsMode,
    ServiceLevelsArgs,
    SessionArgs,
)
from fusioninfer_pulumi.endpoint_pickers.picker_families import (
    EPP_CONFIG_KIND,
    EppFamily,
    PrefixBlockParameter,
)
from fusioninfer_pulumi.engines.metric_names import VLLM_METRICS, LoadMetrics
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.kube.object_names import POOL_GROUP

Plugins = list[dict[str, Any]]


@dataclass(frozen=True)
class PairAffinity:
    """How an endpoint picker pairs the prefill and the decode pod of a request.

    Attributes:
        label: Label whose value both pods should share: the serving group or the pair revision.
        is_strict: Whether both pods must have the same value. If True, the endpoint picker first
            chooses a value for which both prefill and decode pods are ready, at random, weighted by
            the number of pods. If False, it chooses the best decode pod, then prefers prefill pods
            with that pod's value.
        selector: Labels of the serving pods to choose from; used only if `is_strict`.
    """

    label: str
    is_strict: bool = False
    selector: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class EppSettings:
    """The settings from which an endpoint picker's configuration is generated.

    Attributes:
        scorers: Weights by scorer name (see `SCORERS`), or None for the strategy's weights.
        block_size: Tokens in a block of the engine's KV cache (vLLM's `--block-size`), or None if
            unknown. Prompts are compared in blocks of at least 64 tokens; `_build_scorer_plugins`
            has the exception.
        threshold: With `pd-disaggregation`: a prompt goes to a prefill pod if at least this many
            characters are not in the decode pod's cache; 0 sends every prompt to a prefill pod.
            Characters are the unit of `pd-profile-handler` in FusionInfer's design documents.
        affinity: With `pd-disaggregation`: how the two pods are paired, or None for any pair.
        flow_control: Whether the picker holds requests while no pod has capacity for them.
        engine_metrics: Names of the engines' load metrics, or None if unknown.
        service_levels: Priorities of requests, or None if all are equal. Requires `flow_control`.
        session: Header or cookie with the ID of a request's session.
    """

    strategy: Strategy
    scorers: Mapping[str, float] | None = None
    block_size: int | None = None
    threshold: int = 0
    affinity: PairAffinity | None = None
    flow_control: bool = False
    engine_metrics: LoadMetrics | None = None
    service_levels: ServiceLevelsArgs | None = None
    session: SessionArgs = field(default_factory=SessionArgs)

    @property
    def uses_sessions(self) -> bool:
        """Whether the endpoint picker keeps the requests of a session on one pod."""
        return "session" in _get_scorer_weights(self)


class Scorer(NamedTuple):
    """A scorer that users may weight: its plugin, and what raises a pod's score."""

    plugin: str
    summary: str


#: Scorers by name, in the order of the generated configuration. The names are those of KServe's
#: scoring table; the plugin types are upstream's.
SCORERS = {
    "prefix-cache": Scorer("prefix-cache-scorer", "prefix match"),
    "kv-cache": Scorer("kv-cache-utilization-scorer", "free KV cache"),
    "queue": Scorer("queue-scorer", "short queue"),
    # A pod's score is 0.5 with an empty queue, and 0 with 128 or more waiting requests.
    "load": Scorer("load-aware-scorer", "low load"),
    "running": Scorer("running-requests-size-scorer", "few running requests"),
    "lora": Scorer("lora-affinity-scorer", "loaded LoRA adapter"),
    "session": Scorer("session-affinity-scorer", "same session"),
}

#: Scorers that measure load. Without one of them a picker sends all requests that share a prefix or
#: an adapter to one pod, however busy it is.
LOAD_SCORERS = ("kv-cache", "queue", "load", "running")
# Upstream's default weights are 3 for the prefix and 2 for each kind of load (llm-d v0.10.0
# defaults.go, GAIE v1.2.1 epp-config.yaml).
_AFFINITY_WEIGHT = 3
_LOAD_WEIGHTS = {"kv-cache": 2, "queue": 2}

#: Weights of each strategy's scorers, the main scorer first.
STRATEGIES: Mapping[Strategy, Mapping[str, float]] = {
    Strategy.PREFIX_CACHE: {"prefix-cache": _AFFINITY_WEIGHT, **_LOAD_WEIGHTS},
    Strategy.KV_CACHE_UTILIZATION: {"kv-cache": 100},
    Strategy.QUEUE_SIZE: {"queue": 100},
    Strategy.LORA_AFFINITY: {"lora": _AFFINITY_WEIGHT, **_LOAD_WEIGHTS},
    Strategy.PD_DISAGGREGATION: {"prefix-cache": _AFFINITY_WEIGHT, **_LOAD_WEIGHTS},
    Strategy.SESSION_AFFINITY: {"session": _AFFINITY_WEIGHT, **_LOAD_WEIGHTS},
}

#: Feature gate of flow control.
FLOW_CONTROL = "flowControl"
#: Flag that lets only the elected replica of the endpoint picker serve.
LEADER_ELECTION = "--ha-enable-leader-election"

_PICKER_PLUGIN = "max-score-picker"
_PREFIX_SCORER = "prefix-cache-scorer"
_PREFIX_PRODUCER = "approx-prefix-cache-producer"
_SESSION_SCORER, _SESSION_PRODUCER = "session-affinity-scorer", "session-id-producer"
_FAIRNESS, _CONCURRENCY = "round-robin-fairness-policy", "concurrency-detector"
_PROFILE_HANDLER = "disagg-profile-handler"
_ALWAYS_DECIDER = "always-disagg-pd-decider"
_LENGTH_DECIDER = "prefix-based-pd-decider"
_PREFILL_PODS = "prefill-pods"
_DECODE_PODS = "decode-pods"

# Two plugins of llm-d's endpoint picker can pair pods by a label (v0.10.0, both alpha).
# - The screener, made for rollouts of DisaggregatedSets, restricts a request to pods with one value
#   of a configurable label, before any profile runs
#   (`requestcontrol/screener/disaggregatedsetrollout`).
# - The topology filter, in the prefill profile, keeps the pods that share the decode pod's value of
#   a label, or all pods if none share it (`scheduling/filter/topologyaffinity`). The label is the
#   host name by default; the generated configuration sets another one.
_SCREENER = "disaggregatedset-rollout-screener"
_TOPOLOGY_EXTRACTOR = "topology-extractor"
_TOPOLOGY_FILTER = "topology-affinity-filter"
_TOPOLOGY_FILTER_NAMES = {
    labels.GROUP_INDEX: "prefill-pods-of-the-group",
    labels.PAIR_REVISION: "prefill-pods-of-the-pair-revision",
}

# Prompts are compared in blocks of 64 tokens, or in the engine's blocks if these are larger, up to
# 131,072 tokens. These are llm-d's defaults (v0.10.0 approximateprefix/plugin.go). They are also
# generated for GAIE, whose autoTune would use the engine's block size, usually 16 tokens, and so
# need four times the entries for a prompt.
_BLOCK_TOKENS, _MAX_PREFIX_TOKENS = 64, 131_072
_LRU_CAPACITY = 31250
# The parameters of FusionInfer's router document. autoTune is on by default: it replaces the block
# size of 5 characters with the engine's once the first pod's metrics are scraped (GAIE v1.2.1
# pkg/epp/scheduling/framework/plugins/multi/prefix/plugin.go, getBlockSize).
_DESIGN_DOCUMENT_PARAMETERS = {
    "blockSize": 5,
    "maxPrefixBlocksToMatch": 256,
    "lruCapacityPerServer": _LRU_CAPACITY,
}

_METRICS_EXTRACTOR = "core-metrics-extractor"
#: Name of the engine's entry in the metrics extractor's parameters.
_ENGINE_NAME = "of-the-service"
_UTILIZATION_DETECTOR = "utilization-detector"
# A pod's saturation is the larger of waiting requests / queueDepthThreshold and KV cache usage /
# kvCacheUtilThreshold; it is 1 while the pod's metrics are unknown. The picker holds requests while
# the mean saturation of all pods is 1 or more. With these thresholds a pod reaches 1 only when its
# KV cache is full, and hardly exceeds 1, so the mean is 1 only when no pod has capacity. GAIE
# v1.4.0 ignores a kvCacheUtilThreshold of 1.
_SATURATION = {"queueDepthThreshold": 1_000_000, "kvCacheUtilThreshold": 0.999}

# Upstream's estimate, in the prefix index and in the decider.
_CHARACTERS_PER_TOKEN = 4


def build_epp_config(family: EppFamily, settings: EppSettings) -> dict[str, Any]:
    """Return the configuration as a dict, whose keys are in the order of the YAML text."""
    scorer_plugins: Plugins = []
    plugin_references: Plugins = [{"pluginRef": _PICKER_PLUGIN}]
    for name, weight in _get_scorer_weights(settings).items():
        plugin_type = SCORERS[name].plugin
        scorer_plugins += _build_scorer_plugins(family, plugin_type, settings)
        # Some families accept only integers.
        yaml_weight = int(weight) if float(weight).is_integer() else weight
        plugin_references.append({"pluginRef": plugin_type, "weight": yaml_weight})
    header: dict[str, Any] = {"apiVersion": family.api_versions[0], "kind": EPP_CONFIG_KIND}
    load_plugins = _build_metrics_extractor(family, settings.engine_metrics)
    if settings.flow_control:
        header["featureGates"] = [FLOW_CONTROL]
        if family.limits_waiting:
            # 0s lets requests wait without a limit. A model takes minutes to load, and clients and
            # gateways have their own timeouts.
            header["flowControl"] = {"defaultRequestTTL": "0s"}
        if settings.service_levels is not None:
            level_settings = _build_flow_control_settings(settings.service_levels)
            header["flowControl"] = {**header.get("flowControl", {}), **level_settings}
            # Engine metrics are up to 50 ms old. Within that time the picker would send all waiting
            # requests to the pods, so it counts the requests that it has sent instead.
            concurrency = {"maxConcurrency": settings.service_levels.max_concurrency}
            load_plugins += [{"type": _FAIRNESS}, {"type": _CONCURRENCY, "parameters": concurrency}]
        elif family.averages_saturation and family.has_plugin(_UTILIZATION_DETECTOR):
            load_plugins.append({"type": _UTILIZATION_DETECTOR, "parameters": _SATURATION})
        elif family.averages_saturation:
            header["saturationDetector"] = _SATURATION
    if settings.strategy is not Strategy.PD_DISAGGREGATION:
        return {
            **header,
            "plugins": [*load_plugins, *scorer_plugins, {"type": _PICKER_PLUGIN}],
            "schedulingProfiles": [{"name": "default", "plugins": plugin_references}],
        }
    pairing_plugins = build_pairing_plugins(settings.affinity)
    # The topology filter is the only pairing plugin that runs in a profile.
    filters = [
        {"pluginRef": plugin["name"]}
        for plugin in pairing_plugins
        if plugin["type"] == _TOPOLOGY_FILTER
    ]
    return {
        **header,
        "plugins": [
            *load_plugins,
            *pairing_plugins,
            *_build_role_filters(),
            *scorer_plugins,
            {"type": _PICKER_PLUGIN},
            *_build_pd_plugins(settings.threshold),
        ],
        # The prefix index finds the prefill pod by the profile's literal name (`prefill`).
        "schedulingProfiles": [
            {
                "name": "prefill",
                "plugins": [{"pluginRef": _PREFILL_PODS}, *filters, *plugin_references],
            },
            {"name": "decode", "plugins": [{"pluginRef": _DECODE_PODS}, *plugin_references]},
        ],
    }


def _build_flow_control_settings(levels: ServiceLevelsArgs) -> dict[str, Any]:
    """Return the settings of flow control; requests that name no level have priority 0."""
    bands = []
    for level in levels.levels:
        band: dict[str, Any] = {"priority": level.priority}
        if level.max_queued is not None:
            band["maxRequests"] = str(level.max_queued)
        bands.append({**band, "fairnessPolicyRef": _FAIRNESS})
    settings: dict[str, Any] = {
        "defaultPriorityBand": {"priority": 0, "fairnessPolicyRef": _FAIRNESS},
        "priorityBands": bands,
        "saturationDetector": {"pluginRef": _CONCURRENCY},
    }
    if levels.evict:
        settings["enableEviction"] = True
    return settings


def can_read_metrics(family: EppFamily, metrics: LoadMetrics) -> bool:
    """Return whether an endpoint picker can be configured to read these metrics."""
    if metrics in (VLLM_METRICS, family.engine_metrics) or family.has_plugin(_METRICS_EXTRACTOR):
        return True
    return bool(build_metric_flags(family, metrics))


def _build_metrics_extractor(family: EppFamily, metrics: LoadMetrics | None) -> Plugins:
    """Return the plugin that reads an engine's metrics; empty if it is missing or not needed.

    By default pickers read vLLM's metrics. The engine's entry has a new name (`_ENGINE_NAME`),
    because the picker's entry for SGLang also uses the page size, which is 1 by default, as the
    block size of the prefix index.
    """
    if metrics is None or metrics == VLLM_METRICS or not family.has_plugin(_METRICS_EXTRACTOR):
        return []
    specs = {
        "queuedRequestsSpec": metrics.waiting,
        "runningRequestsSpec": metrics.running,
        "kvUsageSpec": metrics.kv_cache,
        "loraSpec": metrics.lora,
        "cacheInfoSpec": metrics.cache,
    }
    engine = {"name": _ENGINE_NAME, **{key: name for key, name in specs.items() if name}}
    parameters = {"defaultEngine": _ENGINE_NAME, "engineConfigs": [engine]}
    return [{"type": _METRICS_EXTRACTOR, "parameters": parameters}]


class _Dumper(yaml.SafeDumper):
    """Writes repeated values in full, without anchors and aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        del data
        return True


def dump_epp_config(config: dict[str, Any]) -> str:
    """Return the configuration as YAML text for the ConfigMap.

    Equal data must give the same text, because the pods restart when the text changes.
    """
    return str(yaml.dump(config, Dumper=_Dumper, sort_keys=False, width=100))


def find_load_scorers(settings: EppSettings) -> Iterator[str]:
    """Yield the scorers that use the engines' load metrics."""
    return (name for name in _get_scorer_weights(settings) if name in LOAD_SCORERS)


def describe_strategy(settings: EppSettings) -> str:
    """Return one sentence that says which pods receive which requests."""
    scorers = _get_scorer_weights(settings)
    score = " + ".join(f"{weight:g} x {SCORERS[name].summary}" for name, weight in scorers.items())
    if settings.strategy is not Strategy.PD_DISAGGREGATION:
        return f"each request goes to the pod with the highest score: {score}"
    condition = ""
    if settings.threshold:
        condition = f" if at least {settings.threshold} of its characters are uncached"
    pairing = ""
    if settings.affinity is not None:
        is_group = settings.affinity.label == labels.GROUP_INDEX
        suffix = "" if settings.affinity.is_strict else ", if possible"
        pairing = f" (of the same {'group' if is_group else 'pair revision'}{suffix})"
    return (
        f"a prefill pod computes the prompt{condition}, a decode pod{pairing} generates; "
        f"the highest score wins: {score}"
    )


def _get_scorer_weights(settings: EppSettings) -> dict[str, float]:
    """Return weights by scorer name, in the order of `SCORERS`."""
    weights = STRATEGIES[settings.strategy] if settings.scorers is None else settings.scorers
    return {name: weights[name] for name in SCORERS if name in weights}


def _build_scorer_plugins(family: EppFamily, plugin_type: str, settings: EppSettings) -> Plugins:
    if plugin_type == _SESSION_SCORER:
        return _build_session_plugins(settings.session)
    if plugin_type != _PREFIX_SCORER:
        return [{"type": plugin_type}]
    block = max(settings.block_size or 0, _BLOCK_TOKENS)
    if family.prefix_block_parameter is PrefixBlockParameter.PRODUCER:
        # maxPrefixBlocksToMatch is omitted, because it is deprecated in this plugin.
        parameters: dict[str, Any] = {"lruCapacityPerServer": _LRU_CAPACITY}
        if block == settings.block_size:
            parameters = {"blockSizeTokens": block, **parameters}
        return [{"type": _PREFIX_PRODUCER, "parameters": parameters}, {"type": _PREFIX_SCORER}]
    in_characters = family.prefix_block_parameter is PrefixBlockParameter.CHARACTERS
    # If prefix-cache is the only scorer, the parameters are those of FusionInfer's router document.
    if in_characters and list(_get_scorer_weights(settings)) == ["prefix-cache"]:
        return [{"type": _PREFIX_SCORER, "parameters": _DESIGN_DOCUMENT_PARAMETERS}]
    parameters = {"autoTune": False}
    if in_characters:
        parameters["blockSize"] = block * _CHARACTERS_PER_TOKEN
    else:
        parameters["blockSizeTokens"] = block
    parameters["maxPrefixBlocksToMatch"] = _MAX_PREFIX_TOKENS // block
    parameters["lruCapacityPerServer"] = _LRU_CAPACITY
    return [{"type": _PREFIX_SCORER, "parameters": parameters}]


def _build_session_plugins(session: SessionArgs) -> Plugins:
    producers: Plugins = []
    source = {"header": session.header or "x-session-id"}
    if session.cookie is not None:
        # The producer reads the cookie and passes its value to the scorer as an attribute.
        producers = [{"type": _SESSION_PRODUCER, "parameters": {"cookieName": session.cookie}}]
        source = {"attribute": f"SessionIDDataKey/{_SESSION_PRODUCER}"}
    parameters = {"strategy": "session_id", "sessionIdConfig": {"sources": [source]}}
    return [*producers, {"type": _SESSION_SCORER, "parameters": parameters}]


def build_pairing_plugins(affinity: PairAffinity | None) -> Plugins:
    """Return the plugins that pair the two pods of a request."""
    if affinity is None:
        return []
    if not affinity.is_strict:
        name = _TOPOLOGY_FILTER_NAMES[affinity.label]
        return [
            {"type": _TOPOLOGY_EXTRACTOR, "parameters": {"hostname": affinity.label}},
            {"type": _TOPOLOGY_FILTER, "name": name, "parameters": {"minAffinity": "host"}},
        ]
    gating = {
        "mode": "sum",
        "revisionLabelKey": affinity.label,
        "roleLabelKey": labels.COMPONENT_TYPE,
        "requireRoles": {"values": [ComponentType.PREFILLER.value, ComponentType.DECODER.value]},
    }
    selector = ",".join(f"{key}={value}" for key, value in affinity.selector.items())
    parameters = {"scope": {"labelSelector": selector}, "revisionGating": gating}
    return [{"type": _SCREENER, "parameters": parameters}]


def _build_role_filters() -> Plugins:
    """Return filters that separate prefill and decode pods by a label that every pod has.

    The built-in `prefill-filter` and `decode-filter` need a different label (`llm-d.ai/role`), and
    `decode-filter` also accepts pods without it.
    """
    filters = ((_PREFILL_PODS, ComponentType.PREFILLER), (_DECODE_PODS, ComponentType.DECODER))
    return [
        {
            "type": "label-selector-filter",
            "name": name,
            "parameters": {"matchLabels": {labels.COMPONENT_TYPE: component_type.value}},
        }
        for name, component_type in filters
    ]


def _build_pd_plugins(threshold: int) -> Plugins:
    # `_LENGTH_DECIDER` cannot send every prompt to a prefill pod: with `nonCachedTokens: 0` it
    # sends none.
    decider: dict[str, Any] = {"type": _ALWAYS_DECIDER}
    if threshold:
        tokens = -(-threshold // _CHARACTERS_PER_TOKEN)
        decider = {"type": _LENGTH_DECIDER, "parameters": {"nonCachedTokens": tokens}}
    # Up to llm-d v0.9 the handler needs an existing decider, so the decider comes first.
    handler = {"type": _PROFILE_HANDLER, "parameters": {"deciders": {"prefill": decider["type"]}}}
    return [decider, handler]


class ConfigNotYamlError(ValueError):
    """Text is not YAML; the message has the position and the reason."""


def parse_epp_config(text: str) -> Any:
    """Return the first document of a user's configuration, with all scalars as strings.

    Scalars have no types, because PyYAML and Go's YAML parser disagree on some, such as dates. An
    endpoint picker ignores all documents after the first.
    """
    try:
        return next(yaml.load_all(text, Loader=yaml.BaseLoader), None)
    except yaml.YAMLError as error:
        reason = " ".join(str(error).split()).replace('in "<unicode string>", ', "at ")
        raise ConfigNotYamlError(f"not YAML: {reason}") from None
    except RecursionError:
        raise ConfigNotYamlError("not YAML: nested too deeply") from None


#: Mount path of the configuration's ConfigMap, and the key in the ConfigMap.
CONFIG_DIRECTORY, CONFIG_KEY = "/config", "config.yaml"
#: Mount path of the certificate.
CERTIFICATE_PATH = "/certificate"
GRPC_PORT = 9002
HEALTH_PORT = 9003
METRICS_PORT = 9090

#: Flags for the names of metrics, mapped to the fields of `LoadMetrics`.
_METRIC_FLAGS = {
    "total-queued-requests-metric": "waiting",
    "total-running-requests-metric": "running",
    "kv-cache-usage-percentage-metric": "kv_cache",
    "lora-info-metric": "lora",
    "cache-info-metric": "cache",
}

# Flags that users must not set: other values would break the pool, the probes or the configuration.
OWNED_FLAGS = (
    "config-file", "config-text", "endpoint-selector", "grpc-health-port", "grpc-port",
    "metrics-port", "pool-group", "pool-name", "pool-namespace",
)  # fmt: skip


def build_metric_flags(family: EppFamily, metrics: LoadMetrics | None) -> list[str]:
    """Return flags for the names of engine metrics that differ from the family's defaults."""
    names = (metrics or VLLM_METRICS)._asdict()
    default_names = family.engine_metrics._asdict()
    return [
        f"--{flag}={names[key]}"
        for flag, key in _METRIC_FLAGS.items()
        if flag in family.flags and names[key] != default_names[key]
    ]


def build_epp_flags(
    family: EppFamily,
    args: EndpointPickerArgs,
    pool: str,
    namespace: str,
    engine_metrics: LoadMetrics | None = None,
    *,
    elects_leader: bool = False,
    experimental: bool = False,
    tracing: bool = False,
) -> list[str]:
    """Return the arguments of the endpoint picker's container.

    Go reads `--flag false` as true, so booleans use `=`. Tracing and profiling (pprof) are on by
    default, so both flags are always set: tracing prints spans or sends them to localhost, and
    profiling exposes internals. All families accept all generated flags, except
    `--allow-experimental-plugins` and the flags of `build_metric_flags`.
    """
    needs_token = args.metrics is not MetricsMode.UNAUTHENTICATED
    arguments = [
        f"--pool-name={pool}",
        f"--pool-namespace={namespace}",
        f"--pool-group={POOL_GROUP}",
        f"--config-file={CONFIG_DIRECTORY}/{CONFIG_KEY}",
        f"--grpc-port={GRPC_PORT}",
        f"--grpc-health-port={HEALTH_PORT}",
        f"--metrics-port={METRICS_PORT}",
        f"--secure-serving={str(args.tls.enabled).lower()}",
        f"--metrics-endpoint-auth={str(needs_token).lower()}",
        "--enable-pprof=false",
        f"--tracing={str(tracing).lower()}",
        f"--v={args.log_verbosity}",
        "--zap-encoder=json",
    ]
    if args.tls.enabled and args.tls.secret_name:
        arguments.append(f"--cert-path={CERTIFICATE_PATH}")
    # Strategies without load scorers need them as well, because flow control computes saturation
    # from these metrics.
    arguments += build_metric_flags(family, engine_metrics)
    if experimental:
        arguments.append("--allow-experimental-plugins=true")
    if elects_leader:
        arguments.append(LEADER_ELECTION)
    return arguments
