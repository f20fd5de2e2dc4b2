"""Checks of updates: changes that running LeaderWorkerSets do not allow, and gangs that deadlock.

A gang is scheduled only when all pods that its PodGroup requires exist. A running replica is in the
gang if its pods name the PodGroup and it has at least as many pods as planned; other replicas join
when they are updated. An update deadlocks if its first replicas wait for replicas that join later.
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
    existing_lws: Mapping[str, StackLws] | None,
) -> list[Finding]:
    """Return findings about changes that existing LeaderWorkerSets or their gangs do not allow.

    Args:
        plan: The service.
        manifests: The service's objects.
        existing_lws: The LeaderWorkerSets before the update, keyed by their names in the plan;
            None if unknown.
    """
    if not existing_lws:
        return []
    lws_manifests = {
        manifest["metadata"]["name"]: manifest
        for manifest in manifests
        if manifest["kind"] == "LeaderWorkerSet"
    }
    lws_with_changed_policy = {
        name
        for name, lws in existing_lws.items()
        if lws.spec is not None
        # If name or namespace changes, Pulumi creates a new LeaderWorkerSet next to the old one.
        and lws.has_name(name, plan.namespace)
        and not is_same_policy(
            lws_manifests[name]["spec"]["leaderWorkerTemplate"].get(SUB_GROUP_POLICY),
            lws.spec.sub_group_policy,
        )
    }
    running_lws = {
        name: None
        if name in lws_with_changed_policy
        else _get_running_lws(plan, lws_manifests[name], lws)
        for name, lws in existing_lws.items()
    }
    return [
        *check_subgroup_policies(plan, lws_with_changed_policy),
        *check_gang_joins(plan, running_lws),
    ]


def check_stack_layout_change(
    component: str, plan: ServicePlan, stack_lws: Iterable[StackLws] | None
) -> list[Finding]:
    """Return an error if the service runs in the other layout and the update cannot change it.

    Args:
        component: Logical name of the service's component.
        plan: The service.
        stack_lws: LeaderWorkerSets of all services in the stack; None if unknown.
    """
    old_roles = {
        lws.name: lws.role
        for lws in stack_lws or ()
        if lws.service == plan.service
        and lws.component == component
        # Names differ between the layouts, so only the namespace is compared.
        and lws.has_name(lws.name, plan.namespace)
        and lws.layout not in (None, plan.shape.layout)
    }
    new_roles = {lws_plan.name: role.name for role in plan.roles for lws_plan in role.lws}
    return check_layout_change(
        plan.shape.layout, old_roles, new_roles, awaits_replicas=plan.wait.level.awaits_replicas
    )


def check_layout_change(
    layout: Layout,
    old_roles: Mapping[str, str],
    new_roles: Mapping[str, str],
    *,
    awaits_replicas: bool,
) -> list[Finding]:
    """Return an error if roles run in the other layout and the update cannot change it.

    A renamed role starts next to the old role, and Pulumi deletes the old LeaderWorkerSets when the
    new ones are available. Without a new name, StatefulSets of multi-node replicas collide: the
    workers' StatefulSets with PerRole have the same names as the leaders' with PerReplica.

    Args:
        layout: The new layout.
        old_roles: Roles of the running LeaderWorkerSets in the other layout, keyed by
            LeaderWorkerSet name.
        new_roles: Roles of the planned LeaderWorkerSets, keyed by LeaderWorkerSet name.
        awaits_replicas: Whether the update waits for the new replicas.
    """
    old_layout = Layout.PER_REPLICA if layout is Layout.PER_ROLE else Layout.PER_ROLE
    # The message does not advise keeping PerReplica, because `autoscaling` may require PerRole. It
    # says "write" instead of "restore", because the spec may never have had `layout`.
    keep_hint = (
        "" if layout is Layout.PER_ROLE else f"write layout: {old_layout.value} to keep it, "
    )
    role_names = set(new_roles.values())
    colliding = sorted(
        name for name, role in old_roles.items() if role in role_names or name in new_roles
    )
    if colliding:
        return [
            error(
                LAYOUT_CHANGE_WHILE_RUNNING,
                ("layout",),
                f"{layout.value} cannot replace {old_layout.value} in a running role "
                f"({summarize_names(colliding)}); {keep_hint}rename each role in the same update, "
                "which starts the new replicas next to the old ones and needs capacity for both, "
                "or set replicas: 0 for all roles first, which interrupts the service "
                f"({DOCS_URL}/how-to/move.md)",
            )
        ]
    if old_roles and new_roles and not awaits_replicas:
        return [
            error(
                LAYOUT_CHANGE_WHILE_RUNNING,
                ("wait", "level"),
                f"the old replicas ({summarize_names(sorted(old_roles))}) would stop before the "
                "new ones are ready: use Available or Serving in an update that changes the layout",
            )
        ]
    return []


def check_subgroup_policies(
    plan: ServicePlan, lws_with_changed_policy: Collection[str]
) -> list[Finding]:
    """Return an error for each Rolling role that a changed subgroup policy would interrupt.

    The update replaces all LeaderWorkerSets named in `lws_with_changed_policy` simultaneously, and
    together they may have more replicas than `maxUnavailable`.
    """
    updated_names = {step.name for step in order_update(plan) if not step.is_frozen}
    changed_names = updated_names.intersection(lws_with_changed_policy)
    checks = (_check_subgroup_policy(plan, role, changed_names) for role in plan.roles)
    return [finding for findings in checks for finding in findings]


def check_kueue_changes(
    plan: ServicePlan, changes: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]]
) -> list[Finding]:
    """Return an error for each role with a change that Kueue's webhook rejects.

    `changes` maps the name of each LeaderWorkerSet that is updated in place to its manifests before
    and after the update.
    """
    findings = []
    for role in plan.roles:
        recreates = role.rollout.strategy is RolloutStrategy.RECREATE
        rejected_changes: list[str] = []
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
                # A label that appears or disappears turns Kueue on or off.
                rejected_changes.append("queue" if old_queue and new_queue else "backend")
                continue
            for key in ("leaderTemplate", "workerTemplate"):
                before, after = (_get_kueue_fields(template.get(key)) for template in (old, new))
                rejected_changes += [name for name in before if before[name] != after[name]]
        if rejected_changes:
            findings.append(
                error(
                    KUEUE_IMMUTABLE,
                    ("roles", role.position),
                    f"Kueue rejects a change of {', '.join(dict.fromkeys(rejected_changes))} in a "
                    "running LeaderWorkerSet; rename the role in the same update, which starts the "
                    "new replicas next to the old ones",
                )
            )
    return findings


def _get_kueue_fields(template: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the parts of a pod template that Kueue's webhook compares, keyed by their names."""
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
    plan: ServicePlan, role: RolePlan, changed_names: Collection[str]
) -> Iterator[Finding]:
    rollout = role.rollout
    changed_lws = [lws for lws in role.lws if lws.name in changed_names]
    if rollout.strategy is not RolloutStrategy.ROLLING or not changed_lws:
        return
    replicas = sum(len(lws.replicas) for lws in changed_lws)
    if is_group_rollout(plan):
        groups = {lws.group for lws in changed_lws}
        is_allowed = len(groups) <= resolve_group_rollout(plan).max_unavailable
    else:
        is_allowed = replicas <= rollout.max_unavailable
    if not is_allowed:
        message = (
            "a LeaderWorkerSet cannot change it after creation, so all "
            f'{replicas} replicas of role "{role.name}" would be replaced at once; rename the role '
            "in the same update to keep serving, or use rollout.strategy AllAtOnce or Recreate if "
            "an interruption is acceptable "
            f"({DOCS_URL}/rollout.md)"
        )
        yield error(SUBGROUP_POLICY_IMMUTABLE, ("roles", role.position, SUB_GROUP_POLICY), message)


