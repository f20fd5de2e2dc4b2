"""Checks of updates: changes that running LeaderWorkerSets do not allow."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from fusioninfer_pulumi.api.rollout import Layout, RolloutStrategy
from fusioninfer_pulumi.checks.gang_joins import RunningLws, check_gang_joins
from fusioninfer_pulumi.findings import Finding, Rule, error, listed
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.rollout.stack_lws import StackLws
from fusioninfer_pulumi.rollout.update_order import by_group, group_rollout, update_order
from fusioninfer_pulumi.topology.leader_worker_set import SUB_GROUP_POLICY, is_same_policy
from fusioninfer_pulumi.topology.role_plan import RolePlan

LAYOUT_CHANGE_WHILE_RUNNING = Rule("layout-change-while-running")
SUBGROUP_POLICY_IMMUTABLE = Rule("subgroup-policy-immutable")
KUEUE_IMMUTABLE = Rule("kueue-immutable")
#: Pod fields that Kueue's webhook compares, with requests and ports of the containers.
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
    """Return changes of existing LeaderWorkerSets that cannot be made, or not one by one.

    Args:
        plan: The service.
        manifests: Its objects.
        existing: What runs, by the names of the plan; None if that is not known.
    """
    if not existing:
        return []
    manifests_by_name = {
        manifest["metadata"]["name"]: manifest
        for manifest in manifests
        if manifest["kind"] == "LeaderWorkerSet"
    }
    differing = {
        name
        for name, lws in existing.items()
        if lws.template is not None
        # Under another name a LeaderWorkerSet is created next to the old one.
        and lws.is_at(name, plan.namespace)
        and not is_same_policy(
            manifests_by_name[name]["spec"]["leaderWorkerTemplate"].get(SUB_GROUP_POLICY),
            lws.template.sub_groups,
        )
    }
    running = {
        name: None if name in differing else _running(plan, manifests_by_name[name], lws)
        for name, lws in existing.items()
    }
    return [*check_subgroup_policies(plan, differing), *check_gang_joins(plan, running)]


def check_layout_switch(
    component: str, plan: ServicePlan, lws: Iterable[StackLws] | None
) -> list[Finding]:
    """Return an error if the layout changes and this update may not change it.

    Args:
        component: Logical name of the service's component.
        plan: The service.
        lws: The LeaderWorkerSets of all services; None if they are not known.
    """
    old_roles = {
        other.name: other.role
        for other in lws or ()
        if other.service == plan.service
        and other.component == component
        and other.is_at(other.name, plan.namespace)
        and other.layout not in (None, plan.shape.layout)
    }
    planned = {planned_lws.name: role.name for role in plan.roles for planned_lws in role.lws}
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
    """Return an error if the layout changes and this update may not change it.

    A role with another name starts next to the old one, whose LeaderWorkerSets Pulumi deletes when
    the new ones are available. Under the same name the objects that controllers derive collide:
    a StatefulSet has one name in both layouts if replicas span nodes.

    Args:
        layout: The new layout.
        old_roles: Roles of the LeaderWorkerSets that run in the other layout, by their names.
        planned: Roles of the service's LeaderWorkerSets, by their names.
        awaits_replicas: Whether the update waits for the new replicas.
    """
    if not old_roles:
        return []
    other = Layout.PER_REPLICA if layout is Layout.PER_ROLE else Layout.PER_ROLE
    # The default layout changes with the first and the last `autoscaling`.
    keep = "" if layout is Layout.PER_ROLE else f"write layout: {other.value} to keep it, "
    roles = set(planned.values())
    unchanged = sorted(name for name, role in old_roles.items() if role in roles or name in planned)
    if unchanged:
        return [
            error(
                LAYOUT_CHANGE_WHILE_RUNNING,
                ("layout",),
                f"{layout.value} cannot replace {other.value} in a running role "
                f"({listed(unchanged)}); {keep}rename each role in the same update, which starts "
                "the new replicas next to the old ones and needs capacity for both, or set "
                "replicas: 0 for all roles first, which interrupts the service "
                "(docs/how-to/move.md)",
            )
        ]
    if planned and not awaits_replicas:
        return [
            error(
                LAYOUT_CHANGE_WHILE_RUNNING,
                ("wait", "level"),
                f"the old replicas ({listed(sorted(old_roles))}) would stop before the new ones "
                "are ready: use Available or Serving in an update that changes the layout",
            )
        ]
    return []


def check_subgroup_policies(plan: ServicePlan, differing: Collection[str]) -> list[Finding]:
    """Return an error for each role that a changed subgroup policy would interrupt.

    LeaderWorkerSets of another policy (`differing`) are replaced: more replicas than
    `maxUnavailable` would end at once.
    """
    if not differing:
        return []
    changing = {step.name for step in update_order(plan) if not step.frozen}
    return [
        finding
        for role in plan.roles
        for finding in _policy_findings(plan, role, changing & {*differing})
    ]


def check_kueue_changes(
    plan: ServicePlan, changes: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]]
) -> list[Finding]:
    """Return an error for each role with a change that Kueue's webhook rejects.

    `changes` has LeaderWorkerSets before and after by name, without those that are replaced.
    """
    findings = []
    for role in plan.roles:
        recreates = role.rollout.strategy is RolloutStrategy.RECREATE
        rejected: dict[str, None] = {}
        for old, new in (changes[lws.name] for lws in role.lws if lws.name in changes):
            templates = [item["spec"]["leaderWorkerTemplate"] for item in (old, new)]
            queues = [item["metadata"].get("labels") or {} for item in (old, new)]
            before, after = (by_label.get(labels.KUEUE_QUEUE) for by_label in queues)
            if (before or after) and not (recreates and templates[0] != templates[1]):
                moved = ["queue" if before and after else "backend"]
                rejected |= dict.fromkeys(moved if before != after else _changed_shape(*templates))
        if rejected:
            findings.append(
                error(
                    KUEUE_IMMUTABLE,
                    ("roles", role.position),
                    f"Kueue rejects a change of {', '.join(rejected)} in a running "
                    "LeaderWorkerSet; rename the role in the same update, which starts the new "
                    "replicas next to the old ones",
                )
            )
    return findings


def _changed_shape(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return what Kueue compares and finds changed in the pods of a LeaderWorkerSet."""
    shapes = [
        [_shape((template.get(key) or {}).get("spec") or {}) for template in (old, new)]
        for key in ("leaderTemplate", "workerTemplate")
    ]
    return [name for before, after in shapes for name in before if before[name] != after[name]]


