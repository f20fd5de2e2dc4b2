"""The families in one table: every difference between two endpoint pickers is one between rows.

Read in the source of each release (`tools/picker_plugins.go` has the places), and checked by
loading what `config` generates with the endpoint picker of each family.

Not supported: v1.0 and v1.1 of the inference extension, which read other parameters; v1.6, which
has no endpoint picker with plugins; and llm-d before v0.9.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fusioninfer_pulumi.endpoint_pickers.family import (
    LLM_D_API,
    X_K8S_API,
    EppFamily,
    Family,
    FlowControl,
    PrefixKeys,
    release_data,
)
from fusioninfer_pulumi.endpoint_pickers.flags import FLAGS, REFUSED
from fusioninfer_pulumi.engines.engine import VLLM_METRICS


def _plugins(family: Family) -> frozenset[str]:
    return frozenset(release_data(family)["plugins"])


def _after(row: EppFamily, family: Family, **changes: Any) -> EppFamily:
    """The row of another family: what the tables list for it, and what else changed."""
    return replace(
        row,
        family=family,
        plugins=_plugins(family),
        flags=FLAGS[family],
        refused_flags=REFUSED[family],
        **changes,
    )


_GAIE_1_2 = EppFamily(
    family=Family.GAIE_1_2,
    repository="registry.k8s.io/gateway-api-inference-extension/epp",
    sidecar_repository=None,
    versions=((1, 2, 0), (1, 2, 1)),
    api_versions=(X_K8S_API,),
    plugins=_plugins(Family.GAIE_1_2),
    integer_weights=True,
    prefix_keys=PrefixKeys.CHARACTERS,
    engine_metrics=VLLM_METRICS._replace(kv_cache="vllm:gpu_cache_usage_perc"),
    averages_saturation=False,
    flags=FLAGS[Family.GAIE_1_2],
    refused_flags=REFUSED[Family.GAIE_1_2],
    needs_inference_objective_crd=True,
    rewrite_api=None,
    flow_control=None,
    limits_waiting=False,
    traces_tls=False,
)
_GAIE_1_3 = _after(
    _GAIE_1_2,
    Family.GAIE_1_3,
    versions=((1, 3, 0), (1, 3, 1)),
    engine_metrics=VLLM_METRICS,
    needs_inference_objective_crd=False,
    flow_control=FlowControl(
        "inference_extension_flow_control_queue_size", "inference_objective_running_requests"
    ),
    rewrite_api="inference.networking.x-k8s.io/v1alpha2",
)
_GAIE_1_4 = _after(
    _GAIE_1_3,
    Family.GAIE_1_4,
    versions=((1, 4, 0), (1, 4, 0)),
    integer_weights=False,
    prefix_keys=PrefixKeys.TOKENS,
    averages_saturation=True,
)
_GAIE_1_5 = _after(
    _GAIE_1_4,
    Family.GAIE_1_5,
    versions=((1, 5, 0), (1, 5, 0)),
)
_LLM_D_0_9 = _after(
    _GAIE_1_5,
    Family.LLM_D_0_9,
    repository="ghcr.io/llm-d/llm-d-router-endpoint-picker",
    sidecar_repository="ghcr.io/llm-d/llm-d-router-disagg-sidecar",
    versions=((0, 9, 0), (0, 9, 0)),
    api_versions=(LLM_D_API, X_K8S_API),
    # It ignores the older group if the cluster has the kind of both.
    rewrite_api="llm-d.ai/v1alpha2",
    flow_control=FlowControl("llm_d_epp_flow_control_queue_size", "llm_d_epp_request_running"),
    prefix_keys=PrefixKeys.PRODUCER,
)
_LLM_D_0_10 = _after(
    _LLM_D_0_9,
    Family.LLM_D_0_10,
    versions=((0, 10, 0), (0, 10, 0)),
    limits_waiting=True,
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
        _LLM_D_0_9,
        _LLM_D_0_10,
    )
}
