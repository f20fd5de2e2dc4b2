"""What is printed at a terminal, and in a pipe."""

from __future__ import annotations

import io
import os
from unittest import mock

from fusioninfer_pulumi.cli.diff import Difference
from fusioninfer_pulumi.cli.diff.text import print_difference
from fusioninfer_pulumi.cli.terminal import console


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def to_text(difference: Difference, *, color: bool = False, width: int | None = None) -> str:
    """A difference at a terminal; without colour and width in a pipe."""
    file = Terminal() if color or width is not None else io.StringIO()
    environ = {"TERM": "xterm-256color", "COLUMNS": str(width or 1_000), "NO_COLOR": "1"}
    if color:
        del environ["NO_COLOR"]
    with mock.patch.dict(os.environ, environ), console(file) as screen:
        print_difference(difference, screen)
    return file.getvalue()
