"""The manifest's JSON Schema is current, accepts valid manifests and rejects unknown keys."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from json_schema import schema_text
from rows import each_row

from fusioninfer_pulumi.loading import load

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs" / "inference-service.schema.json").read_text(encoding="utf-8")
SCHEMA = json.loads(TEXT)
MANIFESTS = sorted(
    [
        *(ROOT / "tests" / "fixtures" / "inputs").glob("*.yaml"),
        *ROOT.glob("examples/*/inference-service.yaml"),
    ]
)


def documents(path: Path) -> list[Any]:
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


def errors(manifest: Any) -> list[str]:
    validator = jsonschema.Draft202012Validator(SCHEMA)
    return sorted(error.json_path for error in validator.iter_errors(manifest))


def test_committed_schema_is_current() -> None:
    # `make regenerate` writes it.
    assert schema_text() == TEXT


def test_schema_is_valid() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_schema_accepts_valid_manifests(path: Path) -> None:
    for document in documents(path):
        load(document)
        assert errors(document) == []


def places(value: Any, path: str = "$") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each mapping of a manifest that one of our models describes, and its path."""
    if isinstance(value, dict):
        yield path, value
        for key, item in value.items():
            if key not in _FREE:
                yield from places(item, f"{path}.{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from places(item, f"{path}[{index}]")


# Fields that other APIs define.
_FREE = {"template", "labels", "annotations", "httproute", "gateway"}


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_schema_rejects_unknown_keys_everywhere(path: Path) -> None:
    for document in documents(path):
        for place, _ in places(document):
            changed = copy.deepcopy(document)
            next(kept for at, kept in places(changed) if at == place)["unheardOf"] = 1
            assert place in errors(changed), place


WRONG = {
    "$.kind": {"kind": "Deployment"},
    "$.apiVersion": {"apiVersion": "v1"},
    "$.spec.roles": {"spec": {"roles": []}},
    "$.spec.roles[0].replicas": {"replicas": -1},
    "$.spec.roles[0].componentType": {"componentType": "woker"},
    "$.spec.roles[0].port": {"port": 70000},
    "$.spec.roles[0].name": {"name": "Bad_Name"},
    "$.spec.roles[0].multinode": {"multinode": {"nodeCount": 0}},
    "$.spec.roles[0].restartPolicy": {"restartPolicy": "Sometimes"},
    "$.metadata": {"metadata": {}},
}


@each_row("place", WRONG)
def test_schema_rejects_wrong_values(place: str) -> None:
    (manifest,) = documents(ROOT / "examples" / "qwen-monolithic" / "inference-service.yaml")
    holder = manifest["spec"]["roles"][0] if place.startswith("$.spec.roles[0]") else manifest
    holder.update(WRONG[place])
    assert errors(manifest) == [place]


def test_every_field_is_described() -> None:
    undescribed = [
        f"{name}.{key}"
        for name, model in {"manifest": SCHEMA, **SCHEMA["$defs"]}.items()
        for key, field in model.get("properties", {}).items()
        if not field.get("description")
    ]
    assert undescribed == []
