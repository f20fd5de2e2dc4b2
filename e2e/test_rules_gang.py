"""Settings that the library rejects for gangs, on the real scheduler.

Each case adds a rejected setting to the objects of a valid service.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from e2e import inputs
from e2e.harness import Cluster, Object
from e2e.inputs import prefill_decode
from e2e.live import LiveService
from e2e.rejections import Change, assert_rejected, edit_lws, edit_pod_group, edit_templates
from fusioninfer_pulumi.kube import labels

NOTHING = {"prefill-0": 0, "decode-0": 0, "decode-1": 0}
FULL = {"prefill-0": 2, "decode-0": 4, "decode-1": 4}
LEADERS = {"svc-decode-0-0", "svc-decode-1-0", "svc-prefill-0-0"}
STORY = prefill_decode()
PARTIAL = prefill_decode(minimum={"prefill": 1, "decode": 1})
DEFAULT: dict[str, Any] = {"schedulerName": "default-scheduler"}


def edit_role(role: int, **fields: Any) -> Object:
    manifest = copy.deepcopy(STORY)
    manifest["spec"]["roles"][role] |= fields
    return manifest


def annotate_pods(manifest: Object, key: str, value: str) -> Object:
    changed = copy.deepcopy(manifest)
    for role in changed["spec"]["roles"]:
        role["template"]["metadata"] = {"annotations": {key: value}}
    return changed


def annotate(key: str, value: str) -> Any:
    return lambda holder: holder["metadata"].setdefault("annotations", {}).update({key: value})


def pod_group(minimum: int | None = None, **fields: int) -> Change:
    """Return a change of minMember and subgroups, of all for a minimum of 0, else of decode's."""

    def edit(group: Object) -> None:
        if minimum is not None:
            group["spec"]["minMember"] = minimum
        policies = group["spec"].get("subGroupPolicy", ())
        for policy in policies[1 if minimum != 0 else 0 :]:
            policy.update(fields)

    return edit_pod_group(edit)


def other_scheduler() -> Object:
    manifest = edit_role(0)
    manifest["spec"]["roles"][0]["template"]["spec"] |= DEFAULT
    return manifest


def unplaceable(resources: Object) -> Object:
    manifest = prefill_decode()
    spec = manifest["spec"]["roles"][0]["template"]["spec"]
    spec["containers"][0]["resources"] = resources
    spec["nodeSelector"] = {"no": "such-node"}
    return manifest


@dataclass(frozen=True)
class Case:
    """A rejected setting.

    Attributes:
        bound: Final number of bound pods by replica, or their sum if replicas are incomplete.
        change: Adds the setting to the rendered objects.
        rejected: A manifest with the setting, and the library's message.
        service: The service whose objects are changed; STORY by default.
        nodes: Number of nodes with eight accelerators.
        racks: Number of values of the node label `rack`.
        only_leaders: Whether no workers are created.
        phase: Final phase of the PodGroup, if it matters.
    """

    bound: Mapping[str, int] | int
    change: Change = list
    rejected: tuple[Object, str] | None = None
    service: Object | None = None
    nodes: int = 10
    racks: int = 1
    only_leaders: bool = False
    phase: str = ""


