"""Writes an endpoint picker's EndpointPickerConfig and flags, and reads a user's configuration.

The configuration is a file format, not an object of the cluster: no metadata, no spec. Scorers
always have a weight, because v1.2.1 crashes on a scorer without one that follows the picker plugin.
Feature gates differ between releases; only that of flow control is generated, on request.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from fusioninfer_pulumi.api.role import ComponentType, Strategy
from fusioninfer_pulumi.api.router import EndpointPickerArgs, MetricsMode
from fusioninfer_pulumi.endpoint_pickers.picker_families import (
    EPP_CONFIG_KIND,
    EppFamily,
    PrefixKeys,
)
from fusioninfer_pulumi.engines.engine import VLLM_METRICS, LoadMetrics
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.kube.object_names import POOL_GROUP

Plugins = list[dict[str, Any]]


@dataclass(frozen=True)
class PairAffinity:
    """How an endpoint picker pairs the prefill and the decode pod of a request.

    Attributes:
        label: Both pods have the same value of this label: the serving group, or the pair revision.
        strict: Whether they always have. If so the endpoint picker first draws one of the values
            that have both parts, by their numbers of ready pods. Else it takes the best decode pod
            of all, and a prefill pod with another value if no ready one has the same.
        selector: Labels of the pods that are drawn from, which are those that serve.
    """

    label: str
    strict: bool = False
    selector: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class EppRequest:
    """What an endpoint picker should do.

    Attributes:
        scorers: Weights by scorer name (see `SCORERS`), None for those of the strategy.
        block_size: Tokens in a block of the engine's KV cache (vLLM's `--block-size`), None
            when it is not known. Prefixes are compared in blocks of at least 64 tokens.
        threshold: With `pd-disaggregation`, characters of a prompt that must be missing from the
            decode pod's cache before the prompt goes to a prefill pod; 0 sends every prompt
            there. The unit is that of the documents' `pd-profile-handler`.
        affinity: With `pd-disaggregation`, how the two pods are paired, None for any two.
        flow_control: Whether it holds requests while there is no pod that can take them.
        engine_metrics: Metrics of the engines' load, None where they are not known.
    """

    strategy: Strategy
    scorers: Mapping[str, float] | None = None
    block_size: int | None = None
    threshold: int = 0
    affinity: PairAffinity | None = None
    flow_control: bool = False
    engine_metrics: LoadMetrics | None = None

    @property
    def keeps_state(self) -> bool:
        """Whether a picker chooses by what it alone has seen, and not by the engines' metrics."""
        return self.flow_control or "prefix-cache" in _scorers(self)


@dataclass(frozen=True)
class Scorer:
    """A scorer that users may weigh: its plugin, and a description of what it prefers."""

    plugin: str
    summary: str


#: In the order in which a configuration lists them. Names and weights are those of KServe's scoring
#: table (prefix cache 2.0, load-aware 1.0, queue); the plugin types are upstream's.
SCORERS = {
    "prefix-cache": Scorer("prefix-cache-scorer", "longest shared prefix"),
    "kv-cache": Scorer("kv-cache-utilization-scorer", "most free KV cache"),
    "queue": Scorer("queue-scorer", "fewest waiting requests"),
    # llm-d's load-aware-scorer: 0.5 for an empty queue, down to 0 at a threshold (128 waiting).
    "load": Scorer("load-aware-scorer", "least load"),
    "running": Scorer("running-requests-size-scorer", "fewest running requests"),
    "lora": Scorer("lora-affinity-scorer", "LoRA adapter loaded"),
}


#: Scorers that measure load: without one of them a picker sends all requests that share a prefix or
#: an adapter to one pod, however busy it is.
LOAD_SCORERS = ("kv-cache", "queue", "load", "running")
# Upstream's own default weighs the prefix 3, and both kinds of load 2 (llm-d v0.10.0 defaults.go,
# GAIE v1.2.1 epp-config.yaml).
_AFFINITY_WEIGHT, _LOAD = 3, {"kv-cache": 2, "queue": 2}

