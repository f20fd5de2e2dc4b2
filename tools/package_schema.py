"""The schema of the Pulumi package: the models' fields as Pulumi's schema has them."""

from __future__ import annotations

import enum
import inspect
import json
import types
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from json_schema import attribute_docstrings, fields_schema

from fusioninfer_pulumi import api
from fusioninfer_pulumi.api.service import InferenceServiceArgs
from fusioninfer_pulumi.api.types import OUTPUT_MARK
from fusioninfer_pulumi.component import status
from fusioninfer_pulumi.component.inference_service import InferenceService
from fusioninfer_pulumi.component.prerequisites import TOKEN as PREREQUISITES_TOKEN
from fusioninfer_pulumi.component.prerequisites import ServingPrerequisites
from fusioninfer_pulumi.component.resources import TOKEN
from fusioninfer_pulumi.provider.server import VERSION

REPOSITORY = "https://github.com/fusioninfer/fusioninfer-pulumi"
_ANY = {"$ref": "pulumi.json#/Any"}
_PRIMITIVES = ("string", "integer", "number", "boolean")
#: The type of a service where it is not the component itself.
_SERVICE = "Service"


def package_schema() -> dict[str, Any]:
    """Generates the schema of the package `fusioninfer`."""
    schemas = fields_schema(InferenceServiceArgs)
    service = schemas[InferenceServiceArgs.__name__]
    kinds = {_type_token(name): _type(name, schema) for name, schema in schemas.items()}
    kinds[_type_token(InferenceServiceArgs.__name__)] |= {"required": ["name", "roles"]}
    kinds |= {
        _token(kind.__name__): _status_type(kind)
        for kind in (status.ServiceStatus, status.Condition, status.ComponentStatus,
                     status.GroupStatus)
    }  # fmt: skip
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
            TOKEN: _component(
                InferenceService,
                {name: _property(schema) for name, schema in service["properties"].items()},
                service["required"],
                {
                    "name": {"type": "string"},
                    "namespace": {"type": "string"},
                    "endpoint": {"type": "string"},
                    "status": _reference("ServiceStatus"),
                },
            ),
            PREREQUISITES_TOKEN: _component(
                ServingPrerequisites,
                _prerequisites(),
                ["services"],
                {
                    "checked": {"type": "boolean"},
                    "releases": {"type": "object", "additionalProperties": {"type": "string"}},
                },
            ),
        },
    }


def schema_text() -> str:
    """The schema as the package holds it."""
    return json.dumps(package_schema(), indent=2, ensure_ascii=False) + "\n"


def _component(
    component: type,
    inputs: dict[str, Any],
    required: list[str],
    outputs: dict[str, Any],
) -> dict[str, Any]:
    described = attribute_docstrings(component)
    return {
        "isComponent": True,
        "description": inspect.cleandoc(component.__doc__ or ""),
        "inputProperties": inputs,
        "requiredInputs": required,
        "properties": {
            name: {**output, "description": described[name]} for name, output in outputs.items()
        },
        "required": list(outputs),
    }


def _prerequisites() -> dict[str, Any]:
    services = {"type": "array", "items": _reference(_SERVICE)}
    return {
        "services": {**services, "description": "The services that the cluster shall run."},
        "kubeconfig": {
            "type": "string",
            "secret": True,
            "description": "Path or text of the cluster's kubeconfig, by default that of the "
            "stack's config (`kubernetes:kubeconfig`), else the one that kubectl would use.",
        },
        "context": {
            "type": "string",
            "plain": True,
            "description": "Its context, by default `kubernetes:context` of the stack's config, "
            "else the current one.",
        },
        "lwsNamespace": {
            "type": "string",
            "plain": True,
            "description": "Namespace of LeaderWorkerSet's manager, by default `lws-system`.",
        },
        "volcanoNamespace": {
            "type": "string",
            "plain": True,
            "description": "Namespace of Volcano's scheduler, by default `volcano-system`.",
        },
        "kueueNamespace": {
            "type": "string",
            "plain": True,
            "description": "Namespace of Kueue's manager, by default `kueue-system`.",
        },
    }


# Inputs


