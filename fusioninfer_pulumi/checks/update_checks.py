"""Checks of updates: changes that running LeaderWorkerSets do not allow, and gangs that deadlock.

A gang is scheduled only when all pods that its PodGroup requires exist. A running replica is in the
gang if its pods name the PodGroup and are at least as many as planned; others join when they are
updated. So an update deadlocks if its first replicas wait for others that join the gang later.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fusioninfer_pulumi.api.rollout import Layout, RolloutStrategy
from fusioninfer_pulumi.findings import DOCS_URL, Finding, Rule, error, summarize_names
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.rollout.stack_lws import StackLws
from fusioninfer_pulumi.rollout.update_order import (
    LwsStep,
    choose_next_lws,
    is_group_rollout,
    order_update,
    resolve_group_rollout,
)
from fusioninfer_pulumi.topology.gang import GangPlan, get_gang_minima
from fusioninfer_pulumi.topology.leader_worker_set import SUB_GROUP_POLICY, is_same_policy
from fusioninfer_pulumi.topology.role_plan import LwsPlan, RolePlan

LAYOUT_CHANGE_WHILE_RUNNING = Rule("layout-change-while-running")
SUBGROUP_POLICY_IMMUTABLE = Rule("subgroup-policy-immutable")
KUEUE_IMMUTABLE = Rule("kueue-immutable")
#: Pod fields that Kueue's webhook compares, besides requests and ports of the containers.
_KUEUE_POD_FIELDS = (
    "nodeSelector",
    "affinity",
    "tolerations",
    "runtimeClassName",
    "priority",
    "topologySpreadConstraints",
    "overhead",
    "resourceClaims",
)


def check_update(
    plan: ServicePlan,
    manifests: Iterable[Mapping[str, Any]],
    existing: Mapping[str, StackLws] | None,
) -> list[Finding]:
    """Return findings about changes that existing LeaderWorkerSets or their gangs do not allow.

    Args:
        plan: The service.
        manifests: Its objects.
        existing: The LeaderWorkerSets before the update, by the plan's names; None if unknown.
    """
    if not existing:
        return []
    lws_manifests = {
        manifest["metadata"]["name"]: manifest
        for manifest in manifests
        if manifest["kind"] == "LeaderWorkerSet"
    }
    changed_policies = {
        name
        for name, lws in existing.items()
        if lws.spec is not None
        # With another name or namespace, a new LeaderWorkerSet is created next to the old one.
        and lws.has_name(name, plan.namespace)
        and not is_same_policy(
            lws_manifests[name]["spec"]["leaderWorkerTemplate"].get(SUB_GROUP_POLICY),
            lws.spec.sub_group_policy,
        )
    }
    running = {
        name: None if name in changed_policies else _read_running(plan, lws_manifests[name], lws)
        for name, lws in existing.items()
    }
    return [*check_subgroup_policies(plan, changed_policies), *check_gang_joins(plan, running)]


def check_layout_switch(
    component: str, plan: ServicePlan, stack_lws: Iterable[StackLws] | None
) -> list[Finding]:
    """Return an error if the stack's service has the other layout and the update cannot change it.

    Args:
        component: Logical name of the service's component.
        plan: The service.
        stack_lws: The stack's LeaderWorkerSets, of all services; None if unknown.
    """
    old_roles = {
        old.name: old.role
        for old in stack_lws or ()
        if old.service == plan.service
        and old.component == component
        # The names of the two layouts differ, so only the namespace is compared.
        and old.has_name(old.name, plan.namespace)
        and old.layout not in (None, plan.shape.layout)
    }
    planned = {lws_plan.name: role.name for role in plan.roles for lws_plan in role.lws}
    return check_layout_change(
        plan.shape.layout, old_roles, planned, awaits_replicas=plan.wait.level.awaits_replicas
    )


def check_layout_change(
    layout: Layout,
    old_roles: Mapping[str, str],
    planned: Mapping[str, str],
    *,
    awaits_replicas: bool = True,
) -> list[Finding]:
    """Return an error if roles run in the other layout and the update cannot change it.

    A renamed role starts next to the old one, whose LeaderWorkerSets Pulumi deletes when the new
    ones are available. Without a new name, objects of controllers would collide: a StatefulSet has
    the same name in both layouts if replicas span nodes.

    Args:
        layout: The new layout.
        old_roles: Role of each running LeaderWorkerSet of the other layout, by its name.
        planned: Role of each planned LeaderWorkerSet, by its name.
        awaits_replicas: Whether the update waits for the new replicas.
    """
    other = Layout.PER_REPLICA if layout is Layout.PER_ROLE else Layout.PER_ROLE
    # The message does not advise keeping PerReplica, because `autoscaling` may require PerRole. It
    # says "write" instead of "restore", because the spec may never have had `layout`.
    keep = "" if layout is Layout.PER_ROLE else f"write layout: {other.value} to keep it, "
    roles = set(planned.values())
    colliding = sorted(name for name, role in old_roles.items() if role in roles or name in planned)
    if colliding:
        return [
            error(
                LAYOUT_CHANGE_WHILE_RUNNING,
                ("layout",),
                f"{layout.value} cannot replace {other.value} in a running role "
                f"({summarize_names(colliding)}); {keep}rename each role in the same update, which "
                "starts the new replicas next to the old ones and needs capacity for both, or set "
                "replicas: 0 for all roles first, which interrupts the service "
                f"({DOCS_URL}/how-to/move.md)",
            )
        ]
    if old_roles and planned and not awaits_replicas:
        return [
            error(
                LAYOUT_CHANGE_WHILE_RUNNING,
                ("wait", "level"),
                f"the old replicas ({summarize_names(sorted(old_roles))}) would stop before the "
                "new ones are ready: use Available or Serving in an update that changes the layout",
            )
        ]
    return []


def check_subgroup_policies(plan: ServicePlan, changed_policies: Collection[str]) -> list[Finding]:
    """Return an error for each Rolling role that a changed subgroup policy would interrupt.

    The update replaces all LeaderWorkerSets in `changed_policies` at once, and they may have more
    replicas than `maxUnavailable`.
    """
    changing = {step.name for step in order_update(plan) if not step.is_frozen}
    return [
        finding
        for role in plan.roles
        for finding in _check_subgroup_policy(plan, role, changing & {*changed_policies})
    ]


def check_kueue_changes(
    plan: ServicePlan, changes: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]]
) -> list[Finding]:
    """Return an error for each role with a change that Kueue's webhook rejects.

    `changes`: LeaderWorkerSets before and after, by name, except those that are replaced.
    """
    findings = []
    for role in plan.roles:
        recreates = role.rollout.strategy is RolloutStrategy.RECREATE
        rejected: list[str] = []
        for manifests in (changes[lws.name] for lws in role.lws if lws.name in changes):
            old, new = (manifest["spec"]["leaderWorkerTemplate"] for manifest in manifests)
            old_queue, new_queue = (
                (manifest["metadata"].get("labels") or {}).get(labels.KUEUE_QUEUE)
                for manifest in manifests
            )
            # Recreate deletes a LeaderWorkerSet whose template changes instead of updating it.
            if not (old_queue or new_queue) or (recreates and old != new):
                continue
            if old_queue != new_queue:
                is_other_queue = old_queue and new_queue
                rejected.append("queue" if is_other_queue else "backend")
                continue
            for key in ("leaderTemplate", "workerTemplate"):
                before, after = (_read_kueue_fields(template.get(key)) for template in (old, new))
                rejected += [name for name in before if before[name] != after[name]]
        if rejected:
            findings.append(
                error(
                    KUEUE_IMMUTABLE,
                    ("roles", role.position),
                    f"Kueue rejects a change of {', '.join(dict.fromkeys(rejected))} in a running "
                    "LeaderWorkerSet; rename the role in the same update, which starts the new "
                    "replicas next to the old ones",
                )
            )
    return findings


def _read_kueue_fields(template: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the parts of a pod template that Kueue's webhook compares, by name for messages."""
    pod = (template or {}).get("spec") or {}
    container_lists = [pod.get(key) or [] for key in ("initContainers", "containers")]
    # A secret container appears as a string.
    containers = [c for items in container_lists for c in items if isinstance(c, Mapping)]
    return {
        "number of containers": [len(items) for items in container_lists],
        "requests": [(c.get("resources") or {}).get("requests") or {} for c in containers],
        "ports": [c.get("ports") or [] for c in containers],
        **{name: pod.get(name) or None for name in _KUEUE_POD_FIELDS},
    }


