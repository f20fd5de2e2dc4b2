"""Top-level keys of the configuration, by release.

Sources: `apix/config/v1alpha1/endpointpickerconfig_types.go` of each release. Every picker decodes
them strictly (`pkg/epp/config/loader/configloader.go`): an unknown key stops it.
"""

from __future__ import annotations

from collections.abc import Mapping

Sections = Mapping[str, frozenset[str] | None]


def _keys(words: str) -> frozenset[str]:
    return frozenset(words.split())


_COMMON: Sections = {"plugins": None, "schedulingProfiles": None, "featureGates": None}
_THRESHOLDS = _keys("queueDepthThreshold kvCacheUtilThreshold metricsStalenessThreshold")
_REFERENCE = _keys("pluginRef")
_FLOW_1_4 = _keys("maxBytes defaultRequestTTL defaultPriorityBand priorityBands")
_FLOW_1_5 = _FLOW_1_4 | _keys("maxRequests usageLimitPolicyPluginRef")
_FLOW_0_9 = _FLOW_1_5 | _keys("defaultNegativePriorityBand saturationDetector")

GAIE_1_2: Sections = {**_COMMON, "saturationDetector": _THRESHOLDS}
GAIE_1_3: Sections = {**GAIE_1_2, "data": _keys("sources")}
GAIE_1_4: Sections = {**GAIE_1_3, "flowControl": _FLOW_1_4}
GAIE_1_5: Sections = {
    **_COMMON,
    "saturationDetector": _REFERENCE,
    "dataLayer": _keys("sources"),
    "flowControl": _FLOW_1_5,
    "parser": _REFERENCE,
}
LLM_D_0_9: Sections = {
    **GAIE_1_5,
    "dataLayer": _keys("injectDefaults sources discovery"),
    "flowControl": _FLOW_0_9,
    "requestHandler": _keys("parsers"),
}
LLM_D_0_10: Sections = {
    **LLM_D_0_9,
    "dataLayer": _keys(
        "injectDefaults sources discovery crossReplicaSyncerPluginRef crossReplicaSyncInterval"
    ),
    "flowControl": _FLOW_0_9 | _keys("enableEviction"),
}