#: Scorers of each strategy: that of its name first, then load. v1.2.1 crashes on a single scorer
#: without a weight.
STRATEGIES: Mapping[Strategy, Mapping[str, float]] = {
    Strategy.PREFIX_CACHE: {"prefix-cache": _AFFINITY_WEIGHT, **_LOAD},
    Strategy.KV_CACHE_UTILIZATION: {"kv-cache": 100},
    Strategy.QUEUE_SIZE: {"queue": 100},
    Strategy.LORA_AFFINITY: {"lora": _AFFINITY_WEIGHT, **_LOAD},
    Strategy.PD_DISAGGREGATION: {"prefix-cache": _AFFINITY_WEIGHT, **_LOAD},
}

#: Feature gate of flow control.
FLOW_CONTROL = "flowControl"
#: Flag by which one of several replicas serves.
LEADER_ELECTION = "--ha-enable-leader-election"

_PICKER = "max-score-picker"
_PREFIX = "prefix-cache-scorer"
_PRODUCER = "approx-prefix-cache-producer"
_HANDLER = "disagg-profile-handler"
_ALWAYS = "always-disagg-pd-decider"
_BY_LENGTH = "prefix-based-pd-decider"
_PREFILL_PODS = "prefill-pods"
_DECODE_PODS = "decode-pods"

# Two plugins of llm-d's endpoint picker can pair pods by a label (v0.10.0, both alpha).
# The screener is made for rollouts of DisaggregatedSets. Before any profile runs, it narrows a
# request down to one value of a label, which is a parameter
# (`requestcontrol/screener/disaggregatedsetrollout`).
# The topology filter runs in the prefill profile. It takes pods with the decode pod's value of the
# label for host names, and any pod if none has it (`scheduling/filter/topologyaffinity`).
_SCREENER = "disaggregatedset-rollout-screener"
_EXTRACTOR = "topology-extractor"
_FILTER = "topology-affinity-filter"
_FILTER_NAMES = {
    labels.GROUP_INDEX: "prefill-pods-of-the-group",
    labels.PAIR_REVISION: "prefill-pods-of-the-pair-revision",
}

# Prompts are compared in blocks of 64 tokens, up to 131,072 tokens. These are the values of llm-d's
# own picker (v0.10.0 approximateprefix/plugin.go), set on the releases before it. Their autoTune
# would take the engine's block size, mostly 16 tokens: four times the entries for the same reach.
_BLOCK_TOKENS, _REACH_TOKENS = 64, 131_072
_LRU_CAPACITY = 31250
# The parameters of the router document. autoTune, which is on by default, replaces the block size
# of 5 characters with the engine's once metrics of the first pod are scraped (v1.2.1
# pkg/epp/scheduling/framework/plugins/multi/prefix/plugin.go, getBlockSize).
_DOCUMENT = {
    "blockSize": 5,
    "maxPrefixBlocksToMatch": 256,
    "lruCapacityPerServer": _LRU_CAPACITY,
}

_EXTRACTOR_OF_METRICS = "core-metrics-extractor"
_ENGINE = "of-the-service"
_DETECTOR = "utilization-detector"
# A pod's saturation is the larger of (waiting requests / first threshold) and (KV cache / second
# one), or 1 while its metrics are unknown; the picker holds requests at a mean of 1. With these
# thresholds a pod's saturation reaches 1 only when its KV cache is full, and never much more, so
# that the mean reaches 1 only when no pod has room. v1.4.0 ignores a second threshold of 1.
_SATURATION = {"queueDepthThreshold": 1_000_000, "kvCacheUtilThreshold": 0.999}

# Length of a token by upstream's estimate, in the prefix index and in the decider.
_CHARACTERS_PER_TOKEN = 4


