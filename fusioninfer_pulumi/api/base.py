"""The base of every model of the API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from fusioninfer_pulumi.api.messages import findings_of, rule_error
from fusioninfer_pulumi.findings import InvalidServiceError
from fusioninfer_pulumi.rules.common import DUPLICATE_KEY

if TYPE_CHECKING:
    # Type checkers know the constructors of models by this very metaclass.
    from pydantic._internal._model_construction import ModelMetaclass as _Constructed
else:

    class _Constructed(type(BaseModel)):
        """Raises the errors of a constructor's arguments as those of manifests are raised."""

        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            # Pydantic does not call it for models inside of others: the outermost one raises.
            try:
                return super().__call__(*args, **kwargs)
            except ValidationError as problem:
                raise InvalidServiceError(findings_of(problem, cls), cls.__name__) from None

        @property
        def __signature__(cls) -> Any:
            from fusioninfer_pulumi.api import _help  # noqa: PLC0415  # only `help()` needs it

            return _help.signature(cls)

        @__signature__.setter
        def __signature__(cls, value: Any) -> None:
            """Forgets pydantic's, which names the fields as YAML does."""

        @property
        def __doc__(cls) -> Any:
            from fusioninfer_pulumi.api import _help  # noqa: PLC0415  # only `help()` needs it

            return _help.documentation(cls)


class SpecModel(BaseModel, metaclass=_Constructed):
    """A part of the spec: camelCase in YAML, snake_case in Python, unknown keys refused.

    Raises:
        InvalidServiceError: An argument of the constructor cannot work; every problem is listed.
    """

    if TYPE_CHECKING:
        # Each model says what it takes by its TypedDict in `dicts`: more than its fields hold.
        def __init__(self, **fields: Any) -> None:
            """Takes the fields by name; editors show the meaning, default and unit of each."""

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
        """Refuses a key given in both spellings: pydantic would drop one of the two."""
        if isinstance(data, Mapping):
            for name, field in cls.model_fields.items():
                if field.alias and field.alias != name and name in data and field.alias in data:
                    raise rule_error(
                        DUPLICATE_KEY,
                        f"{field.alias} and {name} are the same field; give it once",
                    )
        return data


def default(model: type[SpecModel]) -> Any:
    """A field's default: the model without arguments."""
    # Pydantic asks factories for their signature, and that of a class is read from its source.
    return Field(default_factory=lambda: model())  # noqa: PLW0108  # see above
