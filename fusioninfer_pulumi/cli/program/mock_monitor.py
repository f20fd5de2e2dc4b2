"""A stand-in for the Pulumi engine: records objects, and answers as in the first preview.

It uses internals of the SDK: it subclasses MockMonitor, reads requests, replaces
`runtime.invoke_output`, and sets `SETTINGS.callbacks`. Without `SETTINGS.callbacks`, the SDK would
open a gRPC server through which the engine calls transforms.
`tests/cli/test_program_sdk.py` tests that these parts of the SDK exist.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote, urlsplit

import pulumi.runtime

# The type stubs of protobuf are a separate package, which may be missing.
from google.protobuf.struct_pb2 import ListValue, Struct  # type: ignore[import-untyped,unused-ignore]
from pulumi import Output, ResourceOptions, ResourceTransformArgs
from pulumi.errors import RunError
from pulumi.resource import ResourceTransformationArgs
from pulumi.runtime import MockCallArgs, MockResourceArgs, Mocks, rpc
from pulumi.runtime.mocks import MockMonitor
from pulumi.runtime.proto import callback_pb2, engine_pb2, resource_pb2
from pulumi.runtime.settings import SETTINGS, get_project, get_stack

from fusioninfer_pulumi.cli.finding_formats import find_line
from fusioninfer_pulumi.cli.program.project_files import Project
from fusioninfer_pulumi.cli.program.recording import mark_secret
from fusioninfer_pulumi.component.kubernetes_objects import TOKEN
from fusioninfer_pulumi.component.pulumi_sdk import SIGNATURE
from fusioninfer_pulumi.findings import Origin
from fusioninfer_pulumi.kube.pulumi_outputs import UNKNOWN
from fusioninfer_pulumi.loading.yaml_text import parse_yaml, parse_yaml_nodes

_Transform = Callable[[ResourceTransformArgs], Any]
_Mask = Callable[[Any], Any]

_STACK = "pulumi:pulumi:Stack"
_PROVIDER = "pulumi:providers:kubernetes"
_NOT_CALLED = "providers are not called, so its result is unknown or empty"
#: Types of resources that the provider or the engine expands into several objects.
_EXPANDED = re.compile(r"kubernetes:(yaml|kustomize|helm\.sh)\b")


class RecordingMonitor(MockMonitor, Mocks):
    """Stands in for the mocks, monitor and engine of the SDK; records objects and runs transforms.

    MockMonitor also answers calls that newer SDKs add. RegisterResource is overridden, because the
    SDK does not pass source positions or remote components to `Mocks`, and passes a property with a
    secret part as one secret.

    Attributes:
        objects: The objects by type token and name, in the order of their constructor calls.
        origins: File and line of each InferenceService, by logical name.
        messages: The program's warnings and errors, without duplicates.
        unknown: Sentences about results that are unknown without Pulumi.
    """

    def __init__(self, project: Project, *, show_secrets: bool) -> None:
        super().__init__(self)
        self.objects: dict[tuple[str, str], list[dict[str, Any]]] = {}
        self.origins: dict[str, Origin] = {}
        self.messages: dict[str, None] = {}
        self.unknown: set[str] = set()
        self._project = project
        self._mask = _show if show_secrets else mark_secret
        # The transforms that the SDK passes as callbacks; a callback's token is an index.
        self._callbacks: list[_Transform] = []
        # The transforms in the options of a resource and of its ancestors, by URN.
        self._transforms: dict[str, list[_Transform]] = {}
        self._stack_transforms: list[_Transform] = []

    def install(self) -> None:
        """Make the SDK call this object instead of the engine, as in a preview of the stack."""
        pulumi.runtime.configure(
            pulumi.runtime.Settings(
                project=self._project.content["name"],
                stack=self._project.stack,
                monitor=self,
                engine=self,
                dry_run=True,
                organization="organization",
                root_directory=str(self._project.root),
            )
        )
        SETTINGS.callbacks = self
        for name in ("invoke_output", "invoke_output_single"):
            setattr(pulumi.runtime, name, self._invoke_output)

    def record_order(self, args: ResourceTransformationArgs) -> None:
        """Record the order of constructor calls; the SDK calls this as a transformation."""
        self.objects.setdefault((args.type_, args.name), [])

    def make_urn(self, parent: str, type_: str, name: str) -> str:
        """Return a resource's URN, which contains the types of all ancestors except the stack."""
        ancestry = parent.split("::")[2] if parent else _STACK
        qualified = type_ if ancestry == _STACK else f"{ancestry}${type_}"
        return f"urn:pulumi:{get_stack()}::{get_project()}::{qualified}::{name}"

    async def RegisterResource(self, request: Any) -> Any:
        """Register a resource; its outputs are its inputs, all other outputs are unknown."""
        urn = self.make_urn(request.parent, request.type, request.name)
        if request.type == _STACK:
            return resource_pb2.RegisterResourceResponse(urn=urn)
        if urn in self._transforms:
            place = self._find_origin(request)
            raise RunError(f"Duplicate resource URN '{urn}'; try giving it a unique name ({place})")
        # As in the engine, transforms of the stack run last, after those of the ancestors.
        transforms = [self._callbacks[int(callback.token)] for callback in request.transforms]
        self._transforms[urn] = [*transforms, *self._transforms.get(request.parent, [])]
        properties = request.object
        for function in (*self._transforms[urn], *self._stack_transforms):
            properties = await _transform(function, request, properties)
        outputs = self._record(request, properties)
        state = rpc.deserialize_properties(outputs)
        self.resources[urn] = self.ResourceRegistration(urn, "", state)
        return resource_pb2.RegisterResourceResponse(urn=urn, object=outputs)

    def new_resource(self, args: MockResourceArgs) -> tuple[str | None, dict[str, Any]]:
        """Return the ID of an existing resource and no outputs; the SDK calls this for `get`."""
        self.unknown.add(f'{args.typ} "{args.resource_id}": its outputs are unknown without Pulumi')
        return args.resource_id, {}

    def ExistsResource(self, _request: object) -> None:
        """Fail, because only a provider knows whether a resource exists."""
        raise RunError("exists_resource needs the Pulumi engine; run `pulumi preview`")

    def call(self, args: MockCallArgs) -> Any:
        """Return the result of a provider function, which is empty unless it is computed here.

        Functions that return no Output cannot return an unknown value. The SDK's generated code
        fails on None, while an empty result lets the program continue.
        """
        if args.token == "kubernetes:yaml:decode":  # noqa: S105  # a function, not a password
            return {"result": list(parse_yaml(args.args["text"]))}
        self.unknown.add(f"function {args.token}: {_NOT_CALLED}")
        return {}

    def _invoke_output(self, tok: str, props: Mapping[str, Any] | None, *_: Any, **__: Any) -> Any:
        """Return an unknown Output; replaces the SDK's function that calls a provider."""
        self.unknown.add(f"function {tok}: {_NOT_CALLED}")
        return Output.from_input(dict(props or {})).apply(lambda _props: pulumi.UNKNOWN)

    def Call(self, request: Any) -> Any:
        """Return an unknown result of a remote component's method."""
        self.unknown.add(f"method {request.tok}: {_NOT_CALLED}")
        result = Struct()
        result["result"] = rpc.UNKNOWN
        return SimpleNamespace(failures=[], returnDependencies={}, **{"return": result})

    def register_transform(self, transform: _Transform) -> Any:
        """Store a transform of one resource and its children."""
        self._callbacks.append(transform)
        return callback_pb2.Callback(token=str(len(self._callbacks) - 1))

    def register_stack_transform(self, transform: _Transform) -> None:
        """Store a transform of every resource that is registered later."""
        self._stack_transforms.append(transform)

    def register_invoke_transform(self, transform: object) -> None:
        """Ignore transforms of provider functions, and hooks, because neither ever runs here."""

    register_resource_hook = register_error_hook = register_invoke_transform

    def Log(self, request: Any) -> None:
        """Handle a message of `pulumi.log`."""
        text = " ".join(str(request.message).split())
        if request.severity == engine_pb2.WARNING:
            self.messages[text] = None
        elif request.severity == engine_pb2.ERROR:
            self.messages[f"error: {text}"] = None
        elif request.severity == engine_pb2.INFO:
            print(request.message, file=sys.stderr)

    def RequirePulumiVersion(self, _request: object) -> None:
        """Accept any version, because there is no CLI."""

    def _record(self, request: Any, properties: Struct) -> Struct:
        """Record a resource if it is a Kubernetes object, and return its outputs."""
        token, name = request.type, request.name
        if token == TOKEN:
            self.origins[name] = self._find_origin(request)
        if request.remote or (request.custom and _EXPANDED.match(token)):
            self.unknown.add(
                f'{token} "{name}": only the Pulumi engine can expand it; its objects are missing'
            )
            return Struct()
        if token == _PROVIDER and "namespace" in properties:
            self.unknown.add(f'provider "{name}" adds a namespace, which the output does not show')
        # A patch's token is `KindPatch`, but its kind is `Kind`. A user's kind may end in `Patch`.
        kind = token.rpartition(":")[2]
        is_patch = kind.endswith("Patch") and ("kind", kind) not in properties.items()
        if is_patch or not (request.custom and token.startswith("kubernetes:")):
            return properties
        manifest = _build_manifest(token, name, properties, self._mask)
        self.objects.setdefault((token, name), []).append(manifest)
        metadata = properties.get_or_create_struct("metadata")
        # Secret metadata, which has a signature instead of fields, stays as it is.
        if "name" not in metadata and SIGNATURE not in metadata:
            metadata["name"] = rpc.UNKNOWN  # the provider will generate it
        return properties

    def _find_origin(self, request: Any) -> Origin:
        """Return the file and line that declare a resource, as far as they are known."""
        root = self._project.root
        if self._project.runtime == "yaml":
            file = self._project.program
            (program,) = parse_yaml_nodes(file.read_text(encoding="utf-8"))
            line = find_line(program, ("resources", request.name))
        else:
            file = Path(unquote(urlsplit(request.sourcePosition.uri).path))
            line = request.sourcePosition.line
        file = file.relative_to(root) if file.is_relative_to(root) else file
        return Origin(str(file), line=line or None)


