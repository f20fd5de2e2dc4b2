"""A stack with a fake cluster, for tests of updates that wait."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import pulumi
import pytest
from clusters import FakeCluster

from fusioninfer_pulumi.component import children, cluster_access as access, update_run
from fusioninfer_pulumi.rollout import state_machine

SERVICE = "fusioninfer.io/service"
COMPONENT = "urn:pulumi:dev::app::fusioninfer:index:InferenceService"
KINDS = {
    "HTTPRoute": "kubernetes:gateway.networking.k8s.io/v1:HTTPRoute",
    "LeaderWorkerSet": "kubernetes:leaderworkerset.x-k8s.io/v1:LeaderWorkerSet",
}


class Stack:
    """A stack with a fake cluster, and observations of its last run.

    Attributes:
        live: Objects by kind and name; a LeaderWorkerSet is ready two lists after it has changed.
        broken: Images and services whose replicas never become available.
        down: LeaderWorkerSets that are unavailable until their spec changes.
        frozen: LeaderWorkerSets that keep their spec, as with Pulumi's `ignoreChanges`.
        order: Names of LeaderWorkerSets and routes in the order in which they were registered.
        ready: Services with a ready replica when the route was registered.
        lowest: Minimum number of available LeaderWorkerSets that existed before the run.
        lists: Number of list requests.
        problem: Exception raised by each list request.
    """

    def __init__(self, engine: Any) -> None:
        self.engine = engine
        self.live: dict[tuple[str, str], Any] = {}
        self.age: dict[str, int] = {}
        self.broken: set[str] = set()
        self.down: set[str] = set()
        self.frozen: set[str] = set()
        self.order: list[str] = []
        self.ready: set[str] = set()
        self.lists, self.lowest = 0, 0
        self.problem: Exception | None = None
        self.before: set[str] = set()
        self.logged: list[str] = []
        engine.state = {}

    @property
    def lws(self) -> dict[str, Any]:
        return {name: live for (kind, name), live in self.live.items() if kind == "LeaderWorkerSet"}

    def register(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Store an object, as server-side apply does."""
        if "metadata" not in inputs:
            return dict(inputs)
        kind, name = inputs["kind"], inputs["metadata"]["name"]
        if kind in KINDS:
            self.order.append(name)
        if kind == "HTTPRoute":
            self.ready = {_service_name(live) for n, live in self.lws.items() if self.up(n)}
        old = self.live.get((kind, name))
        spec = old["spec"] if old and name in self.frozen else inputs.get("spec")
        generation = old["metadata"]["generation"] if old else 0
        if old is None or old["spec"] != spec:
            generation += 1
            self.age[name] = 0
            self.down.discard(name)
        metadata = {**inputs["metadata"], "uid": name, "generation": generation}
        status = old["status"] if old else {}
        if kind == "Deployment":
            status = {"availableReplicas": 1}
        live = {**inputs, "metadata": metadata, "spec": spec, "status": status}
        self.live[kind, name] = live
        return copy.deepcopy(live)

    def up(self, name: str) -> bool:
        live = self.lws[name]
        pod = live["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]
        runs = {pod["containers"][0]["image"], _service_name(live)}
        return name not in self.down and self.age[name] >= 2 and not runs & self.broken

    def all_up(self) -> bool:
        return all(map(self.up, self.lws))

    def list(self, service: str, kinds: Any) -> dict[str, Any]:
        """List objects of a service, whose LeaderWorkerSets become ready at the second list."""
        self.lists += 1
        if self.problem is not None:
            raise self.problem
        self.lowest = min(self.lowest, sum(map(self.up, self.before & self.lws.keys())))
        listed = {}
        for (kind, name), live in self.live.items():
            if kind not in {kind for _, kind in kinds} or service != _service_name(live):
                continue
            if kind == "LeaderWorkerSet":
                self.age[name] += 1
                condition = {
                    "type": "Available",
                    "status": str(self.up(name)),
                    "observedGeneration": live["metadata"]["generation"],
                }
                live["status"] = {"readyReplicas": int(self.up(name)), "conditions": [condition]}
            listed[name] = copy.deepcopy(live)
        return listed

    def run(self, program: Any, services: tuple[str, ...], *, preview: bool = False) -> Any:
        """Run a program with these services, and save the resulting state."""
        self.order, self.lists, self.ready = [], 0, set()
        self.before = {*self.lws}
        self.lowest = len(self.before)
        before = self.engine.state or {}
        # A failed update stores the component too; a new component has no outputs yet.
        outputs: dict[str, Any] = {f"{COMPONENT}::{name}": {} for name in services}
        outputs |= {urn: item["outputs"] for urn, item in before.items() if "$" not in urn}
        try:
            deployment = self.engine.run(program, preview=preview)
            result = {} if preview else dict(deployment.outputs)
            outputs = {f"{COMPONENT}::{urn.rpartition('::')[2]}": result[urn] for urn in result}
        finally:
            self.save_state(services, outputs)
        self.logged = deployment.logged
        return deployment

    def save_state(self, services: tuple[str, ...], outputs: dict[str, Any]) -> None:
        """Set the stack's state, without the objects of deleted services."""
        self.live = {k: live for k, live in self.live.items() if _service_name(live) in services}
        self.engine.state = {
            f"{COMPONENT}${KINDS[kind]}::{name}": {"outputs": copy.deepcopy(live)}
            for (kind, name), live in self.live.items()
            if kind in KINDS
        } | {urn: {"outputs": values} for urn, values in outputs.items()}


def _service_name(live: Any) -> str:
    return str(live["metadata"]["labels"][SERVICE])


def create_stack(engine: Any, monkeypatch: pytest.MonkeyPatch) -> Stack:
    """Create a stack whose programs read its fake cluster."""
    stack = Stack(engine)

    async def kubeconfig(_: Any) -> tuple[None, None]:
        return None, None

    async def explain(_: Any, service_name: str, names: Any) -> list[str]:
        return [f"why of {', '.join(names)}"]

    def list_objects(_: Any, namespace: str, *what: Any) -> dict[str, Any]:
        assert namespace == "default"
        return stack.list(*what)

    monkeypatch.setattr(
        engine, "new_resource", lambda args: (f"{args.name}-id", stack.register(args.inputs))
    )
    monkeypatch.setattr(children, "is_pulumi_update", lambda: not pulumi.runtime.is_dry_run())
    monkeypatch.setattr(access, "read_kubeconfig", kubeconfig)
    monkeypatch.setattr(access, "KubernetesApi", lambda *_: FakeCluster())
    monkeypatch.setattr(access, "list_objects", list_objects)
    monkeypatch.setattr(update_run, "explain_failure", explain)
    monkeypatch.setattr(state_machine, "MIN_POLL_SECONDS", 0.01)
    monkeypatch.setattr(state_machine, "MIN_ROLLING_POLL_SECONDS", 0.01)
    return stack
