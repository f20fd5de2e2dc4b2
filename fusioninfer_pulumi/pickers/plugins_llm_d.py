"""Plugins that llm-d's pickers up to v0.8 add to those of the inference extension.

They embed the inference extension's picker (v0.7.1: v1.4.0, v0.8.0: v1.5.0, by `go.mod`) and
register more. Sources: `pkg/plugins/register.go` of v0.7.1, `pkg/epp/framework/plugins/register.go`
of v0.8.0. Unknown parameters are ignored.
"""

from __future__ import annotations

from fusioninfer_pulumi.pickers.plugin_rows import plugins
from fusioninfer_pulumi.pickers.plugins_gaie import GAIE_1_4, GAIE_1_5

_ADDED = """
by-label                       filter   label validValues allowsNoLabel
by-label-selector              filter   matchLabels matchExpressions
encode-filter                  filter   -
prefill-filter                 filter   -
decode-filter                  filter   -
disagg-headers-handler         other    prefillProfile encodeProfile
prefill-header-handler         other    prefillProfile encodeProfile
data-parallel-profile-handler  handler  primaryPort
disagg-profile-handler         handler  profiles deciders decodeProfile prefillProfile encodeProfile
                                        prefillDeciderPluginName encodeDeciderPluginName
                                        deciderPluginName
pd-profile-handler             handler  decodeProfile prefillProfile prefixPluginType
                                        prefixPluginName primaryPort deciderPluginName
always-disagg-pd-decider       decider  -
prefix-based-pd-decider        decider  nonCachedTokens
always-disagg-multimodal-decider  decider  -
precise-prefix-cache-scorer    scorer   tokenProcessorConfig indexerConfig kvEventsConfig
                                        speculativeIndexing speculativeTTL
load-aware-scorer              scorer   threshold
session-affinity-scorer        scorer   -
active-request-scorer          scorer   requestTimeout idleThreshold maxBusyScore
no-hit-lru-scorer              scorer   prefixPluginType prefixPluginName lruSize
models-data-source             other    scheme path insecureSkipVerify
model-server-protocol-models   other    -
tokenizer                      other    modelName udsTokenizerConfig
context-length-aware           scorer   label enableFiltering
"""

LLM_D_0_7 = {**GAIE_1_4, **plugins(_ADDED)}
LLM_D_0_8 = {**GAIE_1_5, **plugins(_ADDED)}
