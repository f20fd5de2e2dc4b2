"""The base class of the API's models."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Iterator
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from fusioninfer_pulumi.api.field_rules import check_fields, find_set_fields, inapplicable_rule
from fusioninfer_pulumi.api.validation_errors import pydantic_findings
from fusioninfer_pulumi.findings import Finding, InvalidServiceError, Location, error, quote_value
from fusioninfer_pulumi.generated import DIRECTORY
from fusioninfer_pulumi.rules.common import (
    DUPLICATE_NAME,
    FIELD_WITHOUT_EFFECT,
    FIELDS_EXCLUDE_EACH_OTHER,
)


class _Signature:
    """A constructor's signature with Python names; pydantic's own signature has YAML names."""

    def __get__(self, _instance: object, model: type[SpecModel]) -> inspect.Signature:
        parameters = []
        for name, field in model.model_fields.items():
            parameter = inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, annotation=field.annotation
            )
            if not field.is_required():
                parameter = parameter.replace(default=field.get_default(call_default_factory=True))
            parameters.append(parameter)
        return inspect.Signature(parameters)


#: File in `generated` with the docstring of each model, with an entry for each field.
DOCSTRINGS = "docstrings.json"


@functools.cache
def _docstrings() -> dict[str, str]:
    docstrings: dict[str, str] = json.loads((DIRECTORY / DOCSTRINGS).read_text(encoding="utf-8"))
    return docstrings


class SpecModel(BaseModel):
    """A part of the spec: camelCase in YAML, snake_case in Python, unknown keys rejected.

    Raises:
        InvalidServiceError: An argument is invalid; the error has every finding.
    """

    def __init__(self, /, **fields: Any) -> None:
        """Accept the fields by name.

        Type checkers read the module's stub instead, because constructors also accept types that
        the fields do not have, such as a mapping for a model.
        """
        try:
            super().__init__(**fields)
        except ValidationError as exc:
            model = type(self)
            raise InvalidServiceError(pydantic_findings(exc, model), model.__name__) from None

    # With this mark, pydantic calls `__init__` only for the outermost model, so only that raises.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]  # as in BaseModel

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        """Let `help()` show the type and meaning of each field."""
        cls.__signature__ = _Signature()  # type: ignore[assignment]  # a descriptor that returns one
        cls.__doc__ = _docstrings().get(cls.__name__, cls.__doc__)

    @classmethod
    def model_rebuild(cls, **options: Any) -> bool | None:
        """Build the model at its first use, and restore its signature."""
        built = super().model_rebuild(**options)
        cls.__signature__ = _Signature()  # type: ignore[assignment]  # as above
        return built

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        strict=True,
        str_min_length=0,  # a constraint, so that lone surrogates are rejected
        allow_inf_nan=False,
        frozen=True,
        defer_build=True,
        serialize_by_alias=True,
    )

    #: Fields of which exactly one must be set.
    ONE_OF: ClassVar[tuple[str, ...]] = ()
    #: Fields of which at most one may be set.
    AT_MOST_ONE_OF: ClassVar[tuple[str, ...]] = ()
    #: A field, followed by the fields that have no effect while it is false or unset; if none
    #: follow, all other fields of the model have no effect then.
    OTHERS_REQUIRE_FIRST: ClassVar[tuple[str, ...]] = ()
    #: Pairs of a list and the field of its items whose value must be unique in the list.
    UNIQUE: ClassVar[tuple[tuple[str, str], ...]] = ()

    def findings(self, location: Location) -> Iterator[Finding]:
        """Check the fields, which are valid by themselves, against each other."""
        del location
        return iter(())


def check_model(prefix: Location, model: SpecModel) -> Iterator[Finding]:
    """Check a model whose fields are valid, and every model in its fields."""
    yield from _class_variable_findings(prefix, model)
    yield from model.findings(prefix)
    for name, field in type(model).model_fields.items():
        value = getattr(model, name) if name in model.model_fields_set else None
        location = (*prefix, field.alias or name)
        if isinstance(value, SpecModel):
            yield from check_model(location, value)
        elif isinstance(value, list):
            for index, item in enumerate(value):
                if isinstance(item, SpecModel):
                    yield from check_model((*location, index), item)


def _class_variable_findings(location: Location, model: SpecModel) -> Iterator[Finding]:
    """Check a model against `ONE_OF`, `AT_MOST_ONE_OF`, `OTHERS_REQUIRE_FIRST` and `UNIQUE`."""
    fields = type(model).model_fields
    set_fields = find_set_fields(model, model.ONE_OF)
    if model.ONE_OF and len(set_fields) != 1:
        allowed = ", ".join(fields[name].alias or name for name in model.ONE_OF)
        message = f"must have exactly one of {allowed}, got {' and '.join(set_fields) or 'none'}"
        yield error(FIELDS_EXCLUDE_EACH_OTHER, location, message)
    conflicting = find_set_fields(model, model.AT_MOST_ONE_OF)
    if len(conflicting) > 1:
        message = f"{conflicting[0]} conflicts with {conflicting[1]}; remove one of them"
        yield error(FIELDS_EXCLUDE_EACH_OTHER, location, message)
    if model.OTHERS_REQUIRE_FIRST and not getattr(model, model.OTHERS_REQUIRE_FIRST[0]):
        switch, *names = model.OTHERS_REQUIRE_FIRST
        alias = fields[switch].alias
        is_false = getattr(model, switch) is False
        reason = f"because {alias} is false" if is_false else f"without {alias}"
        message = f"has no effect {reason}; remove it"
        names = names or [name for name in fields if name != switch]
        rule = inapplicable_rule(names, message, rule=FIELD_WITHOUT_EFFECT)
        yield from check_fields(location, model, rule)
    for name, key in model.UNIQUE:
        first_indexes: dict[Any, int] = {}
        for index, item in enumerate(getattr(model, name) or ()):
            value = getattr(item, key)
            first_index = first_indexes.setdefault(value, index)
            if first_index != index:
                alias = fields[name].alias or name
                message = f"{quote_value(value)} is also the {key} of {alias}[{first_index}]"
                yield error(DUPLICATE_NAME, (*location, alias, index, key), message)


def empty_list() -> list[Any]:
    """Return an empty list: a default factory that, unlike `list`, pydantic inspects fast."""
    return []


def default(model: type[SpecModel]) -> Any:
    """Return a field whose default is the model without arguments."""
    # A lambda, because pydantic inspects the factory's signature, which is slow for a model and its
    # methods. `model_construct`, because the constructor would build the model's validator.
    return Field(default_factory=lambda: model.model_construct())  # noqa: PLW0108  # see above
