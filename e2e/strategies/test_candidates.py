"""Requests go to ready leaders of the service and to nothing else, whatever else looks better."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from e2e.harness import Cluster, Object
from e2e.routers import IMAGES
from e2e.strategies.engine import Load
from e2e.strategies.fleet import Chooser, Fleet

VERSIONS = pytest.mark.parametrize("version", sorted(IMAGES))
LEADERS = ("svc-inference-0-0", "svc-inference-1-0")
OTHERS = (
    *("svc-inference-0-0-1", "svc-inference-1-0-1"),
    *("svc-2-inference-0-0", "svc-2-inference-0-0-1"),
    *("svc-2-inference-1-0", "svc-2-inference-1-0-1"),
)


@pytest.fixture
def groups(cluster: Cluster, namespace: str) -> Iterator[Fleet]:
    """Two services of two replicas over two nodes each."""
    with Fleet(cluster, namespace, _two_nodes) as fleet:
        fleet.deploy("svc", "svc-2", pods=8)
        assert fleet.engines.keys() == {*LEADERS, *OTHERS}
        yield fleet


@pytest.mark.proves("Pickers choose only ready leaders of the service")
@VERSIONS
def test_only_ready_leaders_are_chosen(groups: Fleet, version: str) -> None:
    groups.load(dict.fromkeys(LEADERS, Load(waiting=30)))  # all others are idle
    with groups.picker(version, strategy="queue-size") as picker:
        groups.wait_scraped(LEADERS)
        assert picker.picks(40).keys() == set(LEADERS)
        assert bodiless(picker, 40) == set(LEADERS)
        assert not any(groups.engines[name].scrapes for name in OTHERS), "nobody asks the others"

        first, second = LEADERS
        _set_ready(groups, first, ready=False)
        groups.cluster.wait(lambda: _chosen(picker) == {second}, message=f"without {first}")
        _set_ready(groups, second, ready=False)
        groups.cluster.wait(lambda: not _chosen(picker), message="without both")
        answer = picker.ask()
        assert (answer.status, answer.endpoint) == (503, None), "no pod is ready"
        assert b"failed to find" in answer.body
        assert picker.processor.ask(None, "/v1/models").status == 500

        _set_ready(groups, first, ready=True)
        groups.cluster.wait(lambda: _chosen(picker) == {first}, message="back again")


@pytest.mark.proves("Pickers answer 400 to requests that are not inference requests")
@VERSIONS
def test_picker_answers_400_to_invalid_requests(fleet: Fleet, version: str) -> None:
    with fleet.picker(version, strategy="queue-size") as picker:
        fleet.wait_scraped()
        for body in (b"not JSON", b'{"prompt": "no model"}', b'{"model": "no prompt"}'):
            assert picker.processor.ask(body).status == 400, body
        assert picker.ask().endpoint is not None


@pytest.mark.proves("Requests and answers pass a picker unchanged")
@VERSIONS
def test_bodies_pass_unchanged(fleet: Fleet, version: str) -> None:
    returned = b'{"object": "text_completion", "choices": [{"text": "%s"}]}' % (b"x" * 70_000)
    body = {"model": "m", "prompt": "y" * 70_000, "max_tokens": 5, "stream": False}
    with fleet.picker(version, strategy="queue-size") as picker:
        fleet.wait_scraped()
        answer = picker.processor.ask(body, returned=returned)
        assert json.loads(answer.body) == body
        assert json.loads(answer.returned or b"") == json.loads(returned)


def bodiless(picker: Chooser, count: int) -> set[str]:
    """The pods that requests without a body go to."""
    return {picker.pod(picker.processor.ask(None, "/v1/models")) for _ in range(count)}


def _chosen(picker: Chooser) -> set[str]:
    answers = [picker.ask() for _ in range(12)]
    return {picker.pod(answer) for answer in answers if answer.status is None}


def _set_ready(fleet: Fleet, name: str, *, ready: bool) -> None:
    """What the kubelet writes when a readiness probe begins to fail, or to pass again."""
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    fleet.cluster.patch(
        "v1/Pod",
        name,
        {"status": {"conditions": [condition]}},
        fleet.namespace,
        patch_type="strategic",
        subresource="status",
    )


def _two_nodes(manifest: Object) -> Object:
    manifest["spec"]["roles"][1]["multinode"] = {"nodeCount": 2}
    manifest["spec"]["schedulingStrategy"] = {"gangPolicy": {"mode": "Off"}}
    return manifest
