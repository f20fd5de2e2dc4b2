"""Services with many pod fields: one for each feature that reads or changes pods."""

from __future__ import annotations

from typing import Any

from samples import prefill_decode, role, service

_PROBE = {"httpGet": {"path": "/health", "port": "http"}, "periodSeconds": 5}
_NODES = {"nodeSelectorTerms": [
    {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
]}  # fmt: skip
_SERVING = {
    "name": "vllm",
    "image": "vllm/vllm-openai:v0.22.0",
    "imagePullPolicy": "IfNotPresent",
    "command": ["vllm", "serve"],
    "args": ["m", "--port", "8000"],
    "env": [{"name": "A", "value": "1"},
            {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
    "envFrom": [{"configMapRef": {"name": "x"}}],
    "ports": [{"name": "http", "containerPort": 8000, "protocol": "TCP"}],
    "resources": {"limits": {"nvidia.com/gpu": "1", "memory": "200Gi"}, "requests": {"cpu": "1"},
                  "claims": [{"name": "nic"}]},
    "volumeMounts": [{"name": "v", "mountPath": "/dev/shm"}],
    "readinessProbe": _PROBE,
    "livenessProbe": {"tcpSocket": {"port": 8000}},
    "lifecycle": {"postStart": {"exec": {"command": ["true"]}}},
    "securityContext": {"capabilities": {"add": ["SYS_NICE"]}},
}  # fmt: skip
POD = {
    "metadata": {"labels": {"app": "a"}, "annotations": {"note": "n"}},
    "spec": {
        "volumes": [{"name": "v", "emptyDir": {"medium": "Memory", "sizeLimit": "100Gi"}}],
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "nodeSelector": {"zone": "a"},
        "affinity": {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": _NODES}
        },
        "imagePullSecrets": [{"name": "r"}],
        "serviceAccountName": "engine",
        "priorityClassName": "high",
        "terminationGracePeriodSeconds": 100,
        "securityContext": {"runAsUser": 1},
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "ScheduleAnyway",
             "labelSelector": {"matchLabels": {"app": "a"}}}
        ],
        "resourceClaims": [{"name": "nic", "resourceClaimName": "nic"}],
        "initContainers": [{"name": "init", "image": "busybox:1", "restartPolicy": "Always",
                            "volumeMounts": [{"name": "v", "mountPath": "/v"}]}],
        "containers": [_SERVING, {"name": "sidecar", "image": "x:1",
                                  "ports": [{"containerPort": 9}]}],
    },
}  # fmt: skip

_ROUTER = role("router", "router", template=None, gateway={"implementation": "istio"})


def _role(name: str = "w", **fields: Any) -> dict[str, Any]:
    return role(name, **{"template": POD, **fields})


def _without_model() -> dict[str, Any]:
    """Return the pod without a model argument, for services that set `model`."""
    serving = {**_SERVING, "args": ["--port", "8000"]}
    spec: Any = POD["spec"]
    return {**POD, "spec": {**spec, "containers": [serving, spec["containers"][1]]}}


#: Services by the feature that they use.
SERVICES = {
    "day two": service(
        _role(topologySpread=[{"topologyKey": "zone"}], environment="Kthena",
              disruptionBudget={}, startup={"timeout": "30m"}),
        monitoring={},
    ),
    "multinode": service(_ROUTER, _role(multinode={"nodeCount": 2})),
    "prefill and decode": service(
        _ROUTER,
        *prefill_decode(
            {"template": POD, "kvTransfer": {"rdma": {"resource": "rdma/hca"}}},
            {"template": POD, "kvTransfer": {"rdma": {"resource": "rdma/hca"}}},
        )["spec"]["roles"],
    ),
    "model": service(
        _role(template=_without_model()),
        model={"uri": "hf://a/b", "fetch": "InitContainer", "name": "n",
               "lora": {"adapters": [{"name": "a", "uri": "hf://x/y"}]}},
    ),
    "image": service(
        _role(template=_without_model()),
        model={"uri": "oci://r.example/m:1", "imagePullSecrets": ["a"]},
    ),
    "offloading": service(
        _role(kvCacheOffloading={
            "cpu": "64Gi", "secondary": [{"fileSystem": {"emptyDir": {"size": "10Gi"}}}]
        })
    ),
    "claims": service(
        _role(template=None, leaderTemplate=POD, workerTemplate=POD, multinode={"nodeCount": 2},
              resourceClaims=[{"name": "cards", "claimName": "cards"}])
    ),
    "scaling": service(
        _role(autoscaling={"minReplicas": 1, "maxReplicas": 2,
                           "metrics": [{"name": "m", "target": 1}]}),
        layout="PerRole",
    ),
}  # fmt: skip
