"""Whether every name that the controllers derive fits and is unique.

Admission takes names that are too long, and names that two objects share; the pods then never
appear, or two controllers fight over one object. Both are refused here instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fusioninfer_pulumi.api.rollout import RolloutArgs
from fusioninfer_pulumi.findings import Finding, error
from fusioninfer_pulumi.kube import names
from fusioninfer_pulumi.topology.role import RolePlan, SetPlan
from fusioninfer_pulumi.topology.role_rollout import role_rollout

#: Role names that would meet the names of the router's objects.
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
    """Checks the names of one service by themselves.

    Args:
        service: Name of the service.
        roles: Its roles that run pods.
        rollout: How it is updated: an update may start replicas beside the others.

    Yields:
        One finding per role whose names cannot work.
    """
    for role in roles:
        at = ("roles", role.position, "name")
        if role.name in RESERVED_ROLES:
            yield error(
                "role-name-reserved",
                at,
                f'"{role.name}" is taken by the router\'s objects; '
                f"not allowed: {', '.join(sorted(RESERVED_ROLES))}",
            )
        if not role.sets:
            continue
        longest = role.sets[-1].name
        limit = names.leader_worker_set_limit(role.nodes, groups_of(rollout, role, role.sets[-1]))
        if len(longest) > limit:
            yield error(
                "name-too-long",
                at,
                f'the LeaderWorkerSet name "{longest}" has {len(longest)} characters, its pods '
                f"need at most {limit}; shorten the names of service {service} and role "
                f"{role.name} by {len(longest) - limit}",
            )


def groups_of(rollout: RolloutArgs, role: RolePlan, planned: SetPlan) -> int:
    """Groups that a set may have, with those that an update starts beside them."""
    scaled = role.args.autoscaling
    most = len(planned.replicas) if scaled is None else scaled.max_replicas
    return most + role_rollout(rollout, role).max_surge