def _check_subgroup_policy(
    plan: ServicePlan, role: RolePlan, changing: Collection[str]
) -> Iterator[Finding]:
    rollout = role.rollout
    changed = [lws for lws in role.lws if lws.name in changing]
    if rollout.strategy is not RolloutStrategy.ROLLING or not changed:
        return
    replicas = sum(len(lws.replicas) for lws in changed)
    if is_group_rollout(plan):
        fits = len({lws.group for lws in changed}) <= resolve_group_rollout(plan).max_unavailable
    else:
        fits = replicas <= rollout.max_unavailable
    if not fits:
        message = (
            "a LeaderWorkerSet cannot change it after creation, so all "
            f'{replicas} replicas of role "{role.name}" would be replaced at once; rename the role '
            "in the same update to keep serving, or use rollout.strategy AllAtOnce or Recreate if "
            "an interruption is acceptable "
            f"({DOCS_URL}/rollout.md)"
        )
        yield error(SUBGROUP_POLICY_IMMUTABLE, ("roles", role.position, SUB_GROUP_POLICY), message)


def _read_running(
    plan: ServicePlan, manifest: Mapping[str, Any], lws: StackLws
) -> RunningLws | None:
    if lws.spec is None or not lws.has_name(manifest["metadata"]["name"], plan.namespace):
        return None
    size = manifest["spec"]["leaderWorkerTemplate"]["size"]
    revision = manifest["metadata"]["labels"][labels.REVISION]
    return RunningLws(
        gang=lws.spec.gang,
        nodes=lws.spec.nodes,
        replicas=lws.spec.replicas,
        is_outdated=lws.revision != revision or lws.spec.nodes != size,
    )


