"""Streams of the command line: colour where a person reads."""

from __future__ import annotations

import os
from typing import TextIO

_CODES = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33, "magenta": 35, "cyan": 36}


def has_colour(stream: TextIO) -> bool:
    """Tells whether a stream is a terminal that shows colour to somebody who wants it."""
    unwanted = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return not unwanted and stream.isatty()


def styled(text: str, style: str, *, color: bool) -> str:
    """A text in a style such as `bold`; as it is without one, or without colour."""
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if color and style and text else text
