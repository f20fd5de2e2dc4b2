"""Consoles of rich: a terminal's colours and width, or plain lines that nothing wraps."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Collection, Iterable, Iterator
from typing import Any, TextIO

from rich.console import Console
from rich.table import Table

# The width of a pipe, whose lines are not wrapped.
_PIPE_WIDTH = 1_000_000
#: Messages quote users, whose words may look like markup of rich: `[x]`, `:warning:`.
VERBATIM: dict[str, Any] = {"highlight": False, "markup": False, "emoji": False}


@contextlib.contextmanager
def console(file: TextIO) -> Iterator[Console]:
    """A console that prints to a file; in colour and as wide as it is, where it is a terminal."""
    terminal = Console(file=file, **VERBATIM)
    if terminal.is_terminal:
        yield terminal
        return
    plain = Console(file=(text := io.StringIO()), width=_PIPE_WIDTH, color_system=None, **VERBATIM)
    yield plain
    # Tables pad every line to their width, which pipes do not need.
    file.write("\n".join(line.rstrip() for line in text.getvalue().split("\n")))


def table(titles: Iterable[str], *, numbers: Collection[str] = (), header: str = "bold") -> Table:
    """A table without lines; columns in `numbers` are aligned to the right."""
    empty = Table(box=None, padding=(0, 2, 0, 0), header_style=header, pad_edge=False)
    for title in titles:
        empty.add_column(title, justify="right" if title in numbers else "left", no_wrap=True)
    return empty
