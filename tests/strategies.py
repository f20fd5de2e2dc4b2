"""Hypothesis strategies for InferenceService manifests that are valid.

With `extras` they draw fields beside the topology too (`service_extras`). Nothing but Hypothesis
and the standard library is needed, so that other suites (against a real cluster, say) can draw
from them too. Everything that is drawn is accepted by Kubernetes, apart from objects that it refers
to: volumes name config maps and secrets, pods a service account.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from tests.service_extras import models, parallelisms, role_extras, service_extras

Manifest = dict[str, Any]

#: Texts that a careless YAML writer or shell quoting would change.
AWKWARD = (
    "yes", "null", "~", "1", "1.50", "0x1F", "012", "12:30", "2024-01-01", "true", "- a", "a: b",
    "# no comment", " leading", "trailing ", "it's", '"quoted"', '{"a": [1, "b"]}', "$HOME",
    "$(NAME)", "two\nlines\n", "tab\there", "&anchor", "*alias", "!tag", "%", "@", "`", "<<", "=",
    "ünïcödé 日本", "\N{GRINNING FACE}", "", "\\", "\u2028",
)  # fmt: skip

ACCELERATORS = ("nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "habana.ai/gaudi",
                "google.com/tpu", "nvidia.com/mig-1g.5gb")  # fmt: skip

_WORDS = ("chat", "decode", "embed", "inference", "long-context", "prefill", "rank", "short")
_USUAL = ("vllm", "sglang", "engine", "main")
_MODELS = ("Qwen/Qwen3-8B", "deepseek-ai/DeepSeek-R1", "/models/llama 70b")

texts = st.one_of(
    st.sampled_from(AWKWARD),
    st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=20),
)
label_keys = st.sampled_from(("app", "team", "tier.v1", "example.com/cost-centre", "Owner_2"))
label_values = st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,10}[A-Za-z0-9])?", fullmatch=True)
labels = st.dictionaries(label_keys, st.just("") | label_values, max_size=3)
annotation_maps = st.dictionaries(
    st.sampled_from(("note", "example.com/owner", "prometheus.io/scrape")), texts, max_size=3
)
service_names = st.from_regex(r"[a-z][a-z0-9]{0,5}(-[a-z0-9]{1,6})?", fullmatch=True)


def _optional(draw: st.DrawFn, into: Manifest, key: str, values: st.SearchStrategy[Any]) -> None:
    value = draw(st.none() | values)
    if value is not None:
        into[key] = value


@st.composite
def _volumes(draw: st.DrawFn) -> list[Manifest]:
    sources: list[Manifest] = [
        {"emptyDir": {}},
        {"emptyDir": {"medium": "Memory", "sizeLimit": "2Gi"}},
        {"configMap": {"name": "settings", "optional": True}},
        {"secret": {"secretName": "token", "optional": True}},
        {"hostPath": {"path": "/mnt/models", "type": "DirectoryOrCreate"}},
        {"downwardAPI": {"items": [{"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
    ]
    chosen = draw(st.lists(st.sampled_from(range(len(sources))), max_size=3, unique=True))
    return [{"name": f"volume-{index}", **sources[index]} for index in chosen]


@st.composite
def _side_container(draw: st.DrawFn, name: str, volumes: Sequence[Manifest]) -> Manifest:
    container: Manifest = {"name": name, "image": "registry.example.com:5000/tools/helper:1.2"}
    _optional(draw, container, "command", st.just(["/bin/sh", "-c", "sleep $((60 * 60))"]))
    _optional(draw, container, "env", st.builds(lambda text: [{"name": "TEXT", "value": text}],
                                                texts))  # fmt: skip
    _optional(draw, container, "resources", st.sampled_from(
        ({"requests": {"cpu": "50m"}}, {"limits": {"cpu": "1", "memory": "128Mi"}}, {})
    ))  # fmt: skip
    _mount(draw, container, volumes)
    return container


def _mount(draw: st.DrawFn, container: Manifest, volumes: Sequence[Manifest]) -> None:
    if draw(st.booleans()) and volumes:
        container["volumeMounts"] = [
            {"name": volume["name"], "mountPath": f"/{volume['name']}", "readOnly": True}
            for volume in volumes
        ]


def _engine(form: str, model: str | None, split: int | None, port: int | None) -> Manifest:
    """Image and command line of a serving container; None where the service names the model."""
    flag = [] if model is None else ["--model", model]
    positional = [] if model is None else [model]
    tensor = [] if split is None else ["--tensor-parallel-size", str(split)]
    listen = [] if port is None else ["--port", str(port)]
    vllm = {"image": "vllm/vllm-openai:v0.12.0"}
    if form == "entrypoint":
        return {**vllm, "args": [*flag, *tensor, *listen]}
    if form == "serve":
        return {**vllm, "command": ["vllm", "serve"], "args": [*positional, *tensor, *listen]}
    if form == "script":
        quoted = [f"'{each}'" for each in positional]
        words = " ".join(["vllm serve", *quoted, *tensor, *listen])
        return {**vllm, "command": ["/bin/sh", "-c"], "args": [words]}
    if form == "sglang":
        tensor = [] if split is None else ["--tp-size", str(split)]
        path = [] if model is None else ["--model-path", model]
        command = ["python3", "-m", "sglang.launch_server", *path]
        return {"image": "lmsysorg/sglang:v0.5.3", "command": command, "args": [*tensor, *listen]}
    return {"image": "registry.example.com/own:1", "command": ["/app/serve"], "args": positional}


_LAUNCHERS = {
    "entrypoint": ("ray", "multiprocessing", "none", None),
    "serve": ("ray", "multiprocessing", "none", None),
    "script": ("ray", "none", None),
    "sglang": ("multiprocessing", "none", None),
    "own": ("none",),
}


@st.composite
def _serving_container(
    draw: st.DrawFn, name: str, engine: Manifest, devices: int, volumes: Sequence[Manifest]
) -> Manifest:
    container: Manifest = {"name": name, **engine}
    if draw(st.booleans()):
        container["ports"] = [{"containerPort": 8000, "name": "http"}]
        if draw(st.booleans()):
            container["ports"].insert(0, {"containerPort": 9400, "name": "metrics"})
    limits: Manifest = {}
    requests: Manifest = {"cpu": "500m"}
    if devices:
        resource = draw(st.sampled_from(ACCELERATORS))
        limits[resource] = draw(st.sampled_from((devices, str(devices))))
        if draw(st.booleans()):
            requests[resource] = limits[resource]
    _optional(draw, limits, "memory", st.sampled_from(("1Gi", "1.5Gi", "500M")))
    container["resources"] = {"limits": limits, "requests": requests}
    _optional(draw, container, "readinessProbe", st.just(
        {"httpGet": {"path": "/ready", "port": 8000}, "failureThreshold": 30}
    ))  # fmt: skip
    _optional(draw, container, "livenessProbe", st.just({"tcpSocket": {"port": 8000}}))
    _optional(draw, container, "lifecycle", st.just({"preStop": {"exec": {"command": ["true"]}}}))
    _optional(draw, container, "env", st.builds(
        lambda text: [{"name": "PROMPT", "value": text},
                      {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
        texts,
    ))  # fmt: skip
    _mount(draw, container, volumes)
    return container


@st.composite
def _template(draw: st.DrawFn, name: str, engine: Manifest, devices: int) -> Manifest:
    volumes = draw(_volumes())
    serving = draw(_serving_container(name, engine, devices, volumes))
    sides = [
        draw(_side_container(f"side-{index}", volumes))
        for index in range(draw(st.sampled_from((0, 0, 0, 1, 2))))
    ]
    spec: Manifest = {"containers": [serving, *sides]}
    if draw(st.booleans()):
        spec["containers"].reverse()
    inits = [
        draw(_side_container(f"init-{index}", volumes))
        for index in range(draw(st.sampled_from((0, 0, 1, 2))))
    ]
    if draw(st.booleans()) and inits:
        inits[0]["restartPolicy"] = "Always"
    if inits:
        spec["initContainers"] = inits
    if volumes:
        spec["volumes"] = volumes
    _optional(draw, spec, "tolerations", st.just(
        [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}]
    ))  # fmt: skip
    _optional(draw, spec, "nodeSelector", st.just({"kubernetes.io/os": "linux"}))
    _optional(draw, spec, "terminationGracePeriodSeconds", st.integers(0, 600))
    template: Manifest = {"spec": spec}
    metadata: Manifest = {}
    _optional(draw, metadata, "labels", labels)
    _optional(draw, metadata, "annotations", annotation_maps)
    if metadata:
        template["metadata"] = metadata
    return template


@st.composite
def _role(
    draw: st.DrawFn,
    name: str,
    component_type: str,
    max_replicas: int,
    max_nodes: int,
    model: Manifest | None = None,
    *,
    extras: bool = False,
) -> Manifest:
    role: Manifest = {"name": name, "componentType": component_type}
    _optional(draw, role, "replicas", st.integers(0, max_replicas))
    nodes = draw(st.sampled_from((None, None, *range(1, max_nodes + 1))))
    count = nodes or 1
    devices = draw(st.sampled_from((0, 1, 2, 8)))
    form = draw(st.sampled_from(tuple(_LAUNCHERS)))
    container = draw(st.sampled_from((*_USUAL, "server")))
    launcher, split = None, None
    if nodes is not None:
        role["multinode"] = {"nodeCount": nodes}
        launcher = draw(st.sampled_from(_LAUNCHERS[form]))
        if launcher is not None and count > 1:
            role["multinode"]["launcher"] = launcher
    own_launch = launcher == "multiprocessing" or (launcher is None and form == "sglang")
    # The engine's own multi-node mode divides its accelerators evenly among the nodes.
    if own_launch or draw(st.booleans()):
        split = max(devices, 1) * count
    port = draw(st.sampled_from((None, None, None, 8000, 8000, 8080)))
    if extras and split is not None and form != "own" and draw(st.booleans()):
        role["parallelism"] = draw(parallelisms(split, count, launcher, form))
        split = None
    named = None if model is not None else draw(st.sampled_from(_MODELS))
    engine = _engine(form, named, split, port)
    separate = count > 1 and launcher in (None, "none") and "parallelism" not in role
    if separate and draw(st.booleans()):
        role["multinode"].pop("launcher", None)
        role["leaderTemplate"] = draw(_template(container, engine, devices))
        worker = _engine("own", "join", None, None)
        role["workerTemplate"] = draw(_template(container, worker, devices))
    else:
        role["template"] = draw(_template(container, engine, devices))
    if container not in _USUAL:
        role["container"] = container
    # What the engine listens on; another one is refused.
    _optional(draw, role, "port", st.just(port or (30000 if form == "sglang" else 8000)))
    policies = ("RecreateGroupOnPodRestart", "RecreateGroupAfterStart", "None")
    _optional(draw, role, "restartPolicy", st.sampled_from(policies))
    _optional(draw, role, "networkConfig", st.sampled_from(
        ({"subdomainPolicy": "Shared"}, {"subdomainPolicy": "UniquePerReplica"})
    ))  # fmt: skip
    if count > 1:
        sizes = [size for size in range(1, count + 1) if count % size == 0]
        _optional(draw, role, "subGroupPolicy", st.builds(
            lambda size: {"subGroupSize": size}, st.sampled_from(sizes)
        ))  # fmt: skip
    return role


def is_gang(manifest: Manifest) -> bool:
    """Tells whether the pods of a drawn manifest are scheduled as a gang."""
    spec = manifest["spec"]
    policy = spec.get("schedulingStrategy", {}).get("gangPolicy", {})
    types = {role["componentType"] for role in spec["roles"]}
    several = any(role.get("multinode", {}).get("nodeCount", 1) > 1 for role in spec["roles"])
    return policy.get("mode") != "Off" and (several or {"prefiller", "decoder"} <= types)


@st.composite
def _scheduling(
    draw: st.DrawFn,
    roles: Sequence[Manifest],
    queues: Sequence[str],
    priority_classes: Sequence[str],
) -> Manifest:
    scheduling: Manifest = {}
    policy: Manifest = {}
    _optional(draw, policy, "mode", st.sampled_from(("Auto", "Auto", "Off")))
    _optional(draw, policy, "minResources", st.booleans())
    minima = {
        role["name"]: draw(st.integers(0, role.get("replicas", 1)))
        for role in roles
        if draw(st.booleans())
    }
    needed = [minima.get(role["name"], role.get("replicas", 1)) for role in roles]
    if any(needed) and draw(st.booleans()):
        policy["minRoleReplicas"] = minima
        _optional(draw, policy, "requiredReplicas", st.sampled_from(("Any", "LowestOrdinals")))
    if policy:
        scheduling["gangPolicy"] = policy
    _optional(draw, scheduling, "schedulerName", st.just("volcano"))
    if queues:
        _optional(draw, scheduling, "queue", st.sampled_from(queues))
    if priority_classes:
        _optional(draw, scheduling, "priorityClassName", st.sampled_from(priority_classes))
    return scheduling


@st.composite
def services(
    draw: st.DrawFn,
    *,
    max_roles: int = 3,
    max_replicas: int = 4,
    max_nodes: int = 4,
    namespaces: Sequence[str] = ("default", "team-a"),
    queues: Sequence[str] = ("research",),
    priority_classes: Sequence[str] = ("high",),
    groups: Sequence[int | None] = (None, None, 0, 1, 2, 3),
    extras: bool = False,
) -> Manifest:
    """Manifests of services without a router that can be planned without an error.

    Args:
        draw: Supplied by Hypothesis.
        max_roles: Most roles of a service.
        max_replicas: Most replicas of a role.
        max_nodes: Most nodes of a replica.
        namespaces: Namespaces to choose from.
        queues: Volcano queues that exist; empty for the default one alone.
        priority_classes: Priority classes that exist; empty for none.
        groups: Serving groups to choose from, None for a service without.
        extras: Whether to draw models, sizes, offloading and what day two needs, too.
    """
    extras = extras and draw(st.booleans())
    model = draw(models) if extras else None
    types = draw(
        st.lists(st.sampled_from(("worker", "prefiller", "decoder")), min_size=1,
                 max_size=max_roles)
    )  # fmt: skip
    names = draw(
        st.lists(st.sampled_from(_WORDS), min_size=len(types), max_size=len(types), unique=True)
    )
    roles = [
        draw(_role(name, kind, max_replicas, max_nodes, model, extras=extras))
        for name, kind in zip(names, types, strict=True)
    ]
    metadata: Manifest = {"name": draw(service_names)}
    _optional(draw, metadata, "namespace", st.sampled_from(tuple(namespaces)))
    _optional(draw, metadata, "labels", labels)
    _optional(draw, metadata, "annotations", annotation_maps)
    spec: Manifest = {"roles": roles}
    _optional(draw, spec, "layout", st.sampled_from(("PerReplica", "PerRole")))
    copies = draw(st.sampled_from(tuple(groups)))
    if copies is not None:
        spec["groups"] = copies
    scheduling = draw(_scheduling(roles, queues, priority_classes))
    if extras and draw(st.booleans()):  # else few roles could be scaled
        spec["layout"] = "PerRole"
        scheduling = {"gangPolicy": {"mode": "Off"}}
    if spec.get("layout") == "PerRole":
        scheduling.get("gangPolicy", {}).pop("requiredReplicas", None)
    if scheduling:
        spec["schedulingStrategy"] = scheduling
    manifest: Manifest = {
        "apiVersion": "fusioninfer.io/v1alpha1",
        "kind": "InferenceService",
        "metadata": metadata,
        "spec": spec,
    }
    gang = is_gang(manifest)
    for role in roles:
        startups = ("LeaderCreated",) if gang else ("LeaderCreated", "LeaderReady")
        _optional(draw, role, "startupPolicy", st.sampled_from(startups))
        if extras:
            per_role = spec.get("layout") == "PerRole"
            grouped = copies is not None
            role.update(draw(role_extras(role, per_role=per_role, gang=gang, groups=grouped)))
    if extras:
        spec.update(draw(service_extras(roles)))
        if model is not None:
            spec["model"] = model
    return manifest


def shuffled(value: Any, keys: itertools.cycle[int] | None = None) -> Any:
    """Copies plain data with the keys of every mapping in another order."""
    turn = keys or itertools.cycle((1, 2, 3))
    if isinstance(value, dict):
        items = [(key, shuffled(item, turn)) for key, item in value.items()]
        at = next(turn) % max(len(items), 1)
        return dict(reversed(items[at:] + items[:at]))
    if isinstance(value, list):
        return [shuffled(item, turn) for item in value]
    return value
