"""How a program runs: by Pulumi, under mocks, by the command line, or to write files."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi.runtime import settings
from pulumi.runtime.mocks import MockMonitor

from fusioninfer_pulumi.api.service import InferenceServiceArgs
from fusioninfer_pulumi.plan.service_plan import ServicePlan

_RENDER_OPTION = "renderYamlToDirectory"


@dataclass(frozen=True)
class CollectedService:
    """A component that the command line's run of a program has made."""

    name: str
    args: InferenceServiceArgs
    plan: ServicePlan


#: Components append themselves while it holds a list.
collect_services: ContextVar[list[CollectedService] | None] = ContextVar(
    "collect_services", default=None
)


def has_engine() -> bool:
    """Whether Pulumi runs the program: not the command line, and not a test with mocks."""
    return collect_services.get() is None and not isinstance(settings.get_monitor(), MockMonitor)


def runs_program() -> bool:
    """Whether a whole program runs, by Pulumi or by the command line: no test with mocks."""
    return collect_services.get() is not None or has_engine()


def renders_yaml(component: pulumi.Resource) -> bool | pulumi.Output[bool]:
    """Whether a component's objects are only written to files (`renderYamlToDirectory`).

    A plain value with the default provider and on the command line; an Output, which is always
    known, with an explicit provider, whose arguments are not known before.
    """
    if collect_services.get() is not None:
        return True
    provider = component.get_provider("kubernetes:core/v1:Service")
    if provider is None:
        return bool(pulumi.Config("kubernetes").get(_RENDER_OPTION))
    return pulumi.Output.from_input(_renders(provider))


async def _renders(provider: pulumi.ProviderResource) -> bool:
    return bool((await provider_state(provider)).get(_RENDER_OPTION))


async def provider_state(provider: pulumi.ProviderResource) -> Mapping[str, Any]:
    """The arguments of a provider, which in Python are none of its outputs: Pulumi is asked."""
    query = {"urn": await provider.urn.future()}
    answer = await pulumi.runtime.invoke_async("pulumi:pulumi:getResource", query)
    return (answer or {}).get("state") or {}
