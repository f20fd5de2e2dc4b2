"""Replicas that an update restarts, and notes about replicas."""

from __future__ import annotations

from typing import Any

import pytest
from cli.printed import diff, to_text
from rows import each_row
from samples import container, nodes, plan_of, role, service, template

from fusioninfer_pulumi import render
from fusioninfer_pulumi.cli.diff import Difference, compare, to_json, to_markdown

Manifest = dict[str, Any]


def serving(name: str, tag: str = "v0.11.0", gpus: int = 1, **more: Any) -> Manifest:
    pods = template(container(gpus=gpus, image=f"vllm/vllm-openai:{tag}"))
    return role(name, **{"template": pods, "replicas": 3, **more})


def changed(*names: str, role_fields: Manifest | None = None, **spec: Any) -> Difference:
    old, new = (
        service(*(serving(name, tag, **(role_fields or {})) for name in names), **spec)
        for tag in ("v0.11.0", "v0.12.0")
    )
    return diff(old, new)


@pytest.mark.parametrize("layout", ["PerReplica", "PerRole"])
def test_replicas_below_the_partition_are_kept(layout: str) -> None:
    actual = changed("decode", rollout={"partition": 2}, layout=layout)
    (effect,) = to_json(actual)["effects"]
    assert effect["restarts"] == ["decode-2"]
    assert effect["kept"] == effect["held"] == ["decode-0", "decode-1"]
    assert "the partition keeps the old pod template of decode-0, decode-1" in actual.notes


@pytest.mark.parametrize("layout", ["PerReplica", "PerRole"])
def test_partition_that_is_lowered_is_a_difference(layout: str) -> None:
    stream, free = (
        service(serving("decode", "a"), rollout={"partition": lowest}, layout=layout)
        for lowest in (2, 0)
    )
    actual = diff(stream, free)
    assert actual
    assert actual.notes[-1].startswith("partition lowered for ")
    for printed in (to_text(actual), to_markdown(actual)):
        assert "partition lowered for" in printed
        assert ("objects: none changed" in printed) is (layout == "PerReplica")
        assert "no difference" not in printed
    assert not diff(stream, stream)
    assert "partition lowered" not in "".join(diff(free, stream).notes)


@pytest.mark.parametrize(
    ("rollout", "restarts"),
    [
        ({}, range(4)),
        ({"partition": 3}, range(3, 4)),
        ({"strategy": "AllAtOnce", "partition": 1}, range(1, 4)),
    ],
)
def test_replicas_of_one_lws_follow_its_partition(rollout: Any, restarts: range) -> None:
    more = {"role_fields": {"replicas": 4}, "layout": "PerRole"}
    (effect,) = changed("decode", rollout=rollout, **more).effects
    assert effect.restarts == tuple(f"decode-{index}" for index in restarts)
    assert effect.kept == tuple(f"decode-{index}" for index in range(restarts.start))


LAYOUTS = ("PerReplica", "PerRole")


@pytest.mark.parametrize("layouts", [LAYOUTS, LAYOUTS[::-1]])
def test_change_of_the_layout_is_an_error(layouts: tuple[str, str]) -> None:
    extra = role("extra", replicas=0)
    difference = diff(*(service(serving("decode"), extra, layout=name) for name in layouts))
    assert difference.notes[0].startswith(
        f"error: layout: {layouts[1]} cannot replace {layouts[0]} in a running role ("
    )
    (effect,) = difference.effects
    assert effect.added == effect.removed == tuple(f"decode-{index}" for index in range(3))


@pytest.mark.parametrize("layouts", [LAYOUTS, LAYOUTS[::-1]])
def test_renamed_role_starts_before_the_old_one_stops(layouts: tuple[str, str]) -> None:
    old = service(serving("decode", gpus=2), layout=layouts[0])
    new = service(serving("serve", gpus=2), layout=layouts[1])
    assert not [note for note in diff(old, new).notes if "error" in note]
    hasty = {**new, "spec": {**new["spec"], "wait": {"level": "None"}}}
    first, *_ = diff(old, hasty).notes
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
    printed = to_markdown(diff(grouped(2), grouped(3, restartPolicy="None")))
    assert "| a | 2 → 3 | 0-a-0, 1-a-0 | 2-a-0 | restart policy changed |" in printed
    assert "| a | 2 → 3 | 2-a-0 | replicas 2 → 3 |" in to_markdown(diff(grouped(2), grouped(3)))


def scaled(replicas: int = 2, tag: str = "v0.11.0", *, autoscaled: bool = True) -> Manifest:
    scaling = {"maxReplicas": 9, "metrics": [{"name": "queue", "target": 5}]}
    only = serving("serve", tag, replicas=replicas, autoscaling=scaling if autoscaled else None)
    return service(only, layout="PerRole")


KEPT = (
    "role serve is autoscaled: `pulumi up` keeps its live replicas; {} -> {} applies only to a "
    "new LeaderWorkerSet"
)
SCALED = "role serve: replicas 2 -> 3, nothing restarts"


@each_row(
    ("old", "new", "note", "changed"),
    [
        (scaled(2), scaled(3), KEPT.format(2, 3), []),
        (scaled(3), scaled(2), KEPT.format(3, 2), []),
        (scaled(2), scaled(3, "v0.12.0"), KEPT.format(2, 3), ["LeaderWorkerSet"]),
        (scaled(2, autoscaled=False), scaled(3), KEPT.format(2, 3), ["HorizontalPodAutoscaler"]),
        (
            scaled(2),
            scaled(3, autoscaled=False),
            SCALED,
            ["LeaderWorkerSet", "HorizontalPodAutoscaler"],
        ),
        (scaled(2, autoscaled=False), scaled(3, autoscaled=False), SCALED, ["LeaderWorkerSet"]),
    ],
)
def test_diff_notes_replicas_that_an_autoscaler_sets(
    old: Manifest, new: Manifest, note: str, changed: list[str]
) -> None:
    actual = diff(old, new)
    assert note in actual.notes
    assert [change.kind for change in actual.objects] == changed
    paths = [field.path for change in actual.objects for field in change.fields]
    assert ("spec.replicas" in paths) is (note == SCALED)
    for total in actual.totals:
        assert (total.pods.before != total.pods.after) is (note == SCALED)
    for written in (to_text(actual), to_markdown(actual)):
        assert ("keeps its live replicas" in written) is (note != SCALED)


def test_unchanged_autoscaled_role_is_no_difference() -> None:
    assert diff(scaled(2), scaled(2)) == Difference()
