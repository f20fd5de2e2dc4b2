"""Updates in which running replicas join a gang, or their gang needs more nodes."""

from __future__ import annotations

from typing import Any

import pytest
from running import assert_edit_errors, state_of
from samples import nodes, plan_of, role, service

from fusioninfer_pulumi import InferenceService, InvalidServiceError, render
from fusioninfer_pulumi.cli.diff import compare
from fusioninfer_pulumi.findings import DOCS_URL

WIDE = {"multinode": nodes(2, launcher="none")}
OFF = {"schedulingStrategy": {"gangPolicy": {"mode": "Off"}}}
BIG = role("big", **WIDE)
AT_ONCE = {"rollout": {"strategy": "AllAtOnce"}}
RECREATE = {"rollout": {"strategy": "Recreate"}}
PER_ROLE = {"layout": "PerRole"}


SEQUENTIAL = {"rollout": {"roleOrder": "Sequential"}}


def small(replicas: int = 3, **more: Any) -> Any:
    return role("small", replicas=replicas, **more)


def wide(count: int, replicas: int = 2, **more: Any) -> Any:
    return role("serve", replicas=replicas, multinode=nodes(count, launcher="none"), **more)


def needs(required: str = "Any", **roles: int) -> Any:
    policy = {"minRoleReplicas": roles, "requiredReplicas": required}
    return {"schedulingStrategy": {"gangPolicy": policy}}


def pair(prefill: int = 2, decode: int | None = 1, tag: str = "1", **more: Any) -> Any:
    labels = {"labels": {"tag": tag}}
    template = {**role()["template"], "metadata": labels}
    roles = [role("prefill", "prefiller", replicas=prefill, template=template, **more)]
    if decode is not None:
        roles.append(role("decode", "decoder", replicas=decode, template=template))
    return roles


def test_blocked_join_message_names_fix(engine: Any) -> None:
    engine.state = state_of(service(small()))
    with pytest.raises(InvalidServiceError) as rejected:
        deploy(engine, service(small(), BIG))
    assert str(rejected.value) == (
        'svc: rollout.strategy: Rolling would never end, because role "small" restarts only when '
        "gang svc is complete, and svc-small-1, svc-small-0 would join it later; use AllAtOnce or "
        f"Recreate for this update, or rename the role ({DOCS_URL}/rollout.md) "
        "[gang-update-never-ends]"
    )


