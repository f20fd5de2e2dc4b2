"""Checks that derived names are short enough, not reserved, and not those of others.

Admission accepts names that are too long or that two objects share. Then pods are never created, or
two controllers fight over one object, or a Service takes over that of the cluster.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from fusioninfer_pulumi.api.rollout import RolloutArgs
from fusioninfer_pulumi.findings import Finding, Rule, error
from fusioninfer_pulumi.kube import names
from fusioninfer_pulumi.kube.outputs import is_output
from fusioninfer_pulumi.rules.common import NAME_TOO_LONG, SET_BY_LIBRARY
from fusioninfer_pulumi.topology.role import LwsPlan, RolePlan
from fusioninfer_pulumi.topology.role_rollout import role_rollout

SERVICE_NAME_TAKEN = Rule(
    "service-name-taken",
    "error",
    "A service does not take over a Service of the cluster.",
    remedy="Rename the service.",
    source="Services of Kubernetes 1.35, LeaderWorkerSet 0.9 and Volcano 1.14",
)
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

#: Services that a cluster needs, by namespace, with their owners: those of Kubernetes 1.35, and of
#: the manifests of LeaderWorkerSet 0.9 and Volcano 1.14.
_OWNED = {
    ("default", "kubernetes"): "the API server",
    ("kube-system", "kube-dns"): "the cluster's DNS",
    ("kube-system", "metrics-server"): "the metrics server",
    ("lws-system", "lws-webhook-service"): "LeaderWorkerSet",
    ("lws-system", "lws-controller-manager-metrics-service"): "LeaderWorkerSet",
    ("volcano-system", "volcano-admission-service"): "Volcano",
    ("volcano-system", "volcano-controllers-service"): "Volcano",
    ("volcano-system", "volcano-scheduler-service"): "Volcano",
}
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
    service: str, namespace: Any, roles: Sequence[RolePlan], *, picked: bool
) -> Iterator[Finding]:
    """Checks the names of a service's Kubernetes Services.

    A `picked` one has an endpoint picker, and no Service of its own name. The namespace may be an
    Output.
    """
    entry = names.endpoint_picker(service) if picked else names.serving_service(service)
    made = [entry, *(lws.name for role in roles for lws in role.lws)]
    for name in made:
        owner = None if is_output(namespace) else _OWNED.get((namespace, name))
        if owner is not None:
            yield error(
                SERVICE_NAME_TAKEN,
                _AT,
                f"Service {name} in namespace {namespace} belongs to {owner}, and would be taken "
                "over; rename the service",
            )
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
