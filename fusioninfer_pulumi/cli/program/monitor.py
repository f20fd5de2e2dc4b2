"""Stands in for the engine's resource monitor: answers as a first preview would, and records."""

from __future__ import annotations

import sys
from collections import defaultdict, deque
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import unquote, urlsplit

from pulumi.errors import RunError
from pulumi.resource import ResourceTransformationArgs
from pulumi.runtime import rpc
from pulumi.runtime.mocks import MockMonitor, Mocks
from pulumi.runtime.proto import callback_pb2, resource_pb2
from pulumi.runtime.settings import get_project, get_stack

from fusioninfer_pulumi.cli.program import kinds
from fusioninfer_pulumi.cli.program.callbacks import Callbacks
from fusioninfer_pulumi.cli.program.engine import Notes
from fusioninfer_pulumi.cli.program.masks import Secrets
from fusioninfer_pulumi.cli.program.records import Recorded
from fusioninfer_pulumi.cli.program.values import manifest, named
from fusioninfer_pulumi.cli.program.wire import empty_pb2, struct_pb2
from fusioninfer_pulumi.loading.yaml import documents

_STACK = "pulumi:pulumi:Stack"
_STACK_REFERENCE = "pulumi:pulumi:StackReference"
#: An unknown Output in place of a whole result, for SDKs that do not ask whether it is unknown.
_UNKNOWN_RESULT = {rpc._special_sig_key: rpc._special_output_value_sig}  # noqa: SLF001  # no public


