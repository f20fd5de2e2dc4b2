"""The output of `plan` for one service, and its form in `plan --output json`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fusioninfer_pulumi.cli.finding_formats import finding_to_json
from fusioninfer_pulumi.plan.service_json import plain, service_json
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.topology.capacity_model import Capacity

if TYPE_CHECKING:
    from fusioninfer_pulumi.cli.diff.timelines import ServiceTimeline


@dataclass(frozen=True)
class PlanView:
    """The output of `plan` for one service.

    Attributes:
        plan: The service, with the findings to print.
        capacity: Rows of the capacity table; if empty, there is no table.
        update: The update from an older source, None unless `--update` is set.
        placed: The service's node pools as JSON, None unless `--inventory` is set.
        placed_tables: The service's node pools as tables of rich.
    """

    plan: ServicePlan
    capacity: Sequence[Capacity] = ()
    objects: Sequence[Mapping[str, Any]] = ()
    update: ServiceTimeline | None = None
    placed: Mapping[str, Any] | None = None
    placed_tables: Sequence[Any] = ()


def build_plan_json(view: PlanView) -> dict[str, Any]:
    """Return a service's plan as JSON; users' programs rely on the keys."""
    plan = view.plan
    return {
        **service_json(plan),
        "capacity": [
            {
                "gpus": row.gpus,
                "running": dict(row.running),
                "status": row.status,
                "exact": row.exact,
                **({} if row.groups is None else {"groups": row.groups}),
            }
            for row in view.capacity
        ],
        "objects": [_identify_object(item) for item in view.objects],
        **({} if view.placed is None else {"placement": view.placed}),
        "findings": [finding_to_json(finding) for finding in plan.findings],
        **({} if view.update is None else {"update": view.update.to_json()}),
    }


def _identify_object(item: Mapping[str, Any]) -> dict[str, Any]:
    metadata = item["metadata"]
    return {
        "apiVersion": item["apiVersion"],
        "kind": item["kind"],
        "namespace": plain(metadata.get("namespace")),
        "name": plain(metadata.get("name")),
    }
