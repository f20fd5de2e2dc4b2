"""What a comparison says of sets that run several replicas, and of a change of the layout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from cli.printed import to_text
from samples import Manifest, container, plan_of, rendered, role, service, template

from fusioninfer_pulumi.cli.diff import Difference, compare, to_json
from fusioninfer_pulumi.plan.objects import render

PER_ROLE = "PerRole"


def manifests(layout: str, *roles: Manifest, **spec: Any) -> Sequence[Manifest]:
    return rendered(service(*roles, layout=layout, **spec))


def decode(image: str = "a:1", replicas: int = 4, **more: Any) -> Manifest:
    pods = template(container(image=image))
    return role("decode", replicas=replicas, template=pods, **more)


def changed(**rollout: Any) -> Difference:
    old, new = (manifests(PER_ROLE, decode(image), rollout=rollout) for image in ("a:1", "a:2"))
    return compare(old, new)


@pytest.mark.parametrize(
    ("rollout", "restarts", "kept", "at_a_time"),
    [
        ({}, range(4), range(0), 1),
        ({"maxUnavailable": "50%"}, range(4), range(0), 2),
        ({"partition": 3}, range(3, 4), range(3), 1),
        ({"maxSurge": 1}, range(4), range(0), 2),
        ({"maxUnavailable": 0, "maxSurge": 1}, range(4), range(0), 1),
        ({"strategy": "AllAtOnce", "partition": 1}, range(1, 4), range(1), 3),
    ],
)
def test_the_replicas_of_one_set_restart_as_its_rolling_update_says(
    rollout: Any, restarts: range, kept: range, at_a_time: int
) -> None:
    (effect,) = changed(**rollout).effects
    assert effect.restarts == tuple(f"decode-{index}" for index in restarts)
    assert effect.kept == tuple(f"decode-{index}" for index in kept)
    (stage,) = effect.order
    assert stage.at_a_time == at_a_time


@pytest.mark.parametrize(
    ("rollout", "order"),
    [
        ({}, ", 1 at a time"),
        ({"maxUnavailable": 3}, ", up to 3 at a time"),
        ({"strategy": "AllAtOnce"}, ", up to 4 at a time"),
        ({"strategy": "Recreate"}, " together"),
    ],
)
def test_the_cluster_may_take_fewer_replicas_of_one_set(rollout: Any, order: str) -> None:
    old, new = (
        plan_of(service(decode(image), layout=PER_ROLE, rollout=rollout))
        for image in ("a:1", "a:2")
    )
    difference = compare(render(old), render(new), plans=([old], [new]))
    assert f"  decode-3..decode-0{order}  " in to_text(difference)
    (stage,) = to_json(difference)["effects"][0]["order"]
    assert stage["atMost"] is ("up to" in order)


def test_a_set_of_one_replica_has_no_order() -> None:
    old, new = (manifests(PER_ROLE, decode(image, 1)) for image in ("a:1", "a:2"))
    assert compare(old, new).notes == ("image changed: restarts decode-0",)


@pytest.mark.parametrize("layouts", [("PerReplica", PER_ROLE), (PER_ROLE, "PerReplica")])
def test_a_change_of_the_layout_is_an_error(layouts: tuple[str, str]) -> None:
    extra = role("extra", replicas=0)
    difference = compare(*(manifests(layout, decode(), extra) for layout in layouts))
    assert difference.notes[0].startswith(
        f"error: layout: {layouts[1]} cannot replace {layouts[0]} in a running role ("
    )
    (effect,) = difference.effects
    assert effect.added == effect.removed == tuple(f"decode-{index}" for index in range(4))


@pytest.mark.parametrize("layouts", [("PerReplica", PER_ROLE), (PER_ROLE, "PerReplica")])
def test_a_role_with_another_name_starts_beside_the_old_one(layouts: tuple[str, str]) -> None:
    limits = {"resources": {"limits": {"nvidia.com/gpu": 2}}}
    pods = template(container(**limits))
    old = manifests(layouts[0], role("decode", replicas=4, template=pods))
    new = service(role("serve", replicas=3, template=pods), layout=layouts[1])
    assert compare(old, rendered(new)).notes[-1] == (
        "role serve starts beside decode: room for 6 accelerators more until the update ends"
    )
    hasty = plan_of({**new, "spec": {**new["spec"], "wait": {"level": "None"}}})
    (first, *_) = compare(old, render(hasty), plans=([], [hasty])).notes
    assert first.startswith("error: wait.level: the old replicas (svc-decode")


def test_a_second_service_of_another_layout_is_none() -> None:
    old = manifests("PerReplica", decode())
    beside = rendered(service(decode(), name="next", layout=PER_ROLE))
    assert not [note for note in compare(old, [*old, *beside]).notes if "error" in note]
    assert not [note for note in compare([*old, *beside], beside).notes if "error" in note]


def test_a_gang_of_sets_with_several_replicas_that_grows_holds_replacements_back() -> None:
    def gang(replicas: int) -> Sequence[Manifest]:
        roles = [role("prefill", "prefiller"), role("decode", "decoder", replicas=replicas)]
        return manifests(PER_ROLE, *roles)

    grown = compare(gang(2), gang(3)).notes
    assert grown[-1] == (
        "PodGroup minMember 3 -> 4: without room for all 4 pods, replacement pods of running "
        "replicas are held back"
    )
    assert grown[0] == (
        "role decode: replicas 2 -> 3 (1 LeaderWorkerSet changed, 1 PodGroup changed), "
        "nothing restarts"
    )
    assert len(compare(gang(3), gang(2)).notes) == 1
