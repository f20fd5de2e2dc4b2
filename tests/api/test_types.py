"""Types of fields: formats of strings, amounts, On and Off."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import jsonschema
import pytest
import yaml
from json_schema import manifest_schema
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.json_schema import models_json_schema
from rows import each_row
from samples import problems, role, service

from fusioninfer_pulumi.api.field_types import (
    Bytes,
    CountOrAnyPercentage,
    CountOrPercentage,
    Quantity,
)
from fusioninfer_pulumi.api.monitoring import Interval
from fusioninfer_pulumi.api.rollout import Duration
from fusioninfer_pulumi.api.service import InferenceServiceArgs
from fusioninfer_pulumi.api.spec_model import SpecModel
from fusioninfer_pulumi.api.validation_errors import _DESCRIPTIONS
from fusioninfer_pulumi.cli.printing import to_yaml
from fusioninfer_pulumi.loading import loads


@cache
def schema() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(manifest_schema())


def models(base: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for subclass in base.__subclasses__():
        yield subclass
        yield from models(subclass)


#: Types with their own validator, whose message describes the allowed values.
SELF_DESCRIBING = (Duration, CountOrPercentage, CountOrAnyPercentage, Interval)


def patterns(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if isinstance(schema.get("pattern"), str):
            yield schema["pattern"]
        schema = list(schema.values())
    if isinstance(schema, list):
        for item in schema:
            yield from patterns(item)


def test_every_pattern_has_a_description() -> None:
    _, schema = models_json_schema([(model, "validation") for model in models(SpecModel)])
    remaining = set(patterns(schema))
    for annotated_type in SELF_DESCRIBING:
        remaining -= set(patterns(TypeAdapter(annotated_type).json_schema()))
    assert len(remaining) > 10
    assert remaining <= set(_DESCRIPTIONS)


BYTES, QUANTITY = TypeAdapter(Bytes), TypeAdapter(Quantity)
PART, SHARE = TypeAdapter(CountOrPercentage), TypeAdapter(CountOrAnyPercentage)


@each_row(
    ("field", "value"),
    [
        *((BYTES, value) for value in ("1", "80Gi", "1.5Ki", "1e3", 4096)),
        *((QUANTITY, value) for value in ("5", "500m", "16Gi", 5, 0.5)),
        *((PART, value) for value in (0, 3, "1%", "100%")),
        *((SHARE, value) for value in (0, 3, "0%", "100%")),
    ],
)
def test_valid_amount_is_accepted(field: TypeAdapter[Any], value: Any) -> None:
    assert str(field.validate_python(value)) == str(value)
    jsonschema.validate(value, field.json_schema())


@each_row(
    ("field", "value", "words"),
    [
        *(
            (BYTES, value, "must be an amount of bytes such as 80Gi, got ")
            for value in ("0", "-1Gi", "500m", "much", "", 0, 1.5, True, None, [])
        ),
        *(
            (QUANTITY, value, "must be an amount above 0 such as 5, 500m or 16Gi, got ")
            for value in ("0", "-5", "much", "", 0, -0.5, True, None, [])
        ),
        *(
            (PART, value, "must be a count from 0 to 10000 or a percentage from 1% to 100%, got ")
            for value in (-1, "0%", "101%", "1.5%", "5", True, 1.0)
        ),
        *(
            (SHARE, value, "must be a count from 0 to 10000 or a percentage from 0% to 100%, got ")
            for value in (-1, "00%", "101%", "1.5%", "5", True, 1.0)
        ),
    ],
)
def test_invalid_amount_is_rejected(field: TypeAdapter[Any], value: Any, words: str) -> None:
    with pytest.raises(ValidationError, match=f"^1 validation error.*\n  {words}"):
        field.validate_python(value)


ROUTER = {"name": "router", "componentType": "router"}


def ganged(mode: Any) -> dict[str, Any]:
    return service(schedulingStrategy={"gangPolicy": {"mode": mode}})


def measured(metrics: Any) -> dict[str, Any]:
    return service(role(), {**ROUTER, "endpointPicker": {"metrics": metrics}})


def load_unquoted(manifest: dict[str, Any], word: str) -> InferenceServiceArgs:
    """Load a manifest as YAML with a word unquoted."""
    text = yaml.safe_dump(manifest)
    assert f"'{word}'" in text
    (args,) = loads(text.replace(f"'{word}'", word))
    return args


@pytest.mark.parametrize("word", ["On", "Off"])
def test_unquoted_on_and_off_set_the_gang_mode(word: str) -> None:
    args = load_unquoted(ganged(word), word)
    assert args.scheduling_strategy.gang_policy.mode.value == word


def test_unquoted_off_sets_the_metrics_mode() -> None:
    picker = load_unquoted(measured("Off"), "Off").roles[1].endpoint_picker
    assert picker is not None
    assert picker.metrics.value == "Off"


@each_row(
    ("manifest", "accepted"),
    [
        (ganged("Off"), True),
        (ganged(False), True),
        (ganged(True), True),
        (ganged(0), False),
        (measured("Off"), True),
        (measured(False), True),
        (measured(True), False),
    ],
)
def test_json_schema_accepts_the_same_values(manifest: dict[str, Any], accepted: bool) -> None:
    assert schema().is_valid(manifest) is accepted
    assert (not problems(manifest)) is accepted


def test_dumped_on_and_off_are_quoted() -> None:
    assert to_yaml([{"mode": "Off"}]) == "mode: 'Off'\n"
