"""Checks that derived names are short enough, not reserved, and not those of others.

Admission accepts names that are too long or that two objects share. Then pods are never created, or
two controllers fight over one object.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fusioninfer_pulumi.api.rollout import RolloutArgs
from fusioninfer_pulumi.findings import Finding, Rule, error
from fusioninfer_pulumi.kube import names
from fusioninfer_pulumi.rules.common import NAME_TOO_LONG, SET_BY_LIBRARY
from fusioninfer_pulumi.topology.role import LwsPlan, RolePlan
from fusioninfer_pulumi.topology.role_rollout import role_rollout

SERVICE_NAME_BREAKS_ENGINE = Rule(
    "service-name-breaks-engine",
    "error",
    "The variables that Kubernetes sets for a Service are none that the engine reads as numbers.",
    remedy="Rename the service, or set `enableServiceLinks` to false in the pod template.",
    source="https://docs.vllm.ai/en/stable/configuration/env_vars/",
)

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

_AT = ("metadata", "name")


def name_findings(
    service: str, roles: Sequence[RolePlan], rollout: RolloutArgs
) -> Iterator[Finding]:
    """Yields an error for each role whose names are reserved or too long."""
    for role in roles:
        at = ("roles", role.position, "name")
        if role.name in RESERVED_ROLES:
            yield error(
                SET_BY_LIBRARY,
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
                NAME_TOO_LONG,
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


def service_name_findings(
    service: str, roles: Sequence[RolePlan], *, picked: bool
) -> Iterator[Finding]:
    """Checks the name of a service's Kubernetes Service.

    A `picked` one has an endpoint picker, and no Service of its own name.
    """
    entry = names.endpoint_picker(service) if picked else names.serving_service(service)
    # Every pod of the namespace has these variables, for each Service with an address.
    variable = f"{entry.upper().replace('-', '_')}_PORT"
    for role in roles:
        engine = role.serving.command.engine
        if engine is None or variable not in engine.port_variables:
            continue
        spec, variables = role.leader_template["spec"], role.pods.leader.container.get("env") or ()
        overridden = any(item.get("name") == variable for item in variables)
        if spec.get("enableServiceLinks") is not False and not overridden:
            yield error(
                SERVICE_NAME_BREAKS_ENGINE,
                _AT,
                f"for a Service called {entry} pods get {variable}=tcp://..., on which "
                f"{engine.title} ends; rename the service, or set enableServiceLinks: false",
            )
            return
