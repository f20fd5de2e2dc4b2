"""Gang backends: Volcano for Kthena, none for KServe and Modelplane; Kueue by queue label."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from samples import of_kind, rendered

from importers.tests import (
    kserve_samples as kserve,
    kthena_samples as kthena,
    modelplane_samples as modelplane,
)
from importers.tests.reads import Manifest, check, convert, read_source, reject, to_spec

QUEUE = "kueue.x-k8s.io/queue-name"
LABEL = {QUEUE: "team"}
KUEUE = {"queue": "team", "gangPolicy": {"backend": "Kueue"}}
PAIRED: dict[str, Any] = {
    "prefill": {"template": kserve.pod(args=["--kv-transfer-config={}"])},
    "template": kserve.pod(args=["--kv-transfer-config={}"]),
}
SOURCES = {
    "KServe": kserve.llm(**PAIRED),
    "Kthena": kthena.serving(*kthena.PAIR),
    "Modelplane": modelplane.paired(),
}


def add_queue_label(document: Manifest, value: str = "team") -> Manifest:
    """Return a copy of a document with Kueue's queue label."""
    changed = copy.deepcopy(document)
    changed["metadata"]["labels"] = {QUEUE: value, "team": "a"}
    return changed


def pod_labels(manifest: Manifest) -> list[Manifest]:
    """Return the labels of each pod template of a service."""
    blocks = [item["spec"]["leaderWorkerTemplate"] for item in render_lws(manifest)]
    return [
        block[key]["metadata"]["labels"]
        for block in blocks
        for key in ("leaderTemplate", "workerTemplate")
        if key in block
    ]


def render_lws(manifest: Manifest) -> list[Manifest]:
    """Return the LeaderWorkerSets of a service."""
    return list(of_kind(rendered(manifest), "LeaderWorkerSet"))


@pytest.mark.parametrize(("system", "kinds"), [("KServe", 0), ("Kthena", 1), ("Modelplane", 0)])
def test_only_kthena_creates_pod_groups(system: str, kinds: int) -> None:
    """Kthena creates Volcano's PodGroups; the other systems do not gang-schedule."""
    (manifest,) = convert(SOURCES[system])
    assert len(of_kind(rendered(manifest), "PodGroup")) == kinds
    assert not any(QUEUE in item["metadata"]["labels"] for item in render_lws(manifest))


@pytest.mark.parametrize("system", SOURCES)
def test_kueue_label_of_document_becomes_service_queue(system: str) -> None:
    document = add_queue_label(SOURCES[system])
    (manifest,) = convert(document)
    strategy = dict(manifest["spec"]["schedulingStrategy"])
    # Volcano is Kthena's default scheduler; with Kueue it gets no PodGroup.
    assert strategy.pop("schedulerName", None) == ("volcano" if system == "Kthena" else None)
    assert strategy == KUEUE
    assert manifest["metadata"]["labels"] == {"team": "a"}
    assert {item["metadata"]["labels"][QUEUE] for item in render_lws(manifest)} == {"team"}
    other_items = [item for item in rendered(manifest) if item["kind"] != "LeaderWorkerSet"]
    assert not any(QUEUE in other["metadata"]["labels"] for other in other_items)
    assert not any(QUEUE in pod_label for pod_label in pod_labels(manifest))
    assert of_kind(rendered(manifest), "PodGroup") == []
    assert (
        f"f: info: metadata.labels[{QUEUE}]: Kueue admits each replica as a whole from the "
        "LocalQueue team (gangPolicy.backend: Kueue)"
    ) in check(document)
    # A finding of the core about the queue names the label.
    assert any(
        line.startswith(f"f: warning: metadata.labels[{QUEUE}]: Kueue admits each replica")
        for line in check(document)
    )


def deployment(labels: Any) -> Manifest:
    metadata = {"labels": {"app": "engine", **labels}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "ms"},
        "spec": {"template": {"metadata": metadata, **kthena.entry()}},
    }


