"""Restarts of services in the order of the rollout, and what is said of their replicas."""

from __future__ import annotations

from typing import Any

import pytest
from cli.printed import between, to_text
from samples import container, nodes, plan_of, role, service, template

from fusioninfer_pulumi import render
from fusioninfer_pulumi.cli.diff import Difference, compare, to_json, to_markdown

Manifest = dict[str, Any]


def serving(name: str, tag: str = "v0.11.0", gpus: int = 1, **more: Any) -> Manifest:
    pods = template(container(gpus=gpus, image=f"vllm/vllm-openai:{tag}"))
    return role(name, **{"template": pods, "replicas": 3, **more})


def order(difference: Difference) -> list[dict[str, Any]]:
    keys = ("role", "order", "after", "held")
    return [{key: effect[key] for key in keys} for effect in to_json(difference)["effects"]]


def changed(*names: str, role_fields: Manifest | None = None, **spec: Any) -> Difference:
    old, new = (
        service(*(serving(name, tag, **(role_fields or {})) for name in names), **spec)
        for tag in ("v0.11.0", "v0.12.0")
    )
    return between(old, new)


def stage(replicas: list[str], at_a_time: int, **more: Any) -> dict[str, Any]:
    return {"replicas": replicas, "atATime": at_a_time, "groups": None, "atMost": False, **more}


DOWN = ["decode-2", "decode-1", "decode-0"]


@pytest.mark.parametrize(
    ("rollout", "at_a_time", "told"),
    [
        ({}, 1, "decode-2..decode-0, 1 at a time"),
        ({"maxUnavailable": 2}, 2, "decode-2..decode-0, 2 at a time"),
        ({"maxUnavailable": "70%"}, 2, "decode-2..decode-0, 2 at a time"),
        ({"strategy": "AllAtOnce"}, 3, "decode-2..decode-0 together"),
        ({"strategy": "Recreate"}, 3, "decode-2..decode-0 together"),
    ],
)
@pytest.mark.parametrize("layout", ["PerReplica", "PerRole"])
def test_one_role(rollout: Manifest, at_a_time: int, told: str, layout: str) -> None:
    found = changed("decode", rollout=rollout, layout=layout)
    # Who updates several replicas of one set is the cluster, which may be slower.
    at_most = layout == "PerRole" and at_a_time > 1 and "Recreate" not in rollout.values()
    if at_most:
        told = f"decode-2..decode-0, up to {at_a_time} at a time"
    stages = [stage(DOWN, at_a_time, atMost=at_most)]
    assert order(found) == [{"role": "decode", "order": stages, "after": [], "held": []}]
    assert told in to_text(found)
    assert f"| {told} |" in to_markdown(found)


def test_roles_one_after_the_other() -> None:
    sequential = {"roleOrder": "Sequential"}
    found = changed("prefill", "decode", role_fields={"replicas": 2}, rollout=sequential)
    assert [each["after"] for each in order(found)] == [[], ["prefill"]]
    assert "after prefill: decode-1, decode-0, 1 at a time" in to_markdown(found)
    # A role that does not change is waited for by nobody.
    old = service(serving("prefill", "a"), serving("decode", "a"), rollout=sequential)
    new = service(serving("prefill", "a"), serving("decode", "b"), rollout=sequential)
    assert [each["after"] for each in order(between(old, new))] == [[], []]


@pytest.mark.parametrize("layout", ["PerReplica", "PerRole"])
def test_a_partition_holds_back(layout: str) -> None:
    found = changed("decode", rollout={"partition": 2}, layout=layout)
    (effect,) = to_json(found)["effects"]
    assert effect["restarts"] == ["decode-2"]
    assert effect["kept"] == effect["held"] == ["decode-0", "decode-1"]
    assert effect["order"] == [stage(["decode-2"], 1)]
    assert "below the partition, keep the old pod template: decode-0, decode-1" in found.notes


@pytest.mark.parametrize("layout", ["PerReplica", "PerRole"])
def test_a_partition_that_is_lowered_is_a_difference(layout: str) -> None:
    held, free = (
        service(serving("decode", "a"), rollout={"partition": lowest}, layout=layout)
        for lowest in (2, 0)
    )
    found = between(held, free)
    assert found
    assert found.notes[-1].startswith("no longer below the partition: ")
    for told in (to_text(found), to_markdown(found)):
        assert "no longer below the partition" in told
        assert ("objects: none changed" in told) is (layout == "PerReplica")
        assert "no difference" not in told
    assert not between(held, held)
    assert "no longer below" not in "".join(between(free, held).notes)


