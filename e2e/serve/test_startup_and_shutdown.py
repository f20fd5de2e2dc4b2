"""Slow startup and graceful termination of engines."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import pytest

from e2e.harness import Object
from e2e.harness.pods import is_ready
from e2e.serve.load import Load, RequestResult, describe_latency
from e2e.serve.services import MODEL, render_objects, role, service
from e2e.serve.serving import START_TIMEOUT, Serving

pytestmark = [pytest.mark.serve, pytest.mark.long]

LOAD_SECONDS = "45"
"""Simulated time to load weights."""

PRE_STOP = 20
DRAIN_SECONDS = 60
SECONDS_BEFORE_SIGTERM = 4
"""Seconds before SIGTERM when long requests start."""

CONTEXT = 4096
LONG_TOKENS = CONTEXT - 100
"""Requests of this length are still running at SIGTERM."""


@dataclass(frozen=True)
class Starting:
    """A service with three roles of one pod each."""

    running: Serving
    namespace: str

    def pod(self, name: str) -> Object:
        pod: Object = self.running.cluster.get("v1/Pod", f"svc-{name}-0-0", self.namespace)
        return pod

    def restarts(self, name: str) -> int:
        statuses = self.pod(name)["status"].get("containerStatuses") or [{}]
        return int(statuses[0].get("restartCount", 0))


@pytest.fixture(scope="module")
def starting(running: Serving, namespace: str) -> Starting:
    """Deploy roles with default probes, a long startup probe and a short one."""
    drain = ("--shutdown-timeout", str(DRAIN_SECONDS))
    roles = [
        role("plain", args=("--max-model-len", str(CONTEXT))),
        role("patient", args=("--max-model-len", str(CONTEXT), *drain), startup={"timeout": "10m"}),
        role("hasty", startup={"timeout": "20s"}),
    ]
    # Shorten the test; the grace period of this role does not matter.
    roles[-1]["template"]["spec"]["terminationGracePeriodSeconds"] = PRE_STOP + 1
    for engine_role in roles:
        (container,) = engine_role["template"]["spec"]["containers"]
        container["env"] = [{"name": "LOAD_SECONDS", "value": LOAD_SECONDS}]
    running.apply(render_objects(service(namespace, *roles)))
    return Starting(running, namespace)


@pytest.mark.verifies(
    "An engine loading for 45 s survives default probes and a longer `startup.timeout`"
)
def test_slow_engine_survives_its_probes(starting: Starting) -> None:
    cluster = starting.running.cluster
    cluster.wait(lambda: starting.restarts("hasty") > 0, START_TIMEOUT)
    cluster.delete("leaderworkerset.x-k8s.io/v1/LeaderWorkerSet", "svc-hasty-0", starting.namespace)

    def are_ready() -> bool:
        return is_ready(starting.pod("plain")) and is_ready(starting.pod("patient"))

    cluster.wait(are_ready, START_TIMEOUT, lambda: starting.running.report(starting.namespace))
    assert starting.restarts("plain") == starting.restarts("patient") == 0


@pytest.mark.verifies(
    "A deleted pod serves 20 s more; `--shutdown-timeout` finishes longer requests"
)
def test_terminating_pod_finishes_requests(starting: Starting) -> None:
    with ThreadPoolExecutor(2) as pool:
        plain, draining = pool.map(lambda name: _delete_pod(starting, name), ("plain", "patient"))
    assert any(answer.started + answer.seconds < PRE_STOP for answer in plain)
    aborted = [answer for answer in plain if answer.error]
    assert aborted
    assert all(answer.started + answer.seconds > PRE_STOP - 1 for answer in aborted), aborted
    assert [answer for answer in draining if answer.error] == []
    assert max(answer.started + answer.seconds for answer in draining) > PRE_STOP + 1


def _delete_pod(starting: Starting, name: str) -> list[RequestResult]:
    """Delete a role's pod; return its last responses, with times since the deletion."""
    pod = starting.pod(name)
    uid = pod["metadata"]["uid"]
    url = f"http://{pod['status']['podIP']}:8000"
    cluster = starting.running.cluster
    deleted = time.monotonic()
    cluster.delete("v1/Pod", pod["metadata"]["name"], starting.namespace)
    with Load(url, MODEL, clients=1, tokens=100) as short:
        time.sleep(PRE_STOP - SECONDS_BEFORE_SIGTERM)
    with Load(url, MODEL, clients=3, tokens=LONG_TOKENS) as long:
        time.sleep(1)
    cluster.wait(lambda: _is_gone(starting, uid), 120)
    deletion_seconds = time.monotonic() - deleted
    print(f"{name}: {describe_latency(short.answers)}; gone after {deletion_seconds:.0f} s")
    answers = []
    for answer in [*short.answers, *long.answers]:
        moved = replace(answer, started=answer.started - deleted)
        answers.append(moved)
        if answer in long.answers:
            end = moved.started + moved.seconds
            print(f"  {moved.started:.1f} to {end:.1f} s: {moved.tokens} tokens {moved.error}")
    return answers


def _is_gone(starting: Starting, uid: str) -> bool:
    pods = starting.running.cluster.pods(starting.namespace)
    return all(pod["metadata"]["uid"] != uid for pod in pods)
