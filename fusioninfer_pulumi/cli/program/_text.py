"""What a program says, made fit for a terminal and for a log of a CI job."""

from __future__ import annotations

import re
from collections.abc import Iterable

from fusioninfer_pulumi.cli.program.recording import SECRET
from fusioninfer_pulumi.findings import one_line

#: Sequences that colour text, move the cursor, or name links and titles.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])")
#: Commands of CI runners: `::error::` begins a line, `##[error]` and `##vso[` stand anywhere.
_COMMAND = re.compile(r"^(\s*)::|##(?=\w*\[)")
_LINE_ENDS = re.compile(r"\r?\n|\r(?=[^\n])")


def masked(text: str, secrets: Iterable[str]) -> str:
    """A text with a mask in place of each secret, the longest first."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, SECRET)
    return text


def harmless(text: str) -> str:
    """Lines without escape sequences, control characters and commands of CI runners."""
    return "\n".join(map(_harmless_line, _LINE_ENDS.split(text)))


def _harmless_line(line: str) -> str:
    line = _ESCAPES.sub("", line)
    line = "\t".join(one_line(part) for part in line.split("\t"))
    return _COMMAND.sub(lambda match: f"{match[1]}: : " if match[1] is not None else "# #", line)
