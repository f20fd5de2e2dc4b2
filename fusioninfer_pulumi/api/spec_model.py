"""The base of every model of the API."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from fusioninfer_pulumi.api.validation_errors import pydantic_findings, rule_error
from fusioninfer_pulumi.findings import Finding, InvalidServiceError, Location, Rule, error
from fusioninfer_pulumi.generated import FOLDER
from fusioninfer_pulumi.rules.common import (
    DUPLICATE_KEY,
    FIELD_OUT_OF_PLACE,
    FIELDS_EXCLUDE_EACH_OTHER,
)


class _Signature:
    """The signature of a constructor: pydantic's own has the names of YAML."""

    def __get__(self, _instance: object, model: type[SpecModel]) -> inspect.Signature:
        keyword = inspect.Parameter.KEYWORD_ONLY
        fields = model.model_fields.items()
        defaults = {
            name: inspect.Parameter.empty
            if kind.is_required()
            else kind.get_default(call_default_factory=True)
            for name, kind in fields
        }
        return inspect.Signature(
            [
                inspect.Parameter(name, keyword, annotation=kind.annotation, default=defaults[name])
                for name, kind in fields
            ]
        )


#: In `generated`: the docstring of each model, with an entry for each field.
DOCSTRINGS = "docstrings.json"


@functools.cache
def _docstrings() -> dict[str, str]:
    docstrings: dict[str, str] = json.loads((FOLDER / DOCSTRINGS).read_text(encoding="utf-8"))
    return docstrings


class SpecModel(BaseModel):
    """A part of the spec: camelCase in YAML, snake_case in Python, unknown keys rejected.

    Raises:
        InvalidServiceError: An argument of the constructor cannot work; every problem is listed.
    """

    def __init__(self, /, **fields: Any) -> None:
        """Accept the fields by name; editors show the meaning, default and unit of each.

        Type checkers read the stub of the module: constructors accept more types than fields have.
        """
        try:
            super().__init__(**fields)
        except ValidationError as problem:
            model = type(self)
            raise InvalidServiceError(pydantic_findings(problem, model), model.__name__) from None

    # Pydantic calls it for the outermost model alone, which raises.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]  # as in BaseModel

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        """Let `help()` show the type and meaning of each field."""
        cls.__signature__ = _Signature()  # type: ignore[assignment]  # what it returns is one
        cls.__doc__ = _docstrings().get(cls.__name__, cls.__doc__)

    @classmethod
    def model_rebuild(cls, **options: Any) -> bool | None:
        """Build the model, which pydantic does at its first use, and keeps its signature."""
        built = super().model_rebuild(**options)
        cls.__signature__ = _Signature()  # type: ignore[assignment]  # as above
        return built

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        frozen=True,
        defer_build=True,
        serialize_by_alias=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _one_spelling(cls, data: Any) -> Any:
        """Reject a key given in both spellings: pydantic would drop one of the two."""
        if isinstance(data, Mapping):
            for name, field in cls.model_fields.items():
                if field.alias and field.alias != name and name in data and field.alias in data:
                    raise rule_error(
                        DUPLICATE_KEY,
                        f"{field.alias} and {name} are the same field; remove one of them",
                    )
        return data

    def findings(self, at: Location) -> Iterator[Finding]:
        """Check the model's fields, each of which is valid, against each other."""
        del at
        return iter(())


def check_model(at: Location, model: SpecModel) -> Iterator[Finding]:
    """Check a valid model and every model in its fields."""
    yield from model.findings(at)
    for name, field in type(model).model_fields.items():
        value = getattr(model, name) if name in model.model_fields_set else None
        below = (*at, field.alias or name)
        if isinstance(value, SpecModel):
            yield from check_model(below, value)
        for index, item in enumerate(value if isinstance(value, list) else ()):
            if isinstance(item, SpecModel):
                yield from check_model((*below, index), item)


def default(model: type[SpecModel]) -> Any:
    """A field's default: the model without arguments."""
    # Pydantic asks factories for their signature, and that of a class is read from its source.
    # Validating it would build the model once more.
    return Field(default_factory=lambda: model.model_construct())  # noqa: PLW0108  # see above


def set_fields(model: SpecModel, names: Iterable[str]) -> Iterator[str]:
    """Yield the names in YAML of those fields that are set, and not to null."""
    for name in names:
        if name in model.model_fields_set and getattr(model, name) is not None:
            yield type(model).model_fields[name].alias or name


def reject_fields(
    at: Location,
    model: SpecModel,
    names: Iterable[str],
    message: str,
    rule: Rule = FIELD_OUT_OF_PLACE,
) -> Iterator[Finding]:
    """Yield an error for each of these fields that is set."""
    return (error(rule, (*at, name), message) for name in set_fields(model, names))


def reject_conflict(at: Location, model: SpecModel, *names: str) -> Iterator[Finding]:
    """Yield an error if more than one of these fields is set."""
    present = list(set_fields(model, names))
    if len(present) > 1:
        message = f"{present[0]} conflicts with {present[1]}; remove one of them"
        yield error(FIELDS_EXCLUDE_EACH_OTHER, at, message)


def require_one(at: Location, model: SpecModel, *names: str) -> Iterator[Finding]:
    """Yield an error unless exactly one of these fields is set."""
    present = list(set_fields(model, names))
    if len(present) != 1:
        allowed = ", ".join(type(model).model_fields[name].alias or name for name in names)
        got = f", got {' and '.join(present)}" if present else ""
        yield error(FIELDS_EXCLUDE_EACH_OTHER, at, f"needs one of {allowed}{got}")
