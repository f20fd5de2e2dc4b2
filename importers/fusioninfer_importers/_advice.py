"""What findings about a converted service say in the terms of the system that it comes from.

By the id of the rule; for rules whose own message names a field that only our services have.
"""

from __future__ import annotations

_ALL = {
    "engine-unknown": (
        "the container's program is neither vLLM nor SGLang, and arguments have to be added to "
        "it; start it as vllm serve or python3 -m sglang.launch_server"
    ),
    "gang-all-or-nothing": (
        "all of its pods are placed together: nothing starts before all of them fit"
    ),
    "kv-transfer-disabled": (
        "nothing here says that the engines hand the KV cache from prefill to decode; where "
        "they do not, decode computes every prompt again"
    ),
    "kv-transfer-missing": (
        "the engine hands no KV cache from prefill to decode: add its argument for it "
        "(--kv-transfer-config of vLLM, --disaggregation-mode of SGLang)"
    ),
    "liveness-probe-too-early": (
        "the livenessProbe restarts a container that does not serve yet: a model that takes "
        "longer never loads; give a startupProbe"
    ),
    "memory-not-checked": (
        "memory not checked: the model, the release of the engine or the accelerator is not known"
    ),
    "reference-grant-missing": (
        "needs a ReferenceGrant in the namespace that is referred to; create one"
    ),
    "update-needs-room-for-optional-replicas": (
        "an update needs capacity for all replicas: LeaderWorkerSet starts with the highest "
        "one, and stands still where that never runs; lower replicas before an update"
    ),
    "volcano-ignores-claims": (
        "Volcano binds such pods without the devices that they claim, and they never start, "
        "unless the arguments of its plugin predicates say "
        "predicate.DynamicResourceAllocationEnable: true (1.14.1: false by default); say so "
        "there"
    ),
}

KTHENA = {
    **_ALL,
    "engine-not-movable": (
        "a sidecar takes the workloadPort of decode pods, and the engine cannot be moved off "
        "it, because its program cannot be read; start it as vllm serve or python3 -m "
        "sglang.launch_server"
    ),
    "kv-transfer-disabled": (
        f"{_ALL['kv-transfer-disabled']}; a kvConnector of type nixl adds what the engines need"
    ),
    "max-unavailable-zero": "is 0, so that an update could not begin; give at least 1",
    "prefill-decode-without-router": (
        "nothing pairs prefill with decode, and clients reach only the decoders; read the "
        "ModelServer of these pods and the ModelRoute to it too"
    ),
    "route-missing": (
        "no request finds these pods; read the ModelRoute that leads to this ModelServer too"
    ),
    "route-without-gateway": (
        "the route takes no requests without a Gateway; give the ModelRoute parentRefs"
    ),
}

MODELPLANE = {
    **_ALL,
    "decode-without-prefill": (
        "hands over no KV cache without an engine of phase Prefill; add one, or leave out "
        "serving.mode and phase"
    ),
    "engine-not-movable": (
        "decode engines serve behind a sidecar on port 8000; give the engine a --port of its "
        "own, such as 8001"
    ),
    "engine-unknown": (
        f"{_ALL['engine-unknown']}, or leave the sizes (topology) out and write its arguments "
        "yourself"
    ),
    "model-contradicted": (
        "the engine finds the model of modelCacheRef at /mnt/models, and its arguments name "
        "another; make them --model=/mnt/models"
    ),
    "prefill-decode-without-router": (
        "nothing pairs prefill with decode, clients reach the decode engines only; read the "
        "ModelService that selects this ModelDeployment too"
    ),
    "prefill-without-decode": (
        "hands over a KV cache that no engine of phase Decode takes; add one, or leave out "
        "serving.mode and phase"
    ),
    "route-missing": (
        "no request finds these pods; read the ModelService that selects this ModelDeployment too"
    ),
}

KSERVE = {
    **_ALL,
    "engine-not-movable": (
        "a sidecar takes port 8000 of decode pods; make the engine listen on another, as "
        "KServe's presets do (--port 8001)"
    ),
    "max-unavailable-zero": (
        "is 0, so that an update could not begin; give at least 1, or maxSurge"
    ),
    "memory-request-too-small": (
        "takes this much host memory in each pod, and the container main requests less: nodes "
        "are chosen that do not have it; raise its requests.memory"
    ),
    "picker-family-unknown": (
        "its release is not known, so that its configuration cannot be written; use an image of "
        "llm-d's picker with its tag"
    ),
    "pods-per-replica-unknown": (
        "does not say how many pods a replica has; give pipeline, or data with dataLocal"
    ),
    "prefill-decode-without-router": (
        "nothing pairs prefill with decode, clients reach the decode pods only; give router "
        "with route and scheduler"
    ),
    "route-missing": (
        "router has neither route nor gateway: no HTTPRoute is made, and no request finds the "
        "pool; give route: {}"
    ),
    "route-without-gateway": (
        "the route takes no requests without a Gateway; name one in router.gateway.refs"
    ),
    "scheduler-without-gangs": (
        "places no pods together, as prefill with decode and replicas of several pods need; use "
        "volcano"
    ),
    "shared-memory-too-small": (
        "takes more of /dev/shm than the volume there holds; raise its sizeLimit, or remove it"
    ),
}
