"""What `diff` says of serving groups that come and go."""

from __future__ import annotations

from typing import Any

import pytest
from samples import nodes, plan_of, role, service

from fusioninfer_pulumi import render
from fusioninfer_pulumi.cli.diff import Difference, compare, to_markdown


def between(old: dict[str, Any], new: dict[str, Any]) -> Difference:
    plans = plan_of(old), plan_of(new)
    return compare(*(list(render(plan)) for plan in plans), plans=([plans[0]], [plans[1]]))


def grouped(groups: int, replicas: int = 2, **more: Any) -> dict[str, Any]:
    wide = {"multinode": nodes(2), **more}
    return service(role("a", **wide), role("b", replicas=replicas, **wide), groups=groups)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (1, 2, "serving group svc-1 added (3 LeaderWorkerSets), nothing restarts"),
        (1, 5, "serving group svc-1..svc-4 added (12 LeaderWorkerSets), nothing restarts"),
        (12, 9, "serving group svc-9..svc-11 removed (9 LeaderWorkerSets), nothing restarts"),
    ],
)
def test_whole_groups_are_told_once(before: int, after: int, said: str) -> None:
    assert between(grouped(before), grouped(after)).notes == (said,)


def test_replicas_of_groups_that_stay_are_told_as_well() -> None:
    found = between(grouped(2), grouped(3, replicas=3))
    assert found.notes[:2] == (
        "serving group svc-2 added (4 LeaderWorkerSets), nothing restarts",
        (
            "role b: replicas 4 -> 9 (2 LeaderWorkerSets added, 2 PodGroups changed), nothing "
            "restarts"
        ),
    )


def test_why_does_not_say_again_how_many_replicas_there_are() -> None:
    told = to_markdown(between(grouped(2), grouped(3, restartPolicy="None")))
    assert "| a | 2 → 3 | 1-a-0, 0-a-0, 1 at a time | 2-a-0 | restart policy changed |" in told
    assert "| a | 2 → 3 | 2-a-0 | replicas 2 → 3 |" in to_markdown(between(grouped(2), grouped(3)))
