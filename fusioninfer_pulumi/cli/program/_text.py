"""What a program says, made fit for a terminal and for a log of a CI job."""

from __future__ import annotations

import re
import sys

from fusioninfer_pulumi.cli.program.recording import SECRET
from fusioninfer_pulumi.findings import one_line

#: Sequences that colour text, move the cursor, or name links and titles.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])")
#: Commands of CI runners: `::error::` begins a line, `##[error]` and `##vso[` stand anywhere.
_COMMAND = re.compile(r"^(\s*)::|##(?=\w*\[)")
_LINE_ENDS = re.compile(rb"\r?\n|\r(?=[^\n])")
#: Bytes of a line after which it is written without its end.
_LONGEST = 1 << 16


def harmless(line: str) -> str:
    """A line without escape sequences, control characters and commands of CI runners."""
    line = _ESCAPES.sub("", line)
    line = "\t".join(one_line(part) for part in line.split("\t"))
    return _COMMAND.sub(lambda match: f"{match[1]}: : " if match[1] is not None else "# #", line)


class Mask:
    """Masks the secret values known so far."""

    def __init__(self) -> None:
        self._texts: set[str] = set()

    def add(self, text: str) -> None:
        """Masks a text from now on."""
        self._texts.add(text)

    def discard(self, text: str) -> None:
        """No longer masks a text."""
        self._texts.discard(text)

    def hide(self, text: str) -> str:
        """A text with a mask in place of each secret value, the longest first."""
        for secret in sorted(self._texts, key=len, reverse=True):
            text = text.replace(secret, SECRET)
        return text


class Relay:
    """Writes what a program prints to standard error, line by line."""

    def __init__(self, mask: Mask) -> None:
        self._mask = mask
        self._rest = b""

    def feed(self, data: bytes) -> None:
        """Takes what the program printed next."""
        *lines, self._rest = _LINE_ENDS.split(self._rest + data)
        for line in lines:
            self._write(line)
        if len(self._rest) > _LONGEST:
            self.end()

    def end(self) -> None:
        """Writes a last line that has no end."""
        if self._rest:
            self._write(self._rest)
        self._rest = b""

    def _write(self, line: bytes) -> None:
        text = self._mask.hide(line.decode("utf-8", "replace"))
        sys.stderr.write(f"{harmless(text)}\n")
        sys.stderr.flush()
