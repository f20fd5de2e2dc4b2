"""Choices called On and Off, which YAML 1.1 reads as booleans where nobody quotes them."""

from __future__ import annotations

import enum
from typing import Annotated, Any, TypeVar

from pydantic import Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

_WORDS = {True: "On", False: "Off"}
_Choice = TypeVar("_Choice", bound=enum.Enum)


class _Unquoted:
    """Takes a boolean for the member that the user wrote, where there is one."""

    def __get_pydantic_core_schema__(
        self, source: type[enum.Enum], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        words = {read: word for read, word in _WORDS.items() if word in _values(source)}

        def meant(value: Any) -> Any:
            return words.get(value, value) if isinstance(value, bool) else value

        return core_schema.no_info_before_validator_function(meant, handler(source))

    def __get_pydantic_json_schema__(
        self, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        # Some editors and checkers read YAML 1.1, too: to them an unquoted Off is false.
        schema = handler(core)
        choices = handler.resolve_ref_schema(schema)["enum"]
        also = [read for read, word in _WORDS.items() if word in choices]
        return {"anyOf": [schema, {"enum": also}]}


def _values(choice: type[enum.Enum]) -> list[Any]:
    return [member.value for member in choice]


#: `OnOff[SomeEnum]`: one of its values; `true` is On and `false` is Off where it has them.
OnOff = Annotated[_Choice, Field(strict=False), _Unquoted()]
