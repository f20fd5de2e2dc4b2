"""A route gives a service a share of its requests only when that service is available."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import pulumi
import pytest
from routed import ROUTE, routed

from fusioninfer_pulumi import InferenceService
from fusioninfer_pulumi.component import children, update
from fusioninfer_pulumi.component import cluster_access as access
from fusioninfer_pulumi.component.cluster_access import LiveState
from fusioninfer_pulumi.component.split import find_unavailable
from fusioninfer_pulumi.kube.client import UnreadableError
from fusioninfer_pulumi.rollout import state_machine

URN = "urn:pulumi:dev::app::fusioninfer:index:InferenceService"
KINDS = {
    "HTTPRoute": "kubernetes:gateway.networking.k8s.io/v1:HTTPRoute",
    "LeaderWorkerSet": "kubernetes:leaderworkerset.x-k8s.io/v1:LeaderWorkerSet",
}

AGENT = {"implementation": "agentgateway"}


class Stack:
    """A stack of several services, and its cluster.

    Attributes:
        live: Objects by kind and name; LeaderWorkerSets are ready two lists after they changed.
        broken: Services whose pods never run.
        order: Names of objects in the order in which they were registered.
        ready: Services with a ready replica when the route was registered.
        lists: How often the cluster was listed.
    """

    def __init__(self, engine: Any) -> None:
        self.engine = engine
        self.live: dict[tuple[str, str], Any] = {}
        self.age: dict[str, int] = {}
        self.broken: set[str] = set()
        self.order: list[str] = []
        self.ready: set[str] = set()
        self.lists = 0
        self.problem: Exception | None = None
        engine.state = {}

    def register(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        if "metadata" not in inputs:
            return dict(inputs)
        kind, name = inputs["kind"], inputs["metadata"]["name"]
        self.order.append(name)
        if kind == "HTTPRoute":
            self.ready = {
                item["metadata"]["labels"]["fusioninfer.io/service"]
                for (of_kind, lws), item in self.live.items()
                if of_kind == "LeaderWorkerSet" and self.is_up(lws, item)
            }
        old = self.live.get((kind, name))
        changed = old is None or old["spec"] != inputs.get("spec")
        generation = (old["metadata"]["generation"] if old else 0) + changed
        if changed:
            self.age[name] = 0
        metadata = {**inputs["metadata"], "uid": name, "generation": generation}
        item = {"kind": kind, "metadata": metadata, "spec": inputs.get("spec"), "status": {}}
        if kind == "Deployment":
            item["status"] = {"availableReplicas": 1}
        self.live[kind, name] = item
        return copy.deepcopy(item)

    def is_up(self, name: str, item: Any) -> bool:
        service = item["metadata"]["labels"]["fusioninfer.io/service"]
        return self.age[name] >= 2 and service not in self.broken

    def list(self, service: str, kinds: Any) -> dict[str, Any]:
        self.lists += 1
        if self.problem is not None:
            raise self.problem
        listed = {}
        for (kind, name), item in self.live.items():
            if kind not in {kind for _, kind in kinds}:
                continue
            if item["metadata"]["labels"]["fusioninfer.io/service"] != service:
                continue
            if kind == "LeaderWorkerSet":
                self.age[name] += 1
                up = self.is_up(name, item)
                generation = item["metadata"]["generation"]
                condition = {
                    "type": "Available", "status": str(up), "observedGeneration": generation
                }  # fmt: skip
                item["status"] = {"readyReplicas": int(up), "conditions": [condition]}
            listed[name] = copy.deepcopy(item)
        return listed

    def run(self, *services: str, split: Mapping[str, int], **more: Any) -> Any:
        """Run a program with these services; `chat` has the route."""
        self.order, self.lists, self.ready = [], 0, set()
        preview = more.pop("preview", False)

        def program() -> None:
            for name in services:
                route: Any = {"routedBy": "chat"}
                if name == "chat":
                    shares = [{"service": to, "weight": weight} for to, weight in split.items()]
                    route = {**ROUTE, "split": shares} if shares else ROUTE
                gateway = AGENT if name == "chat" else {**AGENT, "refs": [{"name": "my-gateway"}]}
                manifest = routed(httproute=route, gateway=gateway)
                spec = {"wait": {"timeout": "300ms"}, **more, **manifest["spec"]}
                InferenceService(name, {**spec, "name": name})

        deployment = self.engine.run(program, preview=preview)
        self.note(services, {} if preview else dict(deployment.outputs))
        return deployment

    def note(self, services: tuple[str, ...], outputs: dict[str, Any]) -> None:
        """Write the stack's state, and delete the objects of services that are gone."""
        for kind, name in list(self.live):
            if (
                self.live[kind, name]["metadata"]["labels"]["fusioninfer.io/service"]
                not in services
            ):
                del self.live[kind, name]
        self.engine.state = {
            f"{URN}${KINDS[kind]}::{name}": {"outputs": copy.deepcopy(item)}
            for (kind, name), item in self.live.items()
            if kind in KINDS
        } | {urn: {"outputs": values} for urn, values in outputs.items()}


