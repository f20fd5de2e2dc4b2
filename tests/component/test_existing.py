"""Replicas that exist, and that the stack's state does not hold: a preview says so."""

from __future__ import annotations

from typing import Any

import pytest
from recorded import recorded, urn
from samples import role, service

from fusioninfer_pulumi import InferenceService
from fusioninfer_pulumi.component import existing
from fusioninfer_pulumi.component.live import LiveState
from fusioninfer_pulumi.kube.client import UnreadableError

TEXT = (
    "svc: svc-inference-0, svc-inference-1 exist in the cluster, and not in the state of this stack"
)


def live(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}}


class Listed:
    """LeaderWorkerSets of the cluster by name, and how often they were listed."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.count = 0
        self.problem: Exception | None = None

    def listed(self, *_: Any) -> dict[str, Any]:
        self.count += 1
        if self.problem is not None:
            raise self.problem
        return {name: live(name) for name in self.names}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Listed:
    made = Listed()
    monkeypatch.setattr(existing, "has_engine", lambda: True)
    monkeypatch.setattr(LiveState, "listed", made.listed)
    return made


def logged(engine: Any, *, preview: bool = True) -> list[str]:
    manifest = service(role(replicas=2))
    lines: list[str] = engine.run(
        lambda: InferenceService("svc", manifest) and None, preview=preview
    ).logged
    return [line for line in lines if "state of this stack" in line]


def test_a_preview_warns_of_what_another_stack_has(engine: Any, cluster: Listed) -> None:
    engine.state = {}
    cluster.names = ["svc-inference-0", "svc-inference-1", "svc-other-0"]
    (line,) = logged(engine)
    assert f"{TEXT}: another stack or tool has them, or the state was lost; `up` fails" in line
    assert logged(engine, preview=False) == []


def test_what_is_taken_over_is_said(
    engine: Any, cluster: Listed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PULUMI_K8S_UPSERT_EXISTING_OBJECTS", "true")
    engine.state = {}
    cluster.names = ["svc-inference-0", "svc-inference-1"]
    (line,) = logged(engine)
    assert line.endswith(f"{TEXT}: taken over")


def test_a_service_of_the_stack_is_not_listed(engine: Any, cluster: Listed) -> None:
    engine.state = {urn("svc-inference-0"): recorded("svc-inference-0", index="0")}
    assert logged(engine) == []
    assert cluster.count == 0


@pytest.mark.parametrize("problem", [None, UnreadableError("no answer")])
def test_a_new_service_is_no_finding(engine: Any, cluster: Listed, problem: Any) -> None:
    engine.state, cluster.problem = {}, problem
    assert logged(engine) == []
    assert cluster.count == 1
