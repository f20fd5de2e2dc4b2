"""Pickers choose among the ports of a pod, where each data parallel rank has its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.harness import Cluster, Object
from e2e.routers import only, picker_versions
from e2e.strategies.engine import Engine, Load
from e2e.strategies.fleet import Fleet

RANKS = 3
HOT = "Everybody asks this today: " * 10


class RankedFleet(Fleet):
    """A fleet whose pods have an engine on each port of the pool."""

    def deploy(self, *names: str, pods: int) -> None:
        super().deploy(*names, pods=pods)
        for name, first in list(self.engines.items()):
            address, _, port = first.endpoint.rpartition(":")
            for rank in range(1, RANKS):
                engine = Engine(address, int(port) + rank)
                self.engines[f"{name}/{rank}"] = self._stack.enter_context(engine)


@pytest.fixture
def ranked(cluster: Cluster, namespace: str) -> Iterator[Fleet]:
    with RankedFleet(cluster, namespace, _ranks) as fleet:
        fleet.deploy("svc", pods=2)
        yield fleet


@picker_versions("Pickers choose among a pod's data parallel ranks by load")
def test_each_rank_is_chosen_by_its_load(ranked: Fleet, version: str) -> None:
    objects = ranked.routing(version)
    ports = [port["number"] for port in only(objects, "InferencePool")["spec"]["targetPorts"]]
    assert len(ports) == RANKS, "the API server keeps them"
    with ranked.run(version, objects) as picker:
        ranked.wait_scraped()
        assert picker.picks(120).keys() == ranked.engines.keys(), "all ranks get requests"
        home = picker.warm(HOT)
        assert picker.picks(8, HOT) == {home: 8}, "a prefix stays on its rank"
        for idle in sorted(ranked.engines):
            loads = {name: Load(waiting=30, kv_cache=0.9) for name in ranked.engines}
            ranked.load({**loads, idle: Load()})
            ranked.wait_scraped()
            assert picker.picks(8) == {idle: 8}, "the one idle rank"


def _ranks(manifest: Object) -> Object:
    (_, role) = manifest["spec"]["roles"]
    role["parallelism"] = {"data": RANKS, "portPerRank": True}
    (container,) = role["template"]["spec"]["containers"]
    container["image"] = "vllm/vllm-openai:v0.32.0"
    container["args"] = ["m"]
    return manifest
