"""Programs of a cluster and their logs."""

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
"""Below the kernel's range for outgoing connections, so that no client takes a free port before the
program listens on it."""


class ProgramFailedError(Exception):
    """A program exited or did not become ready; the message contains the end of its log."""


def find_ports(count: int) -> list[int]:
    """Return different loopback ports that are not in use."""
    sockets: list[socket.socket] = []
    try:
        for port in random.sample(PORTS, len(PORTS)):
            candidate = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            try:
                candidate.bind((LOOPBACK, port))
            except OSError:
                candidate.close()
                continue
            sockets.append(candidate)
            if len(sockets) == count:
                return [sock.getsockname()[1] for sock in sockets]
        raise ProgramFailedError(f"no {count} free ports between {PORTS.start} and {PORTS.stop}")
    finally:
        for sock in sockets:
            sock.close()


_Kind = TypeVar("_Kind", bound="Lifetime")


class Lifetime:
    """Context manager that calls `open` and `close`."""

    def open(self) -> None:
        """Start; does nothing by default."""

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self: _Kind) -> _Kind:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Program:
    """A program in its own process group, with its output in a file."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], log: Path) -> None:
        self.name = name
        self.process = process
        self.log = log

    @property
    def pid(self) -> int:
        """The ID of the process and of its process group."""
        return self.process.pid

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def tail(self, lines: int = 25) -> str:
        text = self.log.read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    def check(self) -> None:
        """Raise ProgramFailedError if the program has exited."""
        code = self.process.poll()
        if code is not None:
            raise ProgramFailedError(
                f"{self.name} exited with {code}; its log ends:\n{self.tail()}"
            )


class Programs(Lifetime):
    """A cluster's programs and their logs, killed when the context or the starting thread ends."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.running: dict[str, Program] = {}

    def close(self) -> None:
        for name in reversed(list(self.running)):
            self.stop(name)

    def start(
        self, name: str, command: Sequence[str | Path], *, env: Mapping[str, str] | None = None
    ) -> Program:
        """Start a program with a unique name."""
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
                start_new_session=True,  # Ctrl-C must not reach the program.
            )
        program = self.running[name] = Program(name, process, log)
        return program

    def stop(self, name: str) -> None:
        """Kill a program. Its data need not survive the cluster."""
        program = self.running.pop(name)
        if program.is_running:  # Otherwise another process may have its ID.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGKILL)
            program.process.wait(timeout=30)

    def check(self) -> None:
        for program in self.running.values():
            program.check()
