"""When a failure is explained: the error hook, what it reads and for how long."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pulumi
import pytest
from component.diagnosed import SET, pod
from samples import service

from fusioninfer_pulumi import InferenceService
from fusioninfer_pulumi.component import cluster_access as access
from fusioninfer_pulumi.component.diagnosis import hook
from fusioninfer_pulumi.component.diagnosis.read import Snapshot
from fusioninfer_pulumi.kube.client import UnreadableError


class Extra(hook.Diagnosis):
    """A diagnosis that sees what a test tells it to."""

    def __init__(self, *looks: Snapshot | Exception) -> None:
        self.looks, self.read = list(looks), 0
        super().__init__(cast("Any", None), "svc", "models", self._look, self._wait)

    def _look(self, kubeconfig: str | None, context: str | None, *where: str) -> Snapshot:
        assert (kubeconfig, context, *where) == ("config", None, "models", "svc")
        self.read += 1
        found = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        if isinstance(found, Exception):
            raise found
        return found

    def _wait(self, kubeconfig: str, context: None, *given: Any) -> Snapshot:
        *where, known, enough, seconds = given
        assert (known, enough(known), enough(FAILED)) == (YOUNG, False, True)
        assert 0 < seconds <= hook._WATCH_SECONDS
        self._watch_seconds_left = 0.0  # as if it had taken all the time
        return self._look(kubeconfig, context, *where)


async def kubeconfig(_: Any) -> tuple[str | None, str | None]:
    return "config", None


def failure(name: str = SET, kind: str = "LeaderWorkerSet", operation: str = "update") -> Any:
    metadata = {"metadata": {"name": name}}
    kind = f"kubernetes:leaderworkerset.x-k8s.io/v1:{kind}"
    return SimpleNamespace(type=kind, new_inputs=metadata, failed_operation=operation)


@pytest.fixture
def told(engine: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[list[str], int]]:
    lines: list[str] = []
    monkeypatch.setattr(pulumi.log, "error", lambda text, _: lines.append(text))
    monkeypatch.setattr(access, "kubeconfig_of", kubeconfig)

    def run(looks: Sequence[Snapshot | Exception], *failures: Any) -> tuple[list[str], int]:
        counted = []

        async def main() -> None:
            diagnosis = Extra(*looks)
            for each in failures:
                assert await diagnosis.failed(each) is False
            counted.append(diagnosis.read)

        engine.run(lambda: pulumi.Output.from_input(main()) and None)
        return lines, counted[0]

    return run


FAILED = Snapshot([pod(phase="Failed")])
YOUNG = Snapshot([pod(phase="Pending")])
SAID = "pod svc-inference-0-0: Failed"


def test_a_failed_set_is_explained_once(told: Any) -> None:
    both = failure(), failure(kind="LeaderWorkerSetPatch", operation="create")
    assert told([FAILED], *both) == ([SAID], 1)


def test_pods_that_come_and_go_are_watched(told: Any) -> None:
    assert told([YOUNG, FAILED], failure()) == ([SAID], 2)
    # Once: what is never told holds nothing else up.
    lines, looks = told([YOUNG], failure(), failure())
    assert lines[1:] == ["pod svc-inference-0-0: phase Pending, not ready"]
    assert looks == 2


def test_other_failures_are_not_explained(told: Any) -> None:
    others = failure(kind="PodDisruptionBudget"), failure(operation="delete")
    assert told([FAILED], *others) == ([], 0)


def test_what_cannot_be_read_is_said(told: Any) -> None:
    lines, _ = told([UnreadableError("the cluster does not answer")], failure())
    assert lines == ["why is not known: the cluster does not answer"]


def test_a_cluster_that_does_not_answer_is_asked_once_for_all_that_failed(told: Any) -> None:
    away = UnreadableError("the cluster does not answer")
    lines, looks = told([away], *(failure(f"svc-inference-{index}") for index in range(5)))
    assert (lines, looks) == ([f"why is not known: {away}"], 1)


def test_silence_is_said(told: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hook, "_READ_SECONDS", 0.01)
    monkeypatch.setattr(Extra, "_look", lambda *_: time.sleep(0.05))
    lines, _ = told([YOUNG], failure(), failure())
    assert lines == ["why is not known: the cluster did not answer within 0.01 s"]


def test_a_watch_that_is_not_answered_hides_nothing(
    told: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hook, "_WATCH_SECONDS", 0.01)
    monkeypatch.setattr(hook, "_EXTRA_SECONDS", 0.0)
    monkeypatch.setattr(Extra, "_wait", lambda *_: time.sleep(0.05))
    assert told([YOUNG], failure())[0] == ["pod svc-inference-0-0: phase Pending, not ready"]


def test_whoever_waits_for_another_look_has_time_of_its_own(
    engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when many sets fail together: what the first one takes must not silence the others."""
    lines: list[str] = []
    monkeypatch.setattr(pulumi.log, "error", lambda text, _: lines.append(text))
    monkeypatch.setattr(access, "kubeconfig_of", kubeconfig)
    monkeypatch.setattr(hook, "_READ_SECONDS", 1.0)
    monkeypatch.setattr(hook, "_FRESH_SECONDS", 0.0)

    def look(self: Extra, *_: Any) -> Snapshot:
        time.sleep(0.4)
        self.read += 1
        return Snapshot([pod(f"svc-inference-{self.read}-0", phase="Failed")])

    monkeypatch.setattr(Extra, "_look", look)

    async def main() -> None:
        told = Extra(YOUNG)
        names = [f"svc-inference-{index}" for index in (1, 2, 3)]
        await asyncio.gather(*(told.failed(failure(name)) for name in names))

    engine.run(lambda: pulumi.Output.from_input(main()) and None)
    assert lines == [f"pod svc-inference-{index}-0: Failed" for index in (1, 2, 3)]


def test_a_failure_to_explain_hides_nothing(told: Any) -> None:
    assert told([KeyError("spec")], failure())[0] == []


def test_without_an_engine_nothing_is_hooked(engine: Any) -> None:
    deployment = engine.run(lambda: InferenceService("svc", service()) and None)
    assert not any(each.request.hooks.on_error for each in deployment.registered)
