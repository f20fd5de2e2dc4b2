"""Lets whoever runs a program in process see the plans of its services."""

from __future__ import annotations

from contextvars import ContextVar

from fusioninfer_pulumi.service_plan import ServicePlan

#: Where components put their plans while a list is set; nothing is kept otherwise.
collect_plans: ContextVar[list[ServicePlan] | None] = ContextVar("collect_plans", default=None)
