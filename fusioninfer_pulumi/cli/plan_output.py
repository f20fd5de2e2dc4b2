"""`plan --output json`, and texts that all outputs of `plan` share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fusioninfer_pulumi.cli.finding_formats import finding_to_json
from fusioninfer_pulumi.kube import object_names
from fusioninfer_pulumi.kube.pulumi_outputs import is_known_equal
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
        objects: The service's objects.
        update: The update from an older source, None unless `--update` is set.
        placed: The service's node pools as JSON, None unless `--inventory` is set.
        placed_tables: The same as tables of rich.
    """

    plan: ServicePlan
    capacity: Sequence[Capacity] = ()
    objects: Sequence[Mapping[str, Any]] = ()
    update: ServiceTimeline | None = None
    placed: Mapping[str, Any] | None = None
    placed_tables: Sequence[Any] = ()


def plan_json(view: PlanView) -> dict[str, Any]:
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


def describe_request_path(plan: ServicePlan) -> list[str]:
    """Describe each hop of a request to the pods; the InferencePool or Service is last."""
    router, namespace = plan.routing, plan.namespace
    if router is None:
        return [f"Service {object_names.serving_service(plan.service)}"]
    hops = ["no route"]
    if router.route is not None:
        hosts = [str(plain(host)) for host in router.route.hostnames or ()]
        gateways = [
            f"{_format_prefix(parent.namespace, namespace)}{parent.name}"
            f"{'' if parent.section is None else f' ({parent.section})'}"
            for parent in router.parents
        ]
        hops = [
            ", ".join(hosts) or "any host",
            f"Gateway {', '.join(gateways)}" if gateways else "no Gateway",
            f"HTTPRoute {router.route.name}",
        ]
    elif router.routed_by is not None:
        hops = [f"the route of service {router.routed_by}"]
    elif router.external_routes:
        names = (
            f"{_format_prefix(ref.namespace, namespace)}{ref.name}"
            for ref in router.external_routes
        )
        hops = [f"HTTPRoute {', '.join(names)} (managed elsewhere)"]
    return [*hops, f"{router.backend['kind']} {router.backend['name']}"]


def _format_prefix(namespace: Any, service_namespace: Any) -> str:
    """Return `namespace/`, or nothing for the service's namespace."""
    if namespace is None or is_known_equal(namespace, service_namespace):
        return ""
    return f"{plain(namespace)}/"


def describe_gang(plan: ServicePlan) -> str:
    """Describe which pods are scheduled together."""
    gang = plan.gang
    if plan.shape.local_queue is not None:
        queue = plain(plan.shape.local_queue)
        return f"none: LocalQueue {queue} (Kueue) admits each replica as a whole"
    if gang is None:
        return "none: pods are scheduled one by one"
    size = f"{gang.min_member} of {plan.total_pods} pods, {gang.min_accelerators} GPUs"
    pod_groups = f"PodGroup {gang.pod_group}"
    if plan.shape.groups is not None:
        pods = plan.total_pods // plan.shape.groups
        size = f"{gang.min_member} of {pods} pods, {gang.min_accelerators} GPUs in each group"
        last = plan.gangs[-1].pod_group
        pod_groups += f" … {last}" if last != gang.pod_group else ""
    start = "all-or-nothing"
    if gang.partial and gang.sub_groups:
        minimum = " + ".join(f"{group.minimum} {group.role}" for group in gang.sub_groups)
        lowest = any(group.lowest for group in gang.sub_groups)
        start = f"starts with {minimum}{' (lowest ordinals)' if lowest else ''}"
    needs = ", Volcano 1.14.1 or later" if gang.sub_groups else ""
    return f"{pod_groups}, {start}: {size} (scheduler {plan.shape.scheduler}{needs})"