ROLE = 'roles[0].rollout.strategy: AllAtOnce would never end, because role "'
SERVICE = 'rollout.strategy: Rolling would never end, because role "'


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        # A multi-node role, a gang mode, more nodes, or a decode role creates the gang.
        (service(small()), service(small(), BIG), [SERVICE + "small"]),
        (service(wide(2), **OFF), service(wide(2)), [SERVICE + "serve"]),
        (service(role("serve", replicas=2)), service(wide(2)), [SERVICE + "serve"]),
        (service(*pair(decode=None)), service(*pair()), [SERVICE + "prefill"]),
        (service(*pair(2, 2), **OFF), service(*pair(2, 2)),
         [SERVICE + "prefill", SERVICE + "decode"]),
        # More nodes of a gang; fewer are enough for it at any time.
        (service(wide(2)), service(wide(4)), [SERVICE + "serve"]),
        (service(wide(4)), service(wide(2)), []),
        # At most maxUnavailable replicas join; new replicas do not wait for a gang.
        (service(small(1)), service(small(1), BIG), []),
        (service(small(1)), service(small(4), BIG), []),
        (service(small(2)), service(small(2, rollout={"maxUnavailable": 2}), BIG), []),
        (service(small(3)), service(small(3, rollout={"maxUnavailable": 2}), BIG),
         [SERVICE + "small"]),
        (service(*pair(1, 1), **OFF), service(*pair(1, 1)), []),
        (service(small(33)), service(small(33, rollout={"maxUnavailable": 33}), BIG), []),
        # Sequential roles wait for each other, even with new replicas.
        (service(*pair(1, 1), **OFF),
         service(*pair(1, 1), rollout={"roleOrder": "Sequential"}), [SERVICE + "prefill"]),
        (service(*pair(1, 2), **OFF),
         service(*pair(1, 2), rollout={"roleOrder": "Sequential"}),
         [SERVICE + "prefill", SERVICE + "decode"]),
        (service(*pair(1, 2), **OFF),
         service(*pair(1, 2, **AT_ONCE), rollout={"roleOrder": "Sequential"}),
         [SERVICE + "decode"]),
        # Unchanged LeaderWorkerSets do not wait, and neither do replaced ones.
        (service(BIG, wide(2, 1)), service(BIG, wide(4, 1), **SEQUENTIAL), []),
        (service(BIG, wide(2, 1), **OFF),
         service({**BIG, "subGroupPolicy": {"subGroupSize": 1}}, wide(2, 1), **SEQUENTIAL), []),
        # Rollouts that restart all replicas at the same time are accepted.
        (service(small()), service(small(**AT_ONCE), BIG), []),
        (service(small()), service(small(**RECREATE), BIG), []),
        (service(small()), service(role("other", replicas=3), BIG), []),
        (service(wide(2)), service(wide(4), **AT_ONCE), []),
        (service(small()), service(small(), BIG, **needs(small=1, big=1)), []),
        (service(small()), service(small(), BIG, **needs(small=2, big=1)), [SERVICE + "small"]),
        (service(small()), service(small(), BIG, **needs(small=0, big=1)), []),
        # Replicas that are in a gang already or leave it, and a gang whose form changes.
        (service(*pair(2, 2)), service(*pair(2, 2, "2")), []),
        (service(*pair(2, 2)), service(*pair(2, 2), **OFF), []),
        (service(*pair(2, 2)), service(*pair(2, 2), BIG), []),
        (service(*pair(2, 2)), service(*pair(2, 2, "2"), **needs(prefill=2, decode=2)), []),
        (service(*pair(2, 2), **needs(prefill=1, decode=1)), service(*pair(2, 2, "2")), []),
    ],
)  # fmt: skip
def test_joins_with_layout_per_replica(
    engine: Any, old: Any, new: Any, expected: list[str]
) -> None:
    assert_edit_errors(engine, old, new, *expected)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (service(*pair(2, None)), service(*pair(rollout={"partition": 1})),
         ["roles[0].rollout.partition: excludes replicas that the gang needs: svc-prefill-0",
          SERVICE + "prefill"]),
        (service(wide(2)), service(wide(4), rollout={"partition": 1}),
         ["rollout.partition: ", SERVICE + "serve"]),
        # `AllAtOnce` does not help: replicas below the partition never join.
        (service(wide(2)), service(wide(4), rollout={"partition": 1, "strategy": "AllAtOnce"}),
         ["rollout.partition: "]),
        (service(wide(2, 3)), service(wide(4, 3), rollout={"partition": 1}),
         ["rollout.partition: ", SERVICE + "serve"]),
        (service(wide(2), **PER_ROLE), service(wide(4), **PER_ROLE, rollout={"partition": 1}),
         ["rollout.partition: ", SERVICE + "serve"]),
        # The gang does not need these replicas, or has them already.
        (service(wide(4)), service(wide(2), rollout={"partition": 1}), []),
        (service(*pair(2, 2)), service(*pair(2, 2, "2"), rollout={"partition": 1}), []),
        (service(wide(2, 4)),
         service(wide(4, 4), rollout={"partition": 2}, **needs(serve=2)), []),
        (service(wide(2, 4)),
         service(wide(4, 4), rollout={"partition": 2}, **needs("LowestOrdinals", serve=2)),
         ["rollout.partition: excludes replicas that the gang needs: svc-serve-1, ",
          SERVICE + "serve"]),
        (service(wide(2)), service(wide(4), rollout={"partition": 2}),
         ["rollout.partition: ", SERVICE + "serve"]),
    ],
)  # fmt: skip
def test_joins_below_partition(engine: Any, old: Any, new: Any, expected: list[str]) -> None:
    assert_edit_errors(engine, old, new, *expected)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (small(), small(), [SERVICE + "small"]),
        (small(), small(**AT_ONCE), [ROLE + "small"]),
        (small(), small(rollout={"maxUnavailable": 3}), [SERVICE + "small"]),
        (small(), small(rollout={"maxSurge": 2}), [SERVICE + "small"]),
        (small(), small(rollout={"maxSurge": 3}), [SERVICE + "small"]),
        (small(), small(**RECREATE), []),
        (small(1), small(1), []),
        # New replicas join the gang, but the existing ones do not.
        (small(1), small(2), [SERVICE + "small"]),
        (small(0), small(3), []),
    ],
)
def test_joins_with_layout_per_role(engine: Any, old: Any, new: Any, expected: list[str]) -> None:
    assert_edit_errors(engine, service(old, **PER_ROLE), service(new, BIG, **PER_ROLE), *expected)


