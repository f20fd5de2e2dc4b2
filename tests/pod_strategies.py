"""Hypothesis strategies for pod templates, and for texts that YAML or shell quoting may break."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

Manifest = dict[str, Any]

#: Texts that change without correct YAML or shell quoting.
AWKWARD = (
    "yes", "null", "~", "1", "1.50", "0x1F", "012", "12:30", "2024-01-01", "true", "- a", "a: b",
    "# no comment", " leading", "trailing ", "it's", '"quoted"', '{"a": [1, "b"]}', "$HOME",
    "$(NAME)", "two\nlines\n", "tab\there", "&anchor", "*alias", "!tag", "%", "@", "`", "<<", "=",
    "ünïcödé 日本", "\N{GRINNING FACE}", "", "\\", "\u2028",
)  # fmt: skip

ACCELERATORS = ("nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "habana.ai/gaudi",
                "google.com/tpu", "nvidia.com/mig-1g.5gb")  # fmt: skip


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


def optional(draw: st.DrawFn, into: Manifest, key: str, values: st.SearchStrategy[Any]) -> None:
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
    optional(draw, container, "command", st.just(["/bin/sh", "-c", "sleep $((60 * 60))"]))
    optional(draw, container, "env", st.builds(lambda text: [{"name": "TEXT", "value": text}],
                                                texts))  # fmt: skip
    optional(draw, container, "resources", st.sampled_from(
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


def image_and_command(
    form: str, model: str | None, split: int | None, port: int | None
) -> Manifest:
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


def serving_port(engine: Manifest) -> int:
    """The port that such a container serves on."""
    words = " ".join((*engine.get("command", ()), *engine["args"]))
    _, stated, behind = words.partition("--port ")
    if stated:
        return int(behind.split()[0])
    return 30000 if "sglang" in words else 8000


LAUNCHERS = {
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
    optional(draw, limits, "memory", st.sampled_from(("1Gi", "1.5Gi", "500M")))
    container["resources"] = {"limits": limits, "requests": requests}
    port = serving_port(engine)
    optional(draw, container, "readinessProbe", st.just(
        {"httpGet": {"path": "/ready", "port": port}, "failureThreshold": 30}
    ))  # fmt: skip
    optional(draw, container, "livenessProbe", st.just({"tcpSocket": {"port": port}}))
    optional(draw, container, "lifecycle", st.just({"preStop": {"exec": {"command": ["true"]}}}))
    optional(draw, container, "env", st.builds(
        lambda text: [{"name": "PROMPT", "value": text},
                      {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
        texts,
    ))  # fmt: skip
    _mount(draw, container, volumes)
    return container


@st.composite
def templates(draw: st.DrawFn, name: str, engine: Manifest, devices: int) -> Manifest:
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
    optional(draw, spec, "tolerations", st.just(
        [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}]
    ))  # fmt: skip
    optional(draw, spec, "nodeSelector", st.just({"kubernetes.io/os": "linux"}))
    optional(draw, spec, "terminationGracePeriodSeconds", st.integers(0, 600))
    template: Manifest = {"spec": spec}
    metadata: Manifest = {}
    optional(draw, metadata, "labels", labels)
    optional(draw, metadata, "annotations", annotation_maps)
    if metadata:
        template["metadata"] = metadata
    return template
