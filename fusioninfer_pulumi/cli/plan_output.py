"""`plan` for programs and for markdown: JSON with stable keys, and a Mermaid flowchart."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fusioninfer_pulumi.api.rollout import Layout
from fusioninfer_pulumi.findings import Finding, one_line
from fusioninfer_pulumi.kube import names
from fusioninfer_pulumi.kube.outputs import UNKNOWN, is_output
from fusioninfer_pulumi.service_plan import ServicePlan
from fusioninfer_pulumi.topology.capacity import Capacity
from fusioninfer_pulumi.topology.gang import GangPlan, pod_group
from fusioninfer_pulumi.topology.role import RolePlan
from fusioninfer_pulumi.topology.service import entry_roles

if TYPE_CHECKING:
    from fusioninfer_pulumi.placement.result import Nearest, Placement, ServicePlacement


def plan_json(
    plan: ServicePlan,
    capacity: Sequence[Capacity],
    objects: Sequence[Mapping[str, Any]],
    placed: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """One service's plan in the keys of the command line's contract.

    Args:
        plan: The service.
        capacity: Rows of its capacity table.
        objects: Its objects.
        placed: Where it is placed, as `placement_json` writes it; None where nothing was.
    """
    return {
        "service": plan.service,
        "namespace": plain(plan.namespace),
        # Only where it is not the default, so that what programs read today stays as it is.
        **({"layout": plan.layout.value} if plan.layout is not Layout.PER_REPLICA else {}),
        **({} if plan.groups is None else {"groups": plan.groups}),
        "roles": [
            {
                "name": role.name,
                "componentType": role.component_type.value,
                "replicas": len(role.replicas),
                "nodesPerReplica": role.nodes,
                "totalPods": role.total_pods,
                "gpusPerPod": role.accelerators_per_pod,
                "totalGpus": role.total_accelerators,
                **_memory(plan, role.name),
            }
            for role in plan.roles
        ],
        "totalPods": plan.total_pods,
        "totalGpus": plan.total_accelerators,
        **_gangs(plan),
        "capacity": [
            {
                "gpus": row.gpus,
                "running": dict(row.running),
                "status": row.status,
                "exact": row.exact,
                **({} if row.groups is None else {"groups": row.groups}),
            }
            for row in capacity
        ],
        "objects": [_reference(item) for item in objects],
        **({"placement": placed} if placed is not None else {}),
        "findings": [_finding(finding) for finding in plan.findings],
    }


def _memory(plan: ServicePlan, role: str) -> dict[str, Any]:
    if role not in plan.memory:
        return {}
    from fusioninfer_pulumi.fit.tables import memory_json  # of few services

    return {"memory": memory_json(plan.memory[role])}


def _reference(item: Mapping[str, Any]) -> dict[str, Any]:
    """Says which object an object is."""
    metadata = item["metadata"]
    return {
        "apiVersion": item["apiVersion"],
        "kind": item["kind"],
        "namespace": plain(metadata.get("namespace")),
        "name": plain(metadata.get("name")),
    }


def plain(value: Any) -> Any:
    """A value that JSON takes; an Output's is not known here."""
    return UNKNOWN if is_output(value) else value


def _gangs(plan: ServicePlan) -> dict[str, Any]:
    """The one gang as `gang`, those of serving groups as a list; `gang` is then null."""
    if plan.groups is None:
        return {"gang": None if plan.gang is None else _gang(plan, plan.gang)}
    listed = [{"group": gang.group, **_gang(plan, gang)} for gang in plan.gangs]
    return {"gang": None, "gangs": listed}


def _gang(plan: ServicePlan, gang: GangPlan) -> dict[str, Any]:
    spec = pod_group(plan, gang)["spec"]
    return {
        "podGroup": gang.pod_group,
        "minMember": spec["minMember"],
        "minTaskMember": spec.get("minTaskMember"),
        "subGroupPolicy": spec.get("subGroupPolicy"),
        "minimumGpus": gang.min_accelerators,
    }


def _finding(finding: Finding) -> dict[str, str]:
    return {
        "rule": finding.rule,
        "severity": finding.severity.value,
        "path": finding.path,
        "message": finding.text,
    }


def placement_json(record: ServicePlacement, placement: Placement) -> dict[str, Any]:
    """Where one service is placed, why, and what is left in the pools: the key `placement`."""
    return {
        "status": record.status.value,
        "roles": [
            {
                "name": role.name,
                "pool": role.pool,
                "replicas": role.replicas,
                "wanted": role.wanted,
                "accelerators": role.accelerators,
                "deviceClasses": list(role.device_classes),
                "origin": role.origin.value,
                "previous": role.previous,
            }
            for role in record.roles
        ],
        "terms": [{"name": term.name, "value": term.value} for term in record.terms],
        "rejected": [
            {"pools": dict(each.pools), "reason": each.reason} for each in record.rejected
        ],
        "impossible": {
            role: {pool: list(reasons) for pool, reasons in pools.items()}
            for role, pools in record.impossible.items()
        },
        "nearest": None if record.nearest is None else _nearest(record.nearest),
        "pools": [
            {
                "name": pool.pool,
                "nodes": pool.nodes,
                "accelerators": pool.accelerators,
                "inUse": pool.in_use,
                "placed": pool.placed,
                "left": pool.left,
                "wholeNodes": pool.whole_nodes,
                "certain": pool.certain,
            }
            for pool in placement.pools
        ],
        "proven": placement.proven,
    }


