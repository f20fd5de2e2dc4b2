"""Replicas that are down before an update: what goes first, what takes room, what is refused."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pulumi
import pytest
from recorded import recorded, urn
from samples import role, service

from fusioninfer_pulumi import InferenceService
from fusioninfer_pulumi.component import children, max_unavailable
from fusioninfer_pulumi.component import cluster_access as access
from fusioninfer_pulumi.kube.client import UnreadableError

COUNT = 4
CHAIN = {3: [], 2: [3], 1: [2], 0: [1]}


def held(revision: str, indices: range = range(COUNT)) -> dict[str, Any]:
    found = {}
    for index in indices:
        one = recorded(f"svc-inference-{index}", index=str(index))
        one["outputs"]["metadata"]["labels"]["fusioninfer.io/revision"] = revision
        found[urn(f"svc-inference-{index}")] = one
    return found


@pytest.fixture
def deployed(engine: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Runs a program whose cluster has these replicas down, at each look."""
    engine.state = held("old")

    def run(*looks: Any, preview: bool = False, **spec: Any) -> Any:
        left = list(looks)

        async def kubeconfig(_: Any) -> tuple[None, None]:
            return None, None

        def read(*where: Any) -> set[str]:
            assert where == (None, None, "default", "svc")
            found = left.pop(0) if left else pytest.fail("one look too many")
            if isinstance(found, Exception):
                raise found
            if isinstance(found, float):
                time.sleep(found)
                return set()
            return {f"svc-inference-{index}" for index in found}

        monkeypatch.setattr(max_unavailable, "can_read_cluster", lambda: True)
        monkeypatch.setattr(access, "kubeconfig_of", kubeconfig)
        monkeypatch.setattr(max_unavailable, "read_unavailable", read)
        monkeypatch.setattr(
            max_unavailable, "explain_unavailable", lambda *given: [f"why of {given[4]}"]
        )
        replicas = spec.pop("replicas", COUNT)
        manifest = service(role(replicas=replicas), **spec)
        found = engine.run(lambda: InferenceService("svc", manifest) and None, preview=preview)
        assert not left, "a look that nobody took"
        return found

    return run


def after(deployment: Any, count: int = COUNT) -> dict[int, list[int]]:
    lws = {deployment[f"svc-inference-{index}"].urn: index for index in range(count)}
    return {
        index: sorted(
            lws[each] for each in deployment[f"svc-inference-{index}"].request.dependencies
        )
        for index in range(count)
    }


def test_where_all_are_up_the_order_is_the_same(deployed: Any) -> None:
    deployment = deployed([])
    assert after(deployment) == CHAIN
    waits = deployment["svc-inference-3-wait"].request.dependencies
    assert set(waits) == {deployment[f"svc-inference-{index}"].urn for index in (0, 3)}


def test_what_is_down_goes_first_and_all_others_after_it(deployed: Any) -> None:
    assert after(deployed([0, 2], [])) == {2: [], 0: [], 3: [0, 2], 1: [3]}
    ends = deployed([0], [])["svc-inference-0-wait"].request.dependencies
    assert len(ends) == 2


def test_what_stays_down_takes_its_place(deployed: Any) -> None:
    two = {"maxUnavailable": 2}
    assert after(deployed([0], [], rollout=two)) == {0: [], 3: [0], 2: [0], 1: [3]}
    assert after(deployed([0], [0], rollout=two)) == {0: [], 3: [0], 2: [3], 1: [2]}


@pytest.mark.parametrize("partition", [0, 1])
def test_where_no_room_is_left_the_update_fails(
    deployed: Any, monkeypatch: pytest.MonkeyPatch, partition: int
) -> None:
    refused = []

    # A program that fails leaves much that is never begun: here the refusal is as far as it goes.
    class Kept(max_unavailable.RollingUpdateOrder):
        async def _read_again(self, role: str) -> Any:
            with pytest.raises(pulumi.RunError) as found:
                await super()._read_again(role)
            refused.append(str(found.value))
            return self._planned({})

    monkeypatch.setattr(children, "RollingUpdateOrder", Kept)
    deployed([0], [0], rollout={"partition": partition})
    (told,) = refused
    first, why, ways = told.splitlines()
    assert first == (
        "svc: svc-inference-0 of role inference is down, and with rollout.maxUnavailable 1 no "
        "other replica may go down for this update"
    )
    assert why == "why of ['svc-inference-0']"
    assert ways.startswith("repair or delete what is down; or lower rollout.partition")


def test_replicas_that_are_added_come_before_and_do_not_count(deployed: Any) -> None:
    deployment = deployed([1, 4], [4], replicas=5)
    assert after(deployment, 5) == {4: [], 1: [4], 3: [1], 2: [3], 0: [2]}


@pytest.mark.parametrize(
    ("state", "more"),
    [
        (None, {}),
        ({}, {}),
        (held("old"), {"preview": True}),
        (held("old"), {"rollout": {"strategy": "AllAtOnce"}}),
        (held("old"), {"rollout": {"strategy": "Recreate"}}),
        (held("old"), {"rollout": {"partition": COUNT}}),
        (held("old", range(0)), {}),
    ],
)
def test_where_no_replica_changes_in_turn_nobody_looks(
    engine: Any, deployed: Any, state: Any, more: Any
) -> None:
    engine.state = state
    assert deployed(**more).children


def test_where_nothing_changes_nobody_looks(engine: Any, deployed: Any) -> None:
    labels = deployed([])["svc-inference-0"].inputs["metadata"]["labels"]
    engine.state = held(labels["fusioninfer.io/revision"])
    assert after(deployed()) == CHAIN


def test_silence_is_said(deployed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(max_unavailable, "_READ_SECONDS", 0.01)
    assert deployed(0.05).logged == [
        "replicas that are down were not counted: the cluster did not answer within 0.01 s"
    ]


@pytest.mark.parametrize("looks", [[UnreadableError("no answer")], [[0], UnreadableError("no")]])
def test_what_cannot_be_read_is_said_and_holds_nothing_up(deployed: Any, looks: Any) -> None:
    deployment = deployed(*looks)
    assert len(deployment.children) == COUNT + 1
    told = [each for each in deployment.logged if "replicas that are down were not counted" in each]
    assert len(told) == 1
