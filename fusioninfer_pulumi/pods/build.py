"""The pod templates that a role's LeaderWorkerSets carry.

The user's template is kept whole. Added are our labels, the gang's annotations and scheduler, the
launch command and a readiness probe on the leader; taken away is only what a worker pod, which
serves nothing, must not have.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fusioninfer_pulumi.api.role import Launcher
from fusioninfer_pulumi.engines.command import serving_container
from fusioninfer_pulumi.engines.editing import with_command
from fusioninfer_pulumi.engines.launch import RAY_PORT
from fusioninfer_pulumi.kube import labels, names
from fusioninfer_pulumi.kube.containers import with_env
from fusioninfer_pulumi.kube.outputs import with_placeholders
from fusioninfer_pulumi.pods.environment import with_environment
from fusioninfer_pulumi.pods.graceful_shutdown import graceful
from fusioninfer_pulumi.pods.health import PERIOD_SECONDS, startup_failures
from fusioninfer_pulumi.pods.kv_transfer import wired_container, wired_leader, wired_spec
from fusioninfer_pulumi.pods.records import Wiring
from fusioninfer_pulumi.pods.role import LEADER_ONLY
from fusioninfer_pulumi.pods.scheduling import spread
from fusioninfer_pulumi.pods.sidecar import with_sidecar
from fusioninfer_pulumi.topology.role import RolePlan, SetPlan
from fusioninfer_pulumi.topology.topology import Topology

Manifest = dict[str, Any]

_REVISION_LENGTH = 10


@dataclass(frozen=True)
class RoleTemplates:
    """Pod templates of a role, without what differs between its replicas.

    Attributes:
        leader: Template of the leaders; of every pod where a replica is a single pod.
        worker: Template of the workers, None where a replica is a single pod.
        revision: Hash of both.
    """

    leader: Manifest
    worker: Manifest | None
    revision: str


def role_templates(plan: Topology, role: RolePlan) -> RoleTemplates:
    """Builds the templates that all replicas of a role share.

    Args:
        plan: The service.
        role: One of its roles.

    Returns:
        The templates and their revision: a hash of what the pods are made of, so that neither
        the service's own metadata nor a replica count changes it. An Output, whose value is not
        known yet, counts as a placeholder.
    """
    leader = _template(plan, role, role.leader_template, _leader_container(role))
    if role.wiring is not None:
        leader = _wired_leader(leader, role.wiring)
    if role.args.topology_spread is not None:
        constraints = role.args.topology_spread
        spec = spread(leader["spec"], constraints, role_labels(plan, role))
        leader = {**leader, "spec": spec}
    worker = None
    if role.nodes > 1:
        worker = _template(plan, role, role.worker_template, _worker_container(role))
    text = json.dumps(with_placeholders([leader, worker]), sort_keys=True, ensure_ascii=False)
    digest = hashlib.sha256(text.encode()).hexdigest()
    return RoleTemplates(leader, worker, digest[:_REVISION_LENGTH])


def for_set(
    template: Manifest, revision: str, planned: SetPlan, *, gang_scheduled: bool
) -> Manifest:
    """Adds to a role's template what the pods of one of its sets carry.

    Args:
        template: Template of the role; it is not changed.
        revision: Revision of the role's templates.
        planned: The set.
        gang_scheduled: Whether the pods belong to a gang.

    Returns:
        The set's template, which shares the pod spec with the role's.
    """
    metadata = template["metadata"]
    finished = {**metadata, "labels": {**metadata["labels"], **set_labels(planned, revision)}}
    if gang_scheduled:
        gang = {labels.TASK_SPEC: planned.task}
        if planned.group is not None:
            service = metadata["annotations"][labels.GROUP_NAME]
            gang[labels.GROUP_NAME] = names.pod_group(service, planned.group)
        finished["annotations"] = {**metadata["annotations"], **gang}
    return {"metadata": finished, "spec": template["spec"]}


def set_labels(planned: SetPlan, revision: str) -> dict[str, str]:
    """Labels that tell the sets of a role, and their pods, from each other."""
    own = {} if planned.ordinal is None else {labels.REPLICA_INDEX: str(planned.ordinal)}
    if planned.group is not None:
        own[labels.GROUP_INDEX] = str(planned.group)
    return {**own, labels.REVISION: revision}


def role_labels(plan: Topology, role: RolePlan) -> dict[str, str]:
    """Labels by which a role's objects and pods are found."""
    return {
        labels.SERVICE: plan.service,
        labels.COMPONENT_TYPE: role.component_type.value,
        labels.ROLE_NAME: role.name,
    }


