# ruff: noqa: ISC004 - tables of sentences
"""Why replicas do not come up: objects recorded on the real components, and tables beside them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pulumi
import pytest
import yaml
from samples import service

from fusioninfer_pulumi import InferenceService
from fusioninfer_pulumi.component import access
from fusioninfer_pulumi.component.diagnosis import hook
from fusioninfer_pulumi.component.diagnosis.explain import explain_gang, explain_set, is_told
from fusioninfer_pulumi.component.diagnosis.pods import trouble
from fusioninfer_pulumi.component.diagnosis.room import missing
from fusioninfer_pulumi.component.diagnosis.seen import Seen
from fusioninfer_pulumi.kubernetes_api import UnreadableError

FOLDER = Path(__file__).parent.parent / "fixtures" / "diagnosis"
CASES = {path.stem: path for path in sorted(FOLDER.glob("*.yaml"))}
SET = "svc-inference-0"


@pytest.mark.parametrize("name", CASES)
def test_recorded_objects(name: str) -> None:
    """`e2e/test_diagnosis.py` recorded them (`--write-transcripts`)."""
    case = yaml.safe_load(CASES[name].read_text(encoding="utf-8"))
    seen = Seen(**case["seen"])
    assert explain_set(SET, seen) == case["said"]["set"]
    assert explain_gang(seen) == case["said"]["gang"]
    assert is_told(SET, seen) == case["told"]


def test_every_case_was_recorded() -> None:
    assert set(CASES) == {"crashing", "evicted", "gang", "no-room", "refused", "unpullable"}


def pod(name: str = "svc-inference-0-0", node: str | None = "n1", **status: Any) -> dict[str, Any]:
    labels = {"leaderworkerset.sigs.k8s.io/name": name.rpartition("-")[0]}
    spec: dict[str, Any] = {"containers": []} if node is None else {"nodeName": node}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": status}


def container(**status: Any) -> dict[str, Any]:
    return {"containerStatuses": [{"name": "vllm", "ready": False, **status}]}


KILLED = {"exitCode": 137, "reason": "OOMKilled"}


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (pod(conditions=[{"type": "Ready", "status": "True"}]), None),
        (pod(phase="Pending"), "phase Pending, not ready"),
        (pod(), "phase unknown, not ready"),
        (pod(phase="Running", **container(state={"running": {}})),
         "container vllm: runs and is not ready"),
        (pod(phase="Pending", **container(state={"waiting": {"reason": "ContainerCreating"}})),
         "phase Pending, not ready"),
        (pod(**container(state={"waiting": {"reason": "ErrImagePull", "message": "no\n  such"}})),
         "container vllm: ErrImagePull: no such"),
        (pod(**container(state={"terminated": KILLED})),
         "container vllm: exit code 137 (OOMKilled)"),
        (pod(**container(state={"running": {}}, lastState={"terminated": KILLED}, restartCount=3)),
         "container vllm: exit code 137 (OOMKilled), restarted 3 times"),
        (pod(**container(state={"terminated": {"exitCode": 1, "message": "x" * 400}})),
         f"container vllm: exit code 1: {'x' * 299}…"),
        (pod(initContainerStatuses=[{"name": "init", "state": {"terminated": {"exitCode": 0}}}]),
         "phase unknown, not ready"),
        (pod(node=None), "not scheduled"),
        (pod(node=None, conditions=[{"type": "PodScheduled", "status": "False",
                                     "reason": "SchedulingGated", "message": "a gate"}]),
         "not scheduled, SchedulingGated: a gate"),
    ],
)  # fmt: skip
def test_a_pod(found: Any, said: str | None) -> None:
    assert trouble(found, []) == said


def event(message: str, *, kind: str = "Pod", name: str = "svc-inference-0-0", at: str = "") -> Any:
    about = {"kind": kind, "name": name}
    return {"metadata": {}, "involvedObject": about, "reason": "Why", "message": message,
            "lastTimestamp": at}  # fmt: skip


def test_the_last_two_events_of_a_pod_are_told_once() -> None:
    told = {"old": "1", "new": "3", "mid": "2"}
    events = [event(text, at=at) for text, at in told.items()]
    events += [event("new", at="2"), event("other", name="b")]
    assert trouble(pod(phase="Pending"), events) == "Why: new; Why: mid"


def test_pods_with_the_same_reason_are_told_together() -> None:
    pods = [pod(f"svc-inference-0-{index}", phase="Pending") for index in range(4)]
    pods.append(pod("svc-inference-1-0", phase="Failed"))
    said = explain_set(SET, Seen(pods))
    assert said == ["pod svc-inference-0-0 and 3 more: phase Pending, not ready"]


def test_without_pods_their_makers_are_asked() -> None:
    made = [event("denied", kind="StatefulSet", name="svc-inference-0-1"),
            event("other", kind="StatefulSet", name="svc-inference-0-x"),
            event("crash", kind="LeaderWorkerSet", name=SET)]  # fmt: skip
    assert explain_set(SET, Seen(events=made)) == [
        f"LeaderWorkerSet {SET}: Why: crash",
        "StatefulSet svc-inference-0-1: Why: denied",
    ]
    assert explain_set(SET, Seen()) == [f"{SET} has no pods"]


def group(phase: str | None, *conditions: Any) -> dict[str, Any]:
    return {"metadata": {"name": "svc"}, "status": {"phase": phase, "conditions": conditions}}


def test_a_group_that_is_made_anew_does_not_say_why() -> None:
    about = {"involvedObject": {"kind": "LeaderWorkerSet", "name": SET}, "metadata": {}}
    for kind, enough in (("Normal", False), ("Warning", True)):
        event = {**about, "type": kind, "reason": "RecreateGroup", "message": "it did restart"}
        assert is_told(SET, Seen(events=[event])) is enough


def test_the_schedulers_last_word() -> None:
    old, new = ({"type": "Unschedulable", "status": "True", "message": text,
                 "lastTransitionTime": text} for text in ("1", "2"))  # fmt: skip
    waiting = [pod(node=None)]
    assert explain_gang(Seen(waiting, pod_groups=[group("Pending", new, old)])) == [
        "PodGroup svc: phase Pending, 2"
    ]
    assert explain_gang(Seen(waiting, pod_groups=[group(None)])) == ["PodGroup svc: phase Pending"]
    # Volcano does not take the condition back.
    assert explain_gang(Seen(waiting, pod_groups=[group("Running", new)])) == []
    assert explain_gang(Seen([pod()], pod_groups=[group("Pending", new)])) == []


def asking(count: int, node: str | None = None, phase: str = "Pending") -> dict[str, Any]:
    limits = {"resources": {"limits": {"nvidia.com/gpu": str(count)}}}
    found = pod(node=node, phase=phase)
    found["spec"] = {"containers": [limits], "nodeName": node}
    return found


def node(name: str, gpus: int | None = 8, **more: Any) -> dict[str, Any]:
    allocatable = {} if gpus is None else {"nvidia.com/gpu": str(gpus)}
    conditions = more.pop("conditions", [{"type": "Ready", "status": "True"}])
    status = {"allocatable": allocatable, "conditions": conditions}
    return {"metadata": {"name": name}, "spec": more, "status": status}


NOT_READY = [{"type": "Ready", "status": "Unknown"}]
GONE = [{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]


@pytest.mark.parametrize(
    ("waiting", "nodes", "bound", "said"),
    [
        ([asking(8)], [node("a")], [], ""),
        ([asking(0)], [], [], ""),
        ([asking(8)], [], [], "8 nvidia.com/gpu are missing: 1 pod of 8 wait for a node, "
                              "0 are free"),
        ([asking(8)], [node("a", None)], [], "8 nvidia.com/gpu are missing: 1 pod of 8 wait for a "
                                             "node, 0 are free"),
        # Twelve are free, and no node has eight of them.
        ([asking(8)], [node("a"), node("b")], [asking(2, "a"), asking(2, "b")],
         "8 nvidia.com/gpu are missing: 1 pod of 8 wait for a node, 12 are free "
         "(6 on each of 2 nodes)"),
        # What has ended holds nothing.
        ([asking(8)], [node("a")], [asking(8, "a", "Succeeded")], ""),
        ([asking(8), asking(4), asking(4)], [node("a")], [],
         "8 nvidia.com/gpu are missing: 2 pods of 4 and 1 pod of 8 wait for a node, 8 are free "
         "(8 on a node)"),
        ([asking(8)], [node("a", unschedulable=True), node("b", conditions=NOT_READY),
                       node("c", taints=GONE), node("d", conditions=[])], [],
         "8 nvidia.com/gpu are missing: 1 pod of 8 wait for a node, 0 are free"),
    ],
)  # fmt: skip
def test_accelerators_that_are_missing(waiting: Any, nodes: Any, bound: Any, said: str) -> None:
    assert missing(waiting, nodes, bound) == said


class Extra(hook.Diagnosis):
    """A diagnosis that sees what a test tells it to."""

    def __init__(self, *looks: Seen | Exception) -> None:
        self.looks, self.read = list(looks), 0
        super().__init__(cast("Any", None), "svc", "models", self._look, self._wait)

    def _look(self, kubeconfig: str | None, context: str | None, *where: str) -> Seen:
        assert (kubeconfig, context, *where) == ("config", None, "models", "svc")
        self.read += 1
        found = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        if isinstance(found, Exception):
            raise found
        return found

    def _wait(self, kubeconfig: str, context: None, *given: Any) -> Seen:
        *where, known, enough, seconds = given
        assert (known, enough(known), enough(FAILED)) == (YOUNG, False, True)
        assert 0 < seconds <= hook._WATCH_SECONDS
        self._patience = 0.0  # as if it had taken all the time
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

    def run(looks: Sequence[Seen | Exception], *failures: Any) -> tuple[list[str], int]:
        counted = []

        async def main() -> None:
            diagnosis = Extra(*looks)
            for each in failures:
                assert await diagnosis.failed(each) is False
            counted.append(diagnosis.read)

        engine.run(lambda: pulumi.Output.from_input(main()) and None)
        return lines, counted[0]

    return run


FAILED = Seen([pod(phase="Failed")])
YOUNG = Seen([pod(phase="Pending")])
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

    def look(self: Extra, *_: Any) -> Seen:
        time.sleep(0.4)
        self.read += 1
        return Seen([pod(f"svc-inference-{self.read}-0", phase="Failed")])

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
