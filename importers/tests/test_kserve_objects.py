"""Values reach the objects, and the places in them, where KServe's controller puts them."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from samples import of_kind, rendered
from yaml_files import read

from importers.tests.kserve_samples import Manifest, llm
from importers.tests.reads import converted

CASES = read(Path(__file__).with_name("kserve_objects.yaml"))


def objects(case: Manifest) -> list[Manifest]:
    """The objects of a case's service."""
    given = copy.deepcopy(case)  # aliases of YAML are one object
    (service,) = converted(llm(metadata=given.get("metadata"), **given.get("spec", {})))
    return list(rendered(service))


def held(item: Manifest, path: str) -> Manifest:
    """The mapping at a path of an object, empty where there is none."""
    found: Any = item
    for key in path.split(".") if path else ():
        found = found.get(key) or {}
    mapping: Manifest = found
    return mapping


def templates(lws: Manifest) -> list[Manifest]:
    """The pod templates of a LeaderWorkerSet."""
    block = lws["spec"]["leaderWorkerTemplate"]
    return [block[key] for key in ("leaderTemplate", "workerTemplate") if key in block]


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_objects_have_the_values_of_kserve(case: Manifest) -> None:
    made = objects(case)
    lws = of_kind(made, "LeaderWorkerSet")
    places = {
        "sets": lws,
        "pods": [template for lws in lws for template in templates(lws)],
        "main": [pod["spec"]["containers"][0] for lws in lws for pod in templates(lws)],
        "picker pods": [each["spec"]["template"] for each in of_kind(made, "Deployment")],
    }
    checked = 0
    for place, items in places.items():
        for path, expected in case.get(place, {}).items():
            for item in items:
                checked += 1
                found = held(item, path)
                assert {key: found.get(key) for key in expected} == expected
    if "picker" in case:
        checked += 1
        (text,) = (each["data"]["config.yaml"] for each in of_kind(made, "ConfigMap"))
        assert yaml.safe_load(text) == case["picker"]
    if "picker port" in case:
        checked += 1
        (service,) = (
            each for each in of_kind(made, "Service") if "epp" in each["metadata"]["name"]
        )
        assert case["picker port"] in [port["port"] for port in service["spec"]["ports"]]
        (endpoint,) = [
            each["value"]
            for template in places["pods"]
            for each in template["spec"]["containers"][0]["env"]
            if each["name"] == "EVENTS"
        ]
        assert endpoint == f"tcp://{service['metadata']['name']}:{case['picker port']}"
    if "scaled" in case:
        checked += 1
        (scaler,) = of_kind(made, "ScaledObject")
        found = {key: scaler["spec"].get(key) for key in case["scaled"]}
        assert found == case["scaled"]
    assert checked
