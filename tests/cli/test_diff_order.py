"""Restarts in the order of the rollout, and notes about replicas."""

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
    ("rollout", "at_a_time", "printed"),
    [
        ({}, 1, "decode-2..decode-0, 1 at a time"),
        ({"maxUnavailable": 2}, 2, "decode-2..decode-0, 2 at a time"),
        ({"maxUnavailable": "70%"}, 2, "decode-2..decode-0, 2 at a time"),
        ({"strategy": "AllAtOnce"}, 3, "decode-2..decode-0 together"),
        ({"strategy": "Recreate"}, 3, "decode-2..decode-0 together"),
    ],
)
@pytest.mark.parametrize("layout", ["PerReplica", "PerRole"])
def test_order_of_one_role(rollout: Manifest, at_a_time: int, printed: str, layout: str) -> None:
    actual = changed("decode", rollout=rollout, layout=layout)
    # Who updates several replicas of one set is the cluster, which may be slower.
    at_most = layout == "PerRole" and at_a_time > 1 and "Recreate" not in rollout.values()
    if at_most:
        printed = f"decode-2..decode-0, up to {at_a_time} at a time"
    stages = [stage(DOWN, at_a_time, atMost=at_most)]
    assert order(actual) == [{"role": "decode", "order": stages, "after": [], "held": []}]
    assert printed in to_text(actual)
    assert f"| {printed} |" in to_markdown(actual)


def test_order_of_sequential_roles() -> None:
    sequential = {"roleOrder": "Sequential"}
    actual = changed("prefill", "decode", role_fields={"replicas": 2}, rollout=sequential)
    assert [entry["after"] for entry in order(actual)] == [[], ["prefill"]]
    assert "after prefill: decode-1, decode-0, 1 at a time" in to_markdown(actual)
    # A role that does not change is waited for by nobody.
    old = service(serving("prefill", "a"), serving("decode", "a"), rollout=sequential)
    new = service(serving("prefill", "a"), serving("decode", "b"), rollout=sequential)
    assert [entry["after"] for entry in order(between(old, new))] == [[], []]


@pytest.mark.parametrize("layout", ["PerReplica", "PerRole"])
def test_replicas_below_the_partition_are_kept(layout: str) -> None:
    actual = changed("decode", rollout={"partition": 2}, layout=layout)
    (effect,) = to_json(actual)["effects"]
    assert effect["restarts"] == ["decode-2"]
    assert effect["kept"] == effect["held"] == ["decode-0", "decode-1"]
    assert effect["order"] == [stage(["decode-2"], 1)]
    assert "below the partition, keep the old pod template: decode-0, decode-1" in actual.notes


@pytest.mark.parametrize("layout", ["PerReplica", "PerRole"])
def test_partition_that_is_lowered_is_a_difference(layout: str) -> None:
    stream, free = (
        service(serving("decode", "a"), rollout={"partition": lowest}, layout=layout)
        for lowest in (2, 0)
    )
    actual = between(stream, free)
    assert actual
    assert actual.notes[-1].startswith("no longer below the partition: ")
    for printed in (to_text(actual), to_markdown(actual)):
        assert "no longer below the partition" in printed
        assert ("objects: none changed" in printed) is (layout == "PerReplica")
        assert "no difference" not in printed
    assert not between(stream, stream)
    assert "no longer below" not in "".join(between(free, stream).notes)


def test_optional_replicas_restart_last_and_together() -> None:
    minimum = {"gangPolicy": {"minRoleReplicas": {"decode": 2}}}
    nodes = {"replicas": 4, "multinode": {"nodeCount": 2, "launcher": "none"}}
    actual = changed("decode", role_fields=nodes, schedulingStrategy=minimum)
    (effect,) = order(actual)
    assert effect["order"] == [
        stage(["decode-1", "decode-0"], 1),
        stage(["decode-3", "decode-2"], 2),
    ]
    printed = "decode-1, decode-0, 1 at a time, then decode-3, decode-2 together"
    assert printed in to_markdown(actual)


def test_replacements_happen_together() -> None:
    nodes = {"multinode": {"nodeCount": 4, "launcher": "none"}}
    old, new = (
        service(serving("decode", "a", **nodes, subGroupPolicy={"subGroupSize": size}))
        for size in (2, 4)
    )
    (effect,) = order(between(old, new))
    assert effect["order"] == [stage(DOWN, 3)]


