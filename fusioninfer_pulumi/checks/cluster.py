"""Checks of the services of one cluster against each other."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from fusioninfer_pulumi.checks.between_services import Gateways, Routes, Shares
from fusioninfer_pulumi.checks.name_collisions import Owners
from fusioninfer_pulumi.findings import Finding
from fusioninfer_pulumi.plan.service_plan import ServicePlan


class Cluster:
    """What the services of one cluster own, as far as they are known; grows by one at a time."""

    def __init__(self, plans: Iterable[ServicePlan] = ()) -> None:
        """Knows the Gateways of these services, which are not added yet."""
        self._owners, self._gateways = Owners(), Gateways()
        self._routes, self._shares = Routes(), Shares()
        for plan in plans:
            self._gateways.add(plan)

    def shared(self, plan: ServicePlan) -> list[Finding]:
        """Adds a service; returns findings about names, listeners and routes that it shares."""
        return [
            *self._owners.add(plan),
            *self._gateways.findings(plan),
            *self._routes.add(plan),
        ]

    def add(self, plan: ServicePlan) -> list[Finding]:
        """The same of a service that others may follow, and of requests that they route to it."""
        self._gateways.add(plan)
        return [*self.shared(plan), *self._shares.add(plan)]

    def removed_targets(self, plan: ServicePlan, existing: Collection[str]) -> list[Finding]:
        """Returns warnings about shares of existing services that are none of these services."""
        return self._shares.removed_targets(plan, existing)
