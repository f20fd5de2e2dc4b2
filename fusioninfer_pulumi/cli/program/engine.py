"""Stands in for the engine's log: keeps what a program warns about."""

from __future__ import annotations

import sys

from pulumi.runtime.proto import engine_pb2

from fusioninfer_pulumi.cli.program.wire import empty_pb2


class Notes:
    """Warnings in the order they came up, each text once."""

    def __init__(self) -> None:
        self._texts: dict[str, None] = {}

    def add(self, text: str) -> None:
        """Keeps a warning, in one line, unless it is already there."""
        self._texts.setdefault(" ".join(text.split()))

    def texts(self) -> tuple[str, ...]:
        """The warnings."""
        return tuple(self._texts)


class Engine:
    """The few calls that the SDK makes to the engine itself."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes

    def Log(self, request: engine_pb2.LogRequest) -> empty_pb2.Empty:
        """Takes a message of `pulumi.log`."""
        if request.severity == engine_pb2.WARNING:
            self._notes.add(request.message)
        elif request.severity == engine_pb2.ERROR:
            self._notes.add(f"error: {request.message}")
        elif request.severity == engine_pb2.INFO:
            print(request.message, file=sys.stderr)
        return empty_pb2.Empty()

    def RequirePulumiVersion(self, _request: object) -> empty_pb2.Empty:
        """Accepts any demand on the CLI's version: there is no CLI."""
        return empty_pb2.Empty()