def build_epp_config(family: EppFamily, request: EppRequest) -> dict[str, Any]:
    """Return the configuration as data, with its keys in order."""
    weights = _weights(request)
    scoring = [plugin for scorer in weights for plugin in _scorer(family, scorer, request)]
    references: Plugins = [{"pluginRef": _PICKER}]
    references += [{"pluginRef": scorer, "weight": weight} for scorer, weight in weights.items()]
    header: dict[str, Any] = {"apiVersion": family.api_versions[0], "kind": EPP_CONFIG_KIND}
    data = _metrics_extractor(family, request.engine_metrics)
    if request.flow_control:
        header["featureGates"] = [FLOW_CONTROL]
        if family.limits_waiting:
            # A model loads for minutes: clients and gateways limit how long a request may take.
            header["flowControl"] = {"defaultRequestTTL": "0s"}
        if family.averages_saturation and family.registers(_DETECTOR):
            data.append({"type": _DETECTOR, "parameters": _SATURATION})
        elif family.averages_saturation:
            header["saturationDetector"] = _SATURATION
    if request.strategy is not Strategy.PD_DISAGGREGATION:
        return {
            **header,
            "plugins": [*data, *scoring, {"type": _PICKER}],
            "schedulingProfiles": [{"name": "default", "plugins": references}],
        }
    # The screener is not part of a profile.
    filters = [
        {"pluginRef": plugin["name"]}
        for plugin in build_pairing_plugins(request.affinity)
        if plugin["type"] == _FILTER
    ]
    return {
        **header,
        "plugins": [
            *data,
            *build_pairing_plugins(request.affinity),
            *_role_filters(),
            *scoring,
            {"type": _PICKER},
            *_disaggregation(request.threshold),
        ],
        # The prefix index finds the prefill pod by the profile's literal name (`prefill`).
        "schedulingProfiles": [
            {
                "name": "prefill",
                "plugins": [
                    {"pluginRef": _PREFILL_PODS},
                    *filters,
                    *references,
                ],
            },
            {"name": "decode", "plugins": [{"pluginRef": _DECODE_PODS}, *references]},
        ],
    }


def can_read_metrics(family: EppFamily, metrics: LoadMetrics) -> bool:
    """Return whether an endpoint picker can be configured to read these metrics."""
    return metrics in (VLLM_METRICS, family.engine_metrics) or bool(
        family.registers(_EXTRACTOR_OF_METRICS) or build_metric_flags(family, metrics)
    )


def _metrics_extractor(family: EppFamily, metrics: LoadMetrics | None) -> Plugins:
    """Return the plugin that reads an engine's metrics, if they are not those read by default.

    The engine has a new name, because the picker's built-in entry for SGLang also reads the page
    size, which is 1 by default, as the block size of the prefix index.
    """
    if metrics in (None, VLLM_METRICS) or not family.registers(_EXTRACTOR_OF_METRICS):
        return []
    assert metrics is not None
    specs = {
        "queuedRequestsSpec": metrics.waiting,
        "runningRequestsSpec": metrics.running,
        "kvUsageSpec": metrics.kv_cache,
        "loraSpec": metrics.lora,
        "cacheInfoSpec": metrics.cache,
    }
    engine = {"name": _ENGINE, **{key: name for key, name in specs.items() if name}}
    parameters = {"defaultEngine": _ENGINE, "engineConfigs": [engine]}
    return [{"type": _EXTRACTOR_OF_METRICS, "parameters": parameters}]


class _Dumper(yaml.SafeDumper):
    """Writes repeated values without anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        del data
        return True


def dump_epp_config(config: dict[str, Any]) -> str:
    """Return the configuration as the YAML text that the ConfigMap carries.

    The same data always gives the same text, because the pods restart when it changes.
    """
    return str(yaml.dump(config, Dumper=_Dumper, sort_keys=False, width=100))


def find_load_scorers(request: EppRequest) -> Iterator[str]:
    """Yield the scorers of a request that read the engines' load metrics."""
    return (name for name in _scorers(request) if name in LOAD_SCORERS)


