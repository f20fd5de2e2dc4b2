"""Small services for the engine, and what can be seen of them in the cluster."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from e2e.harness import Cluster
from e2e.harness.pods import is_ready, leaders
from e2e.harness.stages import BEHAVIOUR, DELAY
from fusioninfer_pulumi import load, plan_service, render

Seen = TypeVar("Seen")

SETS = "leaderworkerset.x-k8s.io/v1/LeaderWorkerSet"
GROUPS = "scheduling.volcano.sh/v1beta1/PodGroup"
PREFIX = "fusioninfer.io/"
KINDS = (
    SETS,
    GROUPS,
    "v1/ConfigMap",
    "v1/Service",
    "v1/ServiceAccount",
    "rbac.authorization.k8s.io/v1/Role",
    "rbac.authorization.k8s.io/v1/RoleBinding",
    "apps/v1/Deployment",
    "policy/v1/PodDisruptionBudget",
    "networking.k8s.io/v1/NetworkPolicy",
    "inference.networking.k8s.io/v1/InferencePool",
    "gateway.networking.k8s.io/v1/Gateway",
    "gateway.networking.k8s.io/v1/HTTPRoute",
)
"""Kinds of what a service may make in its namespace."""
QUICK = {"timeout": "150s"}


def role(
    name: str = "serve",
    kind: str = "worker",
    *,
    replicas: int = 3,
    tag: str = "1",
    gpus: int = 0,
    behaviour: str = "ready",
    delay: str = "1s",
    **more: Any,
) -> dict[str, Any]:
    """A role whose pods become what `behaviour` says."""
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {"cpu": "10m"}
    container = {
        "name": "engine",
        "image": f"registry.example/engine:{tag}",
        "resources": {"limits": limits},
    }
    metadata = {"annotations": {BEHAVIOUR: behaviour, DELAY: delay}}
    template = {"metadata": metadata, "spec": {"containers": [container]}}
    return {"name": name, "componentType": kind, "replicas": replicas, "template": template, **more}


def router(*, behaviour: str = "ready", **more: Any) -> dict[str, Any]:
    """A role that leads requests to the others, with a picker whose pods become `behaviour`."""
    picker = {"template": {"metadata": {"annotations": {BEHAVIOUR: behaviour}}}}
    return {
        "name": "router",
        "componentType": "router",
        "httproute": {"hostnames": ["svc.example.com"]},
        "gateway": {"gatewayClassName": "eg"},
        "endpointPicker": picker,
        **more,
    }


def service(
    namespace: str,
    *roles: Mapping[str, Any],
    name: str = "svc",
    metadata: Mapping[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A service that waits no longer than a test may."""
    return {
        "apiVersion": "fusioninfer.io/v1alpha1",
        "kind": "InferenceService",
        "metadata": {"name": name, "namespace": namespace, **(metadata or {})},
        "spec": {
            "rollout": QUICK,
            "wait": QUICK,
            **spec,
            "roles": [dict(each) for each in roles],
        },
    }


def ready(cluster: Cluster, namespace: str) -> dict[str, int]:
    """Replicas of each role whose leader is ready and not about to end."""
    counts: dict[str, int] = {}
    for pod in leaders(cluster, namespace):
        role_name = pod["metadata"]["labels"][f"{PREFIX}role-name"]
        counts[role_name] = counts.get(role_name, 0) + is_ready(pod)
    return counts


@contextmanager
def lowest(
    cluster: Cluster, namespace: str, *then: str, every: float = 0.2
) -> Iterator[dict[str, int]]:
    """Watches the replicas that are ready, until the context ends; holds the fewest ever seen.

    `samples` counts how often was looked; `total` is of all roles together, and of the other
    namespaces too, which are looked at after the first: for replicas that move there.
    """
    least: dict[str, int] = {}

    def look() -> None:
        seen = ready(cluster, namespace)
        total = sum(seen.values())
        total += sum(sum(ready(cluster, other).values()) for other in then)
        for name, count in {**seen, "total": total}.items():
            least[name] = min(count, least.get(name, count))
        least["samples"] = least.get("samples", 0) + 1

    with watched(look, every):
        yield least


@contextmanager
def watched(look: Callable[[], Seen], every: float = 0.2) -> Iterator[list[Seen]]:
    """Looks again and again until the context ends; holds all that was seen.

    Args:
        look: Looks once. What it raises is raised at the end of the context.
        every: Seconds from one look to the next.
    """
    found: list[Seen] = []
    wrong: list[Exception] = []
    stop = threading.Event()

    def watch() -> None:
        while not stop.is_set():
            started = time.monotonic()
            try:
                found.append(look())
            except Exception as error:  # noqa: BLE001 - raised below: half a watch proves nothing
                wrong.append(error)
                return
            stop.wait(max(0.0, every - (time.monotonic() - started)))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        stop.set()
        thread.join()
    if wrong:
        raise wrong[0]


def lws(cluster: Cluster, namespace: str) -> dict[str, dict[str, Any]]:
    """The LeaderWorkerSets by name."""
    return {each["metadata"]["name"]: each for each in cluster.list(SETS, namespace)}


def images(cluster: Cluster, namespace: str) -> dict[str, str]:
    """The image of each set."""
    found = {}
    for name, each in lws(cluster, namespace).items():
        spec = each["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]
        found[name] = str(spec["containers"][0]["image"]).rpartition(":")[2]
    return found


def tags(cluster: Cluster, namespace: str) -> dict[str, str]:
    """The image of each leader, by its group."""
    return {pod["metadata"]["name"]: tag_of(pod) for pod in leaders(cluster, namespace)}


def tag_of(pod: Mapping[str, Any]) -> str:
    """Tag of the image that a pod runs."""
    return str(pod["spec"]["containers"][0]["image"]).rpartition(":")[2]


def pods(cluster: Cluster, namespace: str) -> dict[str, str]:
    """The pods, as name and identity: a pod that was replaced has another identity."""
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in cluster.pods(namespace)}


def left(cluster: Cluster, namespace: str) -> list[str]:
    """Objects of a namespace that services made, not those that controllers made of them."""
    found = [each for kind in KINDS for each in cluster.list(kind, namespace)]
    own = [each for each in found if f"{PREFIX}service" in (each["metadata"].get("labels") or {})]
    return sorted(_name(each) for each in own if not each["metadata"].get("ownerReferences"))


def rendered(manifest: Mapping[str, Any]) -> list[str]:
    """Objects that a service consists of."""
    return sorted(_name(each) for args in load(manifest) for each in render(plan_service(args)))


def noted(resources: Sequence[Mapping[str, Any]]) -> list[str]:
    """Objects that the state of a stack holds; what is to go counts too."""
    objects = [resource for resource in resources if resource["type"].startswith("kubernetes:")]
    return sorted(_name(manifest["inputs"]) for manifest in objects)


def _name(manifest: Mapping[str, Any]) -> str:
    return f"{manifest['kind']}/{manifest['metadata']['name']}"
