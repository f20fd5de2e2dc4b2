"""Whether the cluster has room for replicas that start beside those whose place they take."""

from __future__ import annotations

from typing import Any

import pulumi

from fusioninfer_pulumi.component.cluster_access import Cluster, names_cluster, read_error_text
from fusioninfer_pulumi.component.diagnosis._pods import missing_accelerators
from fusioninfer_pulumi.component.diagnosis.read import Nodes, read_nodes
from fusioninfer_pulumi.component.sdk import has_engine
from fusioninfer_pulumi.findings import error, listed
from fusioninfer_pulumi.kube.resources import accelerators
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.rollout.replacement import Replacement
from fusioninfer_pulumi.rules.common import REPLACEMENT_NEEDS_ROOM
from fusioninfer_pulumi.rules.ignoring import ignored_by

#: How long a preview or an update waits for the nodes and the pods on them.
_SECONDS = 20.0


async def check_room(component: pulumi.Resource, plan: ServicePlan, beside: Replacement) -> None:
    """Raises an error if the nodes of the cluster lack accelerators for what starts.

    A cluster that cannot be read is no reason to refuse anything, nor are pods that others may
    make room for.
    """
    preempts = any(pod["spec"].get("priorityClassName") for pod in beside.pods)
    if preempts or REPLACEMENT_NEEDS_ROOM.id in ignored_by(plan.annotations):
        return
    try:
        cluster = Cluster(component, plan.namespace)
        nodes = await cluster.read(read_nodes, seconds=_SECONDS)
    # The provider reports a cluster that cannot be reached.
    except Exception as problem:  # noqa: BLE001
        text = f"whether there is room was not read: {read_error_text(problem)}"
        pulumi.log.debug(text, component)
        return
    short = missing_room(beside, nodes)
    if short:
        finding = error(REPLACEMENT_NEEDS_ROOM, (), f"{room_text(beside)}: {short}; {_REMEDY}")
        raise pulumi.RunError(f"{plan.service}: {finding}")


def check_room_in_preview(
    component: pulumi.Resource,
    plan: ServicePlan,
    beside: Replacement | None,
    yaml_only: pulumi.Output[bool],
) -> None:
    """Logs in a preview which room is needed, and fails it where there is none."""
    if beside is None or not (pulumi.runtime.is_dry_run() and has_engine()):
        return
    pulumi.log.info(f"{plan.service}: {room_text(beside)}", component)

    async def checked(files: bool) -> None:  # noqa: FBT001  # the value of an Output
        if not files and await names_cluster(component):
            await check_room(component, plan, beside)

    known: Any = yaml_only
    known.apply(checked)


_REMEDY = (
    "free or add nodes, or, where nodes are added on demand, add the annotation "
    f"fusioninfer.io/ignore-rules: {REPLACEMENT_NEEDS_ROOM.id}"
)


def room_text(beside: Replacement) -> str:
    """What starts beside what, and the room that it takes until the update ends."""
    count = sum(accelerators({"spec": pod["spec"]}) for pod in beside.pods)
    pods = f"{len(beside.pods)} pod{'' if len(beside.pods) == 1 else 's'}"
    return (
        f"{listed(beside.starting)} start{'s' if len(beside.starting) == 1 else ''} beside "
        f"{listed(beside.ending)}, with {pods} and {count} accelerators more until the update ends"
    )


def missing_room(beside: Replacement, nodes: Nodes) -> str:
    """How many accelerators are missing; empty where none, or where nodes come on demand."""
    if nodes.nodes is None or nodes.bound is None or nodes.come_on_demand:
        return ""
    return missing_accelerators(beside.pods, nodes.nodes, nodes.bound)