def _get_running_lws(
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
        gang: The `GangPlan.reference` of the pods, or empty if they name no PodGroup.
        nodes: Pods in one replica.
        is_outdated: Whether the revision or size differs from the plan's.
    """

    gang: str
    nodes: int
    replicas: int
    is_outdated: bool


#: A service's LeaderWorkerSets before the update, keyed by name. None means a LeaderWorkerSet
#: that is replaced or unknown; its replicas are assumed to join the gang immediately.
RunningLwsByName = Mapping[str, RunningLws | None]


@dataclass(frozen=True)
class _Member:
    """A LeaderWorkerSet of a gang, before and after the update."""

    step: LwsStep
    role: RolePlan
    lws_plan: LwsPlan
    gang: GangPlan
    running_lws: RunningLws | None

    @cached_property
    def needed_replicas(self) -> int:
        """Number of the role's replicas that the gang needs."""
        minima = get_gang_minima(self.gang)
        return self.role.group_replicas if minima is None else minima.get(self.role.name, 0)

    @cached_property
    def counts_for_minimum(self) -> bool:
        """Whether replicas of the LeaderWorkerSet can be among those that the gang needs."""
        if self.lws_plan.ordinal is None:  # with layout PerRole
            return True
        needs_lowest = self.gang.sub_groups is None or any(
            group.needs_lowest for group in self.gang.sub_groups if group.role == self.role.name
        )
        return not needs_lowest or self.lws_plan.ordinal < self.needed_replicas

    @cached_property
    def is_joining(self) -> bool:
        """Whether the running replicas join the gang only when they are updated."""
        if self.running_lws is None:
            return False
        same_gang = self.running_lws.gang == self.gang.reference
        return not (same_gang and self.running_lws.nodes >= self.role.nodes)

    @cached_property
    def excluded_replicas(self) -> int:
        """Number of replicas that the partition keeps from joining the gang."""
        count, rollout = len(self.lws_plan.replicas), self.step.rollout
        # With layout PerRole, Recreate deletes all replicas, whatever the partition is.
        recreates_all = self.step.is_per_role and rollout.strategy is RolloutStrategy.RECREATE
        if not self.is_joining or recreates_all:
            return 0
        if self.step.is_frozen:
            return count
        return min(rollout.partition, count) if self.step.is_per_role else 0

    def needs_complete_gang(self, roles_without_waits: Collection[str]) -> bool:
        """Return whether the update of the LeaderWorkerSet waits until the gang is complete.

        Updates of roles in `roles_without_waits` never wait.
        """
        is_outdated = self.running_lws is not None and self.running_lws.is_outdated
        if not is_outdated or self.step.role in roles_without_waits:
            return False
        strategy = self.step.rollout.strategy
        has_batches = self.step.is_per_role and strategy is not RolloutStrategy.RECREATE
        return self.step.blocks_others or (self.step.is_required and has_batches)

    def count_joined_after_first_batch(self, roles_without_waits: Collection[str]) -> int:
        """Return how many replicas of the LeaderWorkerSet are in the gang after its first batch.

        All are, unless the second batch waits until the gang is complete.
        """
        count = len(self.lws_plan.replicas)
        joins_in_batches = self.is_joining and self.step.is_per_role
        if not (joins_in_batches and self.needs_complete_gang(roles_without_waits)):
            return count
        assert self.running_lws is not None
        # LeaderWorkerSet first creates additional replicas and waits for them. If none are added,
        # it restarts one replica. It caps the surge at all replicas but one.
        surge = min(self.step.rollout.max_surge, count - 1)
        return min(
            max(1, surge + max(0, count - self.running_lws.replicas)),
            count - self.excluded_replicas,
        )


def check_gang_joins(plan: ServicePlan, running_lws: RunningLwsByName) -> list[Finding]:
    """Return an error for each role that would prevent a gang from becoming complete.

    Either the role's partition excludes replicas that the gang needs, or the role's first replicas
    wait for replicas that join later.
    """
    if not plan.gangs:
        return []
    gangs = {gang.group: gang for gang in plan.gangs}
    plans_by_name = {lws.name: (role, lws) for role in plan.roles for lws in role.lws}
    members = []
    for step in order_update(plan):
        role, lws = plans_by_name[step.name]
        members.append(_Member(step, role, lws, gangs[lws.group], running_lws.get(step.name)))
    if not any(member.is_joining for member in members):
        return []
    findings = list(_check_partitions(members))
    if not findings:
        # No partition excludes a needed replica, so nothing waits for frozen members to join.
        members = [
            member for member in members if not (member.is_joining and member.step.is_frozen)
        ]
    return [*findings, *_check_order(members)]


def _check_partitions(members: Sequence[_Member]) -> Iterator[Finding]:
    joined_at_end = {
        member.step.name: len(member.lws_plan.replicas) - member.excluded_replicas
        for member in members
    }
    members_by_role: dict[str, list[_Member]] = {}
    for member in _find_missing_members(members, joined_at_end):
        if member.excluded_replicas:
            members_by_role.setdefault(member.role.name, []).append(member)
    for role_members in members_by_role.values():
        role = role_members[0].role
        message = (
            f"excludes replicas that the gang needs: {_list_member_names(role_members)}; remove "
            f"the partition for this update ({DOCS_URL}/rollout.md)"
        )
        yield error(GANG_UPDATE_HELD_BACK, role.locate_rollout_field("partition"), message)


def _check_order(members: Sequence[_Member]) -> Iterator[Finding]:
    """Yield an error for each role whose first replicas wait for replicas that are updated later.

    Each round assumes that the user updates the roles of earlier findings without waits.
    """
    roles_without_waits: set[str] = set()
    while True:
        stuck, joining = _simulate_update(members, roles_without_waits)
        if not stuck:
            return
        for role in dict.fromkeys(member.role.name for member in stuck):
            member = next(member for member in stuck if member.role.name == role)
            strategies = "Recreate" if member.step.is_per_role else "AllAtOnce or Recreate"
            yield error(
                GANG_UPDATE_NEVER_ENDS,
                member.role.locate_rollout_field("strategy"),
                f'{member.step.rollout.strategy.value} would never end, because role "{role}" '
                f"restarts only when gang {member.gang.pod_group} is complete, and "
                f"{_list_member_names(joining)} would join it later; use {strategies} for this "
                f"update, or rename the role ({DOCS_URL}/rollout.md)",
            )
            roles_without_waits.add(role)


def _simulate_update(
    members: Sequence[_Member], roles_without_waits: Collection[str]
) -> tuple[list[_Member], list[_Member]]:
    """Simulate an update; return members that wait forever, and members that would join later."""
    steps = [member.step for member in members]
    members_by_name = {member.step.name: member for member in members}
    waiting = {name for name, member in members_by_name.items() if member.running_lws is not None}
    # Replicas that are in their gang. LeaderWorkerSets that do not exist yet are created first.
    joined_counts = {m.step.name: 0 if m.is_joining else len(m.lws_plan.replicas) for m in members}
    changing: set[str] = set()
    while started := choose_next_lws(steps, waiting, changing, ()):
        waiting.difference_update(started)
        joined_counts.update(
            (name, members_by_name[name].count_joined_after_first_batch(roles_without_waits))
            for name in started
        )
        changing.update(
            name
            for name in started
            if members_by_name[name].needs_complete_gang(roles_without_waits)
        )
        incomplete = {
            member.gang.pod_group for member in _find_missing_members(members, joined_counts)
        }
        changing = {name for name in changing if members_by_name[name].gang.pod_group in incomplete}
    stuck = [members_by_name[step.name] for step in steps if step.name in changing]
    joining = [
        member for member in _find_missing_members(members, joined_counts) if member.is_joining
    ]
    joining_roles = {member.role.name for member in joining}
    last_wave = max((member.step.wave for member in joining), default=0)
    # The joining members wait only for stuck members of their own role or of an earlier wave.
    blocking = [
        member
        for member in stuck
        if member.role.name in joining_roles or member.step.wave < last_wave
    ]
    return blocking or stuck, joining


def _find_missing_members(
    members: Sequence[_Member], joined_counts: Mapping[str, int]
) -> list[_Member]:
    """Return members whose replicas have not all joined, if their gang needs more of their role."""
    counts: dict[tuple[str, str], int] = {}
    for member in members:
        if member.counts_for_minimum:
            key = member.gang.pod_group, member.role.name
            counts[key] = counts.get(key, 0) + joined_counts[member.step.name]
    return [
        member
        for member in members
        if member.counts_for_minimum
        and counts[member.gang.pod_group, member.role.name] < member.needed_replicas
        and joined_counts[member.step.name] < len(member.lws_plan.replicas)
    ]


def _list_member_names(members: Sequence[_Member]) -> str:
    return summarize_names([member.step.name for member in members])
