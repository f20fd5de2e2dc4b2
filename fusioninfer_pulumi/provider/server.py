"""The plugin `pulumi-resource-fusioninfer`: constructs components for the Pulumi engine.

Pulumi's own `component_provider_host` cannot read the arguments' types (string annotations,
unions), and shows errors as tracebacks (pulumi#17012, #19178).
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypedDict, cast

import pulumi
import pulumi.provider
from pulumi.errors import InputPropertiesError, InputPropertyErrorDetails
from pulumi.runtime import settings

from fusioninfer_pulumi import __version__
from fusioninfer_pulumi.api.service import InferenceServiceArgs
from fusioninfer_pulumi.component.inference_service import InferenceService, raise_errors
from fusioninfer_pulumi.component.kubernetes_objects import TOKEN
from fusioninfer_pulumi.component.serving_prerequisites import TOKEN as PREREQUISITES_TOKEN
from fusioninfer_pulumi.component.serving_prerequisites import (
    ServingPrerequisites,
    ServingPrerequisitesArgs,
)
from fusioninfer_pulumi.findings import Finding, InvalidServiceError
from fusioninfer_pulumi.generated import FOLDER
from fusioninfer_pulumi.kube.pulumi_outputs import is_output
from fusioninfer_pulumi.kube.typed_args import kubernetes_name
from fusioninfer_pulumi.loading.validate import validate_mapping
from fusioninfer_pulumi.plan.service_json import service_json

if TYPE_CHECKING:
    from fusioninfer_pulumi.generated.dicts import InferenceServiceArgsDict


#: The schema of the Pulumi package, in `generated`; `tools/package_schema.py` writes it.
PACKAGED = "pulumi-package.json"
#: The version in the form of Semantic Versioning, as Pulumi reads it: 0.3.0.dev0 is 0.3.0-dev.0.
VERSION = __version__.replace(".dev", "-dev.")
#: Outputs of the components that are attributes in Python, too.
OUTPUTS: Mapping[type, tuple[str, ...]] = {
    InferenceService: ("name", "namespace", "endpoint", "status"),
    ServingPrerequisites: ("checked", "releases"),
}


class ServiceOutputs(TypedDict):
    """Outputs of `InferenceService` in place of attributes with objects, which Python has."""

    plan: dict[str, Any]
    """The plan as `fusioninfer-pulumi plan --output json` prints it, without capacity, objects
    and findings."""

    leaderWorkerSets: list[str]
    """Names of the LeaderWorkerSets: one for each replica, or for each role."""

    podGroups: list[str]
    """Names of the PodGroups: the gang's, or one for each serving group."""

    inferencePool: str
    """Name of the InferencePool, empty without an endpoint picker."""

    httpRoute: str
    """Name of the HTTPRoute, empty without a route."""

    gateway: str
    """Name of the Gateway that belongs to the service, empty where the route attaches to others."""


def read_package_schema() -> str:
    """Return the text of the schema in the installed package."""
    return (FOLDER / PACKAGED).read_text(encoding="utf-8")


class Provider(pulumi.provider.Provider):
    """Constructs the components; holds nothing, since several are constructed at a time."""

    def __init__(self) -> None:
        super().__init__(VERSION, read_package_schema())

    def construct(
        self,
        name: str,
        resource_type: str,
        inputs: Mapping[str, Any],
        options: pulumi.ResourceOptions | None = None,
    ) -> pulumi.provider.ConstructResult:
        """Register a component and its objects.

        Raises:
            InputPropertiesError: The component cannot work; one error for each problem.
        """
        if resource_type not in (TOKEN, PREREQUISITES_TOKEN):
            raise ValueError(f"the package fusioninfer has no resource {resource_type}")
        _enter_stack()
        arguments = {key: normalize_inputs(value) for key, value in inputs.items()}
        try:
            made = construct_component(name, resource_type, arguments, options)
        except InvalidServiceError as problem:
            raise build_property_errors(name, problem.findings) from None
        state = {key: _explained(getattr(made, key), name) for key in OUTPUTS[type(made)]}
        if isinstance(made, InferenceService):
            state |= service_outputs(made)
        return pulumi.provider.ConstructResult(made.urn, state)


