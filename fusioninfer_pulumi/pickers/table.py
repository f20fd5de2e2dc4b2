"""The families, in one table; every difference between two pickers is a difference between rows.

Facts: `facts/endpoint-picker.md`, verified in the source of each release (the other tables name the
files) and by loading what we write with the picker of each family (those of llm-d v0.7 and v0.8
without the plugins that need llm-d-kv-cache).

Not here: llm-d v0.4 and v0.5, which need cgo and were not run; v0.6, which was built from an
unreleased commit of the inference extension; v1.0 and v1.1 of the inference extension, which read
other parameters; and v1.6, which has no picker with plugins.
"""

from __future__ import annotations

from dataclasses import replace

from fusioninfer_pulumi.pickers import (
    flag_names,
    plugins_gaie,
    plugins_llm_d,
    plugins_router,
    sections,
)
from fusioninfer_pulumi.pickers.family import LLM_D_API, X_K8S_API, Family, PickerFamily, PrefixKeys

_GAIE = "registry.k8s.io/gateway-api-inference-extension/epp"
_SCHEDULER = "ghcr.io/llm-d/llm-d-inference-scheduler"
_SIDECAR = "ghcr.io/llm-d/llm-d-routing-sidecar"
_ROUTER = "ghcr.io/llm-d/llm-d-router-endpoint-picker"
_ROUTER_SIDECAR = "ghcr.io/llm-d/llm-d-router-disagg-sidecar"

_GAIE_1_2 = PickerFamily(
    family=Family.GAIE_1_2,
    image=f"{_GAIE}:v1.2.1",
    versions=((1, 2, 0), (1, 2, 1)),
    sidecar_image=None,
    api_versions=(X_K8S_API,),
    sections=sections.GAIE_1_2,
    plugins=plugins_gaie.GAIE_1_2,
    feature_gates=frozenset({"dataLayer", "flowControl"}),
    gate_values=False,
    integer_weights=True,
    weight_trap=True,
    prefix_keys=PrefixKeys.CHARACTERS,
    prefix_block_refused=False,
    kv_metric_flag="kv-cache-usage-percentage-metric",
    flags=flag_names.GAIE_1_2,
    refused_flags={},
    needs_inference_objective_crd=True,
    supports_pd=False,
    pd_needs_headers_handler=False,
    pd_threshold=False,
    decider_first=False,
)
_GAIE_1_3 = replace(
    _GAIE_1_2,
    family=Family.GAIE_1_3,
    image=f"{_GAIE}:v1.3.1",
    versions=((1, 3, 0), (1, 3, 1)),
    sections=sections.GAIE_1_3,
    plugins=plugins_gaie.GAIE_1_3,
    feature_gates=frozenset({"dataLayer", "flowControl", "prepareDataPlugins"}),
    weight_trap=False,
    kv_metric_flag=None,
    flags=flag_names.GAIE_1_3,
    needs_inference_objective_crd=False,
)
_GAIE_1_4 = replace(
    _GAIE_1_3,
    family=Family.GAIE_1_4,
    image=f"{_GAIE}:v1.4.0",
    versions=((1, 4, 0), (1, 4, 0)),
    sections=sections.GAIE_1_4,
    plugins=plugins_gaie.GAIE_1_4,
    integer_weights=False,
    prefix_keys=PrefixKeys.TOKENS,
    prefix_block_refused=True,
    flags=flag_names.GAIE_1_4,
    refused_flags=flag_names.REFUSED_SINCE_1_4,
)
_GAIE_1_5 = replace(
    _GAIE_1_4,
    family=Family.GAIE_1_5,
    image=f"{_GAIE}:v1.5.0",
    versions=((1, 5, 0), (1, 5, 0)),
    sections=sections.GAIE_1_5,
    plugins=plugins_gaie.GAIE_1_5,
    feature_gates=frozenset({"dataLayer", "flowControl", "enableLegacyMetrics"}),
    prefix_block_refused=False,
)
_LLM_D_0_7 = replace(
    _GAIE_1_4,
    family=Family.LLM_D_0_7,
    image=f"{_SCHEDULER}:v0.7.1",
    versions=((0, 7, 0), (0, 7, 1)),
    sidecar_image=f"{_SIDECAR}:v0.7.1",
    plugins=plugins_llm_d.LLM_D_0_7,
    supports_pd=True,
    pd_needs_headers_handler=True,
    decider_first=True,
)
_LLM_D_0_8 = replace(
    _GAIE_1_5,
    family=Family.LLM_D_0_8,
    image=f"{_SCHEDULER}:v0.8.0",
    versions=((0, 8, 0), (0, 8, 0)),
    sidecar_image=f"{_SIDECAR}:v0.8.0",
    plugins=plugins_llm_d.LLM_D_0_8,
    supports_pd=True,
    pd_needs_headers_handler=True,
    pd_threshold=True,
    decider_first=True,
)
_LLM_D_0_9 = replace(
    _LLM_D_0_8,
    family=Family.LLM_D_0_9,
    image=f"{_ROUTER}:v0.9.0",
    versions=((0, 9, 0), (0, 9, 0)),
    sidecar_image=f"{_ROUTER_SIDECAR}:v0.9.0",
    api_versions=(LLM_D_API, X_K8S_API),
    sections=sections.LLM_D_0_9,
    plugins=plugins_router.LLM_D_0_9,
    feature_gates=frozenset({"dataLayer", "flowControl"}),
    prefix_keys=PrefixKeys.PRODUCER,
    flags=flag_names.LLM_D_0_9,
    pd_needs_headers_handler=False,
)
_LLM_D_0_10 = replace(
    _LLM_D_0_9,
    family=Family.LLM_D_0_10,
    image=f"{_ROUTER}:v0.10.0",
    versions=((0, 10, 0), (0, 10, 0)),
    sidecar_image=f"{_ROUTER_SIDECAR}:v0.10.0",
    sections=sections.LLM_D_0_10,
    plugins=plugins_router.LLM_D_0_10,
    feature_gates=frozenset({"flowControl", "haPopulateNonLeaderDatastore"}),
    gate_values=True,
    flags=flag_names.LLM_D_0_10,
    refused_flags=flag_names.REFUSED_SINCE_0_10,
    decider_first=False,
    traces_tls=True,
)

#: By the name that a user writes in `endpointPicker.family`, oldest first.
FAMILIES = {
    row.name: row
    for row in (
        _GAIE_1_2,
        _GAIE_1_3,
        _GAIE_1_4,
        _GAIE_1_5,
        _LLM_D_0_7,
        _LLM_D_0_8,
        _LLM_D_0_9,
        _LLM_D_0_10,
    )
}
