"""`plan --output mermaid`: the way of a request through a service, as a chart for Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Sequence

from fusioninfer_pulumi.api.role import ComponentType
from fusioninfer_pulumi.cli.plan_output import plain
from fusioninfer_pulumi.findings import one_line
from fusioninfer_pulumi.kube import names
from fusioninfer_pulumi.kube.outputs import UNKNOWN, is_output
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.routing.router import RouterPlan
from fusioninfer_pulumi.topology.role import ReplicaPlan, RolePlan
from fusioninfer_pulumi.topology.service import entry_roles

# More replicas than this are drawn as one box: the chart is for people.
_DRAWN = 4


def mermaid(*plans: ServicePlan, providers: Sequence[str] = ()) -> str:
    """One Mermaid flowchart of services, without the Markdown fence.

    Args:
        *plans: The services.
        providers: Name of the Kubernetes provider of each, as far as it has one of its own. They
            tell apart the clusters of a service that a program deploys to several.
    """
    # A chart has one namespace of boxes, and what is drawn twice is one box.
    marks = [f"s{number}_" for number in range(len(plans))] if len(plans) > 1 else [""]
    titles = [_title(plan) for plan in plans]
    times = Counter(titles)
    drawn: list[str] = []
    for number, (plan, title, mark) in enumerate(zip(plans, titles, marks, strict=False)):
        provider = providers[number] if number < len(providers) and times[title] > 1 else ""
        drawn += _lines(plan, f"{title}, provider {provider}" if provider else title, mark)
    return "".join(f"{line}\n" for line in ("flowchart LR", *(f"  {each}" for each in drawn)))


def _title(plan: ServicePlan) -> str:
    return plan.service if is_output(plan.namespace) else f"{plan.service} in {plan.namespace}"


def _lines(plan: ServicePlan, title: str, mark: str) -> Iterator[str]:
    boxes = {role.name: f"{mark}role{number}" for number, role in enumerate(plan.roles)}
    groups = "" if plan.groups is None else f", {_count(plan.groups, 'group')}"
    size = f"{_count(plan.total_pods, 'pod')}, {_count(plan.total_accelerators, 'GPU')}"
    yield f'subgraph {mark}service["{_text(title)}{groups}: {size}"]'
    yield "direction LR"
    stations = yield from _entry(plan, mark)
    if plan.gang is not None:
        yield f'subgraph {mark}gang["{_gang(plan)}"]'
        yield "direction LR"
    for role in plan.roles:
        yield from _role(boxes[role.name], plan.service, role)
    if plan.gang is not None:
        yield "end"
    yield from _requests(plan, f"{mark}entry", boxes)
    yield "end"
    # Outside: a box belongs to the first subgraph that names it.
    yield f'client(["clients"]) --> {" --> ".join(stations)}'


def _entry(plan: ServicePlan, mark: str) -> Generator[str, None, list[str]]:
    """Yields what stands between clients and pods; returns these boxes in their order."""
    router, entry = plan.router, f"{mark}entry"
    if router is None:
        reached = entry_roles(plan)
        port = f"<br/>port {reached[0].serving.port}" if reached else ""
        yield _box(entry, f"Service<br/>{_text(names.serving_service(plan.service))}{port}")
        return [entry]
    stations = {f"{mark}hop{number}": label for number, label in enumerate(_stations(router))}
    for box, label in stations.items():
        yield _box(box, label)
    yield _box(entry, f"InferencePool<br/>port {router.pool.port}")
    strategy = router.args.strategy
    picked = f"<br/>{_text(strategy.value)}" if strategy is not None else ""
    yield f'{entry} -. which pod? .-> {mark}picker("endpoint picker{picked}")'
    return [*stations, entry]


def _stations(router: RouterPlan) -> Iterator[str]:
    if router.route is not None:
        for parent in router.parents:
            yield f"Gateway<br/>{_text(parent.name)}"
        hosts = "".join(f"<br/>{_text(plain(host))}" for host in router.route.hostnames or ())
        yield f"HTTPRoute{hosts}"
    elif router.external_routes:
        yield "HTTPRoute" + "".join(f"<br/>{_text(ref.name)}" for ref in router.external_routes)
    elif router.routed_by is not None:
        yield f"route of<br/>{_text(router.routed_by)}"


def _requests(plan: ServicePlan, entry: str, boxes: dict[str, str]) -> Iterator[str]:
    """Yields the ways from the entry to the roles, and of the KV cache between them."""
    router = plan.router
    reached = (
        {role.name for role in entry_roles(plan)} if router is None else set(router.pool.roles)
    )
    roles = [role for role in plan.roles if role.replicas]
    prefillers = [r for r in roles if r.component_type is ComponentType.PREFILLER]
    decoders = [r for r in roles if r.component_type is ComponentType.DECODER]
    paired = router is not None and prefillers and decoders
    for role in roles:
        if role.name in reached and not (paired and role in prefillers):
            yield f"{entry} --> {boxes[role.name]}"
    if not paired:
        return
    for decoder in decoders:
        for prefiller in prefillers:
            # The decoder's sidecar sends the prompt to a prefill pod, then reads the cache there.
            yield f"{boxes[decoder.name]} -. prompt .-> {boxes[prefiller.name]}"
            yield f"{boxes[prefiller.name]} == KV cache ==> {boxes[decoder.name]}"


def _role(box: str, service: str, role: RolePlan) -> Iterator[str]:
    count = _count(len(role.replicas), "replica") if role.replicas else "parked"
    where = "".join(f" in {each.name}" for each in role.lws if each.ordinal is None)
    yield f'subgraph {box}["{role.name} ({role.component_type.value}): {count}{where}"]'
    yield "direction TB"
    pods = f"{_count(role.nodes, 'node')} x " if role.nodes > 1 else ""
    size = f"{pods}{_count(role.accelerators_per_pod, 'GPU')}"
    if len(role.replicas) <= _DRAWN:
        for number, replica in enumerate(role.replicas):
            yield _box(f"{box}_{number}", f"{_short(replica, service)}<br/>{size}")
    else:
        first, last = (_short(role.replicas[at], service) for at in (0, -1))
        yield _box(f"{box}_all", f"{first} … {last}<br/>each {size}")
    yield "end"


def _short(replica: ReplicaPlan, service: str) -> str:
    """The replica's name without the service's, which stands above it."""
    return replica.name.removeprefix(f"{service}-")


def _gang(plan: ServicePlan) -> str:
    assert plan.gang is not None  # the caller asked
    pods, accelerators = plan.gang.min_member, plan.gang.min_accelerators
    minimum = f"{_count(pods, 'pod')}, {_count(accelerators, 'GPU')} start together"
    if len(plan.gangs) > 1:
        return f"{len(plan.gangs)} gangs, each: {minimum}"
    return f"gang: {minimum}"


def _box(box: str, label: str) -> str:
    return f'{box}["{label}"]'


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def _text(text: object) -> str:
    """Text inside of a Mermaid label."""
    # A browser would take `<unknown>` for a tag, and drop it.
    escaped = one_line(str(text)).replace(UNKNOWN, UNKNOWN.strip("<>")).replace("#", "#35;")
    return escaped.replace('"', "#quot;").replace("<", "#lt;").replace(">", "#gt;")