def describe_strategy(request: EppRequest) -> str:
    """Describe in one sentence where requests go."""
    scorers = _scorers(request)
    total = " + ".join(f"{weight:g} x {SCORERS[name].summary}" for name, weight in scorers.items())
    if request.strategy is not Strategy.PD_DISAGGREGATION:
        return f"each request goes to the pod with the highest score: {total}"
    prompts = "prompts"
    if request.threshold:
        prompts = f"prompts with at least {request.threshold} uncached characters"
    pairing = ""
    if request.affinity is not None:
        is_group = request.affinity.label == labels.GROUP_INDEX
        pairing = f" of the same {'group' if is_group else 'pair revision'}"
        pairing += "" if request.affinity.strict else " if possible"
    return (
        f"prefill pods compute {prompts}, decode pods{pairing} generate; "
        f"both are chosen by the highest score: {total}"
    )


def _scorers(request: EppRequest) -> dict[str, float]:
    """Return weights by scorer name, in the order of `SCORERS`."""
    weights = STRATEGIES[request.strategy] if request.scorers is None else request.scorers
    return {name: weights[name] for name in SCORERS if name in weights}


def _weights(request: EppRequest) -> dict[str, int | float]:
    """Return weights by plugin type, in the order of `SCORERS`."""
    return {
        SCORERS[name].plugin: int(weight) if float(weight).is_integer() else weight
        for name, weight in _scorers(request).items()
    }


