"""Printed findings of the command line, for tests of messages."""

from __future__ import annotations

import re

_RULE = re.compile(r" \[[a-z0-9-]+\]$", re.MULTILINE)


def without_rules(text: str) -> str:
    """Returns lines of findings without the rule ids at their ends."""
    return _RULE.sub("", text)
