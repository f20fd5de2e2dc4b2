"""The roles of a serving group as roles of ours."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fusioninfer_pulumi.importers.carrier import Carrier
from fusioninfer_pulumi.importers.given import At, Path
from fusioninfer_pulumi.importers.kthena.models import CountOrPercentage, Role
from fusioninfer_pulumi.importers.kthena.pods import carry_template, needs_environment

PREFILLER, DECODER, WORKER = "prefiller", "decoder", "worker"
_BY_NAME = {
    "prefill": PREFILLER,
    "prefiller": PREFILLER,
    "decode": DECODER,
    "decoder": DECODER,
}


def carry_roles(carrier: Carrier, roles: Sequence[Role], at: At, *, by_role: bool) -> None:
    """Carries the roles over.

    Args:
        carrier: The service.
        roles: The roles.
        at: Where they stand.
        by_role: Whether updates go by role (RoleRollingUpdate).
    """
    carrier.origin(("spec", "roles"), at)
    types = component_types([role.name for role in roles])
    for index, (role, component_type) in enumerate(zip(roles, types, strict=True)):
        here = at / index
        target = carrier.role(here)
        carrier.put((*target, "name"), role.name, here / "name")
        carrier.derive((*target, "componentType"), component_type, here / "name")
        if role.replicas is not None:
            carrier.put((*target, "replicas"), role.replicas, here / "replicas")
        _templates(carrier, target, role, here)
        if needs_environment(role):
            carrier.imply((*target, "environment"), "Kthena", here)
        _rollout(carrier, target, role, here, by_role=by_role)


def component_types(names: Sequence[str]) -> list[str]:
    """What the roles of a group do, by their names: Kthena itself does not say."""
    types = [_BY_NAME.get(name.lower(), WORKER) for name in names]
    # One without the other serves whole requests.
    return types if {PREFILLER, DECODER} <= set(types) else [WORKER] * len(types)


def _templates(carrier: Carrier, target: Path, role: Role, at: At) -> None:
    entry = at / "entryTemplate"
    if not role.worker_replicas:
        carrier.book.read(at / "workerReplicas")
        carry_template(carrier, (*target, "template"), role.entry_template, entry)
        if role.worker_template is not None:
            carrier.book.note(
                at / "workerTemplate", "has no effect without workerReplicas; left out"
            )
        return
    count = at / "workerReplicas"
    carrier.derive((*target, "multinode", "nodeCount"), 1 + role.worker_replicas, count)
    # Entry and workers find each other by commands of their own.
    carrier.imply((*target, "multinode", "launcher"), "none", entry)
    leader = (*target, "leaderTemplate")
    carry_template(carrier, leader, role.entry_template, entry)
    worker, followers = at / "workerTemplate", (*target, "workerTemplate")
    if role.worker_template is None:
        carrier.book.refuse(worker, "is required with workerReplicas above 0")
        # So that nothing more is said about it.
        carrier.imply(followers, carrier.held(leader), entry)
    else:
        carry_template(carrier, followers, role.worker_template, worker)


def _rollout(carrier: Carrier, target: Path, role: Role, at: At, *, by_role: bool) -> None:
    if role.max_unavailable is not None:
        place = at / "maxUnavailable"
        if by_role:
            carrier.put((*target, "rollout", "maxUnavailable"), role.max_unavailable, place)
        else:
            _no_effect(carrier, place)
    if role.partition is not None:
        place = at / "partition"
        if by_role:
            count = replicas_of(role.partition, 1 if role.replicas is None else role.replicas)
            carrier.derive((*target, "rollout", "partition"), count, place)
            if count != role.partition:
                carrier.book.note(place, f"{role.partition} of the replicas is {count}")
        else:
            _no_effect(carrier, place)


def _no_effect(carrier: Carrier, at: At) -> None:
    carrier.book.note(at, "has no effect without rolloutStrategy.type RoleRollingUpdate; left out")


def replicas_of(partition: CountOrPercentage, replicas: int) -> int:
    """A partition in replicas; percentages are rounded up, as Kthena does."""
    if isinstance(partition, int):
        return partition
    return math.ceil(int(partition.removesuffix("%")) * replicas / 100)
