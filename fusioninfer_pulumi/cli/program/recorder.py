"""Stands in for the Pulumi engine: answers as a first preview would, and records."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import unquote, urlsplit

# Its stubs are a separate package, which users do not have.
from google.protobuf.struct_pb2 import ListValue, Struct  # type: ignore[import-untyped,unused-ignore]
from pulumi import Output, ResourceOptions, ResourceTransformArgs
from pulumi.errors import RunError
from pulumi.output import UNKNOWN as UNKNOWN_OUTPUT
from pulumi.resource import ResourceTransformationArgs
from pulumi.runtime import rpc
from pulumi.runtime.mocks import MockMonitor, Mocks
from pulumi.runtime.proto import callback_pb2, engine_pb2, resource_pb2
from pulumi.runtime.settings import get_project, get_stack

from fusioninfer_pulumi.cli.finding_formats import find_line
from fusioninfer_pulumi.cli.program.project_files import Project
from fusioninfer_pulumi.cli.program.recording import (
    PROGRAM_MESSAGE,
    SECRET,
    UNKNOWN_WITHOUT_PULUMI,
    Secrets,
)
from fusioninfer_pulumi.component.kubernetes_objects import TOKEN
from fusioninfer_pulumi.component.pulumi_sdk import SIGNATURE
from fusioninfer_pulumi.findings import Finding, Rule, warning
from fusioninfer_pulumi.kube.pulumi_outputs import UNKNOWN
from fusioninfer_pulumi.loading.yaml_text import documents, nodes

_STACK = "pulumi:pulumi:Stack"
_PROVIDER = "pulumi:providers:kubernetes"
_RELEASE = "kubernetes:helm.sh/v3:Release"
_SECRET_DATA = ("data", "stringData")
#: Largest whole number that protobuf keeps: all its numbers are floats.
_EXACT = 2**53

Inputs = dict[str, Any]


class Recorder(MockMonitor):
    """Records Kubernetes objects; a subclass so that calls of later SDKs have an answer too.

    It is the resource monitor, and keeps the functions that the engine would call back. `Mocks`
    alone see neither parents nor whether a component is remote, nor which parts of a value are
    secret.

    Attributes:
        objects: The objects, with the positions of their constructors.
        findings: The warnings by their texts.
        places: File and line of each InferenceService, by logical name.
    """

    def __init__(self, secrets: Secrets, project: Project) -> None:
        super().__init__(cast("Mocks", None))  # every method that would ask them is replaced
        self.objects: list[tuple[int, dict[str, Any]]] = []
        self.findings: dict[str, Finding] = {}
        self.places: dict[str, tuple[str, int | None]] = {}
        self._secrets = secrets
        self._project = project
        self._positions: dict[tuple[str, str], int] = {}
        self._states: dict[str, Struct] = {}
        self._functions: list[Callable[[ResourceTransformArgs], Any]] = []
        self._transforms: dict[str, list[str]] = {}  # by resource, with those of its ancestors
        self._of_stack: list[str] = []

    def warn(self, rule: Rule, text: str) -> None:
        """Keeps a warning, in one line."""
        finding = warning(rule, (), " ".join(text.split()))
        self.findings.setdefault(finding.message, finding)

    def _warn_unknown(self, text: str) -> None:
        self.warn(UNKNOWN_WITHOUT_PULUMI, text)

    def constructed(self, args: ResourceTransformationArgs) -> None:
        """Notes that a resource's constructor runs (the SDK calls it as a transformation)."""
        self._positions.setdefault((args.type_, args.name), len(self._positions))

    def make_urn(self, parent: str, type_: str, name: str) -> str:
        """The resource's unique name, with the types of all its ancestors but the stack."""
        ancestry = parent.split("::")[2] if parent else _STACK
        qualified = type_ if ancestry == _STACK else f"{ancestry}${type_}"
        return f"urn:pulumi:{get_stack()}::{get_project()}::{qualified}::{name}"

    def RegisterResource(self, request: Any) -> Any:
        """Registers a resource: its outputs are its inputs, the rest is unknown."""
        urn = self.make_urn(request.parent, request.type, request.name)
        if request.type == _STACK:
            return resource_pb2.RegisterResourceResponse(urn=urn)
        if urn in self._transforms:
            file, line = self._source(request)
            place = f" ({file}:{line})" if line else ""
            raise RunError(f"Duplicate resource URN '{urn}'; try giving it a unique name{place}")
        # The engine's order: transforms of the resource, its ancestors, then the stack.
        inherited = self._transforms.get(request.parent, [])
        tokens = [*(callback.token for callback in request.transforms), *inherited]
        self._transforms[urn] = tokens
        return self._register(urn, request, [*tokens, *self._of_stack])

    def ReadResource(self, request: Any) -> resource_pb2.ReadResourceResponse:
        """Reads something that exists: nothing of it is known here."""
        urn = self.make_urn(request.parent, request.type, request.name)
        self._warn_unknown(f'{request.type} "{request.id}": its outputs are unknown without Pulumi')
        self._states[urn] = Struct()
        return resource_pb2.ReadResourceResponse(urn=urn)

    def ExistsResource(self, request: Any) -> Any:
        """Asks whether something exists, which is unknown here."""
        self._warn_unknown(
            f'{request.type} "{request.id}": whether it exists is unknown without Pulumi'
        )
        return SimpleNamespace(exists=False, unknown=True)

    def Invoke(self, request: Any) -> Any:
        """Calls a provider's function: an empty answer, except where no provider is needed.

        Only calls that return at once come here, and they cannot return an unknown value:
        generated code would fail on None, while an empty answer lets the program go on.
        """
        if request.tok == "pulumi:pulumi:getResource":
            urn = request.args["urn"]
            return _answer({"urn": urn, "id": "", "state": self._states[urn]})
        if request.tok == "kubernetes:yaml:decode":
            return _answer({"result": list(documents(request.args["text"]))})
        self._warn_not_called(f"function {request.tok}")
        return _answer({})

    def invoke_output(self, tok: str, props: Mapping[str, Any] | None, *_: Any, **__: Any) -> Any:
        """An unknown Output, in place of the SDK's function that calls a provider's."""
        self._warn_not_called(f"function {tok}")
        return Output.from_input(dict(props or {})).apply(lambda _props: UNKNOWN_OUTPUT)

    def Call(self, request: Any) -> Any:
        """Calls a method of a remote component: unknown."""
        self._warn_not_called(f"method {request.tok}")
        return _answer({"result": rpc.UNKNOWN})

    def _warn_not_called(self, what: str) -> None:
        self._warn_unknown(f"{what}: its result is unknown, because providers are not called")

    def register_transform(
        self, transform: Callable[[ResourceTransformArgs], Any]
    ) -> callback_pb2.Callback:
        """Keeps a transform of a resource's options."""
        self._functions.append(transform)
        return callback_pb2.Callback(token=str(len(self._functions) - 1))

    def register_stack_transform(self, transform: Callable[[ResourceTransformArgs], Any]) -> None:
        """Keeps a transform of every later resource."""
        self._of_stack.append(self.register_transform(transform).token)

    def ignore(self, _registered: object) -> None:
        """Takes what belongs to deployments, or to provider functions, none of which is called."""

    register_invoke_transform = register_resource_hook = register_error_hook = ignore

    async def _register(
        self, urn: str, request: Any, tokens: Sequence[str]
    ) -> resource_pb2.RegisterResourceResponse:
        """Records the resource if it is an object; answers with its outputs.

        Options that a transform returns are ignored: none of them changes an object.
        """
        properties = request.object
        for token in tokens:
            result = self._functions[int(token)](
                ResourceTransformArgs(
                    custom=request.custom,
                    type_=request.type,
                    name=request.name,
                    props=rpc.deserialize_properties(properties),
                    opts=ResourceOptions(),
                )
            )
            if inspect.isawaitable(result):
                result = await result
            if result is not None:
                properties = await rpc.serialize_properties(result.props, {})
        outputs = self._states[urn] = self._outputs(request, properties)
        return resource_pb2.RegisterResourceResponse(urn=urn, object=outputs)

    def _outputs(self, request: Any, properties: Struct) -> Struct:
        token, name = request.type, request.name
        if token == TOKEN:
            self.places[name] = self._source(request)
        if request.remote or token == _RELEASE:
            text = "only the Pulumi engine can expand it; its objects are missing"
            self._warn_unknown(f'{token} "{name}": {text}')
            return Struct() if request.remote else properties
        inputs = _plain(properties)
        if properties is not request.object:
            inputs = _remarked(inputs, _plain(request.object))
        if self._secrets is Secrets.SHOWN:
            inputs = _revealed(inputs)
        if token == _PROVIDER and "namespace" in inputs:
            namespace = _masked(inputs["namespace"], Secrets.MASKED)
            text = f'provider "{name}" creates objects without metadata.namespace in {namespace}'
            self._warn_unknown(f"{text}, which is not shown")
        if not (request.custom and _is_object(token, inputs)):
            return properties
        position = self._positions.get((token, name), len(self._positions))
        self.objects.append((position, _manifest(token, name, inputs, self._secrets)))
        metadata = inputs.get("metadata", {})
        if isinstance(metadata, dict) and not {"name", SIGNATURE} & metadata.keys():
            # The provider will generate the name.
            properties.get_or_create_struct("metadata")["name"] = rpc.UNKNOWN
        return properties

    def _source(self, request: Any) -> tuple[str, int | None]:
        """The file and the line where the program declares a resource, as far as they are known."""
        root = self._project.root
        if self._project.runtime == "yaml":
            file = self._project.program
            (program,) = nodes(file.read_text(encoding="utf-8"))
            return str(file.relative_to(root)), find_line(program, ("resources", request.name))
        position = request.sourcePosition
        file = Path(unquote(urlsplit(position.uri).path))
        name = str(file.relative_to(root)) if file.is_relative_to(root) else str(file)
        return (name, position.line) if position.line else ("", None)


