"""Settings that the library rejects for gangs, on the real scheduler (`gang_rules.yaml`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.harness import Cluster, Object
from e2e.inputs import prefill_decode
from e2e.live import LiveService
from e2e.rejections import assert_rejected, edit_objects, merge
from fusioninfer_pulumi.kube.labels import LWS_EXCLUSIVE_TOPOLOGY

FULL = {"prefill-0": 2, "decode-0": 4, "decode-1": 4}
LEADERS = {"svc-decode-0-0", "svc-decode-1-0", "svc-prefill-0-0"}
STORY = prefill_decode()


@dataclass(frozen=True)
class Case:
    """A rejected setting; `gang_rules.yaml` describes the attributes."""

    bound: Mapping[str, int] | int
    service: Object = field(default_factory=dict)
    objects: Mapping[str, Object] = field(default_factory=dict)
    role: str | None = None
    rejected: Sequence[Any] = ()
    nodes: int = 10
    racks: int = 1
    only_leaders: bool = False
    phase: str = ""


ROWS = Path(__file__).with_name("gang_rules.yaml")
CASES = {
    claim: Case(**row) for claim, row in yaml.safe_load(ROWS.read_text(encoding="utf-8")).items()
}


def add_racks(cluster: Cluster, racks: int, nodes: int) -> None:
    for index in range(racks):
        cluster.add_nodes(nodes // racks, labels={"rack": f"r{index}"})


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=pytest.mark.verifies(claim)) for claim, case in CASES.items()]
)
def test_gang_with_rejected_setting_breaks(cluster: Cluster, namespace: str, case: Case) -> None:
    if case.rejected:
        patch, message = case.rejected
        assert_rejected(merge(STORY, patch), message)
    add_racks(cluster, case.racks, case.nodes)
    service = LiveService(cluster, namespace, merge(STORY, case.service))
    service.apply(change=edit_objects(case.objects, case.role))
    if case.only_leaders:
        cluster.wait(lambda: len(service.pods()) >= len(LEADERS), message=service.pods)
        cluster.wait_scheduling_cycles(10)
        assert service.read_uids().keys() == LEADERS
        assert service.count_bound() == case.bound
    elif isinstance(case.bound, int):
        cluster.wait(
            lambda: sum(service.count_bound().values()) == case.bound, message=service.count_bound
        )
        assert any(n not in (0, FULL[task]) for task, n in service.count_bound().items())
    else:
        service.wait_bound(case.bound)
    if case.phase:
        assert (service.pod_group() or {})["status"]["phase"] == case.phase


@pytest.mark.verifies("An exclusive topology in pod templates binds only the leaders")
def test_exclusive_topology_of_pods_does_not_bind_workers(cluster: Cluster, namespace: str) -> None:
    template = {"metadata": {"annotations": {LWS_EXCLUSIVE_TOPOLOGY: "rack"}}}
    rejected = merge(STORY, {"spec": {"roles": [{"template": template}] * 2}})
    assert_rejected(rejected, "applies only to leaders")
    add_racks(cluster, 3, 12)
    service = LiveService(cluster, namespace, STORY)
    service.apply(change=edit_objects({"templates": template}))
    service.wait_bound(FULL)
    assert {p["metadata"]["name"] for p in service.pods() if "affinity" in p["spec"]} == LEADERS
