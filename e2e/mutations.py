"""Manifests with slips of the pen, of all systems and the same for a seed.

A mutant is a manifest of the documents, of the importers' samples, or drawn from a seed
(`tests/drawn_services`), in which some fields are missing, misspelt, of another type, given twice,
swapped, at the edge of their range, or are fields of Kubernetes' that pods seldom have.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml

from e2e.inputs import DOCUMENTS
from importers.tests import documents, kserve_documents

Manifest = dict[str, Any]
Place = tuple[str | int, ...]

#: Services drawn as a base of mutants.
DRAWN = 150


@dataclass(frozen=True)
class Mutant:
    """A mutated input.

    Attributes:
        name: Its base.
        slips: What was done to it.
        documents: Its documents.
    """

    name: str
    slips: tuple[str, ...]
    documents: list[Manifest]


SLIPS = Path(__file__).parent / "slips.yaml"
#: Longer than the annotations of an object may be.
_LONG = "x" * 300_000


@cache
def _seldom() -> dict[str, list[Manifest]]:
    """Fields that seldom stand in pods, by what they are written into."""
    held: dict[str, list[Manifest]] = yaml.safe_load(SLIPS.read_text(encoding="utf-8"))
    kinds = ("livenessProbe", "readinessProbe", "startupProbe")
    held["container"] += [{kind: each} for kind in kinds for each in held["probe"]]
    hooks = ("preStop", "postStart")
    held["container"] += [{"lifecycle": {hook: each}} for hook in hooks for each in held["hook"]]
    held["metadata"].append({"annotations": {"long": _LONG}})
    return held


#: Values of no type in particular, for any field.
_EDGES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 7, 65535, 65536, 2**31, 2**63, 10**25, 0.5, 1.5, -0.1, "", " ",
    "0", "-1", "1.5", "500m", "0.5Gi", "1e3", "1Kib", "true", "None", "x", "X", "x y", "a.b", "a/b",
    "a_b", "-a", "a-", "x" * 64, "x" * 300, "ü", "$(A)", "100%", "101%", "10s", "http", [], [None],
    ["a"], ["a", "a"], [{}], [{"name": "a"}], {}, {"a": 1}, {"a": "b"}, {"name": "a"},
)  # fmt: skip


def rich_pod(name: str = "vllm") -> Manifest:
    """A pod template with many fields, which is accepted as it is."""
    return {
        "metadata": {"labels": {"app": "chat"}, "annotations": {"note": "one"}},
        "spec": {
            "serviceAccountName": "engine",
            "terminationGracePeriodSeconds": 60,
            "nodeSelector": {"gpu.example.com/type": "H100"},
            "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
            "imagePullSecrets": [{"name": "registry"}],
            "securityContext": {"fsGroup": 1000, "seccompProfile": {"type": "RuntimeDefault"}},
            "affinity": {"nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]},
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "preference": {
                    "matchExpressions": [{"key": "fast", "operator": "Exists"}]}}]}},
            "topologySpreadConstraints": [{
                "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {"app": "chat"}}}],
            "volumes": [
                {"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}},
                {"name": "settings", "configMap": {"name": "settings", "items": [
                    {"key": "a", "path": "a.yaml"}]}},
                {"name": "disk", "persistentVolumeClaim": {"claimName": "disk"}}],
            "initContainers": [{
                "name": "prepare", "image": "busybox:1.36", "command": ["true"],
                "volumeMounts": [{"name": "disk", "mountPath": "/disk"}]}],
            "containers": [
                {"name": name, "image": "vllm/vllm-openai:v0.11.0",
                 "args": ["--model", "m", "--port", "8000"],
                 "env": [
                     {"name": "HF_HOME", "value": "/disk"},
                     {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                     {"name": "HF_TOKEN", "valueFrom": {
                         "secretKeyRef": {"name": "hf", "key": "token"}}}],
                 "envFrom": [{"secretRef": {"name": "more"}}],
                 "ports": [{"name": "http", "containerPort": 8000}],
                 "resources": {"limits": {"nvidia.com/gpu": "1", "memory": "64Gi"},
                               "requests": {"cpu": "4", "memory": "64Gi"}},
                 "readinessProbe": {"httpGet": {"path": "/health", "port": "http"}},
                 "livenessProbe": {"httpGet": {"path": "/", "port": 8000}, "periodSeconds": 20},
                 "lifecycle": {"preStop": {"exec": {"command": ["sleep", "5"]}}},
                 "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}},
                 "volumeMounts": [{"name": "dshm", "mountPath": "/dev/shm"},
                                  {"name": "settings", "mountPath": "/settings", "readOnly": True},
                                  {"name": "disk", "mountPath": "/disk"}]},
                {"name": "beside", "image": "example.com/logs:1",
                 "ports": [{"containerPort": 9000, "protocol": "TCP"}],
                 "resources": {"requests": {"cpu": "100m", "ephemeral-storage": "1Gi"}}}],
        },
    }  # fmt: skip


def _service(*roles: Manifest, **spec: Any) -> list[Manifest]:
    return [
        {
            "apiVersion": "fusioninfer.io/v1alpha1",
            "kind": "InferenceService",
            "metadata": {"name": "chat", "labels": {"team": "a"}, "annotations": {"note": "x"}},
            "spec": {"roles": list(roles), **spec},
        }
    ]


def _rich_bases() -> dict[str, list[Manifest]]:
    router = {
        "name": "router",
        "componentType": "router",
        "httproute": {
            "parentRefs": [{"name": "gateway", "namespace": "infra"}],
            "hostnames": ["chat.example.com"],
            "rules": [{
                "matches": [{"path": {"type": "PathPrefix", "value": "/v1"},
                             "headers": [{"name": "x-team", "value": "a"}]}],
                "timeouts": {"request": "60s"}}],
        },
        "endpointPicker": {
            "replicas": 2,
            "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}},
            "template": {"spec": {
                "containers": [{"name": "epp", "env": [{"name": "A", "value": "b"}]},
                               {"name": "logs", "image": "example.com/logs:1"}],
                "tolerations": [{"key": "a", "operator": "Exists"}]}},
        },
        "networkPolicy": {"gateway": [
            {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "infra"}}},
            {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}]},
    }  # fmt: skip
    gateway = {
        "name": "router",
        "componentType": "router",
        "strategy": "queue-size",
        "gateway": {
            "gatewayClassName": "istio",
            "listeners": [
                {"name": "http", "port": 80, "protocol": "HTTP"},
                {"name": "https", "port": 443, "protocol": "HTTPS", "hostname": "*.example.com",
                 "tls": {"mode": "Terminate", "certificateRefs": [{"name": "cert"}]},
                 "allowedRoutes": {"namespaces": {"from": "Same"}}}],
        },
    }  # fmt: skip
    worker = {"name": "serve", "componentType": "worker", "replicas": 2, "template": rich_pod()}
    pair = {
        "name": "large",
        "componentType": "worker",
        "multinode": {"nodeCount": 2},
        "leaderTemplate": rich_pod(),
        "workerTemplate": rich_pod(),
        "rollout": {"maxUnavailable": 1},
    }
    fetched = copy.deepcopy(worker)
    template: Any = fetched["template"]
    template["spec"]["containers"][0]["args"] = ["--port", "8000"]
    model = {
        "uri": "hf://Qwen/Qwen3-8B",
        "tokenSecret": {"name": "hf", "key": "token"},
        "fetcher": {"env": [{"name": "A", "value": "b"}], "resources": {"requests": {"cpu": "1"}}},
        "cache": {"storage": {"size": "100Gi", "accessModes": ["ReadWriteMany"]}, "warmUp": True,
                  "job": {"nodeSelector": {"a": "b"}, "tolerations": [{"operator": "Exists"}]}},
    }  # fmt: skip
    serving = {
        "apiVersion": "workload.serving.volcano.sh/v1alpha1",
        "kind": "ModelServing",
        "metadata": {"name": "sample", "namespace": "default"},
        "spec": {
            "schedulerName": "volcano",
            "replicas": 1,
            "template": {
                "restartGracePeriodSeconds": 60,
                "roles": [
                    {"name": "prefill", "replicas": 2, "workerReplicas": 0,
                     "entryTemplate": rich_pod()},
                    {"name": "decode", "replicas": 1, "workerReplicas": 1,
                     "entryTemplate": rich_pod(), "workerTemplate": rich_pod()},
                ],
            },
        },
    }  # fmt: skip
    main = rich_pod("main")["spec"]
    main["containers"][0].pop("args")
    llm = kserve_documents.complete(
        {"template": main, "router": {"route": {}, "gateway": {}, "scheduler": {}}}
    )
    deployment = copy.deepcopy(documents.DOCUMENTS["modelplane-model-deployment-disaggregated"])
    (engine,) = deployment["spec"]["workers"]["template"]["spec"]["containers"]
    engine |= {
        "env": [{"name": "A", "value": "b"}],
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
    }
    return {
        "own, single pods": _service(worker, router),
        "own, several nodes": _service(pair, {**worker, "name": "small"}, gateway),
        "own, per role": _service(worker, gateway, layout="PerRole"),
        "own, with a model": _service(fetched, model=model),
        "kthena, rich": [serving],
        "kserve, rich": [llm],
        "modelplane, rich": [deployment],
    }


@cache
def bases() -> dict[str, list[Manifest]]:
    """What is mutated, by name."""
    found = _rich_bases()
    for name, path in DOCUMENTS.items():
        found[name] = list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
    for name, document in documents.DOCUMENTS.items():
        found[name] = [document]
    for name, document in {
        **kserve_documents.acceptable(),
        "edited": kserve_documents.edited(),
    }.items():
        found[f"kserve, {name}"] = [document]
    return found


def _drawn(seed: int) -> list[Manifest]:
    # By its name: pytest finds the tests' packages, and mypy does not.
    documents: list[Manifest] = import_module("drawn_services").draw_service(seed).documents
    return documents


def mutants(seed: int, count: int) -> Iterator[Mutant]:
    """Yields mutants that are the same for a seed."""
    draw = random.Random(seed)
    named = list(bases())
    rich = list(_rich_bases())
    for _ in range(count):
        where = draw.random()
        if where < 0.4:
            name = draw.choice(rich)
        elif where < 0.75:
            name = draw.choice(named)
        else:
            name = f"drawn {draw.randrange(DRAWN)}"
        given = bases()[name] if name in bases() else _drawn(int(name[6:]))
        held: list[Manifest] = json.loads(json.dumps(given))
        slips = [_slip(draw, held) for _ in range(draw.choice((1, 1, 1, 2, 3)))]
        yield Mutant(name, tuple(filter(None, slips)), held)


def _slip(draw: random.Random, given: list[Manifest]) -> str | None:
    places = list(_places(given))
    if draw.random() < 0.45:
        found = _written(draw, given, places)
        if found is not None:
            return found
    place = draw.choice(places)
    holder: Any = _at(given, place[:-1])
    kinds = list(_SLIPS)
    return _SLIPS[draw.choice(kinds)](draw, holder, place)


def _places(value: Any, at: Place = ()) -> Iterator[Place]:
    inner: list[Any] = []
    if isinstance(value, dict):
        inner = list(value)
    elif isinstance(value, list):
        inner = list(range(len(value)))
    for part in inner:
        # Nothing is left of a document without its kind.
        if len(at) == 1 and part in ("apiVersion", "kind"):
            continue
        if at or isinstance(value[part], dict):
            if at:
                yield (*at, part)
            yield from _places(value[part], (*at, part))


def _at(value: Any, place: Place) -> Any:
    for part in place:
        value = value[part]
    return value


def _written(draw: random.Random, given: list[Manifest], places: list[Place]) -> str | None:
    """Writes fields of Kubernetes' into a pod, a container, metadata or a mount."""
    kind = draw.choice(("pod", "pod", "container", "container", "container", "metadata", "mount"))
    fits = _FITTING[kind]
    fitting = [place for place in places if fits(_at(given, place))]
    if not fitting:
        return None
    place = draw.choice(fitting)
    held = _at(given, place)
    if kind == "pod" and draw.random() < 0.15:
        held["initContainers"] = [
            *(held.get("initContainers") or ()),
            copy.deepcopy(draw.choice(_seldom()["init"])),
        ]
        return f"{_path(place)}: init container"
    more = copy.deepcopy(draw.choice(_seldom()[kind]))
    for key, value in more.items():
        merged = isinstance(value, list) and isinstance(held.get(key), list) and draw.random() < 0.7
        deep = isinstance(value, dict) and isinstance(held.get(key), dict) and draw.random() < 0.5
        held[key] = [*held[key], *value] if merged else {**held[key], **value} if deep else value
    return f"{_path(place)}: {json.dumps(more)[:150]}"


