"""Start programs, keep their logs, and end them by their process id whatever happens."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

LOOPBACK = "127.0.0.1"

PORTS = range(20_000, 32_000)
"""Below the range that the kernel takes outgoing connections from: a port that was free when we
looked is not taken by a client before the program listens on it."""


class ProgramFailedError(Exception):
    """A program ended or did not become ready; the message carries the end of its log."""


def free_ports(count: int) -> list[int]:
    """Find that many different loopback ports nobody listens on."""
    held: list[socket.socket] = []
    try:
        for port in random.sample(PORTS, len(PORTS)):
            candidate = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            try:
                candidate.bind((LOOPBACK, port))
            except OSError:
                candidate.close()
                continue
            held.append(candidate)
            if len(held) == count:
                return [sock.getsockname()[1] for sock in held]
        raise ProgramFailedError(f"no {count} free ports between {PORTS.start} and {PORTS.stop}")
    finally:
        for sock in held:
            sock.close()


_Kind = TypeVar("_Kind", bound="Lifetime")


class Lifetime:
    """Starts when its `with` begins, and stops when that ends."""

    def open(self) -> None:
        """Starts it; by default it runs already."""

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self: _Kind) -> _Kind:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Program:
    """One running program: a process group of its own, with its output in a file."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], log: Path) -> None:
        self.name = name
        self.process = process
        self.log = log

    @property
    def pid(self) -> int:
        """Its process id, which is also that of its process group."""
        return self.process.pid

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def tail(self, lines: int = 25) -> str:
        text = self.log.read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    def check(self) -> None:
        """Raise if it has ended.

        Raises:
            ProgramFailedError: With its exit code and the end of its log.
        """
        code = self.process.poll()
        if code is not None:
            raise ProgramFailedError(
                f"{self.name} exited with {code}; its log ends:\n{self.tail()}"
            )


class Programs(Lifetime):
    """The programs of one cluster; leaving the context ends them all.

    The kernel does the same when the thread that started them ends, however it ends.
    """

    def __init__(self, directory: Path) -> None:
        """Keep logs in `directory`."""
        self.directory = directory
        self.running: dict[str, Program] = {}

    def close(self) -> None:
        for name in reversed(list(self.running)):
            self.stop(name)

    def start(
        self, name: str, command: Sequence[str | Path], *, env: Mapping[str, str] | None = None
    ) -> Program:
        """Start a program under a name that none of the running ones has."""
        if name in self.running:
            raise ValueError(f"{name} is running already")
        log = self.directory / f"{name}.log"
        with log.open("ab") as output:
            process = subprocess.Popen(
                ["setpriv", "--pdeathsig=KILL", "--", *map(str, command)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=os.environ | dict(env or {}),
                cwd=self.directory,
                start_new_session=True,  # a group of its own: Ctrl-C must not reach it first
            )
        program = self.running[name] = Program(name, process, log)
        return program

    def stop(self, name: str) -> None:
        """End a program at once. Nothing that it keeps outlives the cluster, so nothing is lost."""
        program = self.running.pop(name)
        if program.is_running:  # otherwise its id may be someone else's by now
            with contextlib.suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGKILL)
            program.process.wait(timeout=30)

    def check(self) -> None:
        for program in self.running.values():
            program.check()
