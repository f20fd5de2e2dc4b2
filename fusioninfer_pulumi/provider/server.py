"""The plugin `pulumi-resource-fusioninfer`: constructs components for the Pulumi engine.

Pulumi's `component_provider_host` is not used, because it cannot read the arguments' types (string
annotations, unions) and prints errors as tracebacks (pulumi#17012, #19178).
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

from fusioninfer_pulumi import __version__
from fusioninfer_pulumi.api.service import InferenceServiceArgs
from fusioninfer_pulumi.component.inference_service import InferenceService
from fusioninfer_pulumi.component.kubernetes_objects import TOKEN
from fusioninfer_pulumi.component.pulumi_sdk import Unknown, make_unknown_output, set_root_resource
from fusioninfer_pulumi.component.serving_prerequisites import (
    TOKEN as PREREQUISITES_TOKEN,
    ServingPrerequisites,
    ServingPrerequisitesArgs,
)
from fusioninfer_pulumi.findings import Finding, InvalidServiceError, raise_errors
from fusioninfer_pulumi.generated import DIRECTORY
from fusioninfer_pulumi.kube.pulumi_outputs import is_output
from fusioninfer_pulumi.kube.typed_args import kubernetes_name
from fusioninfer_pulumi.loading.validate import validate_mapping
from fusioninfer_pulumi.plan.service_json import build_service_json

if TYPE_CHECKING:
    from fusioninfer_pulumi.generated.dicts import InferenceServiceArgsDict


#: File in `generated` with the schema of the Pulumi package; `tools/package_schema.py` writes it.
PACKAGE_SCHEMA = "pulumi-package.json"
#: The version as Semantic Versioning, which Pulumi requires: 0.3.0.dev0 is 0.3.0-dev.0.
VERSION = __version__.replace(".dev", "-dev.")
#: Outputs of each component that are attributes of the Python component, with the same names.
OUTPUTS: Mapping[type, tuple[str, ...]] = {
    InferenceService: ("name", "namespace", "endpoint", "status"),
    ServingPrerequisites: ("checked", "releases"),
}


class ServiceOutputs(TypedDict):
    """Outputs of `InferenceService` that are computed from its plan and objects."""

    plan: dict[str, Any]
    """The plan as `fusioninfer-pulumi plan --output json` prints it, except capacity, objects and
    findings."""

    leaderWorkerSets: list[str]
    """Names of the LeaderWorkerSets: one for each replica, or for each role."""

    podGroups: list[str]
    """Names of the PodGroups: one, or one for each serving group; empty without a gang."""

    inferencePool: str
    """Name of the InferencePool, or empty without an endpoint picker."""

    httpRoute: str
    """Name of the HTTPRoute, or empty without a route."""

    gateway: str
    """Name of the Gateway that the service creates, or empty if the route attaches to others."""


def read_package_schema() -> str:
    """Return the text of the Pulumi package's schema."""
    return (DIRECTORY / PACKAGE_SCHEMA).read_text(encoding="utf-8")


class Provider(pulumi.provider.Provider):
    """Constructs components; has no state, because Pulumi may construct several at a time."""

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
            InputPropertiesError: The input is invalid; the exception has each finding.
        """
        if resource_type not in (TOKEN, PREREQUISITES_TOKEN):
            raise ValueError(f"the package fusioninfer has no resource {resource_type}")
        set_root_resource()
        arguments = {key: normalize_inputs(value) for key, value in inputs.items()}
        try:
            component = construct_component(name, resource_type, arguments, options)
        except InvalidServiceError as exc:
            raise build_property_errors(name, exc.findings) from None
        state = {
            key: _convert_errors(getattr(component, key), name) for key in OUTPUTS[type(component)]
        }
        if isinstance(component, InferenceService):
            state |= build_service_outputs(component)
        return pulumi.provider.ConstructResult(component.urn, state)


def normalize_inputs(value: Any) -> Any:
    """Decode inputs: Pulumi passes integers as floats, and unknown values as markers."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Unknown):
        return make_unknown_output()
    if isinstance(value, dict):
        return {key: normalize_inputs(item) for key, item in value.items()}
    if isinstance(value, list):
        return [normalize_inputs(item) for item in value]
    return value


def build_property_errors(name: str, findings: Sequence[Finding]) -> InputPropertiesError:
    """Convert findings to Pulumi's exception, which lists errors by input property."""
    details: list[InputPropertyErrorDetails] = [
        {"property_path": finding.path, "reason": finding.text} for finding in findings
    ]
    return InputPropertiesError(f"{name} is invalid", details)


def construct_component(
    name: str, token: str, inputs: dict[str, Any], options: pulumi.ResourceOptions | None
) -> pulumi.ComponentResource:
    """Construct the component of a type token from normalized inputs."""
    if token == TOKEN:
        # The constructor validates the inputs.
        return InferenceService(name, cast("InferenceServiceArgsDict", inputs), options)
    services = inputs.pop("services", None)
    if not isinstance(services, list):
        raise InputPropertiesError(
            f"{name} is invalid",
            [{"property_path": "services", "reason": "must be a list of services"}],
        )
    names = {kubernetes_name(field.name): field.name for field in fields(ServingPrerequisitesArgs)}
    fields_set = {names[key]: value for key, value in inputs.items() if value is not None}
    args = ServingPrerequisitesArgs(services=_parse_services(services), **fields_set)
    return ServingPrerequisites(name, args, options)


def build_service_outputs(service: InferenceService) -> ServiceOutputs:
    """Return the outputs for the plan and objects of the component."""

    def find_name(kind: str) -> str:
        return next(iter(service.object_names(kind)), "")

    return {
        "plan": build_service_json(service.plan),
        "leaderWorkerSets": service.object_names("LeaderWorkerSet"),
        "podGroups": service.object_names("PodGroup"),
        "inferencePool": find_name("InferencePool"),
        "httpRoute": find_name("HTTPRoute"),
        "gateway": find_name("Gateway"),
    }


def _parse_services(services: Sequence[Any]) -> list[InferenceServiceArgs]:
    """Parse the `services` of `ServingPrerequisites`, or raise errors at their fields."""
    parsed: list[InferenceServiceArgs] = []
    for index, mapping in enumerate(services):
        args, findings = validate_mapping(mapping, f"services[{index}]")
        raise_errors(finding.with_prefix("services", index) for finding in findings)
        assert args is not None, "a mapping without errors has args"
        parsed.append(args)
    return parsed


def _convert_errors(output: Any, name: str) -> Any:
    """Return `output` with its errors converted to Pulumi's property errors."""
    if not is_output(output):
        return output

    async def resolve() -> Any:
        try:
            return await output.future(with_unknowns=True)
        except InvalidServiceError as exc:
            raise build_property_errors(name, exc.findings) from None
        except pulumi.RunError as exc:
            raise InputPropertiesError(f"{name}: {exc}", []) from None

    loop = asyncio.get_event_loop()
    return pulumi.Output(
        output.resources(), loop.create_task(resolve()), output.is_known(), output.is_secret()
    )


def main() -> None:
    """Run `pulumi-resource-fusioninfer` until Pulumi stops it."""
    pulumi.provider.main(Provider(), sys.argv[1:])
