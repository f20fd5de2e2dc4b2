"""When a LeaderWorkerSet counts as ready."""

from __future__ import annotations

from typing import Any

import pytest
from component.live import NEW, READY, group

from fusioninfer_pulumi.component.status import is_ready

READY_TABLE = [
    ("available in this generation", READY, True),
    ("numbers off the wire", group(ready=1.0, generation=2.0, observed=2.0), True),
    ("LeaderWorkerSet before 0.9 observes nothing", group(observed=None), True),
    ("generation unknown", group(generation=None), True),
    ("observed later than read", group(generation=1), True),
    ("condition of an older spec", group(generation=3), False),
    ("status of an older spec", group(generation=3, observed=None, own=2), False),
    ("the condition's own generation wins", group(generation=2, own=1), True),
    ("not available", group("False"), False),
    ("availability unknown", group("Unknown"), False),
    ("available without a ready group", group(ready=0), False),
    ("no count of ready groups", group(ready=None), False),
    ("no condition yet", group(None), False),
    ("no status yet", NEW, False),
    ("no metadata", {"status": READY["status"]}, True),
    ("all of several", {**group(ready=3), "spec": {"replicas": 3}}, True),
    ("some of several", {**group(ready=2), "spec": {"replicas": 3}}, False),
    ("one without a number", {**READY, "spec": {}}, True),
    ("does not exist", None, False),
    ("empty", {}, False),
]


@pytest.mark.parametrize(("live", "ready"), [row[1:] for row in READY_TABLE],
                         ids=[row[0] for row in READY_TABLE])  # fmt: skip
def test_ready(live: Any, ready: bool) -> None:
    assert is_ready(live) is ready
