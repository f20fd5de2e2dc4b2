"""Our objects equal those of the design documents, except for the listed deviations.

Each deviation is a function that changes what the document shows; `docs/deviations.md` has one
row of the same name for each, with the reason.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from rows import each_row
from samples import prefill_decode, rendered, template

FIXTURES = Path(__file__).parents[1] / "fixtures"
DEVIATIONS_TEXT = Path(__file__).parents[2] / "docs" / "deviations.md"

Objects = list[dict[str, Any]]
Deviation = Callable[[Objects, Objects], None]
DEVIATIONS: dict[str, Deviation] = {}
PREFIX = "fusioninfer.io/"


def deviation(function: Deviation) -> Deviation:
    DEVIATIONS[function.__name__.replace("_", " ")] = function
    return function


def lws(objects: Objects) -> Iterator[dict[str, Any]]:
    return (manifest for manifest in objects if manifest["kind"] == "LeaderWorkerSet")


def templates(item: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    body = item["spec"]["leaderWorkerTemplate"]
    return ((key, body[key]) for key in ("leaderTemplate", "workerTemplate") if key in body)


def leader(item: dict[str, Any]) -> dict[str, Any]:
    """Return the serving container; pods in the documents have only one container."""
    return next(templates(item))[1]["spec"]["containers"][0]


@deviation
def one_leaderworkerset_per_replica(document: Objects, ours: Objects) -> None:
    for item in list(lws(document)):
        count = item["spec"]["replicas"]
        if item["metadata"]["name"] == "qwen-inference":
            document.remove(item)
            for index in range(count):
                copied = copy.deepcopy(item)
                copied["metadata"]["name"] = f"qwen-inference-inference-{index}"
                copied["spec"]["replicas"] = 1
                document.append(copied)


@deviation
def all_replicas_are_rendered(document: Objects, ours: Objects) -> None:
    # The documents show the first replica of each role and say "and so on".
    shown = {entry["metadata"]["name"]: entry for entry in lws(document)}
    for item in lws(ours):
        name = item["metadata"]["name"]
        stem, _, index = name.rpartition("-")
        if (
            name not in shown
            and f"{stem}-0" in shown
            and "labels" in shown[f"{stem}-0"]["metadata"]
        ):
            role_name = shown[f"{stem}-0"]["metadata"]["labels"][f"{PREFIX}role-name"]
            text = yaml.safe_dump(shown[f"{stem}-0"])
            text = text.replace(f"{stem}-0", name).replace(f"{role_name}-0", f"{role_name}-{index}")
            text = text.replace("replica-index: '0'", f"replica-index: '{index}'")
            document.append(yaml.safe_load(text))


@deviation
def the_namespace_is_always_set(document: Objects, ours: Objects) -> None:
    for item in document:
        item["metadata"].setdefault("namespace", "default")


@deviation
def the_podgroup_has_the_service_label(document: Objects, ours: Objects) -> None:
    for item in document:
        if item["kind"] == "PodGroup":
            item["metadata"]["labels"] = {f"{PREFIX}service": item["metadata"]["name"]}


@deviation
def leaderworkersets_and_pods_have_all_labels(document: Objects, ours: Objects) -> None:
    by_name = {manifest["metadata"]["name"]: manifest for manifest in ours}
    for item in lws(document):
        name = item["metadata"]["name"]
        stem, _, index = name.rpartition("-")
        labels = item["metadata"].setdefault(
            "labels",
            {
                f"{PREFIX}service": stem.rpartition("-")[0],
                f"{PREFIX}component-type": "worker",
                f"{PREFIX}role-name": stem.rpartition("-")[2],
                f"{PREFIX}replica-index": index,
            },
        )
        # The revision is a hash, so only its form can be compared.
        revision = f"{PREFIX}revision"
        labels[revision] = by_name.get(name, item)["metadata"]["labels"].get(revision, "0" * 10)
        assert re.fullmatch(r"[0-9a-f]{10}", labels[revision])
        for _, pod in templates(item):
            pod.setdefault("metadata", {})["labels"] = dict(labels)


@deviation
def engines_have_a_supported_release(document: Objects, ours: Objects) -> None:
    for item in lws(document):
        if leader(item)["image"] == "vllm/vllm-openai:v0.8.5":
            leader(item)["image"] = "vllm/vllm-openai:v0.11.0"


@deviation
def leaders_get_a_readiness_probe(document: Objects, ours: Objects) -> None:
    for item in lws(document):
        leader(item)["readinessProbe"] = {
            "httpGet": {"path": "/health", "port": 8000},
            "periodSeconds": 10,
            "timeoutSeconds": 5,
        }


@deviation
def serving_pods_shut_down_gracefully(document: Objects, ours: Objects) -> None:
    pause = {"preStop": {"exec": {"command": ["/bin/sh", "-c", "sleep 20"]}}}
    for item in lws(document):
        for _, pod in templates(item):
            pod["spec"]["containers"][0]["lifecycle"] = pause
            pod["spec"]["terminationGracePeriodSeconds"] = 80


@deviation
def commands_start_the_engine_with_exec(document: Objects, ours: Objects) -> None:
    for item in lws(document):
        words = leader(item).get("args", [])
        leader(item)["args"] = [
            word.replace("&& vllm serve", "&& exec vllm serve") for word in words
        ]
        if not words:
            del leader(item)["args"]


@deviation
def the_ray_port_has_a_name(document: Objects, ours: Objects) -> None:
    for item in lws(document):
        for port in leader(item).get("ports", []):
            if port["containerPort"] == 6379:
                port["name"] = "ray-head"


@deviation
def multinode_replicas_have_a_restart_policy(document: Objects, ours: Objects) -> None:
    for item in lws(document):
        body = item["spec"]["leaderWorkerTemplate"]
        if body["size"] > 1:
            body["restartPolicy"] = "RecreateGroupAfterStart"


@deviation
def a_service_without_a_router_gets_a_clusterip_service(document: Objects, ours: Objects) -> None:
    first = next(lws(ours))["metadata"]["labels"]
    kinds = {item["metadata"]["labels"][f"{PREFIX}component-type"] for item in lws(ours)}
    reached = "decoder" if "decoder" in kinds else "worker"
    name = first[f"{PREFIX}service"]
    document.append(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {
                "name": name,
                "namespace": "default",
                "labels": {f"{PREFIX}service": name},
            },
            "spec": {
                "type": "ClusterIP",
                "selector": {
                    f"{PREFIX}service": name,
                    f"{PREFIX}component-type": reached,
                    "leaderworkerset.sigs.k8s.io/worker-index": "0",
                },
                "ports": [{"name": "http", "port": 8000, "targetPort": 8000, "protocol": "TCP"}],
            },
        }
    )


def document(*names: str) -> Objects:
    texts = [(FIXTURES / "documents" / f"{name}.yaml").read_text() for name in names]
    return [item for text in texts for item in yaml.safe_load_all(text)]


def fixture(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((FIXTURES / "inputs" / f"{name}.yaml").read_text())
    return loaded


def example_1() -> dict[str, Any]:
    manifest = fixture("fusioninfer-story-1-monolithic")
    (only,) = manifest["spec"]["roles"]
    only["replicas"] = 2
    only["template"]["spec"]["containers"][0] |= {
        "args": ["vllm", "serve", "Qwen/Qwen3-8B"],
        "ports": [{"containerPort": 8000}],
    }
    return manifest


def example_2() -> dict[str, Any]:
    manifest = fixture("fusioninfer-story-3-multinode")
    (only,) = manifest["spec"]["roles"]
    # Story 3 names the port; example 2, which is based on it, does not.
    only["template"]["spec"]["containers"][0]["ports"] = [{"containerPort": 8000}]
    return manifest


def prefill_decode_of_single_pods() -> dict[str, Any]:
    vllm = template({"name": "vllm", "image": "vllm/vllm-openai:v0.11.0"})
    return prefill_decode(
        {"replicas": 2, "template": vllm}, {"replicas": 4, "template": vllm}, name="qwen3-inference"
    )


CASES: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "example 1": (example_1(), ("example-1-single-node-lws",)),
    "example 2": (example_2(), ("example-2-multinode-gang-scheduling",)),
    "prefill and decode of single pods": (
        prefill_decode_of_single_pods(),
        ("pd-single-node-podgroup", "pd-single-node-lws"),
    ),
}


def by_name(objects: Objects) -> dict[str, dict[str, Any]]:
    named = {f"{manifest['kind']}/{manifest['metadata']['name']}": manifest for manifest in objects}
    assert len(named) == len(objects)
    return named


@pytest.mark.parametrize("case", CASES)
def test_objects_match_document_except_listed_deviations(case: str) -> None:
    manifest, names = CASES[case]
    ours, expected = list(rendered(manifest)), document(*names)
    for deviate in DEVIATIONS.values():
        deviate(expected, ours)
    assert by_name(ours) == by_name(expected)


def test_podgroup_of_story_4_matches_document() -> None:
    ours = [rendered(fixture("fusioninfer-story-4-disaggregated-multinode"))[0]]
    expected = document("story-4-podgroup")
    the_namespace_is_always_set(expected, ours)
    the_podgroup_has_the_service_label(expected, ours)
    assert ours == expected


def test_every_document_object_is_compared() -> None:
    compared = {name for _, names in CASES.values() for name in names} | {"story-4-podgroup"}
    assert {path.stem for path in (FIXTURES / "documents").glob("*.yaml")} == compared


@each_row("name", DEVIATIONS)
def test_listed_deviation_is_needed(name: str) -> None:
    differ = []
    for manifest, names in CASES.values():
        ours, expected = list(rendered(manifest)), document(*names)
        for other, deviate in DEVIATIONS.items():
            if other != name:
                deviate(expected, ours)
        differ.append(by_name(ours) != by_name(expected))
    assert any(differ)


def test_every_deviation_is_explained() -> None:
    text = DEVIATIONS_TEXT.read_text(encoding="utf-8")
    section = text.partition("\n## Generated objects\n")[2].partition("\n## ")[0]
    rows = dict(re.findall(r"^\| (.+?) \| (.+) \|$", section.partition("|---|")[2], re.MULTILINE))
    assert [re.sub("[^a-z0-9 ]", "", name.lower()) for name in rows] == list(DEVIATIONS)
    assert all(len(reason) > 20 for reason in rows.values()), "a deviation needs its reason"