def member_with(labels: Any) -> Manifest:
    pod = {**modelplane.template(), "metadata": {"labels": labels}}
    return modelplane.released(modelplane.engine("e", modelplane.member(template=pod)))


def entry_with(labels: Any) -> Manifest:
    return {**kthena.entry(), "metadata": {"labels": labels}}


@pytest.mark.parametrize(
    "documents",
    [
        [kserve.llm(labels=LABEL)],
        [kthena.serving(kthena.role(entryTemplate=entry_with(LABEL)))],
        [deployment(LABEL), kthena.server(labels={"app": "engine"})],
        [member_with(LABEL)],
    ],
    ids=["KServe", "Kthena", "Deployment", "Modelplane"],
)
def test_kueue_label_of_all_pods_becomes_service_queue(documents: list[Manifest]) -> None:
    before = copy.deepcopy(documents)
    (manifest,) = convert(*documents)
    assert manifest["spec"]["schedulingStrategy"]["gangPolicy"] == {"backend": "Kueue"}
    assert manifest["spec"]["schedulingStrategy"]["queue"] == "team"
    assert not any(QUEUE in pod_label for pod_label in pod_labels(manifest))
    assert documents == before
    assert any(
        f"labels[{QUEUE}]: Kueue admits each replica as a whole from the LocalQueue team" in line
        for line in check(*documents)
    )


def test_kueue_label_on_one_role_is_rejected() -> None:
    pair = kserve.llm(**{**PAIRED, "prefill": {**PAIRED["prefill"], "labels": LABEL}})
    (message,) = reject(pair)
    assert f"prefill.labels[{QUEUE}]: keeps the pods from starting" in message


def test_two_queues_are_rejected() -> None:
    other = add_queue_label(kserve.llm(labels={QUEUE: "other"}))
    expected = "conflicts with the LocalQueue team; a service has one queue"
    assert reject(other) == [f"f: labels[{QUEUE}]: cannot be carried over: {expected}"]
    assert to_spec(other, lossy=True)["schedulingStrategy"] == KUEUE
    volcano = add_queue_label(kthena.serving())
    key = "scheduling.volcano.sh/queue-name"
    volcano["metadata"]["annotations"] = {key: "research"}
    expected = "conflicts with Kueue's queue team; a service has one queue"
    assert reject(volcano) == [
        f"f: metadata.annotations[{key}]: cannot be carried over: {expected}"
    ]


@pytest.mark.parametrize(
    ("group", "field"),
    [
        ({"gangPolicy": {"minRoleReplicas": {"server": 1}}}, "gangPolicy.minRoleReplicas"),
        ({"gangpolicy": {"minRoleReplicas": {"server": 1}}}, "gangpolicy.minRoleReplicas"),
        ({"networkTopology": {"groupPolicy": {"highestTierAllowed": 1}}}, "networkTopology"),
    ],
)
def test_gang_settings_are_rejected_with_kueue(group: Manifest, field: str) -> None:
    document = add_queue_label(kthena.serving(group=group))
    expected = f"Kueue admits each replica separately; remove this field, or the label {QUEUE}"
    assert reject(document) == [f"f: template.{field}: cannot be carried over: {expected}"]
    assert to_spec(document, lossy=True)["schedulingStrategy"]["gangPolicy"] == {"backend": "Kueue"}


def test_queue_works_with_an_autoscaler() -> None:
    (manifest,) = convert(add_queue_label(kthena.serving()), kthena.policy())
    assert manifest["spec"]["schedulingStrategy"]["gangPolicy"] == {"backend": "Kueue"}
    (lws,) = render_lws(manifest)
    assert lws["metadata"]["labels"][QUEUE] == "team"


def test_invalid_queue_is_reported_by_core_rules() -> None:
    document = add_queue_label(kserve.llm(), "")
    (plan,) = read_source(document).plans
    assert plan.shape.local_queue is None
