"""Says in plain words what usually makes a text no YAML: tabs, and templates of Helm."""

from __future__ import annotations

import re

_LINE = re.compile(r"line (\d+), column (\d+)")
#: Lines around the one that a parser gives up on: it notices a template's line late.
_AROUND = 1


def plain_reason(reason: str, text: str) -> str:
    """Replaces a parser's words, or adds to them, where the cause can be seen.

    Args:
        reason: The parser's reason, with `line 3, column 1` in it.
        text: The text that was read.

    Returns:
        The reason in plain words, as it was where nothing is known about it.
    """
    match = _LINE.search(reason)
    if match is None:
        return reason
    lines = text.split("\n")
    number = min(int(match[1]), len(lines))
    here = lines[number - 1]
    indentation = here[: len(here) - len(here.lstrip(" \t"))]
    if "\t" in indentation and reason.startswith("not YAML"):
        return f"not YAML: line {number}: indented with a tab, where YAML takes only spaces"
    for near in range(max(number - _AROUND, 1), min(number + _AROUND, len(lines)) + 1):
        if re.search(r"\{\{.*\}\}", lines[near - 1]):
            return (
                f"{reason}; the {{{{ }}}} of line {near} looks like a template (Helm's, for "
                "example): render it first"
            )
    return reason