def normalize_inputs(value: Any) -> Any:
    """Return a value as programs write it: numbers arrive as floats, unknowns as markers."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, pulumi.output.Unknown):
        return pulumi.Output(set(), _done(pulumi.output.UNKNOWN), _done(result=False))
    if isinstance(value, dict):
        return {key: normalize_inputs(item) for key, item in value.items()}
    if isinstance(value, list):
        return [normalize_inputs(item) for item in value]
    return value


def build_property_errors(name: str, findings: Sequence[Finding]) -> InputPropertiesError:
    """Convert findings to errors of a component's properties."""
    details: list[InputPropertyErrorDetails] = [
        {"property_path": finding.path, "reason": finding.text} for finding in findings
    ]
    return InputPropertiesError(f"{name} cannot work", details)


def construct_component(
    name: str, token: str, inputs: dict[str, Any], options: pulumi.ResourceOptions | None
) -> pulumi.ComponentResource:
    """Return a component from the properties of a program in another language."""
    if token == TOKEN:
        # Programs in other languages send a mapping of any shape: the constructor checks it.
        return InferenceService(name, cast("InferenceServiceArgsDict", inputs), options)
    services = inputs.pop("services", None)
    if not isinstance(services, list):
        raise InputPropertiesError(
            f"{name} cannot work",
            [{"property_path": "services", "reason": "must be a list of services"}],
        )
    names = {kubernetes_name(field.name): field.name for field in fields(ServingPrerequisitesArgs)}
    given = {names[key]: value for key, value in inputs.items() if value is not None}
    args = ServingPrerequisitesArgs(services=_services(services), **given)
    return ServingPrerequisites(name, args, options)


def service_outputs(service: InferenceService) -> ServiceOutputs:
    """Return the plan of a service and the names of its objects."""

    def name_of(kind: str) -> str:
        return next(iter(service.object_names(kind)), "")

    return {
        "plan": service_json(service.plan),
        "leaderWorkerSets": service.object_names("LeaderWorkerSet"),
        "podGroups": service.object_names("PodGroup"),
        "inferencePool": name_of("InferencePool"),
        "httpRoute": name_of("HTTPRoute"),
        "gateway": name_of("Gateway"),
    }


def _services(services: Sequence[Any]) -> list[InferenceServiceArgs]:
    """Return the services whose needs are checked; their findings are located below `services`."""
    parsed: list[InferenceServiceArgs] = []
    for index, mapping in enumerate(services):
        document = validate_mapping(mapping, f"services[{index}]")
        raise_errors((finding.under("services", index) for finding in document.findings), "")
        assert document.args is not None, "a document without errors has a service"
        parsed.append(document.args)
    return parsed


def _enter_stack() -> None:
    """Make the stack known, as in a program: components read its state by it."""
    stack, project = pulumi.get_stack(), pulumi.get_project()
    urn = f"urn:pulumi:{stack}::{project}::pulumi:pulumi:Stack::{project}-{stack}"
    settings.set_root_resource(pulumi.resource.DependencyResource(urn))


def _done(result: Any) -> asyncio.Future[Any]:
    future: asyncio.Future[Any] = asyncio.Future()
    future.set_result(result)
    return future


def _explained(output: Any, name: str) -> Any:
    """Return an Output whose late errors become property errors, too."""
    if not is_output(output):
        return output

    async def value() -> Any:
        try:
            return await output.future(with_unknowns=True)
        except InvalidServiceError as problem:
            raise build_property_errors(name, problem.findings) from None
        except pulumi.RunError as problem:
            raise InputPropertiesError(f"{name}: {problem}", []) from None

    loop = asyncio.get_event_loop()
    return pulumi.Output(
        output.resources(), loop.create_task(value()), output.is_known(), output.is_secret()
    )


def main() -> None:
    """Serve the package until Pulumi ends the process: `pulumi-resource-fusioninfer`."""
    pulumi.provider.main(Provider(), sys.argv[1:])
