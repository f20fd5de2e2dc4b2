"""Printed findings, without rules and line numbers."""

from __future__ import annotations

import re

_RULE = re.compile(r" \[[a-z0-9-]+\]$", re.MULTILINE)
#: The line number after a file name; a git revision may precede the name.
_LINE = re.compile(r"^( *[^\s]+?):\d+(?=: )", re.MULTILINE)


def without_rules(text: str) -> str:
    """Return printed findings without line numbers and rule ids."""
    return _LINE.sub(r"\1", _RULE.sub("", text))
