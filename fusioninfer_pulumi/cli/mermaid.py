"""A service's topology as a Mermaid flowchart, for markdown."""

from __future__ import annotations

from collections.abc import Generator, Iterator

from fusioninfer_pulumi.cli.plan_json import plain
from fusioninfer_pulumi.findings import one_line
from fusioninfer_pulumi.kube import names
from fusioninfer_pulumi.service_plan import ServicePlan
from fusioninfer_pulumi.topology.role import RolePlan
from fusioninfer_pulumi.topology.service import entry_roles

# More replicas than this are drawn as one box: the chart is for people.
_DRAWN = 4


def mermaid(*plans: ServicePlan) -> str:
    """Draws services.

    Args:
        plans: The services.

    Returns:
        One Mermaid flowchart of all of them, without the markdown fence.
    """
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
    where = "".join(f" in {each.name}" for each in role.sets if each.ordinal is None)
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
