"""The base of every dialect's models, and how a document is read with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, PlainValidator, ValidationError
from pydantic.alias_generators import to_camel

from fusioninfer_pulumi.api.messages import field_of, findings_of, mismatch, rule_error
from fusioninfer_pulumi.dialects.carrier import Book
from fusioninfer_pulumi.dialects.given import Given


def _amount(value: Any) -> Any:
    if isinstance(value, (str, int, float)) and not isinstance(value, bool):
        return value
    found = mismatch((), value, "a quantity such as 5, 500m or 16Gi")
    raise rule_error(found.rule, found.message)


def _mapping_or_text(value: Any) -> Any:
    if isinstance(value, (str, dict)):
        return value
    found = mismatch((), value, "a mapping or a string")
    raise rule_error(found.rule, found.message)


#: A Kubernetes quantity; YAML reads those without a unit as numbers.
Amount = Annotated[str | int | float, PlainValidator(_amount)]
#: What may be written out or as a text.
MappingOrText = Annotated[dict[str, Any] | str, PlainValidator(_mapping_or_text)]


class DialectModel(BaseModel):
    """A part of another system's manifest: its own spelling only, unknown keys refused."""

    model_config = ConfigDict(
        alias_generator=to_camel, extra="forbid", strict=True, frozen=True, defer_build=True
    )


Model = TypeVar("Model", bound=DialectModel)


def read(book: Book, document: Given, model: type[Model]) -> Model | None:
    """Validates a document, and says what is wrong with it.

    Args:
        book: Where problems are noted.
        document: The document.
        model: Its model.

    Returns:
        The document without keys that are unknown, None when anything else is wrong with it.
    """
    try:
        return model.model_validate(document.raw)
    except ValidationError as problem:
        items = problem.errors(include_url=False, include_input=False)
        paths = [field_of(item["loc"]) for item in items]
        book.add(document, zip(paths, findings_of(problem, model), strict=True))
        if any(item["type"] != "extra_forbidden" for item in items):
            book.read(document.at())
            return None
        rest = _without(document.raw, set(paths))
    try:
        return model.model_validate(rest)
    except ValidationError:
        book.read(document.at())
        return None


def _without(value: Any, paths: set[tuple[str | int, ...]], at: tuple[str | int, ...] = ()) -> Any:
    if isinstance(value, Mapping):
        return {
            key: _without(item, paths, (*at, key))
            for key, item in value.items()
            if (*at, key) not in paths
        }
    if isinstance(value, list):
        return [_without(item, paths, (*at, index)) for index, item in enumerate(value)]
    return value