def _nearest(nearest: Nearest) -> dict[str, Any]:
    return {
        "pools": dict(nearest.pools),
        "missing": [
            {"pool": each.pool, "nodes": each.nodes, "accelerators": each.accelerators}
            for each in nearest.missing
        ],
    }


# More replicas than this are drawn as one box: the chart is for people.
_DRAWN = 4


def mermaid(*plans: ServicePlan) -> str:
    """One Mermaid flowchart of services, without the markdown fence."""
    # A chart has one namespace of boxes, and what is drawn twice is one box.
    marks = [f"s{number}_" for number in range(len(plans))] if len(plans) > 1 else [""]
    drawn = [line for plan, at in zip(plans, marks, strict=False) for line in _lines(plan, at)]
    return "\n".join(["flowchart LR", *(f"  {line}" for line in drawn)]) + "\n"


def _lines(plan: ServicePlan, at: str) -> Iterator[str]:
    yield f'{at}client(["clients"])'
    entry = yield from _entry(plan, at)
    title = f"{plan.service} in {plain(plan.namespace)}: "
    if plan.groups is not None:
        title += f"{_count(plan.groups, 'group')}, "
    size = f"{_count(plan.total_pods, 'pod')}, {_count(plan.total_accelerators, 'GPU')}"
    yield f'subgraph {at}service["{_text(title)}{size}"]'
    for number, role in enumerate(plan.roles):
        yield from _role(f"{at}role{number}", f"{at}r{number}", role)
    yield "end"
    for number, role in enumerate(plan.roles):
        if role.name in entry and role.replicas:
            yield f"{at}entry --> {at}role{number}"
    if plan.gang is not None:
        pods, accelerators = plan.gang.min_member, plan.gang.min_accelerators
        minimum = f"{_count(pods, 'pod')}, {_count(accelerators, 'GPU')} start together"
        kind, name = "PodGroup", plan.gang.pod_group
        if len(plan.gangs) > 1:
            kind, name = "PodGroups", f"{name} … {plan.gangs[-1].pod_group}"
            minimum = f"each: {minimum}"
        yield f'{at}gang{{{{"{kind}<br/>{_text(name)}<br/>{minimum}"}}}} -.- {at}service'


def _entry(plan: ServicePlan, at: str) -> Generator[str, None, set[str]]:
    """Yields what stands between clients and pods, and returns the roles that are reached."""
    router = plan.router
    if router is None:
        reached = entry_roles(plan)
        port = reached[0].serving.port if reached else ""
        service = f"Service<br/>{names.serving_service(plan.service)}<br/>port {port}"
        yield f'{at}client --> {at}entry["{service}"]'
        return {role.name for role in reached}
    pool = f"InferencePool<br/>{router.pool.name}<br/>port {router.pool.port}"
    routes = [router.route.name] if router.route is not None else []
    routes += [each.name for each in router.external_routes]
    if routes:
        route = f'{at}route["HTTPRoute<br/>{"<br/>".join(map(_text, routes))}"]'
        yield f'{at}client --> {route} --> {at}entry["{pool}"]'
    else:
        yield f'{at}client --> {at}entry["{pool}"]'
    picker = f"endpoint picker<br/>{router.picker.name}<br/>{_text(router.picker.words)}"
    yield f'{at}entry -. asks .-> {at}picker["{picker}"]'
    return set(router.pool.roles)


def _role(box: str, replicas: str, role: RolePlan) -> Iterator[str]:
    count = _count(len(role.replicas), "replica") if role.replicas else "parked"
    where = "".join(f" in {each.name}" for each in role.lws if each.ordinal is None)
    yield f'subgraph {box}["{role.name} ({role.component_type.value}): {count}{where}"]'
    size = f"{_count(role.nodes, 'pod')} x {_count(role.accelerators_per_pod, 'GPU')}"
    if len(role.replicas) <= _DRAWN:
        for replica in role.replicas:
            group = "" if replica.group is None else f"{replica.group}_"
            yield f'{replicas}_{group}{replica.index}["{replica.name}<br/>{size}"]'
    else:
        first, last = role.replicas[0], role.replicas[-1]
        yield f'{replicas}_all["{first.name} … {last.name}<br/>each {size}"]'
    yield "end"


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def _text(text: object) -> str:
    """Text inside of a Mermaid label."""
    return one_line(str(text)).replace('"', "#quot;").replace("<", "#lt;")
