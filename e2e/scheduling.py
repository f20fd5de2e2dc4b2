"""Schedule many services at once, each on separate nodes, and read the bound pods.

The capacity model assumes that all pods exist when the first one is bound, because Volcano never
evicts a bound replica. So the PodGroup, without which Volcano ignores a pod, is created last.
Serving groups have several PodGroups; there the queue is created last.
"""

from __future__ import annotations

import copy
import functools
import random
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from e2e import checks, inputs
from e2e.harness import Cluster, Object
from e2e.harness.resources import read_objects
from fusioninfer_pulumi.findings import filter_errors
from fusioninfer_pulumi.plan.service_plan import ServicePlan, compute_capacity
from fusioninfer_pulumi.topology.capacity_model import Capacity, NodePool

CASE = "e2e.fusioninfer.io/case"
THREADS = 8
MAX_PODS = 14
MAX_PODS_OF_GROUPS = 20


@dataclass(frozen=True)
class Case:
    """A service and the nodes that it can use."""

    title: str
    service: Object
    pools: tuple[NodePool, ...]

    @functools.cached_property
    def plan(self) -> ServicePlan:
        return inputs.build_plan(self.service)

    @functools.cached_property
    def model(self) -> Capacity:
        return compute_capacity(self.plan, self.pools)


@dataclass(frozen=True)
class Bound:
    """Pods that the scheduler bound.

    Attributes:
        case: The service and its nodes.
        plan: Plan of the service with its name on the cluster.
        pods: Number of bound pods by replica.
        pod_group: The final PodGroup; None without a gang.
    """

    case: Case
    plan: ServicePlan
    pods: dict[str, int]
    pod_group: Object | None

    @property
    def running(self) -> dict[str, int]:
        """Number of replicas with all pods bound, by role."""
        return {
            role.name: sum(self.pods[replica.name] == role.nodes for replica in role.replicas)
            for role in self.plan.roles
        }

    @property
    def started_groups(self) -> int:
        """Number of serving groups with all pods of the gang's minimum bound."""
        started = 0
        for gang in self.plan.gangs:
            minima = {group.role: group.minimum for group in gang.sub_groups or ()}
            started += all(
                self.pods[replica.name] == role.nodes
                for role in self.plan.roles
                for lws in role.lws
                for replica in lws.replicas
                if lws.group == gang.group
                and replica.index < minima.get(role.name, role.group_replicas)
            )
        return started

    @property
    def incomplete(self) -> list[str]:
        """Replicas with only some of their pods bound."""
        return [
            f"{replica.name}: {self.pods[replica.name]}/{role.nodes}"
            for role in self.plan.roles
            for replica in role.replicas
            if self.pods[replica.name] not in (0, role.nodes)
        ]


def schedule(cluster: Cluster, cases: Sequence[Case]) -> list[Bound]:
    """Schedule all cases at once, wait until no more pods are bound, and clean up."""
    namespace = cluster.new_namespace("cases")
    named = {f"case-{index}": case for index, case in enumerate(cases)}
    try:
        return _schedule(cluster, namespace, named)
    finally:
        cluster.delete_namespace(namespace)
        for queue in cluster.list("Queue", selector=CASE):
            cluster.delete("Queue", queue["metadata"]["name"])
        nodes = [node["metadata"]["name"] for node in cluster.list("v1/Node", selector=CASE)]
        cluster.remove_nodes(nodes, evict=False)
        # Hundreds of dependents occupy the garbage collector for a minute.
        cluster.wait(lambda: not cluster.exists("v1/Namespace", namespace), 300)


def _schedule(cluster: Cluster, namespace: str, cases: dict[str, Case]) -> list[Bound]:
    pinned = {name: pin_to_nodes(case.service, name) for name, case in cases.items()}
    plans = {name: inputs.build_plan(service) for name, service in pinned.items()}

    def create_objects(name: str) -> list[Object]:
        objects = inputs.with_namespace(inputs.render_objects(plans[name]), namespace)
        grouped = plans[name].shape.groups is not None
        pod_groups = [manifest for manifest in objects if manifest["kind"] == "PodGroup"]
        cluster.apply(
            [manifest for manifest in objects if grouped or manifest["kind"] != "PodGroup"]
        )
        for nodes in cases[name].pools:
            cluster.add_nodes(nodes.nodes, nodes.accelerators, labels={CASE: name})
        # Volcano ignores a PodGroup whose queue does not exist.
        return read_objects("Volcano queue", name=name) if grouped else pod_groups

    with ThreadPoolExecutor(THREADS) as pool:
        groups = [group for remaining in pool.map(create_objects, cases) for group in remaining]
        total = sum(plan.total_pods for plan in plans.values())
        cluster.wait(lambda: _has_pods(cluster, namespace, total), 300, f"{total} pods")
        cluster.wait_scheduling_cycles(5)  # Until the scheduler's cache has all pods and nodes.
        list(pool.map(lambda group: cluster.apply([group]), groups))
    wait_until_nothing_changes(cluster)
    bound = Counter(checks.get_replica(pod) for pod in cluster.bound_pods(namespace))
    stored = {item["metadata"]["name"]: item for item in cluster.list("PodGroup", namespace)}
    return [
        Bound(
            case,
            plans[name],
            {
                replica.name: bound[replica.name]
                for role in plans[name].roles
                for replica in role.replicas
            },
            stored.get(name),
        )
        for name, case in cases.items()
    ]