class Engine:
    """The few calls that the SDK makes to the engine itself."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def Log(self, request: Any) -> None:
        """Takes a message of `pulumi.log`."""
        if request.severity == engine_pb2.WARNING:
            self._recorder.warn(PROGRAM_MESSAGE, request.message)
        elif request.severity == engine_pb2.ERROR:
            self._recorder.warn(PROGRAM_MESSAGE, f"error: {request.message}")
        elif request.severity == engine_pb2.INFO:
            print(request.message, file=sys.stderr)

    def RequirePulumiVersion(self, _request: object) -> None:
        """Accepts any required version: there is no CLI."""


def _answer(result: Inputs) -> Any:
    """A provider's answer; not the protobuf message, which older SDKs call otherwise."""
    struct = Struct()
    struct.update(result)
    return SimpleNamespace(failures=[], unknown=False, returnDependencies={}, **{"return": struct})


def _is_object(token: str, inputs: Inputs) -> bool:
    """Whether a custom resource is a Kubernetes object, not a patch of one."""
    if not token.startswith("kubernetes:") or token.count(":") < 2:
        return False
    name = token.rpartition(":")[2]
    # A patch's token ends in Patch while its kind is the patched object's; a user-defined kind
    # may end in Patch too.
    return not name.endswith("Patch") or inputs.get("kind") == name


