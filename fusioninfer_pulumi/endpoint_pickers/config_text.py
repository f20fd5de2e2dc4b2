"""Reads the text of an EndpointPickerConfig that a user wrote."""

from __future__ import annotations

from typing import Any

import yaml


class UnreadableError(ValueError):
    """The text is not YAML; the message says where and why."""


def read_config(text: str) -> Any:
    """Return the first document of a text, with all scalars as strings.

    Go's YAML reader and PyYAML disagree on the types of scalars such as dates, so only names and
    structure are read here. An endpoint picker ignores all documents after the first.
    """
    try:
        loader = yaml.BaseLoader(text)
        try:
            return loader.get_data()
        finally:
            loader.dispose()
    except yaml.YAMLError as problem:
        raise UnreadableError(_reason(problem)) from None
    except RecursionError:
        raise UnreadableError("not YAML: nested too deeply") from None


def _reason(problem: yaml.YAMLError) -> str:
    mark = getattr(problem, "problem_mark", None)
    text = getattr(problem, "problem", None) or getattr(problem, "context", None) or str(problem)
    place = "" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}: "
    return f"not YAML: {place}{' '.join(str(text).split())}"
