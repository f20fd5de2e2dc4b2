"""The only module that depends on internals of Pulumi's SDK, and how a program runs.

Programs run by Pulumi, under mocks, by the command line, or to write files.
`tests/component/test_sdk.py` is the contract: what fails there has changed in the SDK.
"""

from __future__ import annotations

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
#: Key that marks secrets, assets and references among mappings.
SIGNATURE = "4dabf18193072939515e22adb298388d"


#: Components append their names and plans to it if it is a list: the command line runs the program.
collect_services: ContextVar[list[tuple[str, ServicePlan]] | None] = ContextVar(
    "collect_services", default=None
)


def running_stack() -> Any:
    """Return an object that lives as long as the run of a program; None outside of programs."""
    # Components that the plugin creates for programs in other languages have no root stack.
    return pulumi.runtime.get_root_resource() or settings.get_monitor()


def has_engine() -> bool:
    """Return whether Pulumi runs the program: not the command line, and not a test with mocks."""
    return collect_services.get() is None and not isinstance(settings.get_monitor(), MockMonitor)


def runs_program() -> bool:
    """Return whether a whole program runs, by Pulumi or by the command line: no test with mocks."""
    return collect_services.get() is not None or has_engine()


def provider_of(resource: pulumi.Resource) -> pulumi.ProviderResource | None:
    """Return the explicit provider of a resource's Kubernetes objects, None for the default one."""
    return resource.get_provider("kubernetes:core/v1:Service")


def renders_yaml(component: pulumi.Resource) -> bool | pulumi.Output[bool]:
    """Return whether a component's objects are only written to files (`renderYamlToDirectory`).

    A plain value with the default provider and on the command line; an Output, which is always
    known, with an explicit provider, whose arguments are not known before.
    """
    if collect_services.get() is not None:
        return True
    provider = provider_of(component)
    if provider is None:
        return bool(pulumi.Config("kubernetes").get(_RENDER_OPTION))
    return pulumi.Output.from_input(_renders(provider))


async def _renders(provider: pulumi.ProviderResource) -> bool:
    return bool((await provider_state(provider)).get(_RENDER_OPTION))


async def provider_state(provider: pulumi.ProviderResource) -> Mapping[str, Any]:
    """Return the arguments of a provider; in Python they are not outputs, so Pulumi is queried."""
    query = {"urn": await provider.urn.future()}
    answer = await pulumi.runtime.invoke_async("pulumi:pulumi:getResource", query)
    return (answer or {}).get("state") or {}


class HeldResource(pulumi.CustomResource):
    """A resource that lets others wait for more than its registration.

    The SDK awaits the `urn` of what a resource depends on before it registers the resource.
    """

    _held_until: pulumi.Output[Any] | None = None

    @property
    def urn(self) -> pulumi.Output[str]:
        """Pulumi's name of the resource; what depends on it waits until it is known."""
        urn = super().urn
        until = self._held_until
        return urn if until is None else until.apply(lambda _: urn)

    def hold(self, until: pulumi.Output[Any]) -> None:
        """Let what depends on this resource wait for `until`, too."""
        self._held_until = until


def stack_resources() -> Mapping[str, Any] | None:
    """Return the resources of the stack's state by URN, as Pulumi has them.

    Not read with the SDK's `invoke`, which would let the whole program fail where there is no
    answer, and read the whole state into Python.
    """
    stack = f"{pulumi.get_organization()}/{pulumi.get_project()}/{pulumi.get_stack()}"
    request = resource_pb2.ResourceInvokeRequest(tok=_READ_STACK)
    request.args["stackName"] = stack
    try:
        monitor: Any = settings.get_monitor()
        answer = getattr(monitor.Invoke(request), "return").fields
    except Exception as problem:  # noqa: BLE001  # any error: the state is unknown
        pulumi.log.debug(f"the stack's state was not read: {problem}")
        return None
    resources: Mapping[str, Any] | None
    resources = answer["outputs"].struct_value.fields if "outputs" in answer else None
    return resources


def read_value(value: Any, *path: str) -> Any:
    """Return a part of a value of the state, secret or not; None where there is none."""
    part = value_at(value, *path)
    if part is None:
        return None
    kind = part.WhichOneof("kind")
    value = getattr(part, kind)
    if kind not in ("struct_value", "list_value"):
        return value
    return rpc.unwrap_rpc_secret(rpc.deserialize_property(value))


def value_at(value: Any, *path: str) -> Any:
    """Return a part of a value of the state in Pulumi's own form; None where there is none."""
    for key in path:
        fields = _plain(value).struct_value.fields
        if key not in fields:
            return None
        value = fields[key]
    return _plain(value)


def _plain(value: Any) -> Any:
    fields = value.struct_value.fields
    return fields["value"] if SIGNATURE in fields and "value" in fields else value
