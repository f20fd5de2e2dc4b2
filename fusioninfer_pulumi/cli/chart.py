"""The way of a request through a service, as `plan` draws it: in Mermaid and in SVG."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from fusioninfer_pulumi.api.role import ComponentType
from fusioninfer_pulumi.cli.plan_output import plain
from fusioninfer_pulumi.kube import names
from fusioninfer_pulumi.kube.outputs import is_output
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.routing.router import RouterParts
from fusioninfer_pulumi.topology.role import ReplicaPlan, RolePlan
from fusioninfer_pulumi.topology.service import entry_roles

#: Lines of a box.
Label = tuple[str, ...]
Way = Literal["requests", "prompt", "KV cache"]
# More replicas than this are drawn as one box: the chart is for people.
_DRAWN = 4


@dataclass(frozen=True)
class RoleBox:
    """A role.

    Attributes:
        title: Name, type and number of replicas.
        replicas: A box for each replica, or one for all of many.
        pods: Pods of a replica.
        accelerators: Accelerators of a pod.
    """

    title: str
    replicas: tuple[Label, ...]
    pods: int
    accelerators: int


@dataclass(frozen=True)
class Chart:
    """One service.

    Attributes:
        title: Name, namespace and size.
        stations: What a request passes on its way, the pool or Service of the pods last.
        picker: The endpoint picker, which the last station asks; None without one.
        gang: What starts together, None without a gang.
        roles: The roles, in their order.
        entries: Indexes of the roles that the last station sends requests to.
        ways: What roles send each other: index, what, index.
    """

    title: str
    stations: tuple[Label, ...]
    picker: Label | None
    gang: str | None
    roles: tuple[RoleBox, ...]
    entries: tuple[int, ...]
    ways: tuple[tuple[int, Way, int], ...]


def charts(plans: Sequence[ServicePlan], providers: Sequence[str] = ()) -> list[Chart]:
    """The charts of services.

    Args:
        plans: The services.
        providers: Name of the Kubernetes provider of each, as far as it has one of its own. They
            tell apart the clusters of a service that a program deploys to several.
    """
    titles = [_title(plan) for plan in plans]
    times = Counter(titles)
    drawn = []
    for number, (plan, title) in enumerate(zip(plans, titles, strict=True)):
        provider = providers[number] if number < len(providers) and times[title] > 1 else ""
        drawn.append(_chart(plan, f"{title}, provider {provider}" if provider else title))
    return drawn


def _title(plan: ServicePlan) -> str:
    return plan.service if is_output(plan.namespace) else f"{plan.service} in {plan.namespace}"


def _chart(plan: ServicePlan, title: str) -> Chart:
    groups = "" if plan.groups is None else f", {count(plan.groups, 'group')}"
    size = f"{count(plan.total_pods, 'pod')}, {count(plan.total_accelerators, 'GPU')}"
    router = plan.router
    picker: Label | None = None
    if router is not None:
        strategy = router.args.strategy
        picker = ("endpoint picker", *(() if strategy is None else (strategy.value,)))
    reached = (
        {role.name for role in entry_roles(plan.roles)}
        if router is None
        else set(router.pool.roles)
    )
    running = [at for at, role in enumerate(plan.roles) if role.replicas]
    prefillers, decoders = (
        [at for at in running if plan.roles[at].component_type is kind]
        for kind in (ComponentType.PREFILLER, ComponentType.DECODER)
    )
    paired = bool(router is not None and prefillers and decoders)
    ways: list[tuple[int, Way, int]] = []
    for decoder in decoders if paired else ():
        for prefiller in prefillers:
            # The decoder's sidecar sends the prompt to a prefill pod, then reads the cache there.
            ways += [(decoder, "prompt", prefiller), (prefiller, "KV cache", decoder)]
    return Chart(
        title=f"{title}{groups}: {size}",
        stations=tuple(_stations(plan)),
        picker=picker,
        gang=_gang(plan),
        roles=tuple(_role(plan.service, role) for role in plan.roles),
        entries=tuple(
            at
            for at in running
            if plan.roles[at].name in reached and not (paired and at in prefillers)
        ),
        ways=tuple(ways),
    )


def _stations(plan: ServicePlan) -> Iterator[Label]:
    if plan.routing is not None:
        yield from _routes(plan.routing)
    if plan.router is None:
        reached = entry_roles(plan.roles)
        port = (f"port {reached[0].serving.port}",) if reached else ()
        yield ("Service", names.serving_service(plan.service), *port)
        return
    yield ("InferencePool", plan.router.pool.ports_text)


def _routes(router: RouterParts) -> Iterator[Label]:
    if router.route is not None:
        for parent in router.parents:
            yield ("Gateway", parent.name)
        yield ("HTTPRoute", *(str(plain(host)) for host in router.route.hostnames or ()))
    elif router.external_routes:
        yield ("HTTPRoute", *(str(ref.name) for ref in router.external_routes))
    elif router.routed_by is not None:
        yield ("route of", router.routed_by)


def _role(service: str, role: RolePlan) -> RoleBox:
    number = count(len(role.replicas), "replica") if role.replicas else "parked"
    where = "".join(f" in {lws.name}" for lws in role.lws if lws.ordinal is None)
    pods = f"{count(role.nodes, 'node')} x " if role.nodes > 1 else ""
    size = f"{pods}{count(role.accelerators_per_pod, 'GPU')}"
    replicas = [(_short(replica, service), size) for replica in role.replicas]
    if len(replicas) > _DRAWN:
        replicas = [(f"{replicas[0][0]} … {replicas[-1][0]}", f"each {size}")]
    return RoleBox(
        title=f"{role.name} ({role.component_type.value}): {number}{where}",
        replicas=tuple(replicas),
        pods=role.nodes,
        accelerators=role.accelerators_per_pod,
    )


def _short(replica: ReplicaPlan, service: str) -> str:
    """The replica's name without the service's, which stands above it."""
    return replica.name.removeprefix(f"{service}-")


def _gang(plan: ServicePlan) -> str | None:
    if plan.shape.local_queue is not None:
        return f"LocalQueue {plain(plan.shape.local_queue)}: each replica starts as a whole"
    if plan.gang is None:
        return None
    pods, accelerators = plan.gang.min_member, plan.gang.min_accelerators
    minimum = f"{count(pods, 'pod')}, {count(accelerators, 'GPU')} start together"
    if len(plan.gangs) > 1:
        return f"{len(plan.gangs)} gangs, each: {minimum}"
    return f"gang: {minimum}"


def count(number: int, word: str) -> str:
    """A number and its noun: `1 pod`, `2 pods`."""
    return f"{number} {word}{'' if number == 1 else 's'}"
