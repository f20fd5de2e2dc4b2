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
    behaviour: str = "ready",
    delay: str = "1s",
    **more: Any,
) -> dict[str, Any]:
    """Return a role whose simulated pods have this behaviour."""
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
    """Return a router role whose simulated endpoint picker pods have this behaviour."""
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
    made = inputs.service(name, *map(dict, roles))
    made["metadata"] |= {"namespace": namespace, **(metadata or {})}
    made["spec"] |= {"rollout": QUICK, "wait": QUICK, **spec}
    return made


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
        with self.min_ready_replicas() as least:
            self.deploy_services(*services)
        return least

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
        live = self.remaining_objects(namespace)
        assert live == state_objects(self.resources()) == rendered(wanted)

    def destroy(self) -> None:
        """Run `pulumi destroy`; assert that neither the cluster nor the state has an object."""
        self.down().assert_succeeded()
        assert (self.remaining_objects(), self.resources()) == ([], [])

    def without_permissions(self) -> None:
        """Let the program read the cluster with an account that has no permissions."""
        account = f"system:serviceaccount:{self.namespace}:default"
        kubeconfig = str(self.cluster.kubeconfig_for(account))
        self.program = (
            "from fusioninfer_pulumi.component import cluster_access as access\n"
            f"async def kubeconfig(_): return {kubeconfig!r}, None\n"
            f"assert access.read_kubeconfig\naccess.read_kubeconfig = kubeconfig\n{self.program}"
        )

    def ready(self, namespace: str | None = None) -> dict[str, int]:
        """Return the replicas of each role whose leader is ready and not terminating."""
        counts: dict[str, int] = {}
        for pod in leaders(self.cluster, namespace or self.namespace):
            role_name = pod["metadata"]["labels"][f"{PREFIX}role-name"]
            counts[role_name] = counts.get(role_name, 0) + is_ready(pod)
        return counts

    @contextmanager
    def min_ready_replicas(self) -> Iterator[dict[str, int]]:
        """Yield the fewest ready replicas of each role that were seen inside the context.

        `samples` counts the readings, and `total` is the sum over all roles.
        """
        least: dict[str, int] = {}

        def look() -> None:
            seen = self.ready()
            for name, count in {**seen, "total": sum(seen.values())}.items():
                least[name] = min(count, least.get(name, count))
            least["samples"] = least.get("samples", 0) + 1

        with watched(look):
            yield least

    def lws(self) -> dict[str, dict[str, Any]]:
        return {each["metadata"]["name"]: each for each in self.cluster.list(SETS, self.namespace)}

    def lws_uids(self) -> dict[str, str]:
        """Return the UID of each LeaderWorkerSet. Replacing one changes its UID."""
        return {name: each["metadata"]["uid"] for name, each in self.lws().items()}

    def images(self) -> dict[str, str]:
        return {
            name: tag_of(each["spec"]["leaderWorkerTemplate"]["workerTemplate"])
            for name, each in self.lws().items()
        }

    def tags(self) -> dict[str, str]:
        return {
            pod["metadata"]["name"]: tag_of(pod) for pod in leaders(self.cluster, self.namespace)
        }

    def pods(self, namespace: str | None = None) -> dict[str, str]:
        """Return the UID of each pod. Restarting a pod changes its UID."""
        return {
            pod["metadata"]["name"]: pod["metadata"]["uid"]
            for pod in self.cluster.pods(namespace or self.namespace)
        }

    def remaining_objects(self, namespace: str | None = None) -> list[str]:
        """Return the objects that services created, without objects created by controllers."""
        found = [
            each for kind in KINDS for each in self.cluster.list(kind, namespace or self.namespace)
        ]
        return sorted(
            _name(each)
            for each in found
            if f"{PREFIX}service" in (each["metadata"].get("labels") or {})
            and not each["metadata"].get("ownerReferences")
        )


@contextmanager
def watched(look: Callable[[], Seen], every: float = 0.2) -> Iterator[list[Seen]]:
    """Call a function repeatedly until the context ends; yield the list of its results.

    Args:
        look: The function. Its exception is raised at the end of the context.
        every: Seconds between calls.
    """
    found: list[Seen] = []
    wrong: list[Exception] = []
    stop = threading.Event()

    def watch() -> None:
        while not stop.is_set():
            started = time.monotonic()
            try:
                found.append(look())
            except Exception as error:  # noqa: BLE001 - raised when the context ends
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


def tag_of(pod: Mapping[str, Any]) -> str:
    return str(pod["spec"]["containers"][0]["image"]).rpartition(":")[2]


def rendered(manifest: Mapping[str, Any]) -> list[str]:
    return sorted(_name(each) for args in load(manifest) for each in render(plan_service(args)))


def state_objects(resources: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the objects in a stack's state, including those pending deletion."""
    objects = [resource for resource in resources if resource["type"].startswith("kubernetes:")]
    return sorted(_name(manifest["inputs"]) for manifest in objects)


def _name(manifest: Mapping[str, Any]) -> str:
    return f"{manifest['kind']}/{manifest['metadata']['name']}"
