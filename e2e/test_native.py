"""What Kubernetes' own scheduler does with gangs of its own is what the library says."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from e2e import inputs
from e2e.catalog import tool
from e2e.harness import KUBE_SCHEDULER, KWOK, LWS, ApiError, Cluster, Object
from e2e.live import PATIENCE, LiveService, task_of
from fusioninfer_pulumi.component.acceptance import not_accepted
from fusioninfer_pulumi.component.diagnosis.explain import explain_gang
from fusioninfer_pulumi.component.diagnosis.read import read_service
from fusioninfer_pulumi.component.status import gang_blocked
from fusioninfer_pulumi.topology.topology import capacity_for_gpus

pytestmark = pytest.mark.long

NEEDS = "Kubernetes 1.37 is built"
KUBERNETES = "kubernetes-1.37"
POD_GROUP = "scheduling.k8s.io/v1beta1/PodGroup"
CASE = "e2e.fusioninfer.io/case"
GPUS = (80, 64, 48, 32, 16)
FULL = {"prefill-0": 2, "decode-0": 4, "decode-1": 4}
NOTHING = dict.fromkeys(FULL, 0)
LAYOUTS = pytest.mark.parametrize("layout", ["PerReplica", "PerRole"])


@pytest.fixture(scope="module")
def gangs() -> Iterator[Cluster]:
    """Kubernetes 1.37 with its own gangs switched on, without Volcano."""
    if not tool(KUBERNETES).is_built:
        pytest.skip(f"Kubernetes 1.37 is not built: python -m e2e.build_tools --only {KUBERNETES}")
    gates = {"GenericWorkload": True}
    with Cluster({LWS, KUBE_SCHEDULER, KWOK}, kubernetes=KUBERNETES, gates=gates) as cluster:
        yield cluster


class NativeService(LiveService):
    """A service in a namespace, and on nodes, of its own."""

    def __init__(self, cluster: Cluster, **spec: Any) -> None:
        self.case = cluster.new_namespace()
        super().__init__(cluster, self.case, self.changed(**spec))

    def changed(
        self,
        roles: Mapping[str, int] | None = None,
        image: str = "registry.example.com/engine:1",
        **spec: Any,
    ) -> Object:
        """The service with other replicas, another image or other fields."""
        service = copy.deepcopy(inputs.prefill_decode(**(roles or {})))
        for role in service["spec"]["roles"]:
            pod = role["template"]["spec"]
            pod["nodeSelector"] = {CASE: self.case}
            pod["containers"][0]["image"] = image
        strategy = {"gangPolicy": {"backend": "Native"}}
        service["spec"] |= {"schedulingStrategy": strategy, **spec}
        return service

    def add_nodes(self, count: int) -> list[str]:
        return self.cluster.add_nodes(count, labels={CASE: self.case})

    def pod_group(self) -> Object | None:
        return self._read(POD_GROUP, "svc")

    def stays(self, wanted: Mapping[str, int]) -> None:
        """Demand that so many pods are bound after the scheduler has bound others, too."""
        for _ in range(3):
            marker = self.cluster.create(marker_pod(self.namespace))["metadata"]["name"]
            self.cluster.wait(
                lambda: self._read("v1/Pod", marker)["spec"].get("nodeName"),  # type: ignore[index]  # noqa: B023  # waited for
                PATIENCE,
                "a pod without a gang",
            )
            self.cluster.delete("v1/Pod", marker, self.namespace, now=True)
        found = self.bound()
        assert found == wanted, f"bound {found}, wanted {dict(wanted)}"

    def waits(self) -> None:
        """Wait until the scheduler says that the gang does not fit."""
        self.cluster.wait(lambda: gang_blocked(self.pod_group()), PATIENCE, self.pod_group)


def marker_pod(namespace: str) -> Object:
    container = {"name": "main", "image": "registry.example.com/marker:1"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "marker-", "namespace": namespace},
        "spec": {"containers": [container], "nodeSelector": {CASE: namespace}},
    }


def started(cluster: Cluster, nodes: int = 10, **spec: Any) -> NativeService:
    service = NativeService(cluster, **spec)
    service.add_nodes(nodes)
    service.apply()
    service.becomes(FULL)
    return service


@pytest.mark.proves(
    "Kubernetes' own scheduler starts what the plan says at 80, 64, 48, 32 and 16 accelerators, "
    "with a set for each replica and with one for each role, and the rest when there is room",
    needs=NEEDS,
)
@LAYOUTS
def test_the_scheduler_starts_what_the_plan_says(gangs: Cluster, layout: str) -> None:
    table = {}
    for gpus in GPUS:
        service = NativeService(gangs, layout=layout)
        (model,) = capacity_for_gpus(service.plan, [gpus])
        service.add_nodes(gpus // 8)
        service.apply()
        fits = model.running == {"prefill": 1, "decode": 2}
        assert model.exact
        assert fits or not any(model.running.values())
        if not fits:
            service.waits()
        service.becomes(FULL if fits else NOTHING)
        table[gpus] = fits
        if not fits:
            service.add_nodes((80 - gpus) // 8)
            service.becomes(FULL)
        service.delete()
    assert table == {80: True, 64: False, 48: False, 32: False, 16: False}