def _template(
    plan: Topology, role: RolePlan, template: Mapping[str, Any], container: Manifest
) -> Manifest:
    metadata = template.get("metadata") or {}
    annotations = dict(metadata.get("annotations") or {})
    if plan.gang_scheduled:
        # That of a serving group is filled in for its sets: groups share a revision.
        annotations[labels.GROUP_NAME] = names.pod_group(plan.service)
    elif plan.queue and plan.scheduler_name:
        # Without a PodGroup of ours, Volcano makes one per workload and reads the queue here.
        annotations[labels.QUEUE_NAME] = plan.queue
    spec = {
        **template["spec"],
        "containers": [
            container if given["name"] == container["name"] else given
            for given in template["spec"]["containers"]
        ],
    }
    if role.wiring is not None:
        given = next(e for e in template["spec"]["containers"] if e["name"] == container["name"])
        spec = wired_spec(spec, given, role.wiring)
    if role.serving.command.engine is not None:
        own = serving_container(template, container["name"])
        spec = graceful(spec, own, container["name"])
    spec = with_environment(spec, role.args.environment)
    if plan.scheduler_name:
        spec["schedulerName"] = plan.scheduler_name
    if plan.priority_class:
        spec["priorityClassName"] = plan.priority_class
    return {
        "metadata": {
            "labels": {**(metadata.get("labels") or {}), **role_labels(plan, role)},
            **({"annotations": annotations} if annotations else {}),
        },
        "spec": spec,
    }


def _wired_leader(template: Manifest, wiring: Wiring) -> Manifest:
    metadata = template["metadata"]
    spec = template["spec"]
    return {
        "metadata": {**metadata, "labels": {**(wiring.labels or {}), **metadata["labels"]}},
        "spec": spec if wiring.sidecar is None else with_sidecar(spec, wiring.sidecar),
    }


def _leader_container(role: RolePlan) -> Manifest:
    given = serving_container(role.leader_template, role.args.container)
    container = with_env(with_command(given, role.leader_launch), role.env)
    if role.wiring is not None:
        spec = role.leader_template["spec"]
        container = wired_container(container, role.wiring, spec)
        container = wired_leader(
            container, role.wiring, host_network=spec.get("hostNetwork") is True
        )
    if role.launcher is Launcher.RAY:
        ports = list(container.get("ports") or ())
        if all(port.get("containerPort") != RAY_PORT for port in ports):
            taken = any(port.get("name") == "ray-head" for port in ports)
            name = {} if taken else {"name": "ray-head"}
            ports.append({**name, "containerPort": RAY_PORT})
        container["ports"] = ports
    engine = role.serving.command.engine
    path = engine.health_path if engine is not None else None
    if path is not None and "readinessProbe" not in given:
        # On the engine's port: ray's port answers long before the model is loaded, and so does
        # a sidecar.
        container["readinessProbe"] = _health(role, path)
    if path is not None and role.args.startup is not None:
        failures = {"failureThreshold": startup_failures(role.args.startup)}
        container["startupProbe"] = {**_health(role, path), **failures}
    return container


def _health(role: RolePlan, path: str) -> Manifest:
    https = {"scheme": "HTTPS"} if role.serving.command.serves_https else {}
    return {
        "httpGet": {"path": path, "port": role.engine_port, **https},
        "periodSeconds": PERIOD_SECONDS,
        "timeoutSeconds": 5,
    }


def _worker_container(role: RolePlan) -> Manifest:
    name = role.args.container or role.serving.name
    given = serving_container(role.worker_template, name)
    container = with_env(with_command(given, role.worker_launch), role.env)
    if role.wiring is not None:
        container = wired_container(container, role.wiring, role.worker_template["spec"])
    return {key: value for key, value in container.items() if key not in LEADER_ONLY}
