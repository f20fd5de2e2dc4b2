"""Messages about converted services in terms of the source system, by rule id.

They replace messages that name a field which the source system does not have.
"""

from __future__ import annotations

_ALL = {
    "engine-unknown": (
        "the container starts neither vLLM nor SGLang, but needs generated arguments; start it "
        "with vllm serve or python3 -m sglang.launch_server"
    ),
    "kv-transfer-disabled": (
        "no KV transfer is configured; unless the engines transfer the KV cache themselves, "
        "decode computes every prompt again"
    ),
    "kv-transfer-missing": (
        "the engine transfers no KV cache from prefill to decode; add its argument (vLLM: "
        "--kv-transfer-config, SGLang: --disaggregation-mode)"
    ),
    "liveness-probe-too-early": (
        "the livenessProbe restarts the container while the model loads; add a startupProbe"
    ),
    "memory-not-checked": ("memory not checked: model, engine release or accelerator is unknown"),
    "reference-grant-missing": ("needs a ReferenceGrant in the referenced namespace; create one"),
    "volcano-ignores-claims": (
        "Volcano binds these pods without the devices they claim, so they never start; set "
        "predicate.DynamicResourceAllocationEnable: true in the arguments of its predicates "
        "plugin (false by default in 1.14.1)"
    ),
}

KTHENA = {
    **_ALL,
    "engine-not-movable": (
        "the sidecar needs the workloadPort of decode pods, but the engine's command cannot be "
        "read to change its port; start it with vllm serve or python3 -m sglang.launch_server"
    ),
    "kv-transfer-disabled": (
        f"{_ALL['kv-transfer-disabled']}; a kvConnector of type nixl configures it"
    ),
    "max-unavailable-zero": "must be at least 1, got 0; no update could start",
    "prefill-decode-without-router": (
        "no router pairs prefill with decode; pass the ModelServer of these pods and its "
        "ModelRoute too"
    ),
    "route-missing": ("no route leads to these pods; pass the ModelRoute of this ModelServer too"),
    "route-without-gateway": (
        "the route has no Gateway and receives no requests; set parentRefs of the ModelRoute"
    ),
}

MODELPLANE = {
    **_ALL,
    "engine-not-movable": (
        "the sidecar uses port 8000 of decode pods; set another --port for the engine, such as 8001"
    ),
    "engine-unknown": (
        f"{_ALL['engine-unknown']}, or remove the sizes (topology) and set its arguments yourself"
    ),
    "model-contradicted": (
        "conflicts with modelCacheRef, which mounts the model at /mnt/models; use "
        "--model=/mnt/models"
    ),
    "prefill-decode-without-router": (
        "no router pairs prefill with decode; pass the ModelService of this ModelDeployment too"
    ),
    "route-missing": (
        "no route leads to these pods; pass the ModelService of this ModelDeployment too"
    ),
}

KSERVE = {
    **_ALL,
    "engine-not-movable": (
        "the sidecar uses port 8000 of decode pods; set another port for the engine, as KServe's "
        "presets do (--port 8001)"
    ),
    "max-unavailable-zero": ("must be at least 1, got 0; no update could start; or set maxSurge"),
    "picker-family-unknown": (
        "is not a supported endpoint picker; remove the image to get KServe's default, or use "
        "v0.9.0 or v0.10.0 of ghcr.io/llm-d/llm-d-router-endpoint-picker"
    ),
    "pods-per-replica-unknown": (
        "does not set the number of pods of a replica; set pipeline, or data with dataLocal"
    ),
    "prefill-decode-without-router": (
        "no router pairs prefill with decode; set router with route and scheduler"
    ),
    "route-missing": (
        "router has neither route nor gateway, so there is no HTTPRoute; set route: {}"
    ),
    "route-without-gateway": (
        "the route has no Gateway and receives no requests; set router.gateway.refs"
    ),
    "scheduler-without-gangs": (
        "does not schedule gangs, which prefill/decode and replicas of several pods need; use "
        "volcano"
    ),
}