TOPOLOGY = labels.LWS_EXCLUSIVE_TOPOLOGY
CASES = {
    "LeaderReady deadlocks with a gang": Case(
        NOTHING, edit_lws(lambda item: item["spec"].update(startupPolicy="LeaderReady")),
        (edit_role(1, startupPolicy="LeaderReady"), "LeaderReady deadlocks"), only_leaders=True),
    "An exclusive topology deadlocks with a gang": Case(
        NOTHING, edit_lws(annotate(TOPOLOGY, "rack")),
        ({**STORY, "metadata": {"name": "svc", "annotations": {TOPOLOGY: "rack"}}}, "deadlocks"),
        nodes=12, racks=3, only_leaders=True),
    "The default scheduler starts parts of replicas": Case(
        3, edit_templates(lambda item: item["spec"].update(DEFAULT)),
        (inputs.service("svc", *STORY["spec"]["roles"], **DEFAULT), "does not support gangs"),
        nodes=3),
    "A role with another scheduler starts although its gang does not fit": Case(
        {**NOTHING, "prefill-0": 2},
        edit_templates(lambda item: item["spec"].update(DEFAULT), "prefill"),
        (other_scheduler(), 'must be "volcano"'), nodes=7),
    "Pods with another group-name annotation leave the gang, which never starts": Case(
        NOTHING, edit_templates(annotate(labels.GROUP_NAME, "own"), "prefill"),
        (annotate_pods(STORY, labels.GROUP_NAME, "own"), "is set by fusioninfer-pulumi")),
    "With another task-spec annotation the gang never starts": Case(
        NOTHING, edit_templates(annotate(labels.TASK_SPEC, "own"), "prefill"),
        (annotate_pods(STORY, labels.TASK_SPEC, "own"), "is set by fusioninfer-pulumi")),
    # Replicas have two and four pods, so seven pods include an incomplete replica.
    "minMember below the sum of minTaskMember starts broken replicas": Case(
        7, pod_group(6), nodes=7),
    "minMember of all pods makes a partial gang all-or-nothing": Case(
        NOTHING, pod_group(10), service=PARTIAL, nodes=8),
    "A minimum above a role's replicas never starts": Case(
        NOTHING, pod_group(minSubGroups=3),
        (prefill_decode(minimum={"decode": 3}), "must be at most the role's replicas"),
        PARTIAL, nodes=14),
    "With a minimum of 0 for every role the PodGroup completes at once": Case(
        NOTHING, pod_group(0, minSubGroups=0),
        (prefill_decode(minimum={"prefill": 0, "decode": 0}), "must be above 0"),
        PARTIAL, nodes=0, phase="Completed"),
    "A subgroup size below the replica's splits replicas": Case(
        8, pod_group(4, subGroupSize=2), service=PARTIAL, nodes=8),
    "Pods without resource requests do not count in the gang": Case(
        {"prefill-0": 0, "decode-0": 4, "decode-1": 4}, service=unplaceable({})),
    "Pods with resource requests count in the gang": Case(
        NOTHING, service=unplaceable({"requests": {"cpu": "1"}})),
}  # fmt: skip


def add_racks(cluster: Cluster, racks: int, nodes: int) -> None:
    for index in range(racks):
        cluster.add_nodes(nodes // racks, labels={"rack": f"r{index}"})


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=pytest.mark.proves(claim)) for claim, case in CASES.items()]
)
def test_gang_with_rejected_setting_breaks(cluster: Cluster, namespace: str, case: Case) -> None:
    if case.rejected is not None:
        assert_rejected(*case.rejected)
    add_racks(cluster, case.racks, case.nodes)
    service = LiveService(cluster, namespace, case.service or STORY)
    service.apply(change=case.change)
    if case.only_leaders:
        cluster.wait(lambda: len(service.pods()) >= len(LEADERS), message=service.pods)
        cluster.settle(10)
        assert service.identities().keys() == LEADERS
        assert service.bound() == case.bound
    elif isinstance(case.bound, int):
        cluster.wait(lambda: sum(service.bound().values()) == case.bound, message=service.bound)
        assert any(n not in (0, FULL[task]) for task, n in service.bound().items())
    else:
        service.wait_bound(case.bound)
    if case.phase:
        assert (service.pod_group() or {})["status"]["phase"] == case.phase


@pytest.mark.proves("An exclusive topology in pod templates binds only the leaders")
def test_exclusive_topology_of_pods_does_not_bind_workers(cluster: Cluster, namespace: str) -> None:
    assert_rejected(annotate_pods(STORY, TOPOLOGY, "rack"), "would place only leaders")
    add_racks(cluster, 3, 12)
    service = LiveService(cluster, namespace, STORY)
    service.apply(change=edit_templates(annotate(TOPOLOGY, "rack")))
    service.wait_bound(FULL)
    assert {p["metadata"]["name"] for p in service.pods() if "affinity" in p["spec"]} == LEADERS