GANG_UPDATE_HELD_BACK = Rule("gang-update-held-back")
GANG_UPDATE_NEVER_ENDS = Rule("gang-update-never-ends")


@dataclass(frozen=True)
class RunningLws:
    """A LeaderWorkerSet before the update.

    Attributes:
        gang: The `GangPlan.reference` of its pods, or empty for none.
        nodes: Pods in one replica.
        is_outdated: Whether its revision or size differs from the plan's.
    """

    gang: str
    nodes: int
    replicas: int
    is_outdated: bool


#: The existing LeaderWorkerSets of a service by name. None stands for one that is replaced or
#: unknown, whose replicas are assumed to join the gang at once.
Running = Mapping[str, RunningLws | None]


@dataclass(frozen=True)
class _Member:
    """A LeaderWorkerSet of a gang, as planned and as running."""

    step: LwsStep
    role: RolePlan
    planned: LwsPlan
    gang: GangPlan
    running: RunningLws | None

    @cached_property
    def needed_replicas(self) -> int:
        """Replicas of its role that the gang needs."""
        minima = get_gang_minima(self.gang)
        return self.role.group_replicas if minima is None else minima.get(self.role.name, 0)

    @cached_property
    def counts_for_minimum(self) -> bool:
        """Whether its replicas can be among the replicas that the gang needs."""
        if self.planned.ordinal is None:  # with layout PerRole
            return True
        only_lowest = self.gang.sub_groups is None or any(
            group.needs_lowest for group in self.gang.sub_groups if group.role == self.role.name
        )
        return not only_lowest or self.planned.ordinal < self.needed_replicas

    @cached_property
    def is_joining(self) -> bool:
        """Whether its running replicas join the gang only when they are updated."""
        if self.running is None:
            return False
        same_gang = self.running.gang == self.gang.reference
        return not (same_gang and self.running.nodes >= self.role.nodes)

    @cached_property
    def excluded_replicas(self) -> int:
        """Replicas that a partition keeps from joining the gang."""
        count, rollout = len(self.planned.replicas), self.step.rollout
        if not self.is_joining or (
            self.step.is_per_role and rollout.strategy is RolloutStrategy.RECREATE
        ):
            return 0
        if self.step.is_frozen:
            return count
        return min(rollout.partition, count) if self.step.is_per_role else 0

    def needs_complete_gang(self, at_once: Collection[str]) -> bool:
        """Return whether its update waits for a complete gang; roles in `at_once` never wait."""
        if self.running is None or not self.running.is_outdated or self.step.role in at_once:
            return False
        strategy = self.step.rollout.strategy
        has_batches = self.step.is_per_role and strategy is not RolloutStrategy.RECREATE
        return self.step.blocks_others or (self.step.is_required and has_batches)

    def count_first_batch(self, at_once: Collection[str]) -> int:
        """Return its replicas in the gang after its first batch; all, unless its batches wait."""
        count = len(self.planned.replicas)
        if (
            not self.is_joining
            or not self.step.is_per_role
            or not self.needs_complete_gang(at_once)
        ):
            return count
        assert self.running is not None
        # LeaderWorkerSet first creates additional replicas and waits for them. If none are added,
        # it restarts one replica. It caps the surge at all replicas but one.
        surge = min(self.step.rollout.max_surge, count - 1)
        return min(
            max(1, surge + max(0, count - self.running.replicas)), count - self.excluded_replicas
        )


