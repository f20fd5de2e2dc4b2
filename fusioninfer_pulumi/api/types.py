"""Types of fields: amounts, on and off."""

from __future__ import annotations

import enum
import re
from decimal import Decimal
from functools import partial
from typing import Annotated, Any, TypeVar

from pydantic import (
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainValidator,
    WithJsonSchema,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from fusioninfer_pulumi.api.base import MAX_COUNT
from fusioninfer_pulumi.findings import shown
from fusioninfer_pulumi.kube import quantity

_PERCENTAGE = re.compile(r"(100|[1-9]?[0-9])%")


def bytes_problem(value: Any) -> str | None:
    """Says what is wrong with an amount of bytes; None when it is a whole number above 0."""
    amount = _parsed(value) if isinstance(value, (str, int)) else None
    if amount is None or amount <= 0 or amount != amount.to_integral_value():
        return f"must be an amount of bytes such as 80Gi, got {shown(value)}"
    return None


def _bytes(value: Any) -> str:
    problem = bytes_problem(value)
    if problem is not None:
        raise PydanticCustomError("bytes", problem)
    return str(value)


def _quantity(value: Any) -> str:
    amount = _parsed(value)
    if amount is None or amount <= 0:
        raise PydanticCustomError(
            "quantity", f"must be an amount above 0 such as 5, 500m or 16Gi, got {shown(value)}"
        )
    return str(value)


def _parsed(value: Any) -> Decimal | None:
    try:
        return quantity.parse(value) if isinstance(value, (str, int, float)) else None
    except ValueError:
        return None


def _count(value: Any, *, least: int) -> Any:
    counted = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_COUNT
    share = _PERCENTAGE.fullmatch(value) if isinstance(value, str) else None
    if counted or (share is not None and int(share[1]) >= least):
        return value
    raise PydanticCustomError(
        "count_or_percentage",
        f"must be a count of at least 0 or a percentage from {least}% to 100%, got {shown(value)}",
    )


def _count_schema(percentage: str) -> WithJsonSchema:
    count = {"type": "integer", "minimum": 0, "maximum": MAX_COUNT}
    return WithJsonSchema({"anyOf": [count, {"type": "string", "pattern": percentage}]})


#: An amount above 0, as Kubernetes writes it.
Quantity = Annotated[
    str,
    PlainValidator(_quantity),
    WithJsonSchema({"type": ["string", "number"], "minLength": 1, "exclusiveMinimum": 0}),
]

#: Memory or disk, at least a byte.
Bytes = Annotated[
    str,
    PlainValidator(_bytes),
    WithJsonSchema({"type": ["string", "integer"], "minLength": 1, "minimum": 1}),
]

#: A count, or a share of another one that is not 0%.
CountOrPercentage = Annotated[
    int | str,
    PlainValidator(partial(_count, least=1)),
    _count_schema("^(100|[1-9][0-9]?)%$"),
]

#: The same, where 0% means something.
CountOrAnyPercentage = Annotated[
    int | str,
    PlainValidator(partial(_count, least=0)),
    _count_schema("^(100|[1-9]?[0-9])%$"),
]


_SPELLINGS = {True: "On", False: "Off"}
_Choice = TypeVar("_Choice", bound=enum.Enum)


class _Unquoted:
    """Takes a boolean for the member that the user wrote, where there is one."""

    def __get_pydantic_core_schema__(
        self, source: type[enum.Enum], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        words = {read: word for read, word in _SPELLINGS.items() if word in _values(source)}

        def meant(value: Any) -> Any:
            return words.get(value, value) if isinstance(value, bool) else value

        return core_schema.no_info_before_validator_function(meant, handler(source))

    def __get_pydantic_json_schema__(
        self, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        # Some editors and checkers read YAML 1.1, too: to them an unquoted Off is false.
        schema = handler(core)
        choices = handler.resolve_ref_schema(schema)["enum"]
        also = [read for read, word in _SPELLINGS.items() if word in choices]
        return {"anyOf": [schema, {"enum": also}]}


def _values(choice: type[enum.Enum]) -> list[Any]:
    return [member.value for member in choice]


#: `OnOff[SomeEnum]`: one of its values; `true` is On and `false` is Off where it has them.
OnOff = Annotated[_Choice, Field(strict=False), _Unquoted()]
