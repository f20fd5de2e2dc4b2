"""Minimal services for tests with the Pulumi engine, and helpers that read their objects."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from e2e import inputs
from e2e.engine.project import CommandResult, Project
from e2e.harness import Cluster
from e2e.harness.pods import is_ready, leaders
from e2e.harness.stages import BEHAVIOR, DELAY
from fusioninfer_pulumi import load, plan_service, render

Seen = TypeVar("Seen")

LWS = "leaderworkerset.x-k8s.io/v1/LeaderWorkerSet"
POD_GROUP = "scheduling.volcano.sh/v1beta1/PodGroup"
PREFIX = "fusioninfer.io/"
KINDS = (
    LWS,
    POD_GROUP,
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
"""Kinds of the objects that a service may create in its namespace."""
QUICK = {"timeout": "150s"}
TWO_NODES: dict[str, Any] = {"multinode": {"nodeCount": 2, "launcher": "none"}}
PER_ROLE: dict[str, Any] = {"layout": "PerRole"}
NO_GANG: dict[str, Any] = {"schedulingStrategy": {"gangPolicy": {"mode": "Off"}}}


def role(
    name: str = "serve",
    kind: str = "worker",
    *,
    replicas: int = 3,
    tag: str = "1",
    gpus: int = 0,
    behavior: str = "ready",
    delay: str = "1s",
    **more: Any,
) -> dict[str, Any]:
    """Return a role whose simulated pods have this behavior."""
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {"cpu": "10m"}
    container = {
        "name": "engine",
        "image": f"registry.example/engine:{tag}",
        "resources": {"limits": limits},
    }
    metadata = {"annotations": {BEHAVIOR: behavior, DELAY: delay}}
    template = {"metadata": metadata, "spec": {"containers": [container]}}
    return {"name": name, "componentType": kind, "replicas": replicas, "template": template, **more}


def router(*, behavior: str = "ready", **more: Any) -> dict[str, Any]:
    """Return a router role whose simulated endpoint picker pods have this behavior."""
    picker = {"template": {"metadata": {"annotations": {BEHAVIOR: behavior}}}}
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
    manifest = inputs.service(name, *map(dict, roles))
    manifest["metadata"] |= {"namespace": namespace, **(metadata or {})}
    manifest["spec"] |= {"rollout": QUICK, "wait": QUICK, **spec}
    return manifest


class Stack(Project):
    """A stack whose services run in one namespace of a cluster."""

    def __init__(self, folder: Path, cluster: Cluster, namespace: str, **more: Any) -> None:
        super().__init__(folder, cluster.kubeconfig, **more)
        self.cluster = cluster
        self.namespace = namespace

    def service(self, *roles: Mapping[str, Any], **spec: Any) -> dict[str, Any]:
        return service(self.namespace, *roles, **spec)

    def deploy(self, *roles: Mapping[str, Any], **spec: Any) -> None:
        """Deploy a program with one service that has these roles."""
        self.deploy_services(self.service(*roles, **spec))

    def deploy_services(self, *services: Mapping[str, Any]) -> None:
        self.write(*services)
        self.up().assert_succeeded()

    def fail(self, *roles: Mapping[str, Any], **spec: Any) -> CommandResult:
        """Deploy a program with one service that has these roles; assert that the update fails."""
        self.write(self.service(*roles, **spec))
        return self.up().assert_failed()

    def roll(self, *roles: Mapping[str, Any], **spec: Any) -> dict[str, int]:
        """Deploy one service with these roles; return the result of `min_ready_replicas`."""
        return self.roll_services(self.service(*roles, **spec))

    def roll_services(self, *services: Mapping[str, Any]) -> dict[str, int]:
        with self.min_ready_replicas() as min_ready:
            self.deploy_services(*services)
        return min_ready

    def assert_rejected(self, manifest: Mapping[str, Any], *texts: str) -> None:
        """Assert that preview and update of a service fail with these texts and restart no pod."""
        before = self.pods()
        self.write(manifest)
        for words in (("preview",), ("up", "--yes", "--skip-preview")):
            result = self.run(*words).assert_failed()
            assert all(text in result.text for text in texts), result.text[-4000:]
        assert self.pods() == before

    def assert_objects(self, wanted: Mapping[str, Any], namespace: str | None = None) -> None:
        """Assert that the cluster and the state have exactly the objects that `render` prints."""
        live = self.list_objects(namespace)
        assert live == list_state(self.read_resources()) == list_rendered(wanted)

    def destroy(self) -> None:
        """Run `pulumi destroy`; assert that neither the cluster nor the state has an object."""
        self.down().assert_succeeded()
        assert (self.list_objects(), self.read_resources()) == ([], [])

    def drop_permissions(self) -> None:
        """Let the program read the cluster as a ServiceAccount without permissions."""
        account = f"system:serviceaccount:{self.namespace}:default"
        kubeconfig = str(self.cluster.kubeconfig_for(account))
        self.program = (
            "from fusioninfer_pulumi.component import cluster_access as access\n"
            f"async def kubeconfig(_): return {kubeconfig!r}, None\n"
            f"assert access.read_kubeconfig\naccess.read_kubeconfig = kubeconfig\n{self.program}"
        )

    def count_ready(self, namespace: str | None = None) -> dict[str, int]:
        """Return the replicas of each role whose leader is ready and not terminating."""
        counts: dict[str, int] = {}
        for pod in leaders(self.cluster, namespace or self.namespace):
            role_name = pod["metadata"]["labels"][f"{PREFIX}role-name"]
            counts[role_name] = counts.get(role_name, 0) + is_ready(pod)
        return counts

    @contextmanager
    def min_ready_replicas(self) -> Iterator[dict[str, int]]:
        """Yield the minimum of ready replicas of each role inside the context.

        `samples` counts the readings, and `total` is the sum over all roles.
        """
        min_ready: dict[str, int] = {}

        def read() -> None:
            seen = self.count_ready()
            for name, count in {**seen, "total": sum(seen.values())}.items():
                min_ready[name] = min(count, min_ready.get(name, count))
            min_ready["samples"] = min_ready.get("samples", 0) + 1

        with poll(read):
            yield min_ready

    def lws(self) -> dict[str, dict[str, Any]]:
        return {item["metadata"]["name"]: item for item in self.cluster.list(LWS, self.namespace)}

    def list_lws_uids(self) -> dict[str, str]:
        """Return the UID of each LeaderWorkerSet. Replacing one changes its UID."""
        return {name: item["metadata"]["uid"] for name, item in self.lws().items()}

    def lws_tags(self) -> dict[str, str]:
        return {
            name: get_tag(item["spec"]["leaderWorkerTemplate"]["workerTemplate"])
            for name, item in self.lws().items()
        }

    def pod_tags(self) -> dict[str, str]:
        return {
            pod["metadata"]["name"]: get_tag(pod) for pod in leaders(self.cluster, self.namespace)
        }

    def pods(self, namespace: str | None = None) -> dict[str, str]:
        """Return the UID of each pod. Restarting a pod changes its UID."""
        return {
            pod["metadata"]["name"]: pod["metadata"]["uid"]
            for pod in self.cluster.pods(namespace or self.namespace)
        }

    def list_objects(self, namespace: str | None = None) -> list[str]:
        """Return the objects that services created, without objects created by controllers."""
        found = [
            item for kind in KINDS for item in self.cluster.list(kind, namespace or self.namespace)
        ]
        return sorted(
            _get_key(item)
            for item in found
            if f"{PREFIX}service" in (item["metadata"].get("labels") or {})
            and not item["metadata"].get("ownerReferences")
        )


@contextmanager
def poll(read: Callable[[], Seen], every: float = 0.2) -> Iterator[list[Seen]]:
    """Call a function repeatedly until the context ends; yield the list of its results.

    Args:
        read: The function. Its exception is raised at the end of the context.
        every: Seconds between calls.
    """
    found: list[Seen] = []
    errors: list[Exception] = []
    stop = threading.Event()

    def watch() -> None:
        while not stop.is_set():
            started = time.monotonic()
            try:
                found.append(read())
            except Exception as error:  # noqa: BLE001 - raised when the context ends
                errors.append(error)
                return
            stop.wait(max(0.0, every - (time.monotonic() - started)))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        stop.set()
        thread.join()
    if errors:
        raise errors[0]


def get_tag(pod: Mapping[str, Any]) -> str:
    return str(pod["spec"]["containers"][0]["image"]).rpartition(":")[2]


def list_rendered(manifest: Mapping[str, Any]) -> list[str]:
    return sorted(_get_key(item) for args in load(manifest) for item in render(plan_service(args)))


def list_state(resources: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the objects in a stack's state, including those pending deletion."""
    objects = [resource for resource in resources if resource["type"].startswith("kubernetes:")]
    return sorted(_get_key(manifest["inputs"]) for manifest in objects)


def _get_key(manifest: Mapping[str, Any]) -> str:
    return f"{manifest['kind']}/{manifest['metadata']['name']}"