def _manifest(token: str, name: str, inputs: Inputs, secrets: Secrets) -> dict[str, Any]:
    """The object that a registration describes, with keys in the order that `Recording` documents.

    The provider names an object without `metadata.name` after the resource, with a suffix that
    only the deployment knows.
    """
    _, api_version, kind = token.split(":", 2)
    # The core group has no name in Kubernetes and is called "core" in tokens.
    api_version = _known(inputs.get("apiVersion")) or api_version.removeprefix("core/")
    kind = _known(inputs.get("kind")) or kind
    metadata = _masked(inputs.get("metadata", {}), secrets)
    if not isinstance(metadata, dict):  # who reads an object must find its name and namespace
        metadata = {"name": metadata}
    if not {"name", "generateName"} & metadata.keys() and not kind.endswith("List"):
        metadata["name"] = f"{name}-{UNKNOWN}"
    first = {"apiVersion": api_version, "kind": kind, "metadata": metadata}
    rest = {key: value for key, value in inputs.items() if key not in first}
    if kind == "Secret" and secrets is not Secrets.SHOWN:
        rest |= {key: _secret_items(rest[key]) for key in _SECRET_DATA if key in rest}
    return {**first, **_masked(rest, secrets)}


def _known(value: Any) -> str | None:
    return value if isinstance(value, str) and value != rpc.UNKNOWN else None


