"""All uses of Pulumi's SDK internals by the components and their provider.

`tests/component/test_sdk.py` fails if those internals change. The module also determines what runs
a program (Pulumi, a unit test with mocks, or the command `fusioninfer-pulumi`), and whether the
Kubernetes provider only renders YAML files.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

import pulumi
from pulumi.runtime import rpc, settings
from pulumi.runtime.mocks import MockMonitor
from pulumi.runtime.proto import resource_pb2

from fusioninfer_pulumi.plan.service_plan import ServicePlan

_RENDER_OPTION = "renderYamlToDirectory"
_READ_STACK = "pulumi:pulumi:readStackResourceOutputs"
#: Key of mappings that represent secrets, assets or references in Pulumi's wire format.
SIGNATURE = "4dabf18193072939515e22adb298388d"
#: Type of the value that a provider receives for an unknown input.
Unknown = pulumi.output.Unknown

#: A list if `fusioninfer-pulumi` runs the program: components append their names and plans.
collected_services: ContextVar[list[tuple[str, ServicePlan]] | None] = ContextVar(
    "collected_services", default=None
)


def get_running_stack() -> Any:
    """Return an object whose lifetime is that of the running program; None outside of programs."""
    # The component provider has no root resource until `set_root_resource` is called.
    return pulumi.runtime.get_root_resource() or settings.get_monitor()


def set_root_resource() -> None:
    """Set the stack as the provider's root resource, because components read the stack's state."""
    stack, project = pulumi.get_stack(), pulumi.get_project()
    urn = f"urn:pulumi:{stack}::{project}::pulumi:pulumi:Stack::{project}-{stack}"
    settings.set_root_resource(pulumi.resource.DependencyResource(urn))


def has_pulumi_engine() -> bool:
    """Return whether Pulumi runs the program, not `fusioninfer-pulumi` or a test with mocks."""
    return collected_services.get() is None and not isinstance(settings.get_monitor(), MockMonitor)


def is_program_running() -> bool:
    """Return whether Pulumi or `fusioninfer-pulumi` runs a program, not a test with mocks."""
    return collected_services.get() is not None or has_pulumi_engine()


def get_kubernetes_provider(resource: pulumi.Resource) -> pulumi.ProviderResource | None:
    """Return the explicit provider of a resource's Kubernetes objects, or None for the default."""
    return resource.get_provider("kubernetes:core/v1:Service")


def is_render_only(component: pulumi.Resource) -> bool | pulumi.Output[bool]:
    """Return whether the Kubernetes provider only renders YAML files, and applies nothing.

    True if `fusioninfer-pulumi` runs the program, or if the provider's option
    `renderYamlToDirectory` is set. For an explicit provider the result is an Output (always known),
    because only Pulumi knows the provider's arguments.
    """
    if collected_services.get() is not None:
        return True
    provider = get_kubernetes_provider(component)
    if provider is None:
        return bool(pulumi.Config("kubernetes").get(_RENDER_OPTION))
    return pulumi.Output.from_input(_has_render_option(provider))


def make_unknown_output() -> pulumi.Output[Any]:
    """Return an Output whose value a preview does not know."""
    value, known = asyncio.Future[Any](), asyncio.Future[bool]()
    value.set_result(pulumi.output.UNKNOWN)
    known.set_result(False)
    return pulumi.Output(set(), value, known)


async def _has_render_option(provider: pulumi.ProviderResource) -> bool:
    return bool((await read_provider_state(provider)).get(_RENDER_OPTION))


async def read_provider_state(provider: pulumi.ProviderResource) -> Mapping[str, Any]:
    """Ask Pulumi for the arguments of a provider, which are not attributes in Python."""
    query = {"urn": await provider.urn.future()}
    resource = await pulumi.runtime.invoke_async("pulumi:pulumi:getResource", query)
    return (resource or {}).get("state") or {}


class HeldResource(pulumi.CustomResource):
    """A resource whose dependents can wait for more than its registration.

    The SDK awaits the `urn` of a resource's dependencies before it registers the resource.
    """

    _held_until: pulumi.Output[Any] | None = None

    @property
    def urn(self) -> pulumi.Output[str]:
        """The resource's URN, known when its dependents may be registered."""
        urn = super().urn
        condition = self._held_until
        return urn if condition is None else condition.apply(lambda _: urn)

    def hold(self, condition: pulumi.Output[Any]) -> None:
        """Make dependents of this resource also wait until `condition` is known."""
        self._held_until = condition


def read_stack_resources() -> Mapping[str, Any] | None:
    """Return the resources in the stack's state by URN, as protobuf values; None on any error.

    With the SDK's `invoke`, an error would fail the program, and the whole state would be converted
    to Python values.
    """
    stack = f"{pulumi.get_organization()}/{pulumi.get_project()}/{pulumi.get_stack()}"
    request = resource_pb2.ResourceInvokeRequest(tok=_READ_STACK)
    request.args["stackName"] = stack
    try:
        monitor: Any = settings.get_monitor()
        response = getattr(monitor.Invoke(request), "return").fields
    except Exception as exc:  # noqa: BLE001  # any error: the state is unknown
        pulumi.log.debug(f"the stack's state was not read: {exc}")
        return None
    return response["outputs"].struct_value.fields if "outputs" in response else None


def get_python_value(value: Any, *path: str) -> Any:
    """Return a nested value of the state as a Python value, even if secret; None if missing."""
    part = get_protobuf_value(value, *path)
    if part is None:
        return None
    kind = part.WhichOneof("kind")
    if kind not in ("struct_value", "list_value"):
        return getattr(part, kind)
    return rpc.unwrap_rpc_secret(rpc.deserialize_property(getattr(part, kind)))


def get_protobuf_value(value: Any, *path: str) -> Any:
    """Return a nested value of the state as a protobuf value; None if missing."""
    for key in path:
        fields = _unwrap_secret(value).struct_value.fields
        if key not in fields:
            return None
        value = fields[key]
    return _unwrap_secret(value)


def _unwrap_secret(value: Any) -> Any:
    fields = value.struct_value.fields
    return fields["value"] if SIGNATURE in fields and "value" in fields else value
