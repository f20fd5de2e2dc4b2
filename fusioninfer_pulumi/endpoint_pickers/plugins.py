"""The plugins of every family in one table, with the parameters that each reads.

Sources: `cmd/epp/runner/runner.go`, registerInTreePlugins, of the inference extension's v1.2.1
(line 420), v1.3.1 (411), v1.4.0 (442) and v1.5.0 (451) and of the llm-d router's v0.9.0 (480) and
v0.10.0 (566), with the factories named there. llm-d v0.7.1 and v0.8.0 embed the endpoint pickers
v1.4.0 and v1.5.0 (`go.mod`) and register more (`pkg/plugins/register.go` of v0.7.1,
`pkg/epp/framework/plugins/register.go` of v0.8.0). Parameters of v0.10.0 were read off its own
factories, by giving each every name that occurs in the source.
"""

from __future__ import annotations

from fusioninfer_pulumi.endpoint_pickers.family import (
    Family,
    PluginKind,
    PluginType,
    families,
    rows,
)

# Type, families (`*`: alpha there), kind, and the parameters that its factory reads. `-` stands for
# a factory that reads none, `?` for one whose parameters are not recorded.
#
# prefix-cache-scorer of v1.5.0 reads nothing itself any more, but the loader hands its parameters
# to an approx-prefix-cache-producer when none is declared (loader/configloader.go:176-211).
_TABLE = """
active-request-scorer                0.7-0.8     scorer   idleThreshold maxBusyScore requestTimeout
active-request-scorer                0.9-        scorer   idleThreshold inFlightLoadProducerName
    maxBusyScore requestTimeout
agent-identity                       0.9         other    additionalSessionHeaders
agent-identity                       0.10*       other    additionalSessionHeaders
always-disagg-multimodal-decider     0.7-        decider  -
always-disagg-pd-decider             0.7-        decider  -
anthropic-parser                     0.9-        other    -
approx-prefix-cache-producer         1.5,0.8-    other    autoTune blockSize blockSizeTokens
    lruCapacityPerServer maxPrefixBlocksToMatch maxPrefixTokensToMatch
burst-prefix-cache-producer          0.10*       other    balanceBy blockSizeTokens maxBatchSize
    maxPerReplica maxPrefixTokensToMatch minColocateBlocks windowDurationMs
by-label                             0.7-        filter   allowsNoLabel label validValues
by-label-selector                    0.7-        filter   matchExpressions matchLabels
concurrency-detector                 1.5,0.8     filter   concurrencyMode headroom maxConcurrency
    maxTokenConcurrency
concurrency-detector                 0.9-        filter   concurrencyMode headroom
    inFlightLoadProducerName maxConcurrency maxTokenConcurrency
context-length-aware                 0.7-        scorer   enableFiltering label
core-metrics-extractor               1.5,0.8-    other    defaultEngine engineConfigs engineLabelKey
data-parallel-profile-handler        0.7-        handler  primaryPort
dcgm-data-source                     0.10*       other    insecureSkipVerify interval path port
    scheme useNodeAddress
dcgm-extractor                       0.10*       other    -
decode-filter                        0.7-        filter   -
destination-endpoint-served-verifier all         other    -
disagg-headers-handler               0.7-        other    encodeProfile prefillProfile
disagg-profile-handler               0.7-0.9     handler  deciderPluginName deciders decodeProfile
    encodeDeciderPluginName encodeProfile prefillDeciderPluginName prefillProfile profiles
disagg-profile-handler               0.10        handler  deciderPluginName deciders decodeProfile
    encodeDeciderPluginName encodeProfile prefillDeciderPluginName prefillProfile profiles
    stageOrder
disaggregatedset-rollout-screener    0.10*       other    headerSelectors revisionGating scope
edf-ordering-policy                  1.4-        other    -
encode-filter                        0.7-        filter   -
endpoint-attribute-filter            0.10*       filter   algorithm attribute fallbackOnEmpty
    onMissing
endpoint-attribute-scorer            0.10*       scorer   algorithm attributeKey
endpoint-notification-source         1.5,0.8-    other    -
fcfs-ordering-policy                 1.4-        other    -
file-discovery                       0.9-        other    path watchFile
global-strict-fairness-policy        1.4-        other    -
header-based-testing-filter          all         filter   -
header-label-affinity-scorer         0.10*       scorer   headerName labelKey
header-profile-handler               0.10*       handler  defaultProfile headerName
inflight-load-producer               1.5,0.8     other    -
inflight-load-producer               0.9         other    addEstimatedOutputTokens
    prefixMatchInfoProducerName
inflight-load-producer               0.10        other    addEstimatedOutputTokens
    maxEstimatedOutputTokens outputRatio prefixMatchInfoProducerName syncCrossReplicaState
k8s-notification-source              1.4-        other    group kind version
kv-cache-utilization-scorer          all         scorer   -
label-selector-filter                0.9-        filter   matchExpressions matchLabels
latency-scorer                       1.5,0.8     scorer   compositeKVWeight compositePrefixWeight
    compositeQueueWeight headroomSelectionStrategy tpotWeight ttftWeight
latency-scorer                       0.9-        scorer   compositeKVWeight compositePrefixWeight
    compositeQueueWeight headroomSelectionStrategy latencyPredictionInfoProducerName
    prefixMatchInfoProducerName tpotWeight ttftWeight
latency-slo-admitter                 1.5,0.8     other    -
latency-slo-admitter                 0.9-        other    latencyPredictionInfoProducerName
load-aware-scorer                    0.7-        scorer   threshold
lora-affinity-scorer                 all         scorer   -
max-score-picker                     all         picker   maxNumOfEndpoints
metrics-data-source                  1.3-0.9     other    insecureSkipVerify path scheme
metrics-data-source                  0.10        other    caCertPath clientCertPath clientKeyPath
    insecureSkipVerify interval path port scheme
mm-embeddings-cache-producer         0.9-        other    cacheSizeInMBPerServer
mm-embeddings-cache-scorer           0.9-        scorer   producerName
model-server-protocol-metrics        1.3-1.4,0.7 other    ?
model-server-protocol-models         0.7-0.8     other    -
models-data-extractor                0.9-        other    -
models-data-source                   0.7-0.9     other    insecureSkipVerify path scheme
models-data-source                   0.10        other    caCertPath clientCertPath clientKeyPath
    insecureSkipVerify interval path scheme
multicluster-approx-prefix-cache-producer 0.10*       other    autoTune blockSize blockSizeTokens
    lruCapacityPerServer maxPrefixBlocksToMatch maxPrefixTokensToMatch
multicluster-file-discovery          0.10*       other    path watchFile
multicluster-kv-cache-utilization-scorer 0.10*       scorer   -
multicluster-metrics-data-source     0.10*       other    caCertPath clientCertPath clientKeyPath
    insecureSkipVerify interval path port scheme
multicluster-metrics-extractor       0.10*       other    kvCacheUtilizationMetric queueSizeMetric
multicluster-prefix-cache-scorer     0.10*       scorer   matchLengthScaleTokens matchLengthWeight
    prefixMatchInfoProducerName
multicluster-queue-scorer            0.10*       scorer   -
multicluster-session-affinity-filter 0.10*       filter   encodedEndpointHeaderConfig profileName
    sessionIdConfig strategy
no-hit-lru-scorer                    0.7-0.8     scorer   lruSize prefixPluginName prefixPluginType
no-hit-lru-scorer                    0.9-        scorer   lruSize prefixMatchInfoProducerName
    prefixPluginName prefixPluginType
openai-parser                        1.5,0.8-    other    -
p2p-source-producer                  0.10*       other    minCachedTokenDelta prefillProfileName
    prefixMatchInfoProducerName
passthrough-parser                   1.5,0.8-    other    -
pd-profile-handler                   0.7-0.8     handler  deciderPluginName decodeProfile
    prefillProfile prefixPluginName prefixPluginType primaryPort
pd-profile-handler                   0.9-        handler  deciderPluginName decodeProfile
    prefillProfile prefixMatchInfoProducerName prefixPluginName prefixPluginType primaryPort
precise-prefix-cache-producer        0.9-        other    indexerConfig kvEventsConfig
    speculativeIndexing speculativeTTL tokenProcessorConfig
precise-prefix-cache-scorer          0.7-        scorer   indexerConfig kvEventsConfig
    speculativeIndexing speculativeTTL tokenProcessorConfig
predicted-latency-producer           1.5,0.8     other    ?
predicted-latency-producer           0.9         other    contextTTL endpointRoleLabel
    maxDecodeTokenSamplesForPrediction predictInProduce prefixMatchInfoProducerName samplingMean
    sloBufferFactor streamingMode
predicted-latency-producer           0.10        other    contextTTL
    encoderCacheMatchInfoProducerName endpointRoleLabel inFlightLoadProducerName
    maxDecodeTokenSamplesForPrediction predictInProduce prefixMatchInfoProducerName samplingMean
    sloBufferFactor streamingMode useEncoderCacheFeatures
predicted-latency-scorer             1.3-0.8     scorer   ?
prefill-filter                       0.7-        filter   -
prefill-header-handler               0.7-        other    encodeProfile prefillProfile
prefix-based-pd-decider              0.7-0.9     decider  nonCachedTokens
prefix-based-pd-decider              0.10        decider  nonCachedTokens promptTokens
prefix-cache-affinity-filter         1.5,0.8     filter   affinityThreshold explorationProbability
    maxTTFTPenaltyMs
prefix-cache-affinity-filter         0.9-        filter   affinityThreshold explorationProbability
    inFlightLoadProducerName latencyPredictionInfoProducerName maxTTFTPenaltyMs
    peakPrefillThroughput prefixMatchInfoProducerName ttftSource
prefix-cache-scorer                  1.2-1.3     scorer   autoTune blockSize lruCapacityPerServer
    maxPrefixBlocksToMatch
prefix-cache-scorer                  1.4,0.7     scorer   autoTune blockSize blockSizeTokens
    lruCapacityPerServer maxPrefixBlocksToMatch
prefix-cache-scorer                  1.5,0.8     scorer   autoTune blockSize blockSizeTokens
    lruCapacityPerServer maxPrefixBlocksToMatch maxPrefixTokensToMatch
prefix-cache-scorer                  0.9         scorer   prefixMatchInfoProducerName
prefix-cache-scorer                  0.10        scorer   matchLengthScaleTokens matchLengthWeight
    prefixMatchInfoProducerName
priority-holdback-policy             0.10*       other    domain maxCeiling minCeiling shape
priority-then-time-eviction-order-policy 0.10*       other    -
probabilistic-admitter               0.9-        other    k kvCacheUtilThreshold power
    queueDepthThreshold
program-aware-fairness               0.9-        other    evictionSweepSeconds evictionTtlSeconds
    lasDecayFactor lasHalfLifeSeconds lasWeightHeadWait lasWeightService strategy
queue-scorer                         all         scorer   -
random-picker                        all         picker   maxNumOfEndpoints
request-attribute-reporter           1.4-        other    attributes
round-robin-fairness-policy          1.4-        other    -
running-requests-size-scorer         1.3-        scorer   -
session-affinity-filter              0.9         filter   headerName profileName
session-affinity-filter              0.10*       filter   encodedEndpointHeaderConfig profileName
    sessionIdConfig strategy
session-affinity-scorer              0.7-0.8     scorer   -
session-affinity-scorer              0.9         scorer   headerName profileName
session-affinity-scorer              0.10*       scorer   encodedEndpointHeaderConfig profileName
    sessionIdConfig strategy
session-id-producer                  0.9-        other    cookieName headerName
sheddable-eviction-filter            0.10*       other    -
single-profile-handler               all         handler  -
slo-deadline-ordering-policy         1.5,0.8-    other    -
slo-headroom-tier-filter             1.5,0.8     filter   epsilonExploreNeg
slo-headroom-tier-filter             0.9-        filter   epsilonExploreNeg
    latencyPredictionInfoProducerName
soft-reflective-ceiling-policy       0.10*       other    ?
static-usage-limit-policy            1.5,0.8-    other    threshold
token-load-scorer                    1.5,0.8     scorer   queueThresholdTokens
token-load-scorer                    0.9-        scorer   inFlightLoadProducerName
    queueThresholdTokens
token-producer                       0.9-        other    estimate modelName udsTokenizerConfig vllm
tokenizer                            0.7-0.8     other    modelName udsTokenizerConfig
tokenizer                            0.9-        other    estimate modelName udsTokenizerConfig vllm
topology-affinity-filter             0.10*       filter   minAffinity topologyProducerName
topology-affinity-scorer             0.10*       scorer   topologyProducerName
topology-extractor                   0.10*       other    hostname rack region zone
utilization-detector                 1.5,0.8-    filter   headroom kvCacheUtilThreshold
    metricsStalenessThreshold queueDepthThreshold
utilization-filter                   0.10*       filter   conditions fallbackOnEmpty
    inFlightLoadProducerName
vertexai-parser                      0.9-        other    -
vllmgrpc-parser                      1.5,0.8-    other    -
vllmhttp-parser                      0.9-        other    -
weighted-random-picker               all         picker   maxNumOfEndpoints
"""

