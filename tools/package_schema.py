"""Generates the schema of the Pulumi package from the models' fields."""

from __future__ import annotations

import enum
import inspect
import json
from collections.abc import Mapping
from typing import Any, Literal, get_args, get_origin, get_type_hints

from json_schema import attribute_docstrings, fields_schema

from fusioninfer_pulumi import api
from fusioninfer_pulumi.api.field_types import OUTPUT_MARK
from fusioninfer_pulumi.api.service import InferenceServiceArgs
from fusioninfer_pulumi.component import status
from fusioninfer_pulumi.component.inference_service import InferenceService
from fusioninfer_pulumi.component.kubernetes_objects import TOKEN
from fusioninfer_pulumi.component.serving_prerequisites import (
    TOKEN as PREREQUISITES_TOKEN,
    ServingPrerequisites,
    ServingPrerequisitesArgs,
)
from fusioninfer_pulumi.kube.typed_args import kubernetes_name
from fusioninfer_pulumi.provider.server import OUTPUTS, VERSION, ServiceOutputs

HOST = "https://github.com/"
REPOSITORY = f"{HOST}fusioninfer/fusioninfer-pulumi"
_ANY = {"$ref": "pulumi.json#/Any"}
_PRIMITIVES = ("string", "integer", "number", "boolean")
#: Type of a service in the inputs of ServingPrerequisites; its fields are the component's inputs.
_SERVICE = "Service"
_STRING = {"type": "string", "plain": True}
_PLAIN_INPUTS = """\
Counts, names and other inputs that determine the pods are plain: they accept no outputs. Copy a
value from another stack or resource into the stack's configuration."""
#: Inputs of ServingPrerequisites that are not plain strings.
_PREREQUISITES: Mapping[str, dict[str, Any]] = {
    "services": {
        "type": "array",
        "items": {"$ref": f"#/types/fusioninfer:index:{_SERVICE}"},
    },
    "kubeconfig": {"type": "string", "secret": True},
}


def build_package_schema() -> dict[str, Any]:
    """Return the schema of the package `fusioninfer`."""
    schemas = fields_schema(InferenceServiceArgs)
    service = schemas[InferenceServiceArgs.__name__]
    kinds = {_build_type_token(name): _build_type(name, schema) for name, schema in schemas.items()}
    kinds[_build_type_token(InferenceServiceArgs.__name__)] |= {"required": ["name", "roles"]}
    statuses = (
        status.ServiceStatus, status.Condition, status.ComponentStatus, status.GroupStatus,
    )  # fmt: skip
    kinds |= {_build_token(kind.__name__): _build_typed_dict(kind) for kind in statuses}
    described = attribute_docstrings(ServingPrerequisitesArgs)
    prerequisites = {
        kubernetes_name(name): {**_PREREQUISITES.get(name, _STRING), "description": text}
        for name, text in described.items()
    }
    return {
        "name": "fusioninfer",
        "displayName": "FusionInfer",
        "version": VERSION,
        "description": "Large language models on Kubernetes: LeaderWorkerSets, Volcano gangs and "
        "inference routing from one typed service.",
        "keywords": ["kind/component", "category/infrastructure", "kubernetes", "llm", "inference"],
        "homepage": REPOSITORY,
        "repository": REPOSITORY,
        "logoUrl": f"{REPOSITORY}/raw/main/docs/logo.svg",
        "license": "Apache-2.0",
        "publisher": "FusionInfer",
        # GitHub releases contain the plugin; `pulumi package add` with a git URL does not use this.
        "pluginDownloadURL": f"github://api.github.com/{REPOSITORY.removeprefix(HOST)}",
        "meta": {"supportPack": True},
        "language": {
            "nodejs": {"respectSchemaVersion": True},
            "go": {
                "respectSchemaVersion": True,
                "generateResourceContainerTypes": True,
                "importBasePath": "github.com/fusioninfer/fusioninfer-pulumi/sdk/go/fusioninfer",
            },
            "csharp": {"respectSchemaVersion": True},
            "java": {"buildFiles": "gradle"},
        },
        "types": dict(sorted(kinds.items())),
        "resources": {
            TOKEN: _build_component(
                InferenceService,
                {name: _build_property(schema) for name, schema in service["properties"].items()},
                service["required"],
                _build_typed_dict(ServiceOutputs)["properties"],
            ),
            PREREQUISITES_TOKEN: _build_component(
                ServingPrerequisites, prerequisites, ["services"], {}
            ),
        },
    }


def schema_text() -> str:
    """Return the schema as text, as in the package."""
    return json.dumps(build_package_schema(), indent=2, ensure_ascii=False) + "\n"


