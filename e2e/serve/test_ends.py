"""Serves: engines that start slowly are left alone, and engines that end answer what they have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from e2e.harness import Object
from e2e.harness.pods import is_ready
from e2e.serve.services import NEED, objects_of, role, service
from e2e.serve.serving import START_SECONDS, Serving

pytestmark = [pytest.mark.serve, pytest.mark.long]

LOAD_SECONDS = "45"
"""How long each engine reads its weights."""

PAUSE = 20
DRAIN = 60


@dataclass(frozen=True)
class Starting:
    """A service of three roles of one pod each.

    Attributes:
        running: The cluster.
        namespace: Of the service.
    """

    running: Serving
    namespace: str

    def pod(self, name: str) -> Object:
        """The pod of a role."""
        found: Object = self.running.cluster.get("v1/Pod", f"svc-{name}-0-0", self.namespace)
        return found

    def restarts(self, name: str) -> int:
        """How often a role's engine was restarted."""
        statuses = self.pod(name)["status"].get("containerStatuses") or [{}]
        return int(statuses[0].get("restartCount", 0))


@pytest.fixture(scope="module")
def starting(running: Serving) -> Iterator[Starting]:
    """`plain` has the default probes, `patient` a long startup probe, `hasty` a short one."""
    namespace = running.cluster.new_namespace()
    drain = ("--shutdown-timeout", str(DRAIN))
    roles = [
        role("plain"),
        role("patient", args=drain, startup={"timeout": "10m"}),
        role("hasty", startup={"timeout": "20s"}),
    ]
    # How fast it is killed is not what matters.
    roles[-1]["template"]["spec"]["terminationGracePeriodSeconds"] = PAUSE + 1
    for made in roles:
        (container,) = made["template"]["spec"]["containers"]
        container["env"] = [{"name": "LOAD_SECONDS", "value": LOAD_SECONDS}]
    running.apply(objects_of(service(namespace, *roles)))
    yield Starting(running, namespace)
    running.cluster.delete_namespace(namespace)


@pytest.mark.proves(
    "an engine that reads its weights for 45 s is not restarted: not by the default probes, "
    "and not with a longer `startup.timeout`; with a shorter one it is",
    needs=NEED,
)
def test_a_slow_engine_is_left_alone(starting: Starting) -> None:
    cluster = starting.running.cluster
    cluster.wait(lambda: starting.restarts("hasty") > 0, START_SECONDS)
    cluster.delete("leaderworkerset.x-k8s.io/v1/LeaderWorkerSet", "svc-hasty-0", starting.namespace)

    def ready() -> bool:
        return is_ready(starting.pod("plain")) and is_ready(starting.pod("patient"))

    cluster.wait(ready, START_SECONDS, lambda: starting.running.report(starting.namespace))
    assert starting.restarts("plain") == starting.restarts("patient") == 0