def _shape(pod: Mapping[str, Any]) -> dict[str, Any]:
    kinds = [pod.get(key) or [] for key in ("initContainers", "containers")]
    # A hidden value is a text.
    containers = [c for several in kinds for c in several if isinstance(c, Mapping)]
    return {
        "number of containers": [len(several) for several in kinds],
        "requests": [(c.get("resources") or {}).get("requests") or {} for c in containers],
        "ports": [c.get("ports") or [] for c in containers],
        **{name: pod.get(name) or None for name in _KUEUE_POD_FIELDS},
    }


def _policy_findings(
    plan: ServicePlan, role: RolePlan, changing: Collection[str]
) -> Iterator[Finding]:
    rollout = role.rollout
    changed = [lws for lws in role.lws if lws.name in changing]
    if rollout.strategy is not RolloutStrategy.ROLLING or not changed:
        return
    replicas = sum(len(lws.replicas) for lws in changed)
    if by_group(plan):
        within = len({lws.group for lws in changed}) <= group_rollout(plan).max_unavailable
    else:
        within = replicas <= rollout.max_unavailable
    if not within:
        yield error(
            SUBGROUP_POLICY_IMMUTABLE,
            ("roles", role.position, SUB_GROUP_POLICY),
            f"LeaderWorkerSet cannot change it after creation: {replicas} replicas of {role.name} "
            "would be replaced at once; rename the role in the "
            "same update to keep serving, or use rollout.strategy AllAtOnce or Recreate if an "
            "interruption is acceptable (docs/rollout.md)",
        )


def _running(plan: ServicePlan, manifest: Mapping[str, Any], lws: StackLws) -> RunningLws | None:
    if lws.template is None or not lws.is_at(manifest["metadata"]["name"], plan.namespace):
        return None
    template = lws.template
    size = manifest["spec"]["leaderWorkerTemplate"]["size"]
    revision = manifest["metadata"]["labels"][labels.REVISION]
    return RunningLws(
        template.gang,
        template.nodes,
        template.replicas,
        lws.revision != revision or template.nodes != size,
    )
