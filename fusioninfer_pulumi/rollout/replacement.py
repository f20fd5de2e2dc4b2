"""Roles that start beside others whose place they take: renames, another layout or namespace."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fusioninfer_pulumi.api.rollout import RolloutStrategy
from fusioninfer_pulumi.kube.outputs import is_output
from fusioninfer_pulumi.rollout.order import update_order
from fusioninfer_pulumi.rollout.running import StackLws
from fusioninfer_pulumi.topology.topology import Topology


@dataclass(frozen=True)
class Replacement:
    """What starts and what ends in one update; Pulumi deletes the old at its end.

    Attributes:
        starting: LeaderWorkerSets that start beside the old ones, and that the update awaits.
        ending: LeaderWorkerSets that end when those are available.
        pods: The pods that start, as far as their templates say.
    """

    starting: tuple[str, ...]
    ending: tuple[str, ...]
    pods: tuple[Mapping[str, Any], ...]


def replacement(
    component: str,
    plan: Topology,
    manifests: Iterable[Mapping[str, Any]],
    lws: Iterable[StackLws] | None,
) -> Replacement | None:
    """Returns which roles take the place of others in this update, None if none do.

    Replicas that only come or go, of roles that stay, are no replacement.

    Args:
        component: Logical name of the service's component.
        plan: The service.
        manifests: Its objects.
        lws: The LeaderWorkerSets of all services in the stack's state; None if not known.
    """
    running = [state_lws for state_lws in lws or () if state_lws.component == component]
    roles = {_role(state_lws, plan) for state_lws in running}
    planned = {(plan.service, role.name) for role in plan.roles if role.lws}
    ending = [state_lws for state_lws in running if _role(state_lws, plan) not in planned]
    logical = {state_lws.logical for state_lws in running}
    starting = [
        step.name
        for step in update_order(plan)
        if step.required
        and (plan.service, step.role) not in roles
        and not _goes_first(component, plan, step.name, step.rollout.strategy, logical)
    ]
    if not (plan.wait.level.awaits_replicas and ending and starting):
        return None
    templates = {
        manifest["metadata"]["name"]: manifest["spec"]
        for manifest in manifests
        if manifest["kind"] == "LeaderWorkerSet"
    }
    pods = [pod for name in starting for pod in _pods(templates[name])]
    names = sorted(state_lws.name for state_lws in ending)
    return Replacement(tuple(sorted(starting)), tuple(names), tuple(pods))


def _role(lws: StackLws, plan: Topology) -> tuple[str, str]:
    """Service and role of a LeaderWorkerSet; of another namespace it is another role."""
    same = is_output(plan.namespace) or lws.namespace in ("", plan.namespace)
    return lws.service, lws.role if same else f"{lws.namespace}/{lws.role}"


def _goes_first(
    component: str, plan: Topology, name: str, strategy: RolloutStrategy, logical: set[str]
) -> bool:
    """Whether Pulumi deletes the old LeaderWorkerSet of the same logical name first."""
    same = component + name[len(plan.service) :] in logical
    return same and strategy is RolloutStrategy.RECREATE


def _pods(spec: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    group = spec["leaderWorkerTemplate"]
    workers = [group["workerTemplate"]] * (group["size"] - 1)
    return [group.get("leaderTemplate") or group["workerTemplate"], *workers] * spec["replicas"]
