"""Updates that are killed, and the updates that repair them."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from e2e.engine.services import TWO_NODES, Stack, list_rendered, list_state, role

REPLICAS = 4


@dataclass(frozen=True)
class Moment:
    """When and how a creation and a later update are killed.

    Attributes:
        how: The signal.
        whole_group: Whether the language host and the provider also get the signal, as from a
            terminal, or only the command line, as from a CI job.
        creating: Seconds after the start of the creation.
        updating: Seconds after the start of the update.
    """

    how: signal.Signals
    whole_group: bool
    creating: float
    updating: float

    def end(self, process: subprocess.Popen[str], after: float) -> None:
        time.sleep(after)
        assert process.poll() is None, "the command ended before the signal"
        if self.whole_group:
            os.killpg(process.pid, self.how)
        else:
            process.send_signal(self.how)
        process.communicate(timeout=120)

    def __str__(self) -> str:
        target = "all" if self.whole_group else "cli"
        return f"{self.how.name}-{target}-{self.creating:.2f}s-{self.updating:.2f}s"


def generate_moments() -> list[Moment]:
    """Return six moments, the same in every run."""
    rng = random.Random(20261121)
    return [
        Moment(
            signal.SIGKILL if number % 2 else signal.SIGINT,
            rng.random() < 0.5,
            rng.uniform(0.5, 4.5),
            rng.uniform(0.5, 9.0),
        )
        for number in range(6)
    ]


def assert_repaired(stack: Stack, wanted: Mapping[str, Any]) -> None:
    """Run `pulumi cancel` and `pulumi up`; assert that cluster, state and `render` agree."""
    stack.run("cancel", "--yes")
    result = stack.up()
    if result.status != 0:
        # An object exists but is not in the state; this option lets the provider take it over.
        assert "already exists" in result.text, result.text[-6000:]
        stack.up(PULUMI_K8S_UPSERT_EXISTING_OBJECTS="true").assert_succeeded()
    assert stack.list_objects() == list_rendered(wanted)
    assert list_state(stack.read_resources()) == list_rendered(wanted)
    assert stack.count_ready() == {"serve": REPLICAS}
    assert stack.preview() == {}


@pytest.mark.core
@pytest.mark.verifies(
    "`pulumi cancel` and `pulumi up` repair a killed creation and a killed update"
)
def test_killed_creation_and_update_are_repaired(stack: Stack) -> None:
    kill_twice(stack, Moment(signal.SIGKILL, whole_group=True, creating=3.5, updating=6.0))


@pytest.mark.long
@pytest.mark.parametrize("moment", generate_moments(), ids=str)
@pytest.mark.verifies(
    "`pulumi cancel` and `pulumi up` repair six kills at random moments, without orphaned objects"
)
def test_random_kills_are_repaired(stack: Stack, moment: Moment) -> None:
    kill_twice(stack, moment)


def kill_twice(stack: Stack, moment: Moment) -> None:
    stack.cluster.add_nodes(2)
    slow: dict[str, Any] = {**TWO_NODES, "gpus": 1, "behavior": "slow", "delay": "2s"}
    for tag, seconds in (("1", moment.creating), ("2", moment.updating)):
        wanted = stack.service(role(replicas=REPLICAS, tag=tag, **slow))
        stack.write(wanted)
        moment.end(stack.start("up", "--yes", "--skip-preview"), seconds)
        assert_repaired(stack, wanted)
    assert set(stack.lws_tags().values()) == {"2"}
    stack.down().assert_succeeded()
    assert stack.list_objects() == []
    assert stack.read_resources() == []