def _is_container(held: Any) -> bool:
    return isinstance(held, dict) and "name" in held and bool({"image", "args", "env"} & set(held))


_FITTING: Mapping[str, Callable[[Any], bool]] = {
    "pod": lambda held: isinstance(held, dict) and "containers" in held,
    "container": _is_container,
    "metadata": lambda held: isinstance(held, dict) and "labels" in held,
    "mount": lambda held: isinstance(held, dict) and "mountPath" in held,
}


def _path(place: Place) -> str:
    return ".".join(map(str, place))


def _deleted(_: random.Random, holder: Any, place: Place) -> str:
    del holder[place[-1]]
    return f"{_path(place)}: deleted"


def _edge(draw: random.Random, holder: Any, place: Place) -> str:
    holder[place[-1]] = copy.deepcopy(draw.choice(_EDGES))
    return f"{_path(place)}: = {json.dumps(holder[place[-1]])[:80]}"


def _another_type(draw: random.Random, holder: Any, place: Place) -> str:
    held = holder[place[-1]]
    changed: Any
    if isinstance(held, (bool, int, float)):
        changed = str(held)
    elif isinstance(held, str):
        changed = int(held) if held.isdigit() else draw.choice((True, 1, [held], {"value": held}))
    elif isinstance(held, list):
        changed = held[0] if held else {}
    elif isinstance(held, dict):
        changed = (
            [held]
            if draw.random() < 0.5
            else [{"name": str(k), "value": v} for k, v in held.items()]
        )
    else:
        changed = "x"
    holder[place[-1]] = changed
    return f"{_path(place)}: another type {json.dumps(changed)[:80]}"