@pytest.mark.parametrize(
    ("replicas", "surge", "minimum", "expected"),
    [
        (1, 0, 2, []),
        (1, 0, 3, [SERVICE + "small"]),
        (3, 2, 2, []),
        (3, 3, 2, []),
        (3, 2, 3, [SERVICE + "small"]),
        (3, 1, 2, [SERVICE + "small"]),
    ],
)
def test_surge_replicas_join_gang(
    engine: Any, replicas: int, surge: int, minimum: int, expected: list[str]
) -> None:
    new = small(3, rollout={"maxSurge": surge})
    more = needs(small=minimum, big=1)
    assert_edit_errors(
        engine,
        service(small(replicas), **PER_ROLE),
        service(new, BIG, **PER_ROLE, **more),
        *expected,
    )


def test_same_service_in_two_clusters_is_compared_separately() -> None:
    old, new = (plan_of(service(small(), *more)) for more in ([], [BIG]))
    once, then = render(old), render(new)
    for before, plans in (([*once, *once], [old, old]), (once, [old])):
        notes = compare(before, [*then, *then], plans=(plans, [new, new])).notes
        assert notes
        assert not [note for note in notes if "error" in note]


@pytest.mark.parametrize(
    ("rollout", "expected"),
    [
        ({}, [SERVICE + "small"]),
        # All LeaderWorkerSets of a group restart together, and each group has its own gang.
        ({"level": "Group"}, []),
        ({"level": "Group", "partition": 1}, ["rollout.partition: "]),
    ],
)
@pytest.mark.parametrize("layout", ["PerReplica", "PerRole"])
def test_joins_of_serving_groups(
    engine: Any, rollout: Any, expected: list[str], layout: str
) -> None:
    old, new = (
        service(small(2), *more, groups=2, layout=layout, rollout=rollout) for more in ([], [BIG])
    )
    if layout == "PerRole" and not expected:
        expected = [SERVICE + "small"]
    if layout == "PerRole" and "partition" in rollout:
        expected = [*expected, SERVICE + "small"]
    assert_edit_errors(engine, old, new, *expected)


def test_unknown_stack_state_is_accepted(engine: Any) -> None:
    old, new = service(small()), service(small(), BIG)
    engine.state = state_of(old)
    for item in engine.state.values():
        del item["outputs"]["spec"]
    assert deploy(engine, new)
    engine.state = None
    assert deploy(engine, new)
    # LeaderWorkerSets in another namespace are new and join no running gang.
    engine.state = state_of(old)
    assert deploy(engine, service(small(), BIG, metadata={"namespace": "other"}))


def deploy(engine: Any, manifest: Any) -> Any:
    return engine.run(lambda: InferenceService("svc", manifest) and None).children
