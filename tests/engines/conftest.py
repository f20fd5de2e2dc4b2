"""A PATH with stand-ins for Ray and the engines, which record their calls."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

_RECORD = """#!/bin/sh
# One file a call: the process id, then the arguments, each ended by NUL.
{ printf '%s\\0' "$$" "$@"; } > "$CALLS/$(date +%s%N)-${0##*/}"
"""


@dataclass(frozen=True)
class Call:
    """One call of a stand-in."""

    program: str
    pid: int
    arguments: list[str]


@dataclass(frozen=True)
class Host:
    """A machine with only the stand-ins and standard tools."""

    bin: Path
    calls_dir: Path

    def program(self, name: str, body: str = "") -> None:
        """Add a stand-in that records its call and then runs `body`."""
        path = self.bin / name
        path.write_text(_RECORD + body)
        path.chmod(0o755)

    def environ(self, **variables: str) -> dict[str, str]:
        return {
            **os.environ,
            "PATH": f"{self.bin}:{os.environ['PATH']}",
            "CALLS": str(self.calls_dir),
            **variables,
        }

    def start(self, words: list[Any], **variables: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            words, env=self.environ(**variables), text=True, stdout=subprocess.PIPE, stderr=-2
        )

    def run(self, words: list[Any], **variables: str) -> list[Call]:
        """Run a container's command, and return its calls of programs in order."""
        self.clear()
        process = self.start(words, **variables)
        output, _ = process.communicate(timeout=30)
        assert process.returncode == 0, output
        return self.calls()

    def clear(self) -> None:
        for path in self.calls_dir.iterdir():
            path.unlink()

    def calls(self) -> list[Call]:
        result = []
        for path in sorted(self.calls_dir.iterdir()):
            noted = path.read_bytes().decode(errors="surrogateescape")
            if not noted:
                continue  # the program has just started and has not written its file yet
            pid, *arguments = noted.split("\0")[:-1]
            result.append(Call(path.name.partition("-")[2], int(pid), arguments))
        return result


def _host(root: Path) -> Host:
    (root / "bin").mkdir()
    (root / "calls").mkdir()
    result = Host(root / "bin", root / "calls")
    for name in ("ray", "vllm", "python3"):
        result.program(name)
    return result


@pytest.fixture(scope="session")
def host(tmp_path_factory: pytest.TempPathFactory) -> Host:
    return _host(tmp_path_factory.mktemp("host"))


@pytest.fixture
def fresh_host(tmp_path: Path) -> Host:
    """Return a separate host, whose stand-ins a test may replace."""
    return _host(tmp_path)
