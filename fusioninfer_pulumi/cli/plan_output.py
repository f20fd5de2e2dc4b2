"""`plan --output json` and `--output mermaid`, and texts that all outputs of `plan` share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

from fusioninfer_pulumi.api.role import ComponentType
from fusioninfer_pulumi.cli.finding_formats import finding_to_json
from fusioninfer_pulumi.cli.printing import format_count
from fusioninfer_pulumi.findings import one_line
from fusioninfer_pulumi.kube import object_names
from fusioninfer_pulumi.kube.pulumi_outputs import UNKNOWN, is_known_equal, is_output
from fusioninfer_pulumi.plan.service_json import build_service_json, replace_output
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.topology.capacity_model import Capacity
from fusioninfer_pulumi.topology.role_plan import RolePlan

if TYPE_CHECKING:
    from fusioninfer_pulumi.cli.diff.timelines import ServiceTimeline

# The replicas of a role with more replicas than this share one box.
_MAX_REPLICA_BOXES = 4


@dataclass(frozen=True)
class PlanView:
    """The output of `plan` for one service.

    Attributes:
        plan: The service, with the findings to print.
        capacity: Rows of the capacity table; if empty, there is no table.
        update: The update from an older source, or None unless `--update` is set.
        placed: The service's node pools as JSON, or None unless `--inventory` is set.
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
        **build_service_json(plan),
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
        "namespace": replace_output(metadata.get("namespace")),
        "name": replace_output(metadata.get("name")),
    }


def describe_request_path(plan: ServicePlan) -> list[str]:
    """Describe each hop of a request to the pods; the InferencePool or Service is last."""
    routing, namespace = plan.routing, plan.namespace
    if routing is None:
        return [f"Service {object_names.serving_service(plan.service)}"]
    route_args = routing.router.httproute
    if routing.route is not None:
        hosts = [str(replace_output(host)) for host in routing.route.hostnames or ()]
        gateways = []
        for parent in routing.parents:
            section = "" if parent.section is None else f" ({parent.section})"
            prefix = _format_prefix(parent.namespace, namespace)
            gateways.append(f"{prefix}{parent.name}{section}")
        route = f"HTTPRoute {routing.route.name}"
        hops = (
            [", ".join(hosts) or "any host", f"Gateway {', '.join(gateways)}", route]
            if gateways
            else [f"{route} (attached to no Gateway)"]
        )
    elif route_args is not None and route_args.routed_by is not None:
        hops = [f"the route of service {route_args.routed_by}"]
    elif route_args is not None and route_args.refs is not None:
        names = (f"{_format_prefix(ref.namespace, namespace)}{ref.name}" for ref in route_args.refs)
        hops = [f"HTTPRoute {', '.join(names)} (managed elsewhere)"]
    else:
        hops = ["no route"]
    return [*hops, f"{routing.backend['kind']} {routing.backend['name']}"]


def _format_prefix(namespace: Any, service_namespace: Any) -> str:
    """Return `namespace/`, or nothing for the service's namespace."""
    if namespace is None or is_known_equal(namespace, service_namespace):
        return ""
    return f"{replace_output(namespace)}/"


def describe_gang(plan: ServicePlan) -> str:
    """Describe which pods are scheduled together."""
    gang = plan.gang
    if plan.shape.local_queue is not None:
        queue = replace_output(plan.shape.local_queue)
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
    if gang.is_partial and gang.sub_groups:
        minimum = " + ".join(f"{group.minimum} {group.role}" for group in gang.sub_groups)
        lowest = any(group.needs_lowest for group in gang.sub_groups)
        start = f"starts with {minimum}{' (lowest ordinals)' if lowest else ''}"
    needs = ", Volcano 1.14.1 or later" if gang.sub_groups else ""
    return f"{pod_groups}, {start}: {size} (scheduler {plan.shape.scheduler}{needs})"


def draw_mermaid(views: Sequence[PlanView]) -> str:
    """Return one Mermaid flowchart of all services, without the Markdown fence."""
    lines = ["flowchart LR"]
    for number, view in enumerate(views):
        plan = view.plan
        title = plan.service if is_output(plan.namespace) else f"{plan.service} in {plan.namespace}"
        # Mermaid merges boxes of the same name across subgraphs.
        prefix = f"s{number}_" if len(views) > 1 else ""
        lines += [f"  {line}" for line in _draw_service(plan, title, prefix)]
    return "\n".join(lines) + "\n"