def _has_pods(cluster: Cluster, namespace: str, wanted: int) -> bool:
    time.sleep(0.5)  # Reading this long list slows down the controllers.
    return len(cluster.pods(namespace)) >= wanted


def wait_until_nothing_changes(cluster: Cluster, cycles: int = 5) -> None:
    """Wait until no pods are bound in this many scheduling cycles."""

    def bound() -> set[str]:
        return {p["metadata"]["uid"] for p in cluster.list("v1/Pod") if p["spec"].get("nodeName")}

    before: set[str] | None = None
    for _ in range(60):
        cluster.wait_scheduling_cycles(cycles)
        now = bound()
        if now == before:
            return
        before = now
    raise AssertionError("pods are still being bound")


def pin_to_nodes(service: Object, name: str) -> Object:
    pinned = copy.deepcopy(service)
    pinned["metadata"]["name"] = name
    for role in pinned["spec"]["roles"]:
        for key in ("template", "leaderTemplate", "workerTemplate"):
            if key in role:
                role[key]["spec"]["nodeSelector"] = {CASE: name}
    if "groups" in pinned["spec"]:
        pinned["spec"].setdefault("schedulingStrategy", {})["queue"] = name
    return pinned


def generate_cases(seed: int, count: int, *, mixed: bool, groups: bool = False) -> list[Case]:
    """Return random services of one to three roles, with nodes of about their size.

    Args:
        seed: Seed of the random numbers.
        count: Number of cases.
        mixed: Whether pod sizes differ, also within a replica.
        groups: Whether services have one to four serving groups.
    """
    rng = random.Random(seed)
    cases: list[Case] = []
    max_pods = MAX_PODS_OF_GROUPS if groups else MAX_PODS
    while len(cases) < count:
        service = _generate_service(rng, mixed=mixed)
        if groups:
            service["spec"]["groups"] = rng.choice((1, 2, 2, 3, 4))
        if len(cases) % 2:
            service["spec"]["layout"] = "PerRole"
        elif len(cases) % 4 and "schedulingStrategy" in service["spec"]:
            policy = service["spec"]["schedulingStrategy"]["gangPolicy"]
            policy["requiredReplicas"] = "LowestOrdinals"
        plan = inputs.build_plan(service)
        if (
            filter_errors(plan.findings)
            or plan.gang is None
            or not 2 <= plan.total_pods <= max_pods
        ):
            continue
        pools = _generate_pools(rng, plan)
        nodes = ", ".join(f"{pool.nodes}x{pool.accelerators}" for pool in pools)
        title = f"{seed}/{len(cases)} {service['spec']} on {nodes or 'nothing'}"
        cases.append(Case(title, service, pools))
    return cases


def _generate_service(rng: random.Random, *, mixed: bool) -> Object:
    kinds = rng.choice((["worker"], ["prefiller", "decoder"], ["prefiller", "decoder", "worker"]))
    names = rng.sample(("a", "b", "decode", "prefill", "z", "a-0", "spare"), len(kinds))
    size = rng.choice((1, 2, 4, 8))
    roles = []
    for name, kind in zip(names, kinds, strict=True):
        nodes = rng.choice((1, 1, 2, 3, 4) if len(kinds) > 1 else (2, 3, 4))
        gpus = rng.choice((1, 2, 4, 8)) if mixed else size
        role = inputs.role(name, kind, rng.choice((1, 1, 2, 2, 3, 4)), nodes, gpus)
        if mixed and nodes > 1 and rng.random() < 0.3:
            template = role.pop("template")
            worker = copy.deepcopy(template)
            resources = {"limits": {"nvidia.com/gpu": str(rng.choice((1, 2, 4, 8)))}}
            worker["spec"]["containers"][0]["resources"] = resources
            role |= {"leaderTemplate": template, "workerTemplate": worker}
        roles.append(role)
    minimum = None
    if rng.random() < 0.75:
        minimum = {
            role["name"]: rng.randint(0, role["replicas"]) for role in roles if rng.random() < 0.8
        }
        if not any(minimum.get(role["name"], role["replicas"]) for role in roles):
            minimum = None
    return inputs.service("svc", *roles, minimum=minimum)


def _generate_pools(rng: random.Random, plan: ServicePlan) -> tuple[NodePool, ...]:
    """Return capacity from slightly below the gang's minimum to slightly above all pods."""
    assert plan.gang is not None
    largest = max(role.accelerators_per_pod for role in plan.roles)
    low, high = plan.gang.min_accelerators - largest, plan.total_accelerators + largest
    wanted = rng.randint(max(0, low), high)
    pools: list[NodePool] = []
    while wanted >= largest:
        accelerators = largest * rng.choice((1, 1, 1, 2, 3)) + rng.choice((0, 0, largest - 1))
        count = rng.randint(1, max(1, wanted // accelerators))
        pools.append(NodePool(count, accelerators))
        wanted -= count * (accelerators // largest) * largest
    return tuple(pools)
