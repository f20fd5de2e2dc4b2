"""What of a ModelDeployment contradicts itself, or is lost."""

from __future__ import annotations

import pytest
from importers.modelplane_samples import (
    Manifest,
    deployment,
    engine,
    member,
    proposed,
    released,
    workers,
)
from importers.reads import problems, said

DEVICES = "cannot be carried over: the claims of a role are those of all of its pods"


def refused(document: Manifest) -> list[str]:
    """Why a document is refused, whatever losses are allowed."""
    return problems(document, lossy=True)


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (
            proposed(workers=workers(None)),
            (
                "f: workers.count: is required with prefill: the ratio of prefill to decode is "
                "stated, "
                "not guessed"
            ),
        ),
        (
            proposed(prefill={"workers": workers(None)}),
            (
                "f: prefill.workers.count: is required with prefill: the ratio of prefill to "
                "decode is "
                "stated, not guessed"
            ),
        ),
        (
            proposed(routing=None),
            "f: routing: is required with prefill: the endpoint picker that pairs them",
        ),
        (
            proposed(prefill=None, routing=None, workers=workers(template={"spec": {}})),
            "f: workers.template.spec.containers: must be one container named engine, got []",
        ),
        (
            released(engine(phase="Decode")),
            "f: template.spec.engines[0].phase: needs serving.mode PrefillDecode",
        ),
        (
            released(engine(phase="Decode"), serving={"mode": "PrefillDecode"}),
            (
                "f: template.spec.engines: serving.mode PrefillDecode needs two engines, one of "
                "phase "
                "Prefill and one of phase Decode, got 1"
            ),
        ),
        (
            released(
                engine("a", phase="Decode"),
                engine("b", phase="Decode"),
                serving={"mode": "PrefillDecode"},
            ),
            "f: template.spec.engines: serving.mode PrefillDecode needs an engine of phase Prefill",
        ),
        (
            released(engine("a", member("Leader"))),
            (
                "f: template.spec.engines[0].members: must be one Standalone member, or a Leader "
                "and a "
                "Worker, got Leader"
            ),
        ),
        (
            released(engine("a", member(nodeSelector=None))),
            (
                "f: template.spec.engines[0].members: at least one member must have a nodeSelector "
                "that "
                "asks for devices"
            ),
        ),
        (
            released(engine("a", member(worker={"nodes": 2}))),
            "f: template.spec.engines[0].members[0].worker: belongs to a member of role Worker",
        ),
        (
            deployment(
                {
                    "replicas": 1,
                    "template": {
                        "metadata": {"labels": {"modelplane.ai/x": "y"}},
                        "spec": {"engines": [engine()]},
                    },
                }
            ),
            (
                "f: template.metadata.labels[modelplane.ai/x]: uses the prefix modelplane.ai/, "
                "which "
                "is "
                "reserved"
            ),
        ),
        (released(replicas=11), "f: replicas: must be at most 10, got 11"),
    ],
)
def test_what_contradicts_itself_is_refused(document: Manifest, expected: str) -> None:
    assert expected in refused(document)


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (
            released(engine("e", member("Leader", nodeSelector=None), member("Worker"))),
            f"f: template.spec.engines[0].members[1].nodeSelector: {DEVICES}",
        ),
        (proposed(model={"name": "m"}), "f: model: cannot be carried over: name the model"),
    ],
)
def test_what_is_lost_is_refused_or_said(document: Manifest, expected: str) -> None:
    assert any(each.startswith(expected) for each in problems(document))
    assert problems(document, lossy=True) == []
    warned = expected.replace("f: ", "f: warning: ", 1)
    assert any(each.startswith(warned) for each in said(document, lossy=True))
