"""What a comparison finds, and what it says of running pods."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from cli.printed import to_text

from fusioninfer_pulumi.cli.diff import Difference, FieldChange, RoleEffect, compare

Manifest = dict[str, Any]


def lws(name: str = "qwen-decode-0", *, role: str = "decode", **spec: Any) -> Manifest:
    """A replica; keywords go into the spec, `template` into its leaderWorkerTemplate."""
    template = {
        "size": 2,
        "workerTemplate": {
            "metadata": {"labels": {"fusioninfer.io/revision": "aaaa"}},
            "spec": {"containers": [{"name": "vllm", "image": "a"}]},
        },
        **spec.pop("template", {}),
    }
    labels = {"fusioninfer.io/service": "qwen", "fusioninfer.io/role-name": role}
    if spec.pop("indexed", True):
        labels["fusioninfer.io/replica-index"] = name.rpartition("-")[2]
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": name, "labels": labels},
        "spec": {"replicas": 1, "leaderWorkerTemplate": template, **spec},
    }


def pods(revision: str = "bbbb", **spec: Any) -> Manifest:
    """A changed worker template."""
    return {
        "workerTemplate": {
            "metadata": {"labels": {"fusioninfer.io/revision": revision}},
            "spec": {
                "containers": [{"name": "vllm", "image": "a", **spec.pop("vllm", {})}],
                **spec,
            },
        }
    }


def pod_group(least: int, **spec: Any) -> Manifest:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "qwen", "labels": {"fusioninfer.io/service": "qwen"}},
        "spec": {"minMember": least, **spec},
    }


def deployment(name: str = "web", image: str = "a", **metadata: Any) -> Manifest:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, **metadata},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": name}},
            "template": {"spec": {"containers": [{"name": "c", "image": image}]}},
        },
    }


def effect(difference: Difference, role: str = "decode") -> RoleEffect:
    (found,) = (each for each in difference.effects if each.role == role)
    return found


RESTARTS = {
    "image": ({"template": pods(vllm={"image": "b"})}, "image changed"),
    "revision alone": ({"template": pods()}, "revision changed"),
    "several": (
        {"template": pods(vllm={"args": ["x"], "env": [{"name": "A"}]}, volumes=[{"name": "v"}])},
        "arguments, environment, volumes changed",
    ),
    "many": (
        {"template": pods(vllm={"image": "b", "args": [], "env": [], "ports": []})},
        "image, arguments, environment, ports changed",
    ),
    "init container": (
        {"template": pods(initContainers=[{"name": "i", "image": "b"}])},
        "containers changed",
    ),
    "nodes": ({"template": {"size": 4}}, "nodes per replica 2 -> 4"),
    "probe": ({"template": pods(vllm={"readinessProbe": {}})}, "probes changed"),
    "node selector": ({"template": pods(nodeSelector={"a": "b"})}, "scheduling changed"),
    "something else": ({"template": pods(hostNetwork=True)}, "pod template changed"),
    "restart policy": ({"template": {"restartPolicy": "None"}}, "restart policy changed"),
    "network": (
        {"networkConfig": {"subdomainPolicy": "UniquePerReplica"}},
        "network configuration changed",
    ),
}


@pytest.mark.parametrize("case", RESTARTS)
def test_a_changed_template_restarts_the_replica(case: str) -> None:
    spec, reason = RESTARTS[case]
    difference = compare([lws()], [lws(**spec)])
    assert effect(difference).restarts == ("decode-0",)
    assert effect(difference).reason == reason
    assert difference.notes == (f"{reason}: restarts decode-0",)


@pytest.mark.parametrize(
    "spec",
    [
        {"rolloutStrategy": {"type": "RollingUpdate"}},
        {"startupPolicy": "LeaderReady"},
        # What LeaderWorkerSet's webhook fills in itself makes no new revision.
        {"networkConfig": {"subdomainPolicy": "Shared"}},
        {"template": {"restartPolicy": "RecreateGroupOnPodRestart"}},
    ],
)
def test_other_changes_restart_nothing(spec: Manifest) -> None:
    difference = compare([lws()], [lws(**spec)])
    assert effect(difference).kept == ("decode-0",)
    assert difference.notes == ("objects: 1 changed; nothing restarts",)


def test_the_revision_is_not_told_beside_what_changed_it() -> None:
    (change,) = compare([lws()], [lws(template=pods(vllm={"image": "b"}))]).objects
    path = "spec.leaderWorkerTemplate.workerTemplate.spec.containers[vllm].image"
    assert change.fields == (FieldChange(path, "a", "b", "changed"),)


CLAIM = {"metadata": {"name": "cache"}}
REFUSED = {
    "subGroupPolicy": ({}, {"template": {"subGroupPolicy": {"subGroupSize": 2}}}),
    "subGroupPolicy.subGroupSize": (
        {"template": {"subGroupPolicy": {"subGroupSize": 1}}},
        {"template": {"subGroupPolicy": {"subGroupSize": 2}}},
    ),
    "volumeClaimTemplates": ({}, {"template": {"volumeClaimTemplates": [CLAIM]}}),
    "networkConfig.subdomainPolicy": (
        {"networkConfig": {"subdomainPolicy": "Shared"}},
        {"networkConfig": {}},
    ),
}


@pytest.mark.parametrize("field", REFUSED)
def test_what_no_update_can_do_is_a_replacement(field: str) -> None:
    before, after = REFUSED[field]
    difference = compare([lws(**before)], [lws(**after)])
    assert [change.action for change in difference.objects] == ["replaced"]
    assert effect(difference).restarts == ("decode-0",)
    assert difference.notes[0] == (
        f"{field} cannot be updated: deletes and creates LeaderWorkerSet qwen-decode-0"
    )


def test_groups_of_one_set_are_counted_by_its_replicas() -> None:
    def role(replicas: int, **more: Any) -> Manifest:
        return lws("qwen-decode", indexed=False, replicas=replicas, **more)

    up = compare([role(2)], [role(4)])
    assert effect(up).added == ("decode-2", "decode-3")
    assert up.notes == (
        "role decode: replicas 2 -> 4 (1 LeaderWorkerSet changed), nothing restarts",
    )
    assert (up.totals[0].pods_before, up.totals[0].pods_after) == (4, 8)
    both = compare([role(4)], [role(3, template=pods(vllm={"image": "b"}))])
    assert both.notes == (
        "image changed: restarts decode-0..decode-2",
        "role decode: replicas 4 -> 3 (1 LeaderWorkerSet changed)",
    )
    absurd = compare([role(3)], [role(10**12)])
    assert effect(absurd).role_change == f"replicas 3 -> {10**12}"
    assert "decode-3..decode-9999" in to_text(absurd)


def test_a_replica_under_another_number_is_another_one() -> None:
    difference = compare([lws("qwen-decode-0")], [lws("qwen-decode-7")])
    assert effect(difference).reason == "replicas renamed"
    assert difference.notes == ("objects: 1 added, 1 removed; nothing restarts",)


def test_a_gang_switched_off_restarts_every_replica() -> None:
    ganged = lws(template=pods())
    template = ganged["spec"]["leaderWorkerTemplate"]["workerTemplate"]
    template["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "qwen"}
    difference = compare([pod_group(2), ganged], [lws(template=pods(vllm={"image": "b"}))])
    assert difference.notes == ("gang scheduling switched off, image changed: restarts decode-0",)


def test_a_set_without_labels_stands_for_itself() -> None:
    bare, changed = lws("mine"), lws("mine", template=pods(vllm={"image": "b"}))
    for manifest in (bare, changed):
        manifest["metadata"]["labels"] = {}
    difference = compare([bare], [changed])
    assert effect(difference, "mine").restarts == ("mine-0",)
    assert difference.notes == ("image changed: restarts mine-0",)


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ((10, {"a": 10}), (14, {"a": 14}), True),
        ((14, {"a": 14}), (10, {"a": 10}), False),
        ((10, None), (14, None), False),
    ],
)
def test_a_literal_gang_that_grows_holds_replacements_back(
    before: Any, after: Any, told: bool
) -> None:
    old, new = (
        pod_group(least, **({"minTaskMember": tasks} if tasks else {}))
        for least, tasks in (before, after)
    )
    note = (
        "PodGroup minMember 10 -> 14: the gang is all-or-nothing; without room for all 14 pods, "
        "replacement pods of running replicas are held back"
    )
    assert (note in compare([old], [new]).notes) is told


@pytest.mark.parametrize(
    ("name", "metadata", "note"),
    [
        ("web", {}, "image changed: restarts Deployment web"),
        ("qwen-epp", {}, "image changed: restarts endpoint picker qwen-epp"),
        (
            "web",
            {"labels": {"fusioninfer.io/component-type": "router"}},
            "image changed: restarts endpoint picker web",
        ),
    ],
)
def test_a_deployment_restarts(name: str, metadata: Manifest, note: str) -> None:
    old, new = deployment(name, "a", **metadata), deployment(name, "b", **metadata)
    assert compare([old], [new]).notes == (note,)


def test_a_deployment_whose_selector_changes_is_replaced() -> None:
    new = deployment()
    new["spec"]["selector"] = {"matchLabels": {"app": "other"}}
    difference = compare([deployment()], [new])
    assert difference.objects[0].action == "replaced"
    assert difference.notes[-1] == "selector changed: restarts Deployment web"


def test_nothing_is_claimed_of_kinds_that_are_not_known() -> None:
    old, new = ({"apiVersion": "ray.io/v1", "kind": "RayCluster", "spec": n} for n in (1, 2))
    assert compare([old], [new]).notes == ("objects: 1 changed",)


def test_services_are_told_apart() -> None:
    elsewhere = lws()
    elsewhere["metadata"]["namespace"] = "models"
    changed = copy.deepcopy(elsewhere)
    changed["spec"]["startupPolicy"] = "LeaderReady"
    difference = compare([lws(), elsewhere], [lws(template={"size": 3}), changed])
    assert difference.notes == (
        "qwen: nodes per replica 2 -> 3: restarts decode-0",
        "models/qwen: objects: 1 changed; nothing restarts",
    )
    assert [each.namespace for each in difference.effects] == ["default", "models"]


def test_accelerators_are_counted_by_whoever_knows_them() -> None:
    new = lws(template={"size": 3})
    totals = compare([lws()], [new], accelerators_of=lambda _: 4).totals[0]
    assert (totals.accelerators_before, totals.accelerators_after) == (8, 12)
    ill = lws(template=pods(vllm={"resources": {"limits": {"nvidia.com/gpu": "<unknown>"}}}))
    assert compare([lws()], [ill]).totals[0].accelerators_after == 0


SECRET, OTHER = "<secret\0a>", "<secret\0b>"


def hidden(where: str, text: str) -> Manifest:
    """A replica whose pod template, or more, is one secret or unknown value."""
    manifest = lws()
    if where == "spec":
        return {**manifest, "spec": text}
    template = manifest["spec"]["leaderWorkerTemplate"]
    changed = text if where == "template" else {**template, "workerTemplate": text}
    return {**manifest, "spec": {**manifest["spec"], "leaderWorkerTemplate": changed}}


def said(difference: Difference) -> str:
    return to_text(difference)


@pytest.mark.parametrize("where", ["spec", "template", "workerTemplate"])
def test_a_pod_template_that_is_secret_as_a_whole_may_restart(where: str) -> None:
    difference = compare([hidden(where, SECRET)], [hidden(where, OTHER)])
    assert [effect.restarts for effect in difference.effects] == [("decode-0",)]
    assert "replicas: 1 of 1 restart" in said(difference)
    assert "the pod template is secret as a whole" in said(difference)
    assert not compare([hidden(where, SECRET)], [hidden(where, SECRET)])


@pytest.mark.parametrize("where", ["spec", "template", "workerTemplate"])
def test_a_pod_template_that_is_not_known_is_said(where: str) -> None:
    difference = compare([hidden(where, "<unknown>")], [hidden(where, "<unknown>")])
    assert difference
    assert "replicas: restarts not known" in said(difference)
    assert "LeaderWorkerSet qwen-decode-0: the pod template is known only after" in said(difference)


def test_nothing_is_never_said_to_restart_where_it_is_not_known() -> None:
    changed = hidden("template", "<unknown>")
    changed["metadata"] = {**changed["metadata"], "annotations": {"a": "b"}}
    text = said(compare([hidden("template", "<unknown>")], [changed]))
    assert "restarts not known" in text
    assert "nothing restarts" not in text
    assert "none restart" not in text
    web = {**deployment(), "spec": "<unknown>"}
    assert "Deployment web: the pod template is known only after" in said(compare([web], [web]))
    assert "none restart" not in said(compare([web, lws()], [web, lws(replicas=2)]))


def test_a_secret_pod_template_of_a_deployment_restarts_it() -> None:
    old, new = ({**deployment(), "spec": {"template": text}} for text in (SECRET, OTHER))
    difference = compare([old], [new])
    assert "restarts" in said(difference)
