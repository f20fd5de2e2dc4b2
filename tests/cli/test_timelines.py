"""Timelines of updates between manifests, and reasons for missing timelines."""

from __future__ import annotations

from typing import Any

from rows import each_row
from samples import container, plan_of, role, service, template

from fusioninfer_pulumi.cli.diff import compare
from fusioninfer_pulumi.cli.diff.timelines import ServiceTimeline, simulate_updates
from fusioninfer_pulumi.plan.service_objects import render

Manifest = dict[str, Any]


def serving(tag: str = "v0.11.0", replicas: int = 2, gpus: int = 2, **more: Any) -> Manifest:
    image = f"vllm/vllm-openai:{tag}"
    pods = template(container(gpus=gpus, image=image))
    return role(more.pop("name", "a"), replicas=replicas, template=pods, **more)


def between(old: Manifest, new: Manifest) -> ServiceTimeline:
    plans = plan_of(old), plan_of(new)
    (update,) = simulate_updates(*(list(render(plan)) for plan in plans), ([plans[0]], [plans[1]]))
    return update


def columns(update: ServiceTimeline) -> list[tuple[str, ...]]:
    """Return restarts, starts, replicas of each role and accelerators of each row."""
    return [row[2:] for row in update.cells]


def test_replicas_below_a_partition_stay() -> None:
    rollout = {"partition": 1}
    update = between(
        service(serving(), rollout=rollout), service(serving("v0.12.0"), rollout=rollout)
    )
    assert columns(update) == [("", "", "2", "4"), ("a-1", "", "1", "4"), ("", "", "2", "4")]


def test_replicas_above_a_lowered_partition_restart() -> None:
    update = between(service(serving(), rollout={"partition": 2}), service(serving()))
    assert [row[0] for row in columns(update)] == ["", "a-1", "a-0", ""]


def test_partition_above_all_replicas_leaves_no_step() -> None:
    rollout = {"partition": 2}
    update = between(
        service(serving(), rollout=rollout), service(serving("v0.12.0"), rollout=rollout)
    )
    assert update.timeline is not None
    assert update.timeline.batches == ()


def test_renamed_role_starts_before_the_old_one_stops() -> None:
    update = between(service(serving()), service(serving(name="b")))
    assert columns(update) == [
        ("", "", "0", "2", "4"),
        ("", "b-1, b-0", "0", "2", "8"),
        ("", "", "2", "0", "4"),
    ]


def test_changed_sub_group_policy_replaces_the_lws() -> None:
    more: Manifest = {
        "multinode": {"nodeCount": 2, "launcher": "none"},
        "rollout": {"maxUnavailable": 2},
    }
    policy: Manifest = {"subGroupPolicy": {"subGroupSize": 1}}
    update = between(service(serving(**more)), service(serving(**more, **policy)))
    assert [row[0] for row in columns(update)] == ["", "a-1, a-0", ""]


def test_accelerators_of_both_sides_count_while_a_replica_changes() -> None:
    update = between(service(serving(gpus=4)), service(serving(gpus=2)))
    assert [row[-1] for row in columns(update)] == ["8", "8", "6", "4"]


def test_autoscaled_role_keeps_its_live_replicas() -> None:
    scaling: Manifest = {
        "autoscaling": {"maxReplicas": 9, "metrics": [{"name": "queue", "target": 5}]}
    }
    old = plan_of(service(serving(**scaling)))
    live = [
        {**item, "spec": {**item["spec"], "replicas": 5}}
        if item["kind"] == "LeaderWorkerSet"
        else item
        for item in render(old)
    ]
    new = plan_of(service(serving("v0.12.0", **scaling)))
    (update,) = simulate_updates(live, list(render(new)), ([old], [new]))
    assert columns(update) == [("", "", "5", "10"), ("a", "", "4", "10"), ("", "", "5", "10")]


@each_row(
    ("old", "new", "why"),
    [
        (service(serving(), name="old"), service(serving()), "the old source has no replicas"),
        (service(serving()), service(serving(replicas=0)), "the service has no replicas"),
        (service(serving()), service(serving(), layout="PerRole"), "`pulumi up` rejects it: "),
        (service(serving()), service(serving(replicas=401)), "more than 400 LeaderWorkerSets"),
    ],
)
def test_missing_timeline_has_a_reason(old: Manifest, new: Manifest, why: str) -> None:
    update = between(old, new)
    assert (update.timeline, update.cells, list(update.notes)) == (None, [], [])
    assert why in update.obstacle
    assert update.to_json() == {"missing": update.obstacle}


def queued(queue: str = "team", rollout: str = "Rolling", **more: Any) -> Manifest:
    strategy = {"queue": queue, "gangPolicy": {"backend": "Kueue"}}
    pods = template(container(**{"resources": {"requests": {"cpu": "1"}}, **more}))
    return service(
        role("a", template=pods), schedulingStrategy=strategy, rollout={"strategy": rollout}
    )


UNQUEUED = service(queued()["spec"]["roles"][0])


@each_row(
    ("old", "new", "what"),
    [
        (queued(), queued("other"), "queue"),
        (queued(), UNQUEUED, "backend"),
        (UNQUEUED, queued(), "backend"),
        (queued(), queued(resources={"requests": {"cpu": "2"}}), "requests"),
        (queued(), queued(ports=[{"containerPort": 9000}]), "ports"),
        (queued(), queued("other", "Recreate"), "queue"),
        (queued(), queued(image="vllm/vllm-openai:v0.12.0"), None),
        (queued(), queued(resources={"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}), None),
        (queued(), queued(resources={"requests": {"cpu": "2"}}, rollout="Recreate"), None),
    ],
)
def test_change_that_kueue_rejects_is_not_simulated(
    old: Manifest, new: Manifest, what: str | None
) -> None:
    update = between(old, new)
    plans = plan_of(old), plan_of(new)
    notes = compare(*(list(render(plan)) for plan in plans), plans=([plans[0]], [plans[1]])).notes
    rejected = [note for note in notes if "Kueue rejects" in note]
    if what is None:
        assert (update.obstacle, rejected) == ("", [])
    else:
        text = f"Kueue rejects a change of {what} in a running LeaderWorkerSet; rename the role"
        assert update.obstacle.startswith(f"`pulumi up` rejects it: roles[0]: {text}")
        assert update.obstacle.endswith(" [kueue-immutable]")
        (note,) = rejected
        assert text in note


def test_duplicate_service_has_no_timeline() -> None:
    plan = plan_of(service(serving()))
    objects = list(render(plan))
    (update,) = simulate_updates([*objects, *objects], objects, ([plan, plan], [plan]))
    assert "a source contains it several times" in update.obstacle
    updates = simulate_updates(objects, [*objects, *objects], ([plan], [plan, plan]))
    assert ["several times" in update.obstacle for update in updates] == [True, True]


def test_optional_replicas_are_listed() -> None:
    gang: Manifest = {"schedulingStrategy": {"gangPolicy": {"minRoleReplicas": {"a": 1}}}}
    more: Manifest = {"multinode": {"nodeCount": 2, "launcher": "none"}}
    update = between(
        service(serving(replicas=4, **more), **gang),
        service(serving("v0.12.0", replicas=4, **more), **gang),
    )
    assert list(update.notes) == [
        ("The update does not wait for a-3..a-1. The table never counts them as available.")
    ]
    assert [row[0] for row in columns(update)] == ["", "a-0", "a-3..a-1", ""]
