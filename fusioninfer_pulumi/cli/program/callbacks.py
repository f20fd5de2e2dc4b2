"""Runs a program's transforms in process; the SDK's own way opens a gRPC server for the engine."""

from __future__ import annotations

from collections.abc import Iterable

from pulumi.runtime._callbacks import _CallbackServicer
from pulumi.runtime.mocks import MockMonitor
from pulumi.runtime.proto import resource_pb2
from pulumi.runtime.sync_await import _sync_await

from fusioninfer_pulumi.cli.program.wire import struct_pb2


class Callbacks(_CallbackServicer):
    """Keeps the functions that a program registers with the engine, without a server."""

    def __init__(self, monitor: MockMonitor) -> None:
        # Deliberately without super().__init__(), which listens on a port and keeps the servicer
        # in a list of the whole process.
        self._callbacks = {}
        self._transforms = {}
        self._state_migrations = {}
        self._monitor = monitor  # type: ignore[assignment]  # answers the same calls
        self._target = ""

    def transform(
        self, request: resource_pb2.RegisterResourceRequest, tokens: Iterable[str]
    ) -> struct_pb2.Struct:
        """A resource's properties after its transforms.

        Options that a transform returns are ignored: none of them changes an object.
        """
        properties = request.object
        for token in tokens:
            asked = resource_pb2.TransformRequest(
                type=request.type,
                name=request.name,
                custom=request.custom,
                parent=request.parent,
                properties=properties,
            )
            answer = _sync_await(self._callbacks[token](asked.SerializeToString()))
            if not isinstance(answer, resource_pb2.TransformResponse):
                raise TypeError(f"a transform of {request.name} answered {type(answer).__name__}")
            properties = answer.properties
        return properties
