"""Lines of findings that the command line prints, without their rules."""

from __future__ import annotations

import re

_RULE = re.compile(r" \[[a-z0-9-]+\]$", re.MULTILINE)
#: The line after the name of a file; a git revision may stand before that.
_LINE = re.compile(r"^( *[^\s]+?):\d+(?=: )", re.MULTILINE)


def without_rules(text: str) -> str:
    """Return lines of findings without lines of files, and without the rule ids at their ends."""
    return _LINE.sub(r"\1", _RULE.sub("", text))
