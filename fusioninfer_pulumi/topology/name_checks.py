"""Checks that the names which controllers derive are short enough and not reserved.

Admission accepts names that are too long or that two objects share. Then pods are never created, or
two controllers fight over one object.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fusioninfer_pulumi.api.rollout import RolloutArgs
from fusioninfer_pulumi.findings import Finding, error
from fusioninfer_pulumi.kube import names
from fusioninfer_pulumi.topology.role import LwsPlan, RolePlan
from fusioninfer_pulumi.topology.role_rollout import role_rollout

#: Role names that collide with the names of the router's objects.
RESERVED_ROLES = frozenset(
    name("").removeprefix("-")
    for name in (
        names.endpoint_picker,
        names.endpoint_picker_config,
        names.inference_pool,
        names.http_route,
        names.gateway,
    )
)


def name_findings(
    service: str, roles: Sequence[RolePlan], rollout: RolloutArgs
) -> Iterator[Finding]:
    """Yields an error for each role whose names are reserved or too long."""
    for role in roles:
        at = ("roles", role.position, "name")
        if role.name in RESERVED_ROLES:
            yield error(
                "role-name-reserved",
                at,
                f'"{role.name}" is taken by the router\'s objects; '
                f"not allowed: {', '.join(sorted(RESERVED_ROLES))}",
            )
        if not role.lws:
            continue
        longest = role.lws[-1].name
        limit = names.leader_worker_set_limit(role.nodes, groups_of(rollout, role, role.lws[-1]))
        if len(longest) > limit:
            yield error(
                "name-too-long",
                at,
                f'the LeaderWorkerSet name "{longest}" has {len(longest)} characters, its pods '
                f"need at most {limit}; shorten the names of service {service} and role "
                f"{role.name} by {len(longest) - limit}",
            )


def groups_of(rollout: RolloutArgs, role: RolePlan, planned: LwsPlan) -> int:
    """Returns the most groups that a LeaderWorkerSet may have, with those that an update adds."""
    scaled = role.args.autoscaling
    most = len(planned.replicas) if scaled is None else scaled.max_replicas
    return most + role_rollout(rollout, role).max_surge
