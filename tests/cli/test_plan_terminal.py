"""`plan` on a terminal: its width, its colors."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios

import pytest
from profiles import slow_unless

DOCUMENTS = "80,64,48,32,16"


def terminal(columns: int, *arguments: str, **environ: str) -> tuple[str, str]:
    """Return standard output on a terminal of this width, and standard error."""
    controller, terminal_ = pty.openpty()
    fcntl.ioctl(terminal_, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    clean = {key: value for key, value in os.environ.items() if key not in _TERMINAL_KEYS}
    with subprocess.Popen(
        [sys.executable, "-m", "fusioninfer_pulumi.cli.main", "plan", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=terminal_,
        stderr=subprocess.PIPE,
        env={**clean, "TERM": "xterm-256color", **environ},
    ) as process:
        os.close(terminal_)
        stream = b""
        with contextlib.suppress(OSError):  # Linux raises EIO after the process has exited
            while block := os.read(controller, 65536):
                stream += block
        assert process.stderr is not None
        err = process.stderr.read().decode()
    os.close(controller)
    assert process.returncode == 0, err
    return stream.decode().replace("\r\n", "\n"), err


NO_ROUTER = (
    "no router: nothing pairs prefill with decode, and clients reach only the decoders; "
    "add a role of componentType router"
)
_TERMINAL_KEYS = {"COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "COLORTERM", "TTY_COMPATIBLE"}
_COLOR = re.compile(r"\x1b\[[0-9;]*m")
_TABLES = """\
ROLE     TYPE       REPLICAS  NODES  PODS  GPUS/POD  GPUS
prefill  prefiller         1      2     2         8    16
decode   decoder           2      4     8         8    64
total                                  10              80
"""


@pytest.mark.parametrize(
    ("columns", "colors"), slow_unless(lambda row: row[1], [(80, True), (160, False)])
)
def test_output_fits_the_terminal(partial: str, columns: int, colors: bool) -> None:
    environ = {} if colors else {"NO_COLOR": "1"}
    text, err = terminal(columns, partial, "--gpus", DOCUMENTS, **environ)
    plain = _COLOR.sub("", text)
    if colors:
        assert "\x1b[32mFull" in text
        assert "\x1b[31mBlocked" in text
    else:
        assert not re.search(r"\x1b\[(?:[0-9;]*;)?3[0-7]m", text)
    assert _TABLES in plain
    lines = plain.splitlines()
    assert max(map(len, lines)) <= columns
    assert len(lines) <= 26
    # Long texts wrap between words, aligned with their first line.
    whole = " ".join(" ".join(lines).split())
    assert f"warning roles: {NO_ROUTER}" in whole
    if columns == 80:
        (start,) = [number for number, line in enumerate(lines) if line.startswith("warning")]
        assert lines[start + 1].startswith(" " * 9)
    assert err.count("warning") == 1
