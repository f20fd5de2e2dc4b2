"""The schema of the Pulumi package is current, complete and consistent with the models."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from json_schema import fields_schema
from package_schema import schema_text

from fusioninfer_pulumi.api.service import InferenceServiceArgs
from fusioninfer_pulumi.component.kubernetes_objects import TOKEN
from fusioninfer_pulumi.provider.server import read_package_schema

SCHEMA = json.loads(read_package_schema())
TYPES = SCHEMA["types"]
SERVICE = SCHEMA["resources"][TOKEN]


def parts(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for item in value.values():
            yield from parts(item)
    elif isinstance(value, list):
        for item in value:
            yield from parts(item)


def kind(name: str) -> Any:
    return TYPES[f"fusioninfer:index:{name}"]


def test_packaged_schema_is_current() -> None:
    # `make regenerate` updates it.
    assert read_package_schema() == schema_text()


def test_version_is_semantic() -> None:
    # Pulumi parses https://semver.org versions; `0.3.0.dev0` is valid only in Python.
    assert re.fullmatch(r"\d+\.\d+\.\d+(-dev\.\d+)?", SCHEMA["version"])


def test_references_resolve_to_types() -> None:
    used = {part["$ref"] for part in parts(SCHEMA) if "$ref" in part}
    known = {f"#/types/{token}" for token in TYPES}
    assert used - known == {"pulumi.json#/Any"}
    # The service is an input of ServingPrerequisites only.
    assert known - used == set()


def test_models_and_enums_are_types_with_all_fields() -> None:
    for name, model in fields_schema(InferenceServiceArgs).items():
        result = kind("Service" if name == "InferenceServiceArgs" else name.removesuffix("Args"))
        if "enum" in model:
            assert [item["value"] for item in result["enum"]] == model["enum"]
        else:
            assert set(result["properties"]) == set(model["properties"])
            assert all(item["description"] for item in result["properties"].values())
    fields = fields_schema(InferenceServiceArgs)["InferenceServiceArgs"]["properties"]
    assert set(SERVICE["inputProperties"]) == set(fields)
    assert SERVICE["requiredInputs"] == ["roles"]


def test_plain_marks_fields_that_cannot_be_outputs() -> None:
    role = kind("Role")["properties"]
    assert role["replicas"] == {
        "type": "integer",
        "plain": True,
        "description": role["replicas"]["description"],
    }
    assert role["componentType"]["plain"]
    assert "are plain: they accept no outputs" in SERVICE["description"]
    assert "plain" not in role["template"]
    assert "plain" not in kind("SchedulingStrategy")["properties"]["queue"]
    assert "plain" not in kind("SecretKey")["properties"]["name"]


def test_only_fields_with_two_forms_have_two_types() -> None:
    count = ["integer", "string"]
    assert {
        f"{token.rpartition(':')[2]}.{name}": [option["type"] for option in part["oneOf"]]
        for token, kind in TYPES.items()
        for name, schema in kind.get("properties", {}).items()
        for part in parts(schema)
        if "oneOf" in part
    } == {
        # Counts or percentages, as in Kubernetes' own fields.
        "DisruptionBudget.maxUnavailable": count,
        "DisruptionBudget.minAvailable": count,
        "RoleRollout.maxSurge": count,
        "RoleRollout.maxUnavailable": count,
        "Rollout.maxSurge": count,
        "Rollout.maxUnavailable": count,
        # One value or a list.
        "DeviceRequirement.attributes": ["string", "array"],
        # The contents of config.json, or the path of a file.
        "Model.config": ["object", "string"],
    }


def test_quantities_are_strings() -> None:
    assert kind("AutoscalingMetric")["properties"]["target"]["type"] == "string"
    assert kind("Storage")["properties"]["size"]["type"] == "string"


def test_on_and_off_are_enum_values() -> None:
    assert kind("GangPolicy")["properties"]["mode"]["$ref"] == "#/types/fusioninfer:index:GangMode"


def test_schema_has_registry_metadata() -> None:
    assert "kind/component" in SCHEMA["keywords"]
    assert SCHEMA["license"] == "Apache-2.0"
    repository = SCHEMA["repository"].removeprefix("https://github.com/")
    assert SCHEMA["pluginDownloadURL"] == f"github://api.github.com/{repository}"
    assert all(resource["isComponent"] for resource in SCHEMA["resources"].values())
