"""The base of the importers' models, and the validation of a document."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, PlainValidator, ValidationError
from pydantic.alias_generators import to_camel

from fusioninfer_importers.conversion import ConversionReport, filter_kind
from fusioninfer_pulumi.plugins.importers import (
    WRONG_TYPE,
    Location,
    SourceDocument,
    drop_key_marker,
    pydantic_findings,
    quote_value,
    rule_error,
)


def _check_quantity(value: Any) -> Any:
    if isinstance(value, (str, int, float)) and not isinstance(value, bool):
        return value
    message = f"must be a quantity such as 5, 500m or 16Gi, got {quote_value(value)}"
    raise rule_error(WRONG_TYPE, message)


def _check_mapping_or_text(value: Any) -> Any:
    if isinstance(value, (str, dict)):
        return value
    raise rule_error(WRONG_TYPE, f"must be a mapping or a string, got {quote_value(value)}")


#: A Kubernetes quantity; YAML reads quantities without a unit as numbers.
Quantity = Annotated[str | int | float, PlainValidator(_check_quantity)]
MappingOrText = Annotated[dict[str, Any] | str, PlainValidator(_check_mapping_or_text)]


class ImportedModel(BaseModel):
    """A part of a source manifest; unknown keys are rejected."""

    model_config = ConfigDict(
        alias_generator=to_camel, extra="forbid", strict=True, frozen=True, defer_build=True
    )


Model = TypeVar("Model", bound=ImportedModel)


def validate(
    report: ConversionReport, document: SourceDocument, model: type[Model]
) -> Model | None:
    """Validate a document, and report errors in it.

    Returns:
        The model without unknown keys, or None if the document has other errors.
    """
    try:
        return model.model_validate(document.raw)
    except ValidationError as exc:
        items = exc.errors(include_url=False, include_input=False)
        paths = [drop_key_marker(item["loc"]) for item in items]
        for path, finding in zip(paths, pydantic_findings(exc, model), strict=True):
            report.add(document.at(*path), finding)
        if any(item["type"] != "extra_forbidden" for item in items):
            report.consume(document.at())
            return None
        known_fields = _drop_paths(document.raw, set(paths))
    try:
        return model.model_validate(known_fields)
    except ValidationError:
        report.consume(document.at())
        return None


def validate_kind(
    report: ConversionReport, documents: Iterable[SourceDocument], kind: str, model: type[Model]
) -> Iterator[tuple[SourceDocument, Model]]:
    """Yield the valid documents of a kind, and report errors in the others."""
    for document in filter_kind(documents, kind):
        valid = validate(report, document, model)
        if valid is not None:
            yield document, valid


def _drop_paths(value: Any, paths: set[Location], location: Location = ()) -> Any:
    if isinstance(value, Mapping):
        return {
            key: _drop_paths(item, paths, (*location, key))
            for key, item in value.items()
            if (*location, key) not in paths
        }
    if isinstance(value, list):
        return [_drop_paths(item, paths, (*location, index)) for index, item in enumerate(value)]
    return value
