"""Plugins of the llm-d router's pickers, v0.9 and v0.10.

Sources: `cmd/epp/runner/runner.go`, registerInTreePlugins, of v0.9.0 (line 480) and v0.10.0 (566).
Parameters are decoded strictly (`pkg/epp/framework/interface/plugin/registry.go`, StrictDecoder);
those of v0.10.0 were read off its own factories, by giving each every name that occurs in the
source.
"""

from __future__ import annotations

from fusioninfer_pulumi.pickers.plugin_rows import plugins, removed_later

_BOTH = """
active-request-scorer                 scorer   idleThreshold inFlightLoadProducerName maxBusyScore
                                               requestTimeout
always-disagg-multimodal-decider      decider  -
always-disagg-pd-decider              decider  -
anthropic-parser                      other    -
approx-prefix-cache-producer          other    autoTune blockSize blockSizeTokens
                                               lruCapacityPerServer maxPrefixBlocksToMatch
                                               maxPrefixTokensToMatch
by-label                              filter   allowsNoLabel label validValues
by-label-selector                     filter   matchLabels matchExpressions
concurrency-detector                  filter   concurrencyMode headroom inFlightLoadProducerName
                                               maxConcurrency maxTokenConcurrency
context-length-aware                  scorer   enableFiltering label
core-metrics-extractor                other    defaultEngine engineConfigs engineLabelKey
data-parallel-profile-handler         handler  primaryPort
decode-filter                         filter   -
destination-endpoint-served-verifier  other    -
disagg-headers-handler                other    encodeProfile prefillProfile
edf-ordering-policy                   other    -
encode-filter                         filter   -
endpoint-notification-source          other    -
fcfs-ordering-policy                  other    -
file-discovery                        other    path watchFile
global-strict-fairness-policy         other    -
header-based-testing-filter           filter   -
k8s-notification-source               other    group kind version
kv-cache-utilization-scorer           scorer   -
label-selector-filter                 filter   matchLabels matchExpressions
latency-scorer                        scorer   compositeKVWeight compositePrefixWeight
                                               compositeQueueWeight headroomSelectionStrategy
                                               latencyPredictionInfoProducerName
                                               prefixMatchInfoProducerName tpotWeight ttftWeight
latency-slo-admitter                  other    latencyPredictionInfoProducerName
load-aware-scorer                     scorer   threshold
lora-affinity-scorer                  scorer   -
max-score-picker                      picker   maxNumOfEndpoints
mm-embeddings-cache-producer          other    cacheSizeInMBPerServer
mm-embeddings-cache-scorer            scorer   producerName
models-data-extractor                 other    -
no-hit-lru-scorer                     scorer   lruSize prefixMatchInfoProducerName prefixPluginName
                                               prefixPluginType
openai-parser                         other    -
passthrough-parser                    other    -
pd-profile-handler                    handler  decodeProfile prefillProfile prefixPluginType
                                               prefixPluginName primaryPort deciderPluginName
                                               prefixMatchInfoProducerName
precise-prefix-cache-producer         other    indexerConfig kvEventsConfig speculativeIndexing
                                               speculativeTTL tokenProcessorConfig
precise-prefix-cache-scorer           scorer   indexerConfig kvEventsConfig speculativeIndexing
                                               speculativeTTL tokenProcessorConfig
prefill-filter                        filter   -
prefill-header-handler                other    encodeProfile prefillProfile
prefix-cache-affinity-filter          filter   affinityThreshold explorationProbability
                                               inFlightLoadProducerName
                                               latencyPredictionInfoProducerName maxTTFTPenaltyMs
                                               peakPrefillThroughput prefixMatchInfoProducerName
                                               ttftSource
probabilistic-admitter                other    k kvCacheUtilThreshold power queueDepthThreshold
program-aware-fairness                other    evictionSweepSeconds evictionTtlSeconds
                                               lasDecayFactor lasHalfLifeSeconds lasWeightHeadWait
                                               lasWeightService strategy
queue-scorer                          scorer   -
random-picker                         picker   maxNumOfEndpoints
request-attribute-reporter            other    attributes
round-robin-fairness-policy           other    -
running-requests-size-scorer          scorer   -
session-id-producer                   other    cookieName headerName
single-profile-handler                handler  -
slo-deadline-ordering-policy          other    -
slo-headroom-tier-filter              filter   epsilonExploreNeg latencyPredictionInfoProducerName
static-usage-limit-policy             other    threshold
token-load-scorer                     scorer   inFlightLoadProducerName queueThresholdTokens
token-producer                        other    estimate modelName udsTokenizerConfig vllm
tokenizer                             other    estimate modelName udsTokenizerConfig vllm
utilization-detector                  filter   headroom kvCacheUtilThreshold
                                               metricsStalenessThreshold queueDepthThreshold
vertexai-parser                       other    -
vllmgrpc-parser                       other    -
vllmhttp-parser                       other    -
weighted-random-picker                picker   maxNumOfEndpoints
"""

