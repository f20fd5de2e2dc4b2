"""What the spec refuses of a pod template is refused of every pod that would be made of it."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import pytest

from e2e import objects
from e2e.harness import ApiError, Cluster, Object
from tests.ill_pods import CONTAINERS, NEVER_PLACED, PODS, TAKEN

CASES = [
    *(pytest.param(fields, {}, id=at) for fields, at, _ in PODS),
    *(pytest.param({}, fields, id=at) for fields, at, _ in CONTAINERS),
]
#: Of the right type, so that a LeaderWorkerSet carries them.
CARRIED = [
    {"priorityClassName": "Bad Name"},
    {"tolerations": [{"effect": "Never"}]},
    {"runtimeClassName": "Bad Name"},
]


@pytest.fixture(scope="module")
def room(cluster: Cluster) -> Iterator[str]:
    """A namespace for objects that are never stored."""
    name = cluster.new_namespace()
    yield name
    cluster.delete_namespace(name)


def pod(fields: Object, container: Object) -> Object:
    """A pod with more fields, and more of its container."""
    made = copy.deepcopy(objects.pod("ill"))
    made["spec"].update(fields)
    made["spec"]["containers"][0].update(container)
    return made


@pytest.mark.proves("ill-formed pods that are refused at preview are refused by the API server too")
@pytest.mark.parametrize(("fields", "container"), CASES)
def test_what_is_refused_could_never_be_made(
    cluster: Cluster, room: str, fields: Object, container: Object
) -> None:
    with pytest.raises(ApiError):
        cluster.create(pod(fields, container), namespace=room, dry_run=True)


@pytest.mark.proves("a LeaderWorkerSet is accepted with pod templates of which no pod can be made")
@pytest.mark.parametrize("fields", CARRIED, ids=str)
def test_a_set_is_accepted_all_the_same(cluster: Cluster, room: str, fields: Object) -> None:
    held = copy.deepcopy(objects.leader_worker_set("ill", size=1))
    held["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"].update(fields)
    cluster.apply([held], namespace=room, dry_run=True)


@pytest.mark.proves("what is unusual and right in a pod is accepted")
@pytest.mark.parametrize("fields", [*TAKEN, *(each for each, _, _ in NEVER_PLACED)], ids=str)
def test_what_is_unusual_and_right_is_taken(cluster: Cluster, room: str, fields: Object) -> None:
    cluster.create(pod(fields, {}), namespace=room, dry_run=True)
