"""Hypothesis strategies for fields beside topology: model, sizes, offloading, operations.

Drawn on top of the plain services of `strategies`, so that what holds of all services is asked of
these fields too. They are chosen to fit the role, and to be accepted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

Manifest = dict[str, Any]

HUB = "hf://team/chat-8b"
BUCKET = {"secretName": "keys", "endpoint": "http://minio:9000"}
ADAPTERS = {"adapters": [{"name": "a", "uri": "hf://x/y"}, {"name": "c", "uri": "pvc://more/c"}]}
MODELS: tuple[Manifest, ...] = (
    {"uri": f"{HUB}@main", "tokenSecret": {"name": "hub"}, "size": "20Gi"},
    {"uri": HUB, "fetch": "InitContainer", "name": "chat", "lora": ADAPTERS},
    {"uri": "pvc://models/llama-70b"},
    {"uri": "s3://bucket/key", "s3": BUCKET},
    {"uri": "oci://registry.example.com/model:1", "path": "models"},
    {"uri": HUB, "cache": {"claimName": "shared", "warmUp": True}},
    {"uri": HUB, "cache": {"storage": {"size": "100Gi"}}},
)
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Gi"}}}
TIERS: tuple[Manifest, ...] = (
    {"fileSystem": {"emptyDir": {"size": "20Gi"}}},
    {"fileSystem": {"pvc": {"spec": CLAIM}}},
    {"fileSystem": {"pvc": {"ref": {"name": "shared", "path": "kv"}}}},
)
METRICS: tuple[Manifest, ...] = (
    {"metrics": [{"name": "vllm_queue", "target": "5"}]},
    {"engine": "KEDA", "prometheus": "http://prometheus:9090",
     "metrics": [{"query": "sum(waiting)", "target": "5"}]},
)  # fmt: skip
#: The second is not valid for roles with autoscaling.
BUDGETS: tuple[Manifest, ...] = ({"maxUnavailable": 1}, {"minAvailable": "50%"})
OFFLOADS = "vllm/vllm-openai:v0.22.0"
DEVICES = ({"name": "gpus", "deviceClassName": "gpu.example.com", "count": 2},)

models = st.sampled_from((None, *MODELS))


@st.composite
def offloadings(draw: st.DrawFn) -> Manifest:
    """Tiers that fit into what the containers may use."""
    given: Manifest = {"cpu": draw(st.sampled_from(("256Mi", "100M")))}
    if draw(st.booleans()):
        given["evictionPolicy"] = draw(st.sampled_from(("lru", "arc")))
    if draw(st.booleans()):
        given["secondary"] = draw(st.lists(st.sampled_from(TIERS), min_size=1, max_size=2))
    return given


def parallelisms(
    split: int, nodes: int, launcher: str | None, form: str
) -> st.SearchStrategy[Manifest]:
    """Ways to say in `parallelism` what an argument says otherwise.

    Args:
        split: Accelerators of a replica, over all nodes.
        nodes: Nodes of a replica.
        launcher: How they are launched; None for the default.
        form: How the engine is started.
    """
    each = max(split // nodes, 1)
    found: list[Manifest] = [{"tensor": split}]
    if nodes > 1 and launcher in (None, "multiprocessing", "ray"):
        found.append({"tensor": each, "pipeline": nodes})
    if nodes > 1 and launcher is None and form in ("entrypoint", "serve"):
        found.append({"tensor": each, "data": nodes, "dataLocal": 1})
    return st.sampled_from(found)


def _serving(role: Manifest) -> Manifest:
    """The serving container of a role's leaders."""
    template = role.get("template") or role["leaderTemplate"]
    drawn = template["spec"]["containers"]
    (found,) = [each for each in drawn if not each["name"].startswith("side-")]
    container: Manifest = found
    return container


@st.composite
def role_extras(
    draw: st.DrawFn, role: Manifest, *, per_role: bool, gang: bool, groups: bool
) -> Manifest:
    """Fields to add to a role that was drawn.

    Args:
        draw: Supplied by Hypothesis.
        role: The role; the image of its engine may become one that can offload.
        per_role: Whether one set runs all of its replicas, so that it can be scaled.
        gang: Whether its pods are scheduled as a gang.
        groups: Whether the service has serving groups.
    """
    extras: Manifest = {}
    container = _serving(role)
    if "own" not in container["image"] and draw(st.booleans()):
        extras["startup"] = draw(st.sampled_from(({"timeout": "20m"}, {"modelSize": "40Gi"})))
    if draw(st.booleans()):
        extras["topologySpread"] = [{"topologyKey": "topology.kubernetes.io/zone"}]
    count = role.get("replicas", 1)
    if per_role and not gang and count and draw(st.booleans()):
        bounds = {"minReplicas": 1, "maxReplicas": count + 3}
        # A query of KEDA returns one number for all groups.
        extras["autoscaling"] = {**bounds, **draw(st.sampled_from(METRICS[: 1 if groups else 2]))}
    if draw(st.booleans()):
        extras["disruptionBudget"] = draw(
            st.sampled_from(BUDGETS[: 1 if "autoscaling" in extras else 2])
        )
    if "template" not in role:
        return extras
    single = role.get("multinode", {}).get("nodeCount", 1) == 1
    if single and "vllm-openai" in container["image"] and draw(st.booleans()):
        container["image"] = OFFLOADS
        extras["kvCacheOffloading"] = draw(offloadings())
    devices = any("/" in name for name in container["resources"]["limits"])
    if not devices and draw(st.booleans()):
        extras["resourceClaims"] = [dict(device) for device in DEVICES]
    return extras


@st.composite
def service_extras(draw: st.DrawFn, roles: Sequence[Manifest]) -> Manifest:
    """Fields to add to a service that was drawn; monitored containers declare their ports."""
    extras: Manifest = {}
    if draw(st.booleans()):
        scaled = any("autoscaling" in role for role in roles)
        extras["disruptionBudget"] = draw(st.sampled_from(BUDGETS[: 1 if scaled else 2]))
    if draw(st.booleans()):
        extras["monitoring"] = draw(st.sampled_from(({}, {"interval": "15s", "path": "/m"})))
        for role in roles:
            container = _serving(role)
            words = " ".join([*container.get("command", ()), *container.get("args", ())])
            port = role.get("port", 8080 if " --port 8080" in f" {words}" else 8000)
            container["ports"] = [{"containerPort": port, "name": "http"}]
    if draw(st.booleans()):
        images = {_serving(role)["image"] for role in roles}
        # Older images of vLLM have no OpenTelemetry.
        traced = not any("vllm" in image and image != OFFLOADS for image in images)
        extras["tracing"] = {"endpoint": "http://otel:4317", "engines": traced}
    return extras