async def _transform(function: _Transform, request: Any, properties: Struct) -> Struct:
    """Return the properties after a transform; its changes of resource options are ignored.

    Unchanged properties keep their secret marks. The SDK passes a property with a secret part as
    one secret, so one secret variable of a container would hide the whole `spec`.
    """
    props, opts = rpc.deserialize_properties(properties), ResourceOptions()
    result = function(
        ResourceTransformArgs(request.custom, request.type, request.name, props, opts)
    )
    if inspect.isawaitable(result):
        result = await result
    if result is None:
        return properties
    before = await rpc.serialize_properties(rpc.deserialize_properties(properties), {})
    after: Struct = await rpc.serialize_properties(result.props, {})
    for key, value in after.fields.items():
        if key in before and value == before.fields[key]:
            value.CopyFrom(properties.fields[key])
    return after


def _build_manifest(token: str, name: str, properties: Struct, mask: _Mask) -> dict[str, Any]:
    """Return the object of a registration, with keys in the order that `Recording` documents.

    If `metadata.name` is missing, the provider derives it from the resource's name with a random
    suffix.
    """
    _, api_version, kind = token.split(":", 2)
    fields = _to_python(properties, mask)
    # The core group has no name in Kubernetes and is called "core" in tokens. The token of a custom
    # resource in a YAML program is the same for all kinds.
    api_version = fields.pop("apiVersion", api_version.removeprefix("core/"))
    kind = fields.pop("kind", kind)
    metadata = fields.pop("metadata", {})
    if not isinstance(metadata, dict):  # it is secret or unknown, but readers need a mapping
        metadata = {"name": metadata}
    if not {"name", "generateName"} & metadata.keys() and not kind.endswith("List"):
        metadata["name"] = f"{name}-{UNKNOWN}"
    if kind == "Secret":
        # The SDK marks the mapping as a whole, which would hide the keys.
        for key in {"data", "stringData"} & fields.keys():
            data = _to_python(properties[key], _show)
            if isinstance(data, dict):
                fields[key] = {name: mask(value) for name, value in data.items()}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


def _to_python(value: Any, mask: _Mask) -> Any:
    """Convert a protobuf value to plain Python, with `mask` applied to secrets.

    A secret mapping is one secret, so its keys are hidden, too.
    """
    if isinstance(value, ListValue):
        return [_to_python(item, mask) for item in value]
    if isinstance(value, Struct):
        if SIGNATURE not in value:
            return {key: _to_python(value[key], mask) for key in sorted(value)}
        # Secrets have a `value`; assets and references to resources, which Kubernetes objects
        # cannot contain, have none.
        if "value" not in value:
            return UNKNOWN
        plain = _to_python(value["value"], _show)
        return UNKNOWN if plain == UNKNOWN else mask(plain)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return UNKNOWN if value == rpc.UNKNOWN else value


def _show(value: Any) -> Any:
    return value