def test_optional_replicas_restart_last_and_together() -> None:
    minimum = {"gangPolicy": {"minRoleReplicas": {"decode": 2}}}
    nodes = {"replicas": 4, "multinode": {"nodeCount": 2, "launcher": "none"}}
    found = changed("decode", role_fields=nodes, schedulingStrategy=minimum)
    (effect,) = order(found)
    assert effect["order"] == [
        stage(["decode-1", "decode-0"], 1),
        stage(["decode-3", "decode-2"], 2),
    ]
    told = "decode-1, decode-0, 1 at a time, then decode-3, decode-2 together"
    assert told in to_markdown(found)


def test_what_must_be_replaced_is_not_paced() -> None:
    nodes = {"multinode": {"nodeCount": 4, "launcher": "none"}}
    old, new = (
        service(serving("decode", "a", **nodes, subGroupPolicy={"subGroupSize": size}))
        for size in (2, 4)
    )
    (effect,) = order(between(old, new))
    assert effect["order"] == [stage(DOWN, 3)]


def test_the_same_service_in_two_clusters_has_no_one_order() -> None:
    plans = [[plan_of(service(serving("decode", tag)))] * 2 for tag in "ab"]
    objects = [[each for plan in side for each in render(plan)] for side in plans]
    (effect,) = to_json(compare(*objects, plans=(plans[0], plans[1])))["effects"]
    assert len(effect["restarts"]) == 6
    assert effect["order"] == []


def test_rendered_files_tell_no_order() -> None:
    plans = [plan_of(service(serving("decode", tag))) for tag in "ab"]
    found = compare(*(list(render(plan)) for plan in plans))
    (effect,) = to_json(found)["effects"]
    assert effect["restarts"] == ["decode-0", "decode-1", "decode-2"]
    assert effect["order"] == []
    assert "at a time" not in to_markdown(found)


def test_serving_groups_take_turns() -> None:
    found = changed("decode", role_fields={"replicas": 2}, groups=2, rollout={"level": "Group"})
    (effect,) = order(found)
    names = ["1-decode-1", "1-decode-0", "0-decode-1", "0-decode-0"]
    assert effect["order"] == [stage(names, 2, groups=1)]
    told = "1-decode-1, 1-decode-0, 0-decode-1, 0-decode-0, 1 group at a time"
    assert f"| {told} |" in to_markdown(found)
    everything = {"level": "Group", "maxUnavailable": 2}
    found = changed("decode", role_fields={"replicas": 2}, groups=2, rollout=everything)
    assert "0-decode-1, 0-decode-0 together |" in to_markdown(found)


@pytest.mark.parametrize(
    ("rollout", "restarts", "at_a_time"),
    [
        ({}, range(4), 1),
        ({"maxUnavailable": "50%"}, range(4), 2),
        ({"partition": 3}, range(3, 4), 1),
        ({"maxSurge": 1}, range(4), 2),
        ({"maxUnavailable": 0, "maxSurge": 1}, range(4), 1),
        ({"strategy": "AllAtOnce", "partition": 1}, range(1, 4), 3),
    ],
)
def test_the_replicas_of_one_set_restart_as_its_rolling_update_says(
    rollout: Any, restarts: range, at_a_time: int
) -> None:
    more = {"role_fields": {"replicas": 4}, "layout": "PerRole"}
    (effect,) = changed("decode", rollout=rollout, **more).effects
    assert effect.restarts == tuple(f"decode-{index}" for index in restarts)
    assert effect.kept == tuple(f"decode-{index}" for index in range(restarts.start))
    (stage,) = effect.order
    assert stage.at_a_time == at_a_time


LAYOUTS = ("PerReplica", "PerRole")