def _scorer(family: EppFamily, scorer: str, request: EppRequest) -> Plugins:
    if scorer != _PREFIX:
        return [{"type": scorer}]
    block = max(request.block_size or 0, _BLOCK_TOKENS)
    if family.prefix_keys is PrefixKeys.PRODUCER:
        # A limit in blocks is deprecated there.
        tokens = {"blockSizeTokens": block} if block == request.block_size else {}
        parameters = {**tokens, "lruCapacityPerServer": _LRU_CAPACITY}
        return [{"type": _PRODUCER, "parameters": parameters}, {"type": _PREFIX}]
    in_characters = family.prefix_keys is PrefixKeys.CHARACTERS
    if in_characters and list(_scorers(request)) == ["prefix-cache"]:
        return [{"type": _PREFIX, "parameters": _DOCUMENT}]
    size = {"blockSizeTokens": block}
    if in_characters:
        size = {"blockSize": block * _CHARACTERS_PER_TOKEN}
    reach = {"maxPrefixBlocksToMatch": _REACH_TOKENS // block}
    parameters = {"autoTune": False, **size, **reach, "lruCapacityPerServer": _LRU_CAPACITY}
    return [{"type": _PREFIX, "parameters": parameters}]


def build_pairing_plugins(affinity: PairAffinity | None) -> Plugins:
    """Return the plugins that pair the two pods of a request."""
    if affinity is None:
        return []
    if not affinity.strict:
        name = _FILTER_NAMES[affinity.label]
        return [
            {"type": _EXTRACTOR, "parameters": {"hostname": affinity.label}},
            {"type": _FILTER, "name": name, "parameters": {"minAffinity": "host"}},
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


def _role_filters() -> Plugins:
    """Return filters that separate prefill and decode pods by our label.

    Every serving pod carries it already. The built-in `prefill-filter` and `decode-filter` would
    need a second label (`llm-d.ai/role`), and `decode-filter` also accepts pods without it.
    """
    parts = ((_PREFILL_PODS, ComponentType.PREFILLER), (_DECODE_PODS, ComponentType.DECODER))
    return [
        {
            "type": "label-selector-filter",
            "name": name,
            "parameters": {"matchLabels": {labels.COMPONENT_TYPE: part.value}},
        }
        for name, part in parts
    ]


def _disaggregation(threshold: int) -> Plugins:
    # A threshold of 0 means always, but nonCachedTokens of 0 means never.
    decider: dict[str, Any] = {"type": _ALWAYS}
    if threshold:
        tokens = -(-threshold // _CHARACTERS_PER_TOKEN)
        decider = {"type": _BY_LENGTH, "parameters": {"nonCachedTokens": tokens}}
    # Up to v0.9 the handler looks the decider up while it is created, so the decider comes first.
    handler = {"type": _HANDLER, "parameters": {"deciders": {"prefill": decider["type"]}}}
    return [decider, handler]


class UnreadableError(ValueError):
    """The text is not YAML; the message has the position and the reason."""


def read_config(text: str) -> Any:
    """Return the first document of a text, with all scalars as strings.

    Go's YAML reader and PyYAML disagree on the types of scalars such as dates, so only names and
    structure are read here. An endpoint picker ignores all documents after the first.
    """
    try:
        loader = yaml.BaseLoader(text)
        try:
            return loader.get_data()
        finally:
            loader.dispose()
    except yaml.YAMLError as problem:
        text = " ".join(str(problem).split()).replace('in "<unicode string>", ', "at ")
        raise UnreadableError(f"not YAML: {text}") from None
    except RecursionError:
        raise UnreadableError("not YAML: nested too deeply") from None


#: Where its container finds its configuration and its certificate.
CONFIG_FOLDER, CONFIG_KEY = "/config", "config.yaml"
CERTIFICATE_PATH = "/certificate"
GRPC_PORT = 9002
HEALTH_PORT = 9003
METRICS_PORT = 9090

#: Flags that name an engine's metrics.
_METRIC_FLAGS = {
    "total-queued-requests-metric": "waiting",
    "total-running-requests-metric": "running",
    "kv-cache-usage-percentage-metric": "kv_cache",
    "lora-info-metric": "lora",
    "cache-info-metric": "cache",
}

# With another value the endpoint picker would miss its pool, probes or configuration.
OWNED_FLAGS = frozenset(
    {
        "config-file",
        "config-text",
        "endpoint-selector",
        "grpc-health-port",
        "grpc-port",
        "metrics-port",
        "pool-group",
        "pool-name",
        "pool-namespace",
    }
)


def build_metric_flags(family: EppFamily, metrics: LoadMetrics | None) -> list[str]:
    """Return flags for the engines' metrics that a family does not read by default."""
    names = (metrics or VLLM_METRICS)._asdict()
    read = family.engine_metrics._asdict()
    return [
        f"--{flag}={names[key]}"
        for flag, key in _METRIC_FLAGS.items()
        if flag in family.flags and names[key] != read[key]
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
    """Return arguments of the endpoint picker's container.

    All families accept every flag except those for the engines' metrics. Booleans have the form
    `--flag=value`, which Go's flag packages need. Tracing is on by default and would print spans,
    or send them to localhost; profiling is on by default and would expose internals.
    """
    asks_token = args.metrics is not MetricsMode.UNAUTHENTICATED
    arguments = [
        f"--pool-name={pool}",
        f"--pool-namespace={namespace}",
        f"--pool-group={POOL_GROUP}",
        f"--config-file={CONFIG_FOLDER}/{CONFIG_KEY}",
        f"--grpc-port={GRPC_PORT}",
        f"--grpc-health-port={HEALTH_PORT}",
        f"--metrics-port={METRICS_PORT}",
        f"--secure-serving={str(args.tls.enabled).lower()}",
        f"--metrics-endpoint-auth={str(asks_token).lower()}",
        "--enable-pprof=false",
        f"--tracing={str(tracing).lower()}",
        f"--v={args.log_verbosity}",
        "--zap-encoder=json",
    ]
    if args.tls.enabled and args.tls.secret_name:
        arguments.append(f"--cert-path={CERTIFICATE_PATH}")
    # For every strategy, because the metrics also decide which pods are saturated.
    arguments += build_metric_flags(family, engine_metrics)
    if experimental:
        arguments.append("--allow-experimental-plugins=true")
    if elects_leader:
        arguments.append(LEADER_ELECTION)
    return arguments