def _draw_service(plan: ServicePlan, title: str, prefix: str) -> Iterator[str]:
    *hops, last = describe_request_path(plan)
    backend = f"{prefix}entry"
    groups = "" if plan.shape.groups is None else f", {format_count(plan.shape.groups, 'group')}"
    size = f"{format_count(plan.total_pods, 'pod')}, {format_count(plan.total_accelerators, 'GPU')}"
    yield from _open_subgraph(f"{prefix}service", f"{title}{groups}: {size}", "LR")
    for number, label in enumerate(hops):
        yield _draw_box(f"{prefix}hop{number}", label)
    yield _draw_box(backend, last)
    if plan.routing is not None and plan.picker is not None:
        strategy = plan.routing.router.strategy
        lines = ["endpoint picker"] if strategy is None else ["endpoint picker", strategy.value]
        label = _format_label(*lines)
        yield f'{backend} -. chooses the pod .-> {prefix}picker("{label}")'
    has_gang = plan.gang is not None or plan.shape.local_queue is not None
    if has_gang:
        yield from _open_subgraph(f"{prefix}gang", f"Gang: {describe_gang(plan)}", "LR")
    for number, role in enumerate(plan.roles):
        yield from _draw_role(f"{prefix}role{number}", plan.service, role)
    if has_gang:
        yield "end"
    yield from _draw_arrows(plan, backend, prefix)
    yield "end"
    # Outside the subgraph, because a box belongs to the first subgraph that names it.
    path = " --> ".join([*(f"{prefix}hop{number}" for number in range(len(hops))), backend])
    yield f'client(["clients"]) --> {path}'


def _draw_arrows(plan: ServicePlan, backend: str, prefix: str) -> Iterator[str]:
    """Draw requests from `backend` (InferencePool or Service) to roles, and KV cache transfers."""
    picker = plan.picker
    if picker is None:
        types = plan.shape.entry_types
        entry_roles = {role.name for role in plan.roles if role.component_type in types}
    else:
        entry_roles = set(picker.pool.roles)
    boxes = {
        f"{prefix}role{number}": role for number, role in enumerate(plan.roles) if role.replicas
    }
    prefillers, decoders = (
        [box for box, role in boxes.items() if role.component_type is kind]
        for kind in (ComponentType.PREFILLER, ComponentType.DECODER)
    )
    is_disaggregated = bool(picker is not None and prefillers and decoders)
    for box, role in boxes.items():
        if role.name in entry_roles and not (is_disaggregated and box in prefillers):
            yield f"{backend} --> {box}"
    if is_disaggregated:
        for decoder, prefiller in product(decoders, prefillers):
            # The decoder's sidecar sends the prompt to a prefill pod, then fetches its KV cache.
            yield f"{decoder} -. prompt .-> {prefiller}"
            yield f"{prefiller} == KV cache ==> {decoder}"


def _draw_role(box: str, service: str, role: RolePlan) -> Iterator[str]:
    count = format_count(len(role.replicas), "replica") if role.replicas else "scaled to zero"
    shared_lws = "".join(f" in {lws.name}" for lws in role.lws if lws.is_per_role)
    title = f"{role.name} ({role.component_type.value}): {count}{shared_lws}"
    yield from _open_subgraph(box, title, "TB")
    nodes = f"{format_count(role.nodes, 'node')} x " if role.nodes > 1 else ""
    size = f"{nodes}{format_count(role.accelerators_per_pod, 'GPU')}"
    replicas = [replica.name.removeprefix(f"{service}-") for replica in role.replicas]
    if len(replicas) > _MAX_REPLICA_BOXES:
        yield _draw_box(f"{box}_all", f"{replicas[0]} … {replicas[-1]}", f"each {size}")
    else:
        for index, replica in enumerate(replicas):
            yield _draw_box(f"{box}_{index}", replica, size)
    yield "end"


def _open_subgraph(box: str, title: str, direction: str) -> tuple[str, str]:
    return f'subgraph {box}["{_format_label(title)}"]', f"direction {direction}"


def _draw_box(box: str, *lines: str) -> str:
    return f'{box}["{_format_label(*lines)}"]'


def _format_label(*lines: str) -> str:
    # A browser would drop `<unknown>` as an HTML tag.
    text = "\n".join(one_line(line).replace(UNKNOWN, UNKNOWN.strip("<>")) for line in lines)
    escaped = text.replace("#", "#35;").replace('"', "#quot;")
    return escaped.replace("<", "#lt;").replace(">", "#gt;").replace("\n", "<br/>")