def check_gang_joins(plan: ServicePlan, running: Running) -> list[Finding]:
    """Return an error for each role that would prevent a gang from becoming complete.

    Either its partition excludes replicas that the gang needs, or its first replicas wait for later
    ones.
    """
    if not plan.gangs:
        return []
    gangs = {gang.group: gang for gang in plan.gangs}
    planned = {lws.name: (role, lws, gangs[lws.group]) for role in plan.roles for lws in role.lws}
    members = []
    for step in order_update(plan):
        role, lws, gang = planned[step.name]
        members.append(_Member(step, role, lws, gang, running.get(step.name)))
    if not any(member.is_joining for member in members):
        return []
    findings = list(_check_partitions(members))
    if not findings:
        # The gangs do not need frozen members that have not joined, so nothing waits for them.
        members = [
            member for member in members if not (member.is_joining and member.step.is_frozen)
        ]
    return [*findings, *_check_order(members)]


def _check_partitions(members: Sequence[_Member]) -> Iterator[Finding]:
    joined_at_end = {
        member.step.name: len(member.planned.replicas) - member.excluded_replicas
        for member in members
    }
    by_role: dict[str, list[_Member]] = {}
    for member in _find_missing(members, joined_at_end):
        if member.excluded_replicas:
            by_role.setdefault(member.role.name, []).append(member)
    for excluded in by_role.values():
        role = excluded[0].role
        message = (
            f"excludes replicas that the gang needs: {_list_names(excluded)}; remove the partition "
            f"for this update ({DOCS_URL}/rollout.md)"
        )
        yield error(GANG_UPDATE_HELD_BACK, role.locate_rollout_field("partition"), message)


def _check_order(members: Sequence[_Member]) -> Iterator[Finding]:
    """Yield an error for each role whose first replicas wait for replicas that are updated later.

    Each round assumes that the roles of earlier findings are updated all at once.
    """
    at_once: set[str] = set()
    while True:
        stuck, joining = _simulate(members, at_once)
        if not stuck:
            return
        for role in dict.fromkeys(member.role.name for member in stuck):
            member = next(member for member in stuck if member.role.name == role)
            ways = "Recreate" if member.step.is_per_role else "AllAtOnce or Recreate"
            yield error(
                GANG_UPDATE_NEVER_ENDS,
                member.role.locate_rollout_field("strategy"),
                f'{member.step.rollout.strategy.value} would never end, because role "{role}" '
                f"restarts only when gang {member.gang.pod_group} is complete, and "
                f"{_list_names(joining)} would join it later; use {ways} for this update, or "
                f"rename the role ({DOCS_URL}/rollout.md)",
            )
            at_once.add(role)


def _simulate(
    members: Sequence[_Member], at_once: Collection[str]
) -> tuple[list[_Member], list[_Member]]:
    """Simulate the update; return members that wait forever, and those that would join later."""
    steps = [member.step for member in members]
    by_name = {member.step.name: member for member in members}
    waiting = {name for name, member in by_name.items() if member.running is not None}
    # Replicas that are in their gang. LeaderWorkerSets that do not exist yet are created first.
    joined = {m.step.name: 0 if m.is_joining else len(m.planned.replicas) for m in members}
    changing: set[str] = set()
    while started := choose_next_lws(steps, waiting, changing, ()):
        waiting.difference_update(started)
        joined.update({name: by_name[name].count_first_batch(at_once) for name in started})
        changing.update(name for name in started if by_name[name].needs_complete_gang(at_once))
        incomplete = {member.gang.pod_group for member in _find_missing(members, joined)}
        changing = {name for name in changing if by_name[name].gang.pod_group in incomplete}
    stuck = [by_name[step.name] for step in steps if step.name in changing]
    joining = [member for member in _find_missing(members, joined) if member.is_joining]
    roles = {member.role.name for member in joining}
    last_wave = max((member.step.wave for member in joining), default=0)
    # The joining members wait only for stuck members of their own role or of an earlier wave.
    blocking = [
        member for member in stuck if member.role.name in roles or member.step.wave < last_wave
    ]
    return blocking or stuck, joining


def _find_missing(members: Sequence[_Member], joined: Mapping[str, int]) -> list[_Member]:
    """Return members that have not fully joined a gang that lacks replicas of their role."""
    counts: dict[tuple[str, str], int] = {}
    for member in members:
        if member.counts_for_minimum:
            key = member.gang.pod_group, member.role.name
            counts[key] = counts.get(key, 0) + joined[member.step.name]
    return [
        member
        for member in members
        if member.counts_for_minimum
        and counts[member.gang.pod_group, member.role.name] < member.needed_replicas
        and joined[member.step.name] < len(member.planned.replicas)
    ]


def _list_names(members: Sequence[_Member]) -> str:
    return summarize_names([member.step.name for member in members])
