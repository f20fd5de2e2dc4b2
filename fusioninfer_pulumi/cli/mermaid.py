"""`plan --output mermaid`: a flowchart of the requests through a service."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fusioninfer_pulumi.api.role import ComponentType
from fusioninfer_pulumi.cli.plan_output import PlanView, describe_gang, describe_request_path
from fusioninfer_pulumi.findings import one_line
from fusioninfer_pulumi.kube.pulumi_outputs import UNKNOWN, is_output
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.topology.role_plan import RolePlan

# If a role has more replicas, they share one box.
_MAX_REPLICA_BOXES = 4


def mermaid(views: Sequence[PlanView]) -> str:
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
    entry = f"{prefix}entry"
    groups = "" if plan.shape.groups is None else f", {_count(plan.shape.groups, 'group')}"
    size = f"{_count(plan.total_pods, 'pod')}, {_count(plan.total_accelerators, 'GPU')}"
    yield from _open_subgraph(f"{prefix}service", f"{title}{groups}: {size}", "LR")
    for number, label in enumerate(hops):
        yield _draw_box(f"{prefix}hop{number}", label)
    yield _draw_box(entry, last)
    if plan.routing is not None and plan.picker is not None:
        strategy = plan.routing.args.strategy
        label = _format_label("endpoint picker", *(() if strategy is None else (strategy.value,)))
        yield f'{entry} -. chooses the pod .-> {prefix}picker("{label}")'
    has_gang = plan.gang is not None or plan.shape.local_queue is not None
    if has_gang:
        yield from _open_subgraph(f"{prefix}gang", f"Gang: {describe_gang(plan)}", "LR")
    for number, role in enumerate(plan.roles):
        yield from _draw_role(f"{prefix}role{number}", plan.service, role)
    if has_gang:
        yield "end"
    yield from _draw_arrows(plan, entry, prefix)
    yield "end"
    # Outside the subgraph, because a box belongs to the first subgraph that names it.
    path = " --> ".join([*(f"{prefix}hop{number}" for number in range(len(hops))), entry])
    yield f'client(["clients"]) --> {path}'


def _draw_arrows(plan: ServicePlan, entry: str, prefix: str) -> Iterator[str]:
    """Draw requests from the pool or Service to roles, and KV cache transfers between roles."""
    picker = plan.picker
    entries = {
        role.name
        for role in plan.roles
        if picker is None and role.component_type in plan.shape.entry_types
    }
    entries |= set(picker.pool.roles) if picker is not None else set()
    boxes = {
        f"{prefix}role{number}": role for number, role in enumerate(plan.roles) if role.replicas
    }
    prefillers, decoders = (
        [box for box, role in boxes.items() if role.component_type is kind]
        for kind in (ComponentType.PREFILLER, ComponentType.DECODER)
    )
    is_prefill_decode = bool(picker is not None and prefillers and decoders)
    for box, role in boxes.items():
        if role.name in entries and not (is_prefill_decode and box in prefillers):
            yield f"{entry} --> {box}"
    for decoder in decoders if is_prefill_decode else ():
        for prefiller in prefillers:
            # The decoder's sidecar sends the prompt to a prefill pod, then fetches its KV cache.
            yield f"{decoder} -. prompt .-> {prefiller}"
            yield f"{prefiller} == KV cache ==> {decoder}"


def _draw_role(box: str, service: str, role: RolePlan) -> Iterator[str]:
    number = _count(len(role.replicas), "replica") if role.replicas else "scaled to zero"
    lws = "".join(f" in {lws.name}" for lws in role.lws if lws.ordinal is None)
    title = f"{role.name} ({role.component_type.value}): {number}{lws}"
    yield from _open_subgraph(box, title, "TB")
    nodes = f"{_count(role.nodes, 'node')} x " if role.nodes > 1 else ""
    size = f"{nodes}{_count(role.accelerators_per_pod, 'GPU')}"
    replicas = [replica.name.removeprefix(f"{service}-") for replica in role.replicas]
    if len(replicas) > _MAX_REPLICA_BOXES:
        yield _draw_box(f"{box}_all", f"{replicas[0]} … {replicas[-1]}", f"each {size}")
    else:
        for index, replica in enumerate(replicas):
            yield _draw_box(f"{box}_{index}", replica, size)
    yield "end"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _open_subgraph(box: str, title: str, direction: str) -> tuple[str, str]:
    return f'subgraph {box}["{_format_label(title)}"]', f"direction {direction}"


def _draw_box(box: str, *lines: str) -> str:
    return f'{box}["{_format_label(*lines)}"]'


def _format_label(*lines: str) -> str:
    # A browser would drop `<unknown>`, because it looks like a tag.
    text = "\n".join(one_line(line).replace(UNKNOWN, UNKNOWN.strip("<>")) for line in lines)
    escaped = text.replace("#", "#35;").replace('"', "#quot;")
    return escaped.replace("<", "#lt;").replace(">", "#gt;").replace("\n", "<br/>")
