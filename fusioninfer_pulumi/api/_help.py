"""What `help()` says of a model: its constructor's signature, and each field with its docstring.

`make regenerate` writes the docstrings; the signature is made when somebody asks for it.
"""

from __future__ import annotations

import inspect
import json
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from fusioninfer_pulumi import api
from fusioninfer_pulumi.api.schema import class_docstring, field_docstrings
from fusioninfer_pulumi.generated import dicts


def signature(model: type[BaseModel]) -> inspect.Signature:
    """The constructor's parameters: what may be written for each field, and its default."""
    types = _types(model)
    return inspect.Signature(
        [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=_default(field),
                annotation=types.get(name, field.annotation),
            )
            for name, field in model.model_fields.items()
        ]
    )


def docstrings_text() -> str:
    """The file of the public models' docstrings as it should be."""
    models = {name: getattr(api, name) for name in api.model_names() if name.endswith("Args")}
    docstrings = {name: documentation(model) for name, model in models.items()}
    return json.dumps(docstrings, indent=2, ensure_ascii=False) + "\n"


def documentation(model: type[BaseModel]) -> str:
    """The model's docstring with one entry for each field."""
    words = field_docstrings(model)
    entries = ["", "", "Args:"]
    for name, field in model.model_fields.items():
        default = _default(field)
        optional = "" if field.is_required() or default is None else f" (default {default!r})"
        first, *more = words.get(name, "").split("\n")
        entries += [f"    {name}{optional}: {first}", *(f"        {line}" for line in more)]
    summary, mark, raised = class_docstring(model).partition("\n\nRaises:")
    return summary + "\n".join(entries) + mark + raised


def _types(model: type[BaseModel]) -> dict[str, str]:
    """What type checkers know of the fields, as text."""
    typed = getattr(dicts, f"{model.__name__}Dict", None)
    hints: dict[str, Any] = getattr(typed, "__annotations__", {})
    texts = {name: getattr(hint, "__forward_arg__", str(hint)) for name, hint in hints.items()}
    return {
        name: text[len("Required[") : -1] if text.startswith("Required[") else text
        for name, text in texts.items()
    }


def _default(field: FieldInfo) -> Any:
    default = field.get_default(call_default_factory=True)
    return inspect.Parameter.empty if default is PydanticUndefined else default