_ONLY_0_9 = """
agent-identity              other    additionalSessionHeaders
disagg-profile-handler      handler  profiles deciders decodeProfile prefillProfile encodeProfile
                                     prefillDeciderPluginName encodeDeciderPluginName
                                     deciderPluginName
inflight-load-producer      other    addEstimatedOutputTokens prefixMatchInfoProducerName
metrics-data-source         other    scheme path insecureSkipVerify
models-data-source          other    scheme path insecureSkipVerify
predicted-latency-producer  other    contextTTL endpointRoleLabel
                                     maxDecodeTokenSamplesForPrediction predictInProduce
                                     prefixMatchInfoProducerName samplingMean sloBufferFactor
                                     streamingMode
prefix-based-pd-decider     decider  nonCachedTokens
prefix-cache-scorer         scorer   prefixMatchInfoProducerName
session-affinity-filter     filter   headerName profileName
session-affinity-scorer     scorer   headerName profileName
"""

_ONLY_0_10 = """
disagg-profile-handler      handler  stageOrder profiles deciders decodeProfile prefillProfile
                                     encodeProfile prefillDeciderPluginName encodeDeciderPluginName
                                     deciderPluginName
inflight-load-producer      other    addEstimatedOutputTokens maxEstimatedOutputTokens outputRatio
                                     prefixMatchInfoProducerName syncCrossReplicaState
metrics-data-source         other    caCertPath clientCertPath clientKeyPath insecureSkipVerify
                                     interval path port scheme
models-data-source          other    caCertPath clientCertPath clientKeyPath insecureSkipVerify
                                     interval path scheme
predicted-latency-producer  other    contextTTL encoderCacheMatchInfoProducerName endpointRoleLabel
                                     inFlightLoadProducerName maxDecodeTokenSamplesForPrediction
                                     predictInProduce prefixMatchInfoProducerName samplingMean
                                     sloBufferFactor streamingMode useEncoderCacheFeatures
prefix-based-pd-decider     decider  nonCachedTokens promptTokens
prefix-cache-scorer         scorer   matchLengthScaleTokens matchLengthWeight
                                     prefixMatchInfoProducerName
"""

_ALPHA_0_10 = """
agent-identity                             other    additionalSessionHeaders
burst-prefix-cache-producer                other    balanceBy blockSizeTokens maxBatchSize
                                                    maxPerReplica maxPrefixTokensToMatch
                                                    minColocateBlocks windowDurationMs
dcgm-data-source                           other    insecureSkipVerify interval path port scheme
                                                    useNodeAddress
dcgm-extractor                             other    -
disaggregatedset-rollout-screener          other    headerSelectors revisionGating scope
endpoint-attribute-filter                  filter   algorithm attribute fallbackOnEmpty onMissing
endpoint-attribute-scorer                  scorer   algorithm attributeKey
header-label-affinity-scorer               scorer   headerName labelKey
header-profile-handler                     handler  defaultProfile headerName
multicluster-approx-prefix-cache-producer  other    autoTune blockSize blockSizeTokens
                                                    lruCapacityPerServer maxPrefixBlocksToMatch
                                                    maxPrefixTokensToMatch
multicluster-file-discovery                other    path watchFile
multicluster-kv-cache-utilization-scorer   scorer   -
multicluster-metrics-data-source           other    caCertPath clientCertPath clientKeyPath
                                                    insecureSkipVerify interval path port scheme
multicluster-metrics-extractor             other    kvCacheUtilizationMetric queueSizeMetric
multicluster-prefix-cache-scorer           scorer   matchLengthScaleTokens matchLengthWeight
                                                    prefixMatchInfoProducerName
multicluster-queue-scorer                  scorer   -
multicluster-session-affinity-filter       filter   encodedEndpointHeaderConfig profileName
                                                    sessionIdConfig strategy
p2p-source-producer                        other    minCachedTokenDelta prefillProfileName
                                                    prefixMatchInfoProducerName
priority-holdback-policy                   other    domain maxCeiling minCeiling shape
priority-then-time-eviction-order-policy   other    -
session-affinity-filter                    filter   encodedEndpointHeaderConfig profileName
                                                    sessionIdConfig strategy
session-affinity-scorer                    scorer   encodedEndpointHeaderConfig profileName
                                                    sessionIdConfig strategy
sheddable-eviction-filter                  other    -
soft-reflective-ceiling-policy             other    ?
topology-affinity-filter                   filter   minAffinity topologyProducerName
topology-affinity-scorer                   scorer   topologyProducerName
topology-extractor                         other    hostname rack region zone
utilization-filter                         filter   conditions fallbackOnEmpty
                                                    inFlightLoadProducerName
"""

_IN_0_11 = "was announced to be removed in v0.11.0; write"
_NOTICES = {
    "by-label": f"{_IN_0_11} label-selector-filter",
    "by-label-selector": f"{_IN_0_11} label-selector-filter",
    "disagg-headers-handler": f"{_IN_0_11} disagg-profile-handler, which does it",
    "prefill-header-handler": f"{_IN_0_11} disagg-profile-handler, which does it",
    "tokenizer": f"{_IN_0_11} token-producer",
    "pd-profile-handler": "was to be removed in v0.9.0; write disagg-profile-handler",
}

LLM_D_0_9 = removed_later(
    {**plugins(_BOTH, strict=True), **plugins(_ONLY_0_9, strict=True)}, _NOTICES
)
LLM_D_0_10 = removed_later(
    {
        **plugins(_BOTH, strict=True),
        **plugins(_ONLY_0_10, strict=True),
        **plugins(_ALPHA_0_10, strict=True, alpha=True),
    },
    _NOTICES,
)
