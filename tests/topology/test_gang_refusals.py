"""What can never be scheduled as a gang, and what a gang does not hold."""

from __future__ import annotations

from typing import Any

import pytest
from samples import (
    prefill_decode,
    problems,
    scheduling,
    template,
)

OFF = {"gangPolicy": {"mode": "Off"}}
EXCLUSIVE = "leaderworkerset.sigs.k8s.io/exclusive-topology"
WAY_OUT = "remove it, or set schedulingStrategy.gangPolicy.mode to Off"


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        (
            prefill_decode({"startupPolicy": "LeaderReady"}),
            (
                "roles[0].startupPolicy: LeaderReady deadlocks with gang scheduling: the workers "
                "are "
                "created after the leader is ready, and the leader is scheduled only with its "
                "workers; use LeaderCreated"
            ),
        ),
        (
            prefill_decode(metadata={"annotations": {EXCLUSIVE: "rack"}}),
            (
                f"metadata.annotations[{EXCLUSIVE}]: deadlocks with gang scheduling: the workers "
                "are created after the leader is scheduled, and the leader is scheduled only with "
                f"its workers; {WAY_OUT}"
            ),
        ),
        (
            prefill_decode(
                {}, {"template": template(metadata={"annotations": {EXCLUSIVE: "rack"}})}
            ),
            (
                f"roles[1].template.metadata.annotations[{EXCLUSIVE}]: applies only to leaders: "
                "LeaderWorkerSet places workers by its own annotation, which deadlocks with gang "
                f"scheduling; {WAY_OUT}"
            ),
        ),
        (
            prefill_decode(**scheduling(schedulerName="default-scheduler")),
            (
                "schedulingStrategy.schedulerName: default-scheduler does not support gangs; use "
                "volcano (the default here), or set gangPolicy.mode to Off"
            ),
        ),
        (
            prefill_decode({"template": template(schedulerName="other")}),
            (
                'roles[0].template.spec.schedulerName: must be "volcano" like the service\'s, or '
                'absent; got "other"'
            ),
        ),
        *(
            (
                prefill_decode({"template": template(metadata={"annotations": {key: "x"}})}),
                (
                    f"roles[0].template.metadata.annotations[{key}]: is set by fusioninfer-pulumi; "
                    "remove it"
                ),
            )
            for key in ("scheduling.k8s.io/group-name", "volcano.sh/task-spec")
        ),
    ],
)
def test_gang_deadlock_is_rejected(manifest: dict[str, Any], expected: str) -> None:
    assert problems(manifest) == [expected]
    without = {**manifest["spec"].get("schedulingStrategy", {}), **OFF}
    loose = {**manifest, "spec": {**manifest["spec"], "schedulingStrategy": without}}
    assert problems(loose) == []
