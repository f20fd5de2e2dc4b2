"""The base of every spec model and the field types that they share."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import InitErrorDetails, PydanticCustomError

from fusioninfer_pulumi.api.messages import findings_of
from fusioninfer_pulumi.findings import LIFT, InvalidServiceError, shown
from fusioninfer_pulumi.kube.outputs import is_output
from fusioninfer_pulumi.kube.typed_args import to_plain

#: Largest count of replicas or nodes; beyond it the objects alone exceed what etcd stores.
MAX_COUNT = 10_000


if TYPE_CHECKING:
    # Type checkers know the constructors of models by this very metaclass.
    from pydantic._internal._model_construction import ModelMetaclass as _Constructed
else:

    class _Constructed(type(BaseModel)):
        """Tells what is wrong with a constructor's arguments as of manifests: a line each."""

        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            # Models inside of others are made without it: the whole tells of them.
            try:
                return super().__call__(*args, **kwargs)
            except ValidationError as problem:
                raise InvalidServiceError(findings_of(problem, cls), cls.__name__) from None


class SpecModel(BaseModel, metaclass=_Constructed):
    """A part of the spec: camelCase in YAML, snake_case in Python, unknown keys refused.

    Raises:
        InvalidServiceError: An argument of the constructor cannot work; every problem is listed.
    """

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        strict=True,
        frozen=True,
        defer_build=True,
        serialize_by_alias=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _one_spelling(cls, data: Any) -> Any:
        """Refuses a key given in both spellings: one of the two would be lost in silence."""
        if isinstance(data, Mapping):
            for name, field in cls.model_fields.items():
                if field.alias and field.alias != name and name in data and field.alias in data:
                    raise PydanticCustomError(
                        "two_spellings",
                        f"{field.alias} and {name} are the same field; give it once",
                    )
        return data


def _leaf_text(value: Any) -> Any:
    if isinstance(value, str) or is_output(value):
        return value
    raise PydanticCustomError("string_type", "must be a string, got " + shown(value))


_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def namespace_text(value: Any) -> Any:
    """Reads a namespace; PydanticCustomError when it is none."""
    text = _leaf_text(value)
    if isinstance(text, str) and _DNS_LABEL.fullmatch(text) is None:
        raise PydanticCustomError(
            "namespace", f"must be a DNS label (a-z 0-9 -, at most 63), got {shown(text)}"
        )
    return text


def _annotation_map(value: Any) -> Any:
    if isinstance(value, Mapping):
        _refuse("annotation", [key_problem(key) for key in value])
    return value


def _label_map(value: Any) -> Any:
    if isinstance(value, Mapping):
        _refuse("label", [label_problem(key, item) for key, item in value.items()])
    return value


def _refuse(kind: str, problems: Sequence[str | None]) -> None:
    told = [problem for problem in problems if problem is not None]
    if told:
        raise ValidationError.from_exception_data(
            kind,
            [
                InitErrorDetails(
                    type=PydanticCustomError("rule", "{message}", {"message": each}),
                    loc=(),
                    input=None,
                )
                for each in told
            ],
        )


_LABEL_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_LABEL_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def key_problem(key: object) -> str | None:
    """Says what is wrong with a label or annotation key, None when it is valid."""
    if not isinstance(key, str):
        return f"key {shown(key)} must be a string"
    prefix, slash, name = key.rpartition("/")
    valid = len(name) <= 63 and _LABEL_NAME.fullmatch(name) is not None
    if slash:
        valid = valid and len(prefix) <= 253 and _LABEL_PREFIX.fullmatch(prefix) is not None
    return None if valid else f"{shown(key)} is no valid Kubernetes label or annotation key"


def label_problem(key: object, value: object) -> str | None:
    """Says what is wrong with a label, None when Kubernetes takes it."""
    problem = key_problem(key)
    if problem:
        return problem
    if not isinstance(value, str):
        return f"{key}: must be a string, got {shown(value)}"
    if value and (len(value) > 63 or _LABEL_NAME.fullmatch(value) is None):
        return f"{key}: {shown(value)} is no valid label value (at most 63 of A-Z a-z 0-9 - _ .)"
    return None


#: Replicas, nodes: a whole number. `true`, `"2"` and `1.5` are none.
Count = Annotated[int, Field(ge=0, le=MAX_COUNT)]
PositiveCount = Annotated[int, Field(ge=1, le=MAX_COUNT)]
Port = Annotated[int, Field(ge=1, le=65535)]


def _label_key(value: Any) -> Any:
    if is_output(value):
        raise PydanticCustomError("label_key", LIFT)
    problem = key_problem(value)
    if problem is not None:
        raise PydanticCustomError("rule", "{message}", {"message": problem})
    return value


#: The key of a label.
LabelKey = Annotated[
    str, PlainValidator(_label_key), WithJsonSchema({"type": "string", "minLength": 1})
]

#: A string that may be a pulumi Output.
LeafText = Annotated[Any, PlainValidator(_leaf_text), WithJsonSchema({"type": "string"})]

LabelMap = Annotated[dict[str, str], BeforeValidator(_label_map)]
AnnotationMap = Annotated[dict[str, LeafText], BeforeValidator(_annotation_map)]

#: A namespace, which may be a pulumi Output.
Namespace = Annotated[Any, PlainValidator(namespace_text), WithJsonSchema({"type": "string"})]

#: A Kubernetes pod template as in YAML: `metadata` and `spec`, in camelCase; or typed args.
PodTemplate = Annotated[
    dict[str, Any],
    BeforeValidator(to_plain),
    WithJsonSchema(
        {
            "type": "object",
            "description": "A Kubernetes PodTemplateSpec.",
            "properties": {"metadata": {"type": "object"}, "spec": {"type": "object"}},
            "required": ["spec"],
            "additionalProperties": False,
        }
    ),
]