#: Families that stop at unknown parameters where a factory reads any; the others ignore them.
#: (`pkg/epp/framework/interface/plugin/registry.go`, StrictDecoder.)
_STRICT = families("0.9-")

#: Families in which these removals were announced.
_ANNOUNCING = families("0.9-")
_IN_0_11 = "was announced to be removed in v0.11.0; write"
_REMOVALS = {
    "by-label": f"{_IN_0_11} label-selector-filter",
    "by-label-selector": f"{_IN_0_11} label-selector-filter",
    "disagg-headers-handler": f"{_IN_0_11} disagg-profile-handler, which does it",
    "prefill-header-handler": f"{_IN_0_11} disagg-profile-handler, which does it",
    "tokenizer": f"{_IN_0_11} token-producer",
    "pd-profile-handler": "was to be removed in v0.9.0; write disagg-profile-handler",
}


def _plugins() -> dict[Family, dict[str, PluginType]]:
    found: dict[Family, dict[str, PluginType]] = {family: {} for family in Family}
    for name, where, kind, *parameters in rows(_TABLE):
        known = None if parameters == ["?"] else frozenset(parameters) - {"-"}
        for family in families(where.removesuffix("*")):
            assert name not in found[family], f"{name} has two rows for {family.value}"
            found[family][name] = PluginType(
                name=name,
                kind=PluginKind(kind),
                parameters=known,
                strict=family in _STRICT and bool(known),
                alpha=where.endswith("*"),
                removal=_REMOVALS.get(name) if family in _ANNOUNCING else None,
            )
    return found


#: By family and type.
PLUGINS = _plugins()
