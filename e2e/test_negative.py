"""The checks of the other tests notice a broken builder: each break makes the same check fail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from e2e import checks, inputs, scheduling
from e2e.harness import Cluster, Object
from e2e.live import LiveService
from e2e.rejections import Change, in_lws, in_pod_group, in_templates
from e2e.scheduling import Case
from e2e.test_capacity import is_as_the_model_says
from fusioninfer_pulumi.topology.capacity_model import Capacity, pools_for_gpus

PARTIAL = inputs.prefill_decode(minimum={"prefill": 1, "decode": 1})


def on(kind: str, key: str, value: str) -> Callable[[Object], None]:
    def edit(holder: Object) -> None:
        holder["metadata"].setdefault(kind, {})[key] = value

    return edit


def without(kind: str, key: str) -> Callable[[Object], None]:
    def edit(holder: Object) -> None:
        holder["metadata"][kind].pop(key)

    return edit


def policies(**fields: Any) -> Change:
    def edit(group: Object) -> None:
        for policy in group["spec"]["subGroupPolicy"]:
            policy.update(fields)

    return in_pod_group(edit)


def serving(**fields: Any) -> Callable[[Object], None]:
    return lambda template: template["spec"]["containers"][0].update(fields)


GROUP, TASK = "scheduling.k8s.io/group-name", "volcano.sh/task-spec"
ROLE, INDEX = "fusioninfer.io/role-name", "fusioninfer.io/replica-index"

BROKEN_PODS: dict[str, tuple[Change, str, int]] = {
    # what is broken: how, what the check says, pods that come to exist
    "nothing": (list, "", 10),
    "another group-name annotation": (
        in_templates(on("annotations", GROUP, "other")), "PodGroup is 'other'", 10),
    "no task": (in_templates(without("annotations", TASK)), "task is None", 10),
    "another role name": (
        in_templates(on("labels", ROLE, "other"), "prefill"), "label role is 'other'", 10),
    "another replica index": (
        in_templates(on("labels", INDEX, "7")), "label replica is '7'", 10),
    "another scheduler": (
        in_templates(lambda t: t["spec"].update(schedulerName="other")), "scheduler is", 10),
    "another command": (in_templates(serving(command=["/app/wrong"])), "command is", 10),
    "an accelerator less": (
        in_templates(serving(resources={"limits": {"nvidia.com/gpu": "7"}})),
        "accelerators is 7", 10),
    "another container name": (in_templates(serving(name="other")), "containers is", 10),
    "one pod in each group": (
        in_lws(lambda each: each["spec"]["leaderWorkerTemplate"].update(size=1)), "missing", 3),
    "a replica more in each set": (
        in_lws(lambda each: each["spec"].update(replicas=2)), "not planned", 20),
    "a set less": (
        lambda objects: [e for e in objects if not e["metadata"]["name"].endswith("-decode-1")],
        "missing", 6),
    "another subdomain": (
        in_lws(lambda each: each["spec"].update(
            networkConfig={"subdomainPolicy": "UniquePerReplica"})), "env of engine is", 10),
}  # fmt: skip


@pytest.mark.proves(f"{len(BROKEN_PODS) - 1} builders of wrong pods are detected")
def test_wrong_pods_are_detected(cluster: Cluster, namespace: str) -> None:
    services = {
        title: LiveService(cluster, namespace, {**PARTIAL, "metadata": {"name": f"case{number}"}})
        for number, title in enumerate(BROKEN_PODS)
    }
    for title, service in services.items():
        service.apply(change=BROKEN_PODS[title][0])
    total = sum(count for _, _, count in BROKEN_PODS.values())
    cluster.wait(
        lambda: len(cluster.pods(namespace)) == total,
        120,
        lambda: [pod["metadata"]["name"] for pod in cluster.pods(namespace)],
    )
    pods = cluster.pods(namespace)
    noticed: dict[str, str] = {}
    for title, service in services.items():
        name = service.plan.service
        mine = [pod for pod in pods if pod["metadata"]["name"].startswith(f"{name}-")]
        try:
            checks.pods_are_as_planned(service.plan, namespace, mine)
        except AssertionError as error:
            noticed[title] = str(error)
    assert {title: words in noticed.get(title, "") for title, (_, words, _) in BROKEN_PODS.items()
            } == dict.fromkeys(BROKEN_PODS, True), noticed  # fmt: skip
    assert "nothing" not in noticed


@pytest.mark.proves("Objects that the server stores differently are detected")
def test_changed_objects_are_detected(cluster: Cluster, namespace: str) -> None:
    plan = inputs.plan_of(PARTIAL)
    objects = inputs.with_namespace(inputs.objects_of(plan), namespace)
    pruned = in_lws(lambda each: each["spec"].update(unknown={"a": 1}))(objects)
    # LeaderWorkerSet's webhook writes `None` for the deprecated value.
    changed = in_lws(
        lambda each: each["spec"]["leaderWorkerTemplate"].update(restartPolicy="Default")
    )(objects)
    for wrong in (pruned, changed):
        sent = next(each for each in wrong if each["kind"] == "LeaderWorkerSet")
        stored = cluster.create(sent, dry_run=True, strict=False)
        with pytest.raises(AssertionError, match="stored differently"):
            checks.stored_is_what_was_sent(sent, stored)


BROKEN_GANGS: dict[str, tuple[int, Change]] = {
    "no group-name annotation": (80, in_templates(without("annotations", GROUP))),
    "another group-name annotation": (80, in_templates(on("annotations", GROUP, "other"))),
    "minMember of all pods": (64, in_pod_group(lambda each: each["spec"].update(minMember=10))),
    "a wrong label key in the policy": (64, policies(matchLabelKeys=["fusioninfer.io/replica"])),
    "no label key in the policy": (64, policies(matchLabelKeys=[])),
    "a selector that finds nothing": (
        64, policies(labelSelector={"matchLabels": {"fusioninfer.io/role": "decode"}})),
    "a minimum of one more": (64, policies(minSubGroups=2)),
    "a wrong role label on the pods": (64, in_templates(on("labels", ROLE, "x"), "prefill")),
    "no PodGroup": (80, lambda objects: [e for e in objects if e["kind"] != "PodGroup"]),
    "an accelerator too many": (
        80, in_templates(serving(resources={"limits": {"nvidia.com/gpu": "9"}}))),
}  # fmt: skip


@pytest.mark.proves(f"{len(BROKEN_GANGS)} wrong gang builders and off-by-one models are detected")
def test_wrong_gangs_and_models_are_detected(cluster: Cluster) -> None:
    good = Case("good", PARTIAL, pools_for_gpus(64, 8))
    broken = [
        Case(title, PARTIAL, pools_for_gpus(gpus, 8), change)
        for title, (gpus, change) in BROKEN_GANGS.items()
    ]
    fine, *wrong = scheduling.run(cluster, [good, *broken])
    is_as_the_model_says(fine)
    for decode in (0, 2):
        model = Capacity(64, {"prefill": 1, "decode": decode}, "Partial", exact=True)
        case = Case("wrong model", PARTIAL, good.pools)
        case.__dict__["model"] = model  # in place of the cached one
        wrong.append(replace(fine, case=case))
    unnoticed = []
    for bound in wrong:
        try:
            is_as_the_model_says(bound)
        except AssertionError:
            continue
        unnoticed.append((bound.case.title, bound.pods))
    assert not unnoticed