@pytest.mark.parametrize("layouts", [LAYOUTS, LAYOUTS[::-1]])
def test_a_change_of_the_layout_is_an_error(layouts: tuple[str, str]) -> None:
    extra = role("extra", replicas=0)
    difference = between(*(service(serving("decode"), extra, layout=name) for name in layouts))
    assert difference.notes[0].startswith(
        f"error: layout: {layouts[1]} cannot replace {layouts[0]} in a running role ("
    )
    (effect,) = difference.effects
    assert effect.added == effect.removed == tuple(f"decode-{index}" for index in range(3))


@pytest.mark.parametrize("layouts", [LAYOUTS, LAYOUTS[::-1]])
def test_a_role_with_another_name_starts_beside_the_old_one(layouts: tuple[str, str]) -> None:
    old = service(serving("decode", gpus=2), layout=layouts[0])
    new = service(serving("serve", gpus=2), layout=layouts[1])
    assert between(old, new).notes[-1] == (
        "role serve replaces decode and starts first: "
        "needs 6 more accelerators until the update ends"
    )
    hasty = {**new, "spec": {**new["spec"], "wait": {"level": "None"}}}
    first, *_ = between(old, hasty).notes
    assert first.startswith("error: wait.level: the old replicas (svc-decode")


def test_a_second_service_of_another_layout_is_none() -> None:
    old, more = (
        list(render(plan_of(service(serving("decode"), name=name, layout=layout))))
        for name, layout in zip(("svc", "next"), LAYOUTS, strict=True)
    )
    assert not [note for note in compare(old, [*old, *more]).notes if "error" in note]
    assert not [note for note in compare([*old, *more], more).notes if "error" in note]


def grouped(groups: int, replicas: int = 2, **more: Any) -> Manifest:
    wide = {"multinode": nodes(2), **more}
    return service(role("a", **wide), role("b", replicas=replicas, **wide), groups=groups)


def test_why_does_not_say_again_how_many_replicas_there_are() -> None:
    told = to_markdown(between(grouped(2), grouped(3, restartPolicy="None")))
    assert "| a | 2 → 3 | 1-a-0, 0-a-0, 1 at a time | 2-a-0 | restart policy changed |" in told
    assert "| a | 2 → 3 | 2-a-0 | replicas 2 → 3 |" in to_markdown(between(grouped(2), grouped(3)))


def scaled(replicas: int = 2, tag: str = "v0.11.0", *, autoscaled: bool = True) -> Manifest:
    scaling = {"maxReplicas": 9, "metrics": [{"name": "queue", "target": 5}]}
    only = serving("serve", tag, replicas=replicas, autoscaling=scaling if autoscaled else None)
    return service(only, layout="PerRole")


KEPT = (
    "role serve is autoscaled: `pulumi up` keeps its live replicas; {} -> {} applies only to a "
    "new LeaderWorkerSet"
)
SCALED = "role serve: replicas 2 -> 3 (1 LeaderWorkerSet changed), nothing restarts"


@pytest.mark.parametrize(
    ("old", "new", "note", "changed"),
    [
        (scaled(2), scaled(3), KEPT.format(2, 3), []),
        (scaled(3), scaled(2), KEPT.format(3, 2), []),
        (scaled(2), scaled(3, "v0.12.0"), KEPT.format(2, 3), ["LeaderWorkerSet"]),
        (
            scaled(2, autoscaled=False),
            scaled(3),
            KEPT.format(2, 3),
            ["HorizontalPodAutoscaler"],
        ),
        (
            scaled(2),
            scaled(3, autoscaled=False),
            SCALED,
            ["LeaderWorkerSet", "HorizontalPodAutoscaler"],
        ),
        (scaled(2, autoscaled=False), scaled(3, autoscaled=False), SCALED, ["LeaderWorkerSet"]),
    ],
)
def test_up_keeps_the_replicas_that_an_autoscaler_set(
    old: Manifest, new: Manifest, note: str, changed: list[str]
) -> None:
    found = between(old, new)
    assert note in found.notes
    assert [change.kind for change in found.objects] == changed
    paths = [field.path for change in found.objects for field in change.fields]
    assert ("spec.replicas" in paths) is (note == SCALED)
    for total in found.totals:
        assert (total.pods.before != total.pods.after) is (note == SCALED)
    for written in (to_text(found), to_markdown(found)):
        assert ("keeps its live replicas" in written) is (note != SCALED)


def test_an_unchanged_autoscaled_role_is_no_difference() -> None:
    assert between(scaled(2), scaled(2)) == Difference()
