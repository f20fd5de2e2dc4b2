"""Commands of the tutorial, in order, compared with the output on the page."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.engine.project import REPOSITORY, TIMEOUT_SECONDS
from tests.page_blocks import Block, blocks, commands, edit, matches

PAGE = REPOSITORY / "docs" / "tutorial.md"
TEMPLATES = re.compile(r"https://\S+/tree/main/(templates/\w+)")
#: Pulumi's warnings about plugins of another release, which a user's installation does not have.
REMARK = re.compile(r"warning: (using pulumi-\S+ from \$PATH|resource plugin .* expected to have)")


class Terminals:
    """Two terminals of a user, in an empty folder."""

    def __init__(self, folder: Path, log: Path) -> None:
        self.folder = folder
        self.log = log
        self.cluster: subprocess.Popen[bytes] | None = None
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("PULUMI_")},
            "PULUMI_HOME": str(log.parent / "home"),
            "PATH": f"{sys.prefix}/bin{os.pathsep}{os.environ['PATH']}",
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            "PYTHONPATH": str(REPOSITORY),
        }
        self.environment.pop("KUBECONFIG", None)

    def prepare(self, block: Block) -> None:
        """Replace the installation commands of a block: the tests' environment has everything."""
        first = block.text.partition("\n")[0]
        if first == "python -m venv .venv":
            (self.folder / ".venv").symlink_to(sys.prefix)
        else:
            assert first.startswith("git clone "), f"{block}: not known here"

    def run(self, line: str) -> list[str]:
        words = shlex.split(TEMPLATES.sub(lambda found: str(REPOSITORY / found[1]), line))
        if words[0] == "export":
            name, _, value = words[1].partition("=")
            self.environment[name] = value
            return []
        if words == ["make", "cluster"]:
            return self.start_cluster()
        if words[0] == "pulumi":
            words += ["--non-interactive", "--color", "never"]
        target = self.folder / words[words.index(">") + 1] if ">" in words else None
        done = subprocess.run(
            words[: words.index(">")] if target else words,
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
        if target:
            target.write_text(done.stdout, encoding="utf-8")
            return []
        return [line for line in done.stdout.rstrip().splitlines() if not REMARK.search(line)]

    def start_cluster(self) -> list[str]:
        """Start the cluster of `make cluster`, and return its output."""
        makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
        found = re.search(r"^cluster:.*\n\t\$\(BIN\)/python (.+)$", makefile, re.MULTILINE)
        assert found, "the Makefile has no target `cluster`"
        with self.log.open("wb") as log:
            self.cluster = subprocess.Popen(
                [sys.executable, *shlex.split(found[1])], cwd=REPOSITORY, stdout=log, stderr=log
            )
        ends = time.monotonic() + TIMEOUT_SECONDS
        while "Ctrl-C deletes" not in self.printed() and self.cluster.poll() is None:
            assert time.monotonic() < ends, self.printed()
            time.sleep(0.2)
        exported = re.search(r"export KUBECONFIG=(\S+)", self.printed())
        assert exported, self.printed()
        self.environment["KUBECONFIG"] = exported[1]
        return self.printed().splitlines()

    def printed(self) -> str:
        return self.log.read_text(encoding="utf-8")

    def close(self) -> None:
        """Press Ctrl-C in the second terminal."""
        if self.cluster is not None:
            self.cluster.send_signal(signal.SIGINT)
            self.cluster.wait(60)


@pytest.fixture
def terminals(tmp_path: Path) -> Iterator[Terminals]:
    folder = tmp_path / "qwen"
    folder.mkdir()
    opened = Terminals(folder, tmp_path / "cluster.log")
    yield opened
    opened.close()


@pytest.mark.core
@pytest.mark.verifies(
    "Every tutorial command prints what the page shows, on the `make cluster` cluster"
)
def test_tutorial_prints_what_it_shows(terminals: Terminals) -> None:
    for block in blocks(PAGE):
        if block.language == "bash":
            terminals.prepare(block)
        elif block.language == "diff":
            edit(block, terminals.folder)
        else:
            assert block.language == "console", f"{block}: not known here"
            for command in commands(block):
                began = time.monotonic()
                printed = terminals.run(command.line)
                print(f"{time.monotonic() - began:5.1f} s  {command.line}")
                assert matches(command.printed, printed), f"{block}: {command.line}\n" + "\n".join(
                    printed
                )
