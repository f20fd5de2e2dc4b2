"""A watch remembers problems that pods show only briefly."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from fusioninfer_pulumi.component import diagnosis
from fusioninfer_pulumi.component.diagnosis import PodSnapshot


def pod(name: str = "svc-0-0", **status: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "status": status}


CRASHED = pod(
    containerStatuses=[{"name": "vllm", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]
)
NEW = pod(phase="Pending")
UP = pod(conditions=[{"type": "Ready", "status": "True"}])
OTHER = pod("svc-0-0-1")


@pytest.mark.parametrize(
    ("changes", "left"),
    [
        # A pod's reason is kept after its deletion, until a pod has a different reason.
        ([("MODIFIED", CRASHED), ("DELETED", CRASHED), ("ADDED", NEW)], [CRASHED]),
        ([("MODIFIED", CRASHED), ("ADDED", NEW), ("MODIFIED", UP)], [UP]),
        ([("DELETED", NEW)], []),
        ([("DELETED", NEW), ("ADDED", OTHER)], [OTHER]),
        ([], [NEW]),
    ],
)
def test_watch_keeps_reasons_of_deleted_pods(changes: Any, left: Any) -> None:
    taken = []

    def changing(*fields: Any, **more: Any) -> Any:
        assert fields == ("v1", "Pod", "models")
        assert more == {"labelSelector": "fusioninfer.io/service=svc", "seconds": 9.0}
        for change in changes:
            taken.append(change)
            yield change

    api: Any = SimpleNamespace(watch=changing)

    def watched(enough: Callable[[PodSnapshot], bool]) -> list[Any]:
        value = ("models", "svc", PodSnapshot([NEW]), enough, 9.0)
        return list(diagnosis.watch_service(api, *value).pods)

    assert watched(lambda _: False) == left
    assert taken == changes
    taken.clear()
    watched(lambda _: True)
    assert taken == changes[:1]