def _token(name: str) -> str:
    return f"fusioninfer:index:{name}"


def _type_token(model: str) -> str:
    """The token of a model or enum: SDKs put `Args` behind it by themselves."""
    if model == InferenceServiceArgs.__name__:
        return _token(_SERVICE)
    return _token(model.removesuffix("Args"))


def _reference(name: str) -> dict[str, Any]:
    return {"$ref": f"#/types/{_token(name)}"}


def _type(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    described = schema["description"].partition("\n\nRaises:")[0]
    if "enum" in schema:
        members = getattr(api, name)
        values = [{"name": _enum_name(member.name), "value": member.value} for member in members]
        return {"type": "string", "description": described, "enum": values}
    properties = {key: _property(member) for key, member in schema["properties"].items()}
    required = schema.get("required", [])
    return {
        "type": "object",
        "description": described,
        "properties": properties,
        **({"required": required} if required else {}),
    }


def _enum_name(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


def _property(schema: dict[str, Any]) -> dict[str, Any]:
    return {**_value(schema), "description": schema["description"]}


def _value(schema: dict[str, Any]) -> dict[str, Any]:
    """A field's type. Plain is what is read; what is only passed on may be an Output."""
    if schema.get(OUTPUT_MARK):
        plain_schema = _value({key: item for key, item in schema.items() if key != OUTPUT_MARK})
        return {key: item for key, item in plain_schema.items() if key != "plain"}
    if "anyOf" in schema:
        return _choice(schema["anyOf"])
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        plain = issubclass(getattr(api, name), enum.Enum)
        return {"$ref": f"#/types/{_type_token(name)}", **({"plain": True} if plain else {})}
    match schema.get("type"):
        case [*several]:
            return _choice([{"type": option_type} for option_type in several])
        case "array":
            items = _value(schema["items"])
            return {"type": "array", "items": items, **_plain_like(items)}
        case "object":
            inner = schema.get("additionalProperties")
            if not isinstance(inner, dict):
                return {"type": "object", "additionalProperties": _ANY}
            plain_schema = _value(inner)
            return {
                "type": "object",
                "additionalProperties": plain_schema,
                **_plain_like(plain_schema),
            }
        case kind if kind in _PRIMITIVES:
            return {"type": kind, "plain": True}
    return dict(_ANY)


def _choice(options: list[dict[str, Any]]) -> dict[str, Any]:
    """One type of several; null is a field that is left out."""
    choices = [_value(option) for option in options if not _is_left_out(option)]
    if len(choices) == 1:
        return choices[0]
    parts = [{key: choice[key] for key in choice if key != "plain"} for choice in choices]
    return {"oneOf": parts, "plain": True}


def _is_left_out(option: dict[str, Any]) -> bool:
    # Booleans in an enum are what YAML 1.1 reads where On and Off are not quoted.
    choices = option.get("enum", [None])
    return option.get("type") == "null" or all(isinstance(choice, bool) for choice in choices)


def _plain_like(schema: dict[str, Any]) -> dict[str, Any]:
    return {"plain": True} if schema.get("plain") else {}


# Outputs


def _status_type(kind: type) -> dict[str, Any]:
    hints = get_type_hints(kind)
    described = attribute_docstrings(kind)
    properties = {
        name: {
            **_hint(hint),
            **({"description": described[name]} if name in described else {}),
        }
        for name, hint in hints.items()
    }
    required = sorted(getattr(kind, "__required_keys__", ()))
    return {
        "type": "object",
        "description": inspect.cleandoc(kind.__doc__ or ""),
        "properties": properties,
        "required": required,
    }


def _hint(hint: Any) -> dict[str, Any]:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        (inner,) = (argument for argument in arguments if argument is not type(None))
        return _hint(inner)
    if origin is Literal:
        return {"type": "string"}
    if origin is list:
        return {"type": "array", "items": _hint(arguments[0])}
    if origin is dict:
        return {"type": "object", "additionalProperties": _hint(arguments[1])}
    if hint in (str, int, float, bool):
        names = {str: "string", int: "integer", float: "number", bool: "boolean"}
        return {"type": names[hint]}
    return _reference(hint.__name__)