@pytest.fixture
def stack(engine: Any, monkeypatch: pytest.MonkeyPatch) -> Stack:
    stack = Stack(engine)

    async def kubeconfig(_: Any) -> tuple[None, None]:
        return None, None

    async def explained(_: Any, service_name: str, names: Any) -> list[str]:
        return []

    monkeypatch.setattr(
        engine, "new_resource", lambda args: (f"{args.name}-id", stack.register(args.inputs))
    )
    monkeypatch.setattr(children, "reads_cluster", lambda: not pulumi.runtime.is_dry_run())
    monkeypatch.setattr(access, "kubeconfig_of", kubeconfig)
    monkeypatch.setattr(LiveState, "listed", lambda _, *where: stack.list(*where[3:]))
    monkeypatch.setattr(update, "explain_failure", explained)
    monkeypatch.setattr(state_machine, "PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(state_machine, "TURN_SECONDS", 0.01)
    return stack


@pytest.mark.parametrize("level", ["None", "Available"])
@pytest.mark.parametrize("services", [("chat", "next"), ("next", "chat")])
def test_share_of_new_service_waits_for_its_replica(
    stack: Stack, services: tuple[str, ...], level: str
) -> None:
    stack.run("chat", split={})
    stack.run(*services, split={"next": 10}, wait={"level": level, "timeout": "60s"})
    assert stack.ready == {"chat", "next"}
    assert stack.order[-1] == "chat-httproute"


def test_share_of_zero_waits_for_nothing(stack: Stack) -> None:
    stack.broken = {"next"}
    stack.run("chat", split={})
    stack.run("chat", "next", split={"next": 0}, wait={"level": "None"})
    assert "chat-httproute" in stack.order


def test_share_of_failed_service_is_not_written(stack: Stack) -> None:
    stack.run("chat", split={})
    stack.broken = {"next"}
    with pytest.raises(pulumi.RunError, match="next-inference-0 is not available"):
        stack.run("chat", "next", split={"next": 10})
    assert "chat-httproute" not in stack.order


def test_share_of_service_elsewhere_waits_until_timeout(stack: Stack) -> None:
    stack.run("chat", split={})
    with pytest.raises(pulumi.RunError) as failed:
        stack.run("chat", split={"next": 10})
    assert str(failed.value) == (
        "chat: the route does not give service next its share, because its endpoint picker is not "
        "available after 300ms (wait.timeout)"
    )
    assert "chat-httproute" not in stack.order


def test_unreadable_cluster_does_not_block_the_route(stack: Stack) -> None:
    stack.run("chat", split={})
    stack.problem = UnreadableError("no rights")
    logged = stack.run("chat", split={"next": 10}).logged
    assert "service next not checked: no rights" in logged
    assert "chat-httproute" in stack.order


def test_unchanged_share_reads_nothing(stack: Stack) -> None:
    stack.run("chat", "next", split={"next": 50}, wait={"timeout": "60s"})
    stack.run("chat", "next", split={"next": 50})
    assert stack.lists == 0


def test_share_that_comes_back_waits_for_the_services_own_replica(stack: Stack) -> None:
    stack.run("chat", "next", split={"next": 100}, wait={"timeout": "60s"})
    stack.broken = {"chat"}
    stack.age["chat-inference-0"] = 0
    with pytest.raises(pulumi.RunError, match="service chat its share, because role inference"):
        stack.run("chat", "next", split={})
    assert "chat-httproute" not in stack.order


def test_preview_shows_final_weights(stack: Stack) -> None:
    route = stack.run("chat", "next", split={"next": 10}, preview=True)["chat-httproute"]
    weights = [ref["weight"] for ref in route.inputs["spec"]["rules"][0]["backendRefs"]]
    assert weights == [90, 10]


@pytest.mark.parametrize("preview", [True, False])
def test_share_of_service_that_is_deleted_is_a_warning(stack: Stack, preview: bool) -> None:
    stack.run("chat", "next", split={"next": 10}, wait={"timeout": "60s"})
    logged = stack.run("chat", split={"next": 10}, preview=preview).logged
    (line,) = [line for line in logged if "deletes" in line]
    assert line == (
        "warning: roles[0].httproute.split[0].service: this update deletes next, which gets 10 % "
        "of the requests; remove its share in the same update"
    )
    stack.run("chat", "next", split={"next": 10}, wait={"timeout": "60s"})
    assert not [line for line in stack.run("chat", split={}).logged if "deletes" in line]


def test_route_has_the_deadline_of_new_replicas(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_machine.UpdateState, "wait_deadline", lambda *_: 0.0)
    with pytest.raises(pulumi.RunError, match=r"InferencePool .* \(wait\.timeout 45m\)"):
        stack.run("chat", split={}, wait={"level": "Serving", "timeout": "45m"})


def lws(role: str, ready: int, replicas: int = 1) -> dict[str, Any]:
    return {
        "metadata": {"labels": {"fusioninfer.io/role-name": role}},
        "spec": {"replicas": replicas},
        "status": {"readyReplicas": ready},
    }


PICKER = {"status": {"availableReplicas": 1}}


@pytest.mark.parametrize(
    ("lws_list", "pickers", "missing"),
    [
        ([lws("a", 1), lws("a", 0)], [PICKER], None),
        ([lws("a", 1), lws("b", 0)], [PICKER], "role b has no ready replica"),
        ([lws("a", 1), lws("b", 0, replicas=0)], [PICKER], None),
        ([lws("a", 0, replicas=0)], [PICKER], "it has no replica"),
        ([], [PICKER], "it has no replica"),
        ([lws("a", 1)], [], "its endpoint picker is not available"),
        ([lws("a", 1)], [{}], "its endpoint picker is not available"),
    ],
)
def test_what_a_service_lacks_to_serve(lws_list: Any, pickers: Any, missing: str | None) -> None:
    assert find_unavailable(lws_list, pickers) == missing