def test_service_in_two_clusters_has_no_order() -> None:
    plans = [[plan_of(service(serving("decode", tag)))] * 2 for tag in "ab"]
    objects = [[entry for plan in side for entry in render(plan)] for side in plans]
    (effect,) = to_json(compare(*objects, plans=(plans[0], plans[1])))["effects"]
    assert len(effect["restarts"]) == 6
    assert effect["order"] == []


def test_rendered_files_have_no_order() -> None:
    plans = [plan_of(service(serving("decode", tag))) for tag in "ab"]
    actual = compare(*(list(render(plan)) for plan in plans))
    (effect,) = to_json(actual)["effects"]
    assert effect["restarts"] == ["decode-0", "decode-1", "decode-2"]
    assert effect["order"] == []
    assert "at a time" not in to_markdown(actual)


def test_serving_groups_restart_in_order() -> None:
    actual = changed("decode", role_fields={"replicas": 2}, groups=2, rollout={"level": "Group"})
    (effect,) = order(actual)
    names = ["1-decode-1", "1-decode-0", "0-decode-1", "0-decode-0"]
    assert effect["order"] == [stage(names, 2, groups=1)]
    printed = "1-decode-1, 1-decode-0, 0-decode-1, 0-decode-0, 1 group at a time"
    assert f"| {printed} |" in to_markdown(actual)
    everything = {"level": "Group", "maxUnavailable": 2}
    actual = changed("decode", role_fields={"replicas": 2}, groups=2, rollout=everything)
    assert "0-decode-1, 0-decode-0 together |" in to_markdown(actual)


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
def test_replicas_of_one_lws_follow_its_rolling_update(
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
def test_change_of_the_layout_is_an_error(layouts: tuple[str, str]) -> None:
    extra = role("extra", replicas=0)
    difference = between(*(service(serving("decode"), extra, layout=name) for name in layouts))
    assert difference.notes[0].startswith(
        f"error: layout: {layouts[1]} cannot replace {layouts[0]} in a running role ("
    )
    (effect,) = difference.effects
    assert effect.added == effect.removed == tuple(f"decode-{index}" for index in range(3))


@pytest.mark.parametrize("layouts", [LAYOUTS, LAYOUTS[::-1]])
def test_renamed_role_starts_before_the_old_one_stops(layouts: tuple[str, str]) -> None:
    old = service(serving("decode", gpus=2), layout=layouts[0])
    new = service(serving("serve", gpus=2), layout=layouts[1])
    assert between(old, new).notes[-1] == (
        "role serve replaces decode and starts first: "
        "needs 6 more accelerators until the update ends"
    )
    hasty = {**new, "spec": {**new["spec"], "wait": {"level": "None"}}}
    first, *_ = between(old, hasty).notes
    assert first.startswith("error: wait.level: the old replicas (svc-decode")


def test_layouts_of_different_services_do_not_conflict() -> None:
    old, more = (
        list(render(plan_of(service(serving("decode"), name=name, layout=layout))))
        for name, layout in zip(("svc", "next"), LAYOUTS, strict=True)
    )
    assert not [note for note in compare(old, [*old, *more]).notes if "error" in note]
    assert not [note for note in compare([*old, *more], more).notes if "error" in note]


def grouped(groups: int, replicas: int = 2, **more: Any) -> Manifest:
    wide = {"multinode": nodes(2), **more}
    return service(role("a", **wide), role("b", replicas=replicas, **wide), groups=groups)


def test_reason_does_not_repeat_the_replica_count() -> None:
    printed = to_markdown(between(grouped(2), grouped(3, restartPolicy="None")))
    assert "| a | 2 → 3 | 1-a-0, 0-a-0, 1 at a time | 2-a-0 | restart policy changed |" in printed
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
    actual = between(old, new)
    assert note in actual.notes
    assert [change.kind for change in actual.objects] == changed
    paths = [field.path for change in actual.objects for field in change.fields]
    assert ("spec.replicas" in paths) is (note == SCALED)
    for total in actual.totals:
        assert (total.pods.before != total.pods.after) is (note == SCALED)
    for written in (to_text(actual), to_markdown(actual)):
        assert ("keeps its live replicas" in written) is (note != SCALED)


def test_unchanged_autoscaled_role_is_no_difference() -> None:
    assert between(scaled(2), scaled(2)) == Difference()
