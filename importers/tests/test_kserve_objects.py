"""Rendered objects have values in the same fields as objects of KServe's controller."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from samples import of_kind, rendered
from yaml_files import read

from importers.tests.kserve_samples import Manifest, config, llm
from importers.tests.reads import convert

CASES = read(Path(__file__).with_name("kserve_objects.yaml"))


def render_objects(case: Manifest) -> list[Manifest]:
    """Return the objects of a case's service."""
    value = copy.deepcopy(case)  # aliases of YAML are one object
    configs = [config(name, **spec) for name, spec in value.get("configs", {}).items()]
    service_spec = {"template": None, **value.get("spec", {})} if configs else value.get("spec", {})
    document = llm(metadata=value.get("metadata"), **service_spec)
    document["status"] = value.get("status")
    (service,) = convert(document, *configs)
    return list(rendered(service))


def find_value(item: Manifest, path: str) -> Manifest:
    """Return the mapping at a path of an object, or empty if there is none."""
    result: Any = item
    for key in path.split(".") if path else ():
        result = result.get(key) or {}
    mapping: Manifest = result
    return mapping


def templates(lws: Manifest) -> list[Manifest]:
    """The pod templates of a LeaderWorkerSet."""
    block = lws["spec"]["leaderWorkerTemplate"]
    return [block[key] for key in ("leaderTemplate", "workerTemplate") if key in block]


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_rendered_objects_have_values_of_kserve_controller(case: Manifest) -> None:
    built = render_objects(case)
    lws = of_kind(built, "LeaderWorkerSet")
    places = {
        "sets": lws,
        "pods": [template for lws in lws for template in templates(lws)],
        "main": [pod["spec"]["containers"][0] for lws in lws for pod in templates(lws)],
        "picker pods": [entry["spec"]["template"] for entry in of_kind(built, "Deployment")],
        "picker main": [
            entry["spec"]["template"]["spec"]["containers"][0]
            for entry in of_kind(built, "Deployment")
        ],
    }
    checked = 0
    for place, items in places.items():
        for path, expected in case.get(place, {}).items():
            for item in items:
                checked += 1
                result = find_value(item, path)
                assert {key: result.get(key) for key in expected} == expected
    if "picker" in case:
        checked += 1
        (text,) = (entry["data"]["config.yaml"] for entry in of_kind(built, "ConfigMap"))
        assert yaml.safe_load(text) == case["picker"]
    if "picker port" in case:
        checked += 1
        (service,) = (
            entry for entry in of_kind(built, "Service") if "epp" in entry["metadata"]["name"]
        )
        assert case["picker port"] in [port["port"] for port in service["spec"]["ports"]]
        (endpoint,) = [
            entry["value"]
            for template in places["pods"]
            for entry in template["spec"]["containers"][0]["env"]
            if entry["name"] == "EVENTS"
        ]
        assert endpoint == f"tcp://{service['metadata']['name']}:{case['picker port']}"
    if "route" in case:
        checked += 1
        (route,) = of_kind(built, "HTTPRoute")
        matches = [match for rule in route["spec"]["rules"] for match in rule["matches"]]
        paths = [match["path"]["value"] for match in matches]
        assert {"hostnames": route["spec"].get("hostnames"), "paths": paths} == case["route"]
    if "scaled" in case:
        checked += 1
        (scaler,) = of_kind(built, "ScaledObject")
        result = {key: scaler["spec"].get(key) for key in case["scaled"]}
        assert result == case["scaled"]
    assert checked
