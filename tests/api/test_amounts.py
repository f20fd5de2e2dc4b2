"""Amounts: what is taken, and that the schema says the same of numbers."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from pydantic import TypeAdapter, ValidationError

from fusioninfer_pulumi.api.types import Bytes, CountOrAnyPercentage, CountOrPercentage, Quantity

BYTES, QUANTITY = TypeAdapter(Bytes), TypeAdapter(Quantity)
PART, SHARE = TypeAdapter(CountOrPercentage), TypeAdapter(CountOrAnyPercentage)


@pytest.mark.parametrize(
    ("form", "value"),
    [
        *((BYTES, value) for value in ("1", "80Gi", "1.5Ki", "1e3", 4096)),
        *((QUANTITY, value) for value in ("5", "500m", "16Gi", 5, 0.5)),
        *((PART, value) for value in (0, 3, "1%", "100%")),
        *((SHARE, value) for value in (0, 3, "0%", "100%")),
    ],
)
def test_amounts(form: TypeAdapter[Any], value: Any) -> None:
    assert str(form.validate_python(value)) == str(value)
    jsonschema.validate(value, form.json_schema())


@pytest.mark.parametrize(
    ("form", "value", "words"),
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
            (PART, value, "must be a count of at least 0 or a percentage from 1% to 100%, got ")
            for value in (-1, "0%", "101%", "1.5%", "5", True, 1.0)
        ),
        *(
            (SHARE, value, "must be a count of at least 0 or a percentage from 0% to 100%, got ")
            for value in (-1, "00%", "101%", "1.5%", "5", True, 1.0)
        ),
    ],
)
def test_what_is_no_amount(form: TypeAdapter[Any], value: Any, words: str) -> None:
    with pytest.raises(ValidationError, match=f"^1 validation error.*\n  {words}"):
        form.validate_python(value)
