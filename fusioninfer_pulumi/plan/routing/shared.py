"""Routes that attach to the Gateway of another service of the same program or input."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fusioninfer_pulumi.findings import Finding
from fusioninfer_pulumi.outputs import is_output
from fusioninfer_pulumi.plan.records import ServicePlan
from fusioninfer_pulumi.plan.routing.attachment import attachment_findings


class Gateways:
    """The Gateways of the services seen so far, by namespace and name."""

    def __init__(self) -> None:
        self._listeners: dict[tuple[object, str], tuple[Mapping[str, Any], ...]] = {}

    def add(self, plan: ServicePlan) -> None:
        """Remembers the Gateway of a service, if it has one."""
        if plan.router is not None and plan.router.gateway is not None:
            key = _key(plan.namespace, plan.router.gateway.name)
            self._listeners[key] = tuple(plan.router.gateway.spec["listeners"])

    def findings(self, plan: ServicePlan) -> list[Finding]:
        """Checks a service's route against those Gateways.

        Args:
            plan: The service.

        Returns:
            One error for each of them that does not take the route.
        """
        router = plan.router
        if router is None or router.route is None:
            return []
        parents = [
            replace(parent, listeners=known)
            for parent in router.parents
            if parent.listeners is None
            and (known := self._listeners.get(_key(parent.namespace, parent.name))) is not None
        ]
        return list(attachment_findings(plan.namespace, router.route.hostnames or (), parents))


def _key(namespace: Any, name: str) -> tuple[object, str]:
    return (id(namespace) if is_output(namespace) else namespace), name