class Recorder(MockMonitor):
    """Records Kubernetes objects; a subclass so that calls of later SDKs have an answer too."""

    def __init__(self, notes: Notes, secrets: Secrets) -> None:
        super().__init__(cast("Mocks", None))  # every method that would ask them is replaced
        self.callbacks = Callbacks(self)
        self._notes = notes
        self._secrets = secrets
        self._recorded: list[tuple[int, Recorded]] = []
        self._constructed: defaultdict[tuple[str, str], deque[int]] = defaultdict(deque)
        self._constructions = 0
        self._states: dict[str, struct_pb2.Struct] = {}
        self._parents: dict[str, str] = {}
        self._transforms: dict[str, list[str]] = {}
        self._stack_transforms_tokens: list[str] = []
        self._namespaces = kinds.ProviderNamespaces()

    def recorded(self) -> tuple[Recorded, ...]:
        """The objects in the order of their constructors, whatever the order of the calls was."""
        return tuple(found for _, found in sorted(self._recorded, key=lambda pair: pair[0]))

    def constructed(self, args: ResourceTransformationArgs) -> None:
        """Notes that a resource's constructor runs (the SDK calls it as a transformation)."""
        self._constructed[args.type_, args.name].append(self._constructions)
        self._constructions += 1

    def make_urn(self, parent: str, type_: str, name: str) -> str:
        """The resource's unique name, with the types of all its ancestors but the stack."""
        ancestry = parent.split("::")[2] if parent else _STACK
        qualified = type_ if ancestry == _STACK else f"{ancestry}${type_}"
        return f"urn:pulumi:{get_stack()}::{get_project()}::{qualified}::{name}"

    def RegisterResource(self, request: Any) -> resource_pb2.RegisterResourceResponse:
        """Registers a resource: its outputs are its inputs, the rest is unknown."""
        urn = self.make_urn(request.parent, request.type, request.name)
        if request.type == _STACK:
            return resource_pb2.RegisterResourceResponse(urn=urn)
        if urn in self._states:
            raise RunError(
                f"Duplicate resource URN '{urn}'; try giving it a unique name{_place(request)}"
            )
        properties = self._transformed(urn, request)
        state = self._states[urn] = self._register(urn, request, properties)
        return resource_pb2.RegisterResourceResponse(urn=urn, object=state)

    def ReadResource(self, request: Any) -> resource_pb2.ReadResourceResponse:
        """Reads something that exists: nothing of it is known here."""
        urn = self.make_urn(request.parent, request.type, request.name)
        self._position(request)
        if request.type == _STACK_REFERENCE:
            self._notes.add(f'stack reference "{request.id}": its outputs are unknown here')
        else:
            self._notes.add(
                f'{request.type} "{request.name}" is read from the cluster: it is unknown here'
            )
        self._states[urn] = struct_pb2.Struct()
        return resource_pb2.ReadResourceResponse(urn=urn)

    def ExistsResource(self, request: Any) -> Any:
        """Asks whether something exists: nobody knows here."""
        self._notes.add(f'{request.type} "{request.id}": whether it exists is unknown here')
        return SimpleNamespace(exists=False, unknown=True)

    def Invoke(self, request: Any) -> Any:
        """Calls a provider's function: unknown, except what needs no provider."""
        if request.tok == "pulumi:pulumi:getResource":
            urn = request.args["urn"]
            return _answer({"urn": urn, "id": "", "state": self._states[urn]})
        if request.tok == "kubernetes:yaml:decode":
            return _answer({"result": list(documents(request.args["text"]))})
        self._notes.add(f"function {request.tok}: only its provider can answer")
        return _answer(_UNKNOWN_RESULT, unknown=True) if _wants_output() else _answer({})

    def Call(self, request: Any) -> Any:
        """Calls a method of a remote component: unknown."""
        self._notes.add(f"method {request.tok}: only its provider can answer")
        return _answer({"result": rpc.UNKNOWN})

    def RegisterStackTransform(self, request: callback_pb2.Callback) -> empty_pb2.Empty:
        """Registers a transform of every later resource."""
        self._stack_transforms_tokens.append(request.token)
        return empty_pb2.Empty()

    def RegisterStackInvokeTransform(self, _request: Any) -> empty_pb2.Empty:
        """Registers a transform of provider functions, none of which is called here."""
        return empty_pb2.Empty()

    def RegisterResourceHook(self, _request: Any) -> empty_pb2.Empty:
        """Registers a hook; hooks belong to deployments."""
        return empty_pb2.Empty()

    def RegisterErrorHook(self, _request: Any) -> empty_pb2.Empty:
        """Registers an error hook; hooks belong to deployments."""
        return empty_pb2.Empty()

    def _transformed(self, urn: str, request: Any) -> struct_pb2.Struct:
        """Applies transforms in the engine's order: own, then each ancestor's, then the stack's."""
        self._parents[urn] = request.parent
        self._transforms[urn] = [callback.token for callback in request.transforms]
        tokens: list[str] = []
        holder = urn
        while holder:
            tokens += self._transforms.get(holder, [])
            holder = self._parents.get(holder, "")
        return self.callbacks.transform(request, [*tokens, *self._stack_transforms_tokens])

    def _register(self, urn: str, request: Any, properties: struct_pb2.Struct) -> struct_pb2.Struct:
        """Records the resource if it is an object; returns its outputs."""
        position = self._position(request)
        if request.remote or request.type in kinds.EXPANDED_BY_ENGINE:
            self._notes.add(
                f'{request.type} "{request.name}": only the Pulumi engine can expand it; '
                "its objects are missing here"
            )
            return struct_pb2.Struct() if request.remote else properties
        if request.type.startswith("pulumi-python:dynamic"):
            self._notes.add(
                f'{request.type} "{request.name}": a dynamic provider runs only in a deployment'
            )
        self._namespaces.provider(urn, request.type, properties)
        if not kinds.is_object(request.type, properties, custom=request.custom):
            return properties
        found = manifest(request.type, request.name, properties, self._secrets)
        self._recorded.append((position, Recorded(request.name, request.type, found)))
        note = self._namespaces.note(request.provider, found)
        if note:
            self._notes.add(note)
        return named(properties)

    def _position(self, request: Any) -> int:
        waiting = self._constructed[request.type, request.name]
        return waiting.popleft() if waiting else self._constructions


def _place(request: Any) -> str:
    """Where the program constructs a resource, as an addition to a message."""
    position = request.sourcePosition
    file = Path(unquote(urlsplit(position.uri).path))
    return f" ({file.name}:{position.line})" if position.line else ""


def _answer(result: dict[str, Any], *, unknown: bool = False) -> Any:
    """A provider's answer; not the protobuf message, whose `unknown` older SDKs do not have."""
    struct = struct_pb2.Struct()
    struct.update(result)
    return SimpleNamespace(
        failures=[], unknown=unknown, returnDependencies={}, **{"return": struct}
    )


def _wants_output() -> bool:
    """Tells whether the running invoke can return an unknown value.

    A plain invoke returns at once and cannot: generated code would fail on None, while an empty
    answer lets the program go on. Nothing of this is in the request, so the caller is asked.
    """
    frame = sys._getframe()  # noqa: SLF001  # inspect reads the sources of every frame
    while frame.f_back is not None:
        frame = frame.f_back
        if "check_dependencies" in frame.f_code.co_freevars:
            return bool(frame.f_locals.get("check_dependencies"))
    return True
