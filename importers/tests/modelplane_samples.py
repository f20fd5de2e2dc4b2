"""Small Modelplane manifests for test cases."""

from __future__ import annotations

from typing import Any

Manifest = dict[str, Any]

GPU = {
    "devices": [
        {"name": "gpu", "count": 1, "selectors": [{"cel": 'device.driver == "gpu.nvidia.com"'}]}
    ]
}


def template(*args: str, command: Any = None, **container: Any) -> Manifest:
    """A pod template with the container `engine`, the only one that Modelplane allows."""
    engine = {
        "name": "engine",
        "image": "vllm/vllm-openai:v0.11.0",
        "args": ["--model=m", *args],
        **container,
    }
    if command is not None:
        engine["command"] = command
    return {"spec": {"containers": [engine]}}


def completed(fields: Manifest, port: int = 8000, *, serves: bool = True) -> Manifest:
    """A pod template with the fields that Modelplane adds to every pod."""
    (engine,) = fields["spec"]["containers"]
    mount = {"name": "dshm", "mountPath": "/dev/shm"}  # a mount path
    probe = {
        "httpGet": {"path": "/health", "port": port},
        "initialDelaySeconds": 30, "periodSeconds": 10, "timeoutSeconds": 5,
    }  # fmt: skip
    built = {**engine, "volumeMounts": [mount], **({"readinessProbe": probe} if serves else {})}
    volumes = [{"name": "dshm", "emptyDir": {"medium": "Memory"}}]
    taint = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    return {"spec": {"containers": [built], "volumes": volumes, "tolerations": [taint]}}


def workers(count: Any = 1, tensor: int = 1, **fields: Any) -> Manifest:
    """The `workers` of the proposal; a count of None is left out."""
    built = {"count": count, "topology": {"tensor": tensor}, "template": template(), **fields}
    return {key: value for key, value in built.items() if value is not None}


def member(role: Any = None, **fields: Any) -> Manifest:
    """A member with a GPU; None leaves a field out."""
    built = {"role": role, "nodeSelector": GPU, "template": template(), **fields}
    return {key: value for key, value in built.items() if value is not None}


def engine(name: str = "main", *members: Manifest, **fields: Any) -> Manifest:
    """An engine, of one Standalone member by default."""
    return {"name": name, "members": list(members) or [member()], **fields}


def deployment(spec: Manifest, name: Any = "md", **metadata: Any) -> Manifest:
    """A ModelDeployment with this spec."""
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelDeployment",
        "metadata": {"name": name, **metadata} if name else metadata,
        "spec": spec,
    }


def released(*engines: Manifest, replicas: int = 1, **replica: Any) -> Manifest:
    """A released deployment, of one engine by default."""
    spec = {"engines": list(engines) or [engine()], **replica}
    return deployment({"replicas": replicas, "template": {"spec": spec}})


def paired(prefill: Any = None, decode: Any = None, **fields: Any) -> Manifest:
    """A released deployment of prefill and decode."""
    return released(
        engine("p", phase="Prefill", **{"copies": 1, **(prefill or {})}),
        engine("d", phase="Decode", **{"copies": 2, **(decode or {})}),
        serving={"mode": "PrefillDecode"},
        **fields,
    )


def cache(name: str = "cache", clusters: Any = None, **hub: Any) -> Manifest:
    """A ModelCache; None leaves a field of its source out."""
    source = {"repo": "org/model", "sizeGiB": 40, **hub}
    spec: Manifest = {
        "source": "HuggingFace",
        "huggingFace": {key: value for key, value in source.items() if value is not None},
    }
    if clusters is not None:
        spec["clusterSelector"] = {"matchLabels": clusters}
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelCache",
        "metadata": {"name": name},
        "spec": spec,
    }


def model_service(*selected: Any, name: str = "chat") -> Manifest:
    """A ModelService for deployments: names, or whole entries of its endpoints."""
    entries = [
        item
        if isinstance(item, dict)
        else {"selector": {"matchLabels": {"modelplane.ai/deployment": item}}}
        for item in selected or ("md",)
    ]
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelService",
        "metadata": {"name": name},
        "spec": {"endpoints": entries},
    }


def selecting(weight: Any = None, **labels: str) -> Manifest:
    """An entry that selects by labels; `deployment` and `cluster` get Modelplane's prefix."""
    spelled = {
        f"modelplane.ai/{key}" if key in ("deployment", "cluster") else key: value
        for key, value in labels.items()
    }
    entry: Manifest = {"selector": {"matchLabels": spelled}}
    return entry if weight is None else {"weight": weight, **entry}


def cached(*arguments: str, command: Any = None, **fields: Any) -> Manifest:
    """A released deployment whose engine reads the ModelCache `cache`."""
    user_template = template(command=command)
    user_template["spec"]["containers"][0]["args"] = list(arguments)
    return released(
        engine("main", member(template=user_template)),
        **{"modelCacheRef": {"name": "cache"}, **fields},
    )


def proposed(**spec: Any) -> Manifest:
    """The proposal's disaggregated deployment, completed; None leaves a field out."""
    built = {
        "workers": workers(2),
        "prefill": {"workers": workers(1)},
        "routing": {"template": {"spec": {"containers": [{"name": "epp"}]}}},
        **spec,
    }
    return deployment({key: value for key, value in built.items() if value is not None})