def _twice(draw: random.Random, holder: Any, place: Place) -> str:
    if isinstance(holder, list) and isinstance(place[-1], int):
        again = copy.deepcopy(holder[place[-1]])
        if isinstance(again, dict) and again and draw.random() < 0.5:
            key = draw.choice(list(again))
            again[key] = _near(draw, again[key])
        holder.append(again)
        return f"{_path(place)}: given twice"
    return _edge(draw, holder, place)


def _misspelt(draw: random.Random, holder: Any, place: Place) -> str:
    if not isinstance(holder, dict):
        return _twice(draw, holder, place)
    key = str(place[-1])
    wrong = draw.choice(
        (f"{key}s", key[:-1] or "x", key.lower(), key.upper(), f"{key}Name", f"x-{key}")
    )
    holder[wrong] = holder.pop(place[-1]) if draw.random() < 0.6 else holder[place[-1]]
    return f"{_path(place)}: as {wrong}"


def _near(draw: random.Random, value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return draw.choice((value + 1, value - 1, -value, value * 1000, 0, value + 2**31))
    if isinstance(value, float):
        return -value
    if isinstance(value, str) and value:
        at = draw.randrange(len(value))
        return draw.choice(
            (value.upper(), value.capitalize(), f"{value}s", value[:-1], f" {value}", f"{value} ",
             f"{value}-", f"-{value}", value.replace("-", "_"), value.replace(".", ""),
             value[:at] + draw.choice("/_.:-A1 ") + value[at:], value * 9, f"{value}.", f"/{value}")
        )  # fmt: skip
    return value


def _nearly(draw: random.Random, holder: Any, place: Place) -> str:
    held = holder[place[-1]]
    if isinstance(held, (dict, list)):
        return _edge(draw, holder, place)
    holder[place[-1]] = _near(draw, held)
    return f"{_path(place)}: ~ {json.dumps(holder[place[-1]])[:80]}"


def _near_key(draw: random.Random, holder: Any, place: Place) -> str:
    if not isinstance(holder, dict):
        return _nearly(draw, holder, place)
    wrong = _near(draw, str(place[-1]))
    holder[wrong] = holder.pop(place[-1])
    return f"{_path(place)}: key {wrong}"


def _swapped(draw: random.Random, holder: Any, place: Place) -> str:
    others = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
    other = draw.choice(others)
    holder[place[-1]], holder[other] = holder[other], holder[place[-1]]
    return f"{_path(place)}: swapped with {other}"


def _unknown(draw: random.Random, holder: Any, place: Place) -> str:
    held = holder[place[-1]]
    if isinstance(held, dict):
        held[draw.choice(("unknown", "enabled", "Name", "spec", "replicas"))] = draw.choice(
            (1, "x", {})
        )
        return f"{_path(place)}: unknown key"
    return _edge(draw, holder, place)


_SLIPS: Mapping[str, Callable[[random.Random, Any, Place], str]] = {
    "deleted": _deleted,
    "edge": _edge,
    "another type": _another_type,
    "twice": _twice,
    "misspelt": _misspelt,
    "nearly": _nearly,
    "nearly again": _nearly,
    "near key": _near_key,
    "swapped": _swapped,
    "unknown": _unknown,
}
