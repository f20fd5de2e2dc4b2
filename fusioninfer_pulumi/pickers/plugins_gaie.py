"""Plugins of the Gateway API inference extension's pickers.

Sources: `cmd/epp/runner/runner.go`, registerInTreePlugins, of v1.2.1 (line 420), v1.3.1 (411),
v1.4.0 (442) and v1.5.0 (451), and the factories named there. Their parameters are read with
`json.Unmarshal`, which ignores names that it does not know.
"""

from __future__ import annotations

from fusioninfer_pulumi.pickers.plugin_rows import plugins

_COMMON = """
max-score-picker                      picker   maxNumOfEndpoints
random-picker                         picker   maxNumOfEndpoints
weighted-random-picker                picker   maxNumOfEndpoints
single-profile-handler                handler  -
kv-cache-utilization-scorer           scorer   -
queue-scorer                          scorer   -
lora-affinity-scorer                  scorer   -
header-based-testing-filter           filter   -
destination-endpoint-served-verifier  other    -
"""

_PREFIX_CHARACTERS = """
prefix-cache-scorer  scorer  autoTune blockSize maxPrefixBlocksToMatch lruCapacityPerServer
"""

_SINCE_1_3 = """
running-requests-size-scorer  scorer  -
predicted-latency-scorer      scorer  ?
metrics-data-source           other   scheme path insecureSkipVerify
"""

_PREFIX_TOKENS = """
prefix-cache-scorer  scorer  autoTune blockSize blockSizeTokens maxPrefixBlocksToMatch
                             lruCapacityPerServer
"""

_SINCE_1_4 = """
global-strict-fairness-policy  other  -
round-robin-fairness-policy    other  -
fcfs-ordering-policy           other  -
edf-ordering-policy            other  -
k8s-notification-source        other  group version kind
request-attribute-reporter     other  attributes
"""

_PROTOCOL_METRICS = """
model-server-protocol-metrics  other  ?
"""

# prefix-cache-scorer itself reads nothing any more, but the loader hands its parameters to an
# approx-prefix-cache-producer when none is declared (loader/configloader.go:176-211).
_ONLY_1_5 = """
prefix-cache-scorer           scorer  autoTune blockSize blockSizeTokens maxPrefixBlocksToMatch
                                      maxPrefixTokensToMatch lruCapacityPerServer
approx-prefix-cache-producer  other   autoTune blockSize blockSizeTokens maxPrefixBlocksToMatch
                                      maxPrefixTokensToMatch lruCapacityPerServer
token-load-scorer             scorer  queueThresholdTokens
slo-deadline-ordering-policy  other   -
static-usage-limit-policy     other   threshold
predicted-latency-producer    other   ?
latency-slo-admitter          other   -
prefix-cache-affinity-filter  filter  affinityThreshold explorationProbability maxTTFTPenaltyMs
slo-headroom-tier-filter      filter  epsilonExploreNeg
latency-scorer                scorer  ttftWeight tpotWeight headroomSelectionStrategy
                                      compositeKVWeight compositeQueueWeight compositePrefixWeight
inflight-load-producer        other   -
core-metrics-extractor        other   defaultEngine engineConfigs engineLabelKey
endpoint-notification-source  other   -
openai-parser                 other   -
vllmgrpc-parser               other   -
passthrough-parser            other   -
concurrency-detector          filter  concurrencyMode headroom maxConcurrency maxTokenConcurrency
utilization-detector          filter  headroom kvCacheUtilThreshold metricsStalenessThreshold
                                      queueDepthThreshold
"""

GAIE_1_2 = plugins(_COMMON + _PREFIX_CHARACTERS)
GAIE_1_3 = {**GAIE_1_2, **plugins(_SINCE_1_3), **plugins(_PROTOCOL_METRICS)}
GAIE_1_4 = {**GAIE_1_3, **plugins(_SINCE_1_4), **plugins(_PREFIX_TOKENS)}
GAIE_1_5 = {
    **plugins(_COMMON),
    **plugins(_SINCE_1_3),
    **plugins(_SINCE_1_4),
    **plugins(_ONLY_1_5),
}