def _plain(value: Any) -> Any:
    """A protobuf value as plain Python; secrets and unknown values are as the SDK marks them."""
    if isinstance(value, Struct):
        return {key: _plain(value[key]) for key in sorted(value)}
    if isinstance(value, ListValue):
        return [_plain(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) <= _EXACT:
        return int(value)
    return value


def _masked(value: Any, secrets: Secrets) -> Any:
    """A plain value with secrets and unknown values masked; of a secret mapping the keys, too."""
    if isinstance(value, list):
        return [_masked(item, secrets) for item in value]
    if isinstance(value, dict):
        if rpc.is_rpc_secret(value):
            secret = value["value"]
            return SECRET if secret == rpc.UNKNOWN else secrets.mask(secret)
        if SIGNATURE in value:
            return UNKNOWN  # assets and references have no place in a Kubernetes object
        return {key: _masked(item, secrets) for key, item in value.items()}
    return UNKNOWN if value == rpc.UNKNOWN else value


def _secret_items(value: Any) -> Any:
    """The data of a Secret, all of which the SDK makes secret: its keys are shown."""
    if isinstance(value, dict) and rpc.is_rpc_secret(value):
        value = value["value"]
    if not isinstance(value, dict) or SIGNATURE in value:
        return rpc.wrap_rpc_secret(value)
    return {key: rpc.wrap_rpc_secret(item) for key, item in value.items()}


def _remarked(properties: Inputs, before: Inputs) -> Inputs:
    """Properties after transforms with secrets where they were; what is new among them is secret.

    The SDK hands a transform each property that holds a secret as one secret, and marks the whole
    of it when the transform returns it: one variable of a container makes a secret of the `spec`.
    """
    return {
        key: _narrowed(_revealed(value), before.get(key)) if rpc.is_rpc_secret(value) else value
        for key, value in properties.items()
    }


def _narrowed(value: Any, before: Any) -> Any:
    """A value of a secret without marks inside of it; plain as far as it was plain before."""
    if not rpc.is_rpc_secret(before):
        if isinstance(value, dict) and isinstance(before, Mapping):
            return {key: _narrowed(item, before.get(key, ...)) for key, item in value.items()}
        if isinstance(value, list) and isinstance(before, list):
            added = [...] * (len(value) - len(before))
            return [_narrowed(*pair) for pair in zip(value, [*before, *added], strict=False)]
        if type(value) is type(before) and value == before:
            return value
    return rpc.wrap_rpc_secret(value)


def _revealed(value: Any) -> Any:
    """A value without the marks of secrets inside of it."""
    if isinstance(value, list):
        return [_revealed(item) for item in value]
    if isinstance(value, dict):
        if rpc.is_rpc_secret(value):
            return _revealed(value["value"])
        return {key: _revealed(item) for key, item in value.items()}
    return value