def _build_component(
    component: type, inputs: dict[str, Any], required: list[str], more_outputs: dict[str, Any]
) -> dict[str, Any]:
    described = attribute_docstrings(component)
    hints = inspect.get_annotations(component, eval_str=True)
    outputs = {
        name: {**_build_hint(get_args(hints[name])[0]), "description": described[name]}
        for name in OUTPUTS[component]
    } | more_outputs
    return {
        "isComponent": True,
        "description": f"{inspect.cleandoc(component.__doc__ or '')}\n\n{_PLAIN_INPUTS}",
        "inputProperties": inputs,
        "requiredInputs": required,
        "properties": outputs,
        "required": list(outputs),
    }


def _build_token(name: str) -> str:
    return f"fusioninfer:index:{name}"


def _build_type_token(model: str) -> str:
    """Return the token of a model or enum, without `Args`, which SDKs append."""
    if model == InferenceServiceArgs.__name__:
        return _build_token(_SERVICE)
    return _build_token(model.removesuffix("Args"))


def _build_reference(name: str) -> dict[str, Any]:
    return {"$ref": f"#/types/{_build_token(name)}"}


def _build_type(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    described = schema["description"].partition("\n\nRaises:")[0]
    if "enum" in schema:
        members = getattr(api, name)
        values = [
            {"name": "".join(map(str.capitalize, member.name.split("_"))), "value": member.value}
            for member in members
        ]
        return {"type": "string", "description": described, "enum": values}
    properties = {key: _build_property(member) for key, member in schema["properties"].items()}
    required = schema.get("required", [])
    return {
        "type": "object",
        "description": described,
        "properties": properties,
        **({"required": required} if required else {}),
    }


def _build_property(schema: dict[str, Any]) -> dict[str, Any]:
    return {**_build_value(schema), "description": schema["description"]}


def _build_value(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a field's type; it is plain unless the field accepts Outputs."""
    if schema.get(OUTPUT_MARK):
        return _remove_plain(
            _build_value({key: item for key, item in schema.items() if key != OUTPUT_MARK})
        )
    if "anyOf" in schema:
        return _build_choice(schema["anyOf"])
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        plain = issubclass(getattr(api, name), enum.Enum)
        return {"$ref": f"#/types/{_build_type_token(name)}", **({"plain": True} if plain else {})}
    match schema.get("type"):
        case ["string", "integer" | "number"]:
            # A quantity; strings can have a unit.
            return {"type": "string", "plain": True}
        case "array":
            return _build_collection("array", "items", _build_value(schema["items"]))
        case "object":
            inner = schema.get("additionalProperties")
            inner = _build_value(inner) if isinstance(inner, dict) else dict(_ANY)
            return _build_collection("object", "additionalProperties", inner)
        case kind if kind in _PRIMITIVES:
            return {"type": kind, "plain": True}
    return dict(_ANY)


def _build_collection(kind: str, key: str, inner: dict[str, Any]) -> dict[str, Any]:
    """Return a list or map, which is plain if its items are."""
    return {"type": kind, key: inner, **({"plain": True} if inner.get("plain") else {})}


def _remove_plain(schema: dict[str, Any]) -> dict[str, Any]:
    return {key: item for key, item in schema.items() if key != "plain"}


def _build_choice(options: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a union type without null, which stands for an unset field."""
    choices = [_build_value(option) for option in options if not _is_omitted(option)]
    if len(choices) == 1:
        return choices[0]
    return {"oneOf": choices, "plain": True}


def _is_omitted(option: dict[str, Any]) -> bool:
    # YAML 1.1 reads unquoted On and Off as booleans, so enums with these values accept booleans.
    choices = option.get("enum", [None])
    return option.get("type") == "null" or all(isinstance(choice, bool) for choice in choices)


def _build_typed_dict(kind: type) -> dict[str, Any]:
    properties = {name: _build_hint(hint) for name, hint in get_type_hints(kind).items()}
    for name, text in attribute_docstrings(kind).items():
        properties[name]["description"] = text
    return {
        "type": "object",
        "description": inspect.cleandoc(kind.__doc__ or ""),
        "properties": properties,
        "required": sorted(getattr(kind, "__required_keys__", ())),
    }


def _build_hint(hint: Any) -> dict[str, Any]:
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return dict(_ANY)
    if origin is Literal:
        return {"type": "string"}
    if origin is list:
        return {"type": "array", "items": _build_hint(arguments[0])}
    if origin is dict:
        return {"type": "object", "additionalProperties": _build_hint(arguments[1])}
    names = {str: "string", int: "integer", bool: "boolean"}
    return {"type": names[hint]} if hint in names else _build_reference(hint.__name__)
