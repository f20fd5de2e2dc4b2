"""Assertions about live objects. Each raises AssertionError with all differences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from e2e.harness import Object
from fusioninfer_pulumi.kube import quantity
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.topology.role_plan import LwsPlan, RolePlan

QUANTITY_FIELDS = ("limits", "requests", "minResources", "overhead")
"""Mappings of quantities, whose notation the server can change (`1.5Gi` to `1536Mi`)."""

SERVER_METADATA = frozenset(
    {"creationTimestamp", "generation", "managedFields", "resourceVersion", "uid"}
)

ADDED_METADATA = {
    "PersistentVolumeClaim": frozenset({"finalizers"}),
    "DaemonSet": frozenset({"annotations", "deprecated.daemonset.template.generation"}),
}
"""Metadata and annotations that the API server or admission plugins add, by kind."""

LWS_NAME = "leaderworkerset.sigs.k8s.io/name"
GROUP_INDEX = "leaderworkerset.sigs.k8s.io/group-index"

Pods = Sequence[Object]


def assert_stored_unchanged(sent: Object, stored: Object) -> None:
    """Assert that a stored object differs from the sent one only by defaults."""
    errors = list(_find_differences("", sent, stored))
    metadata = stored["metadata"]
    added = ADDED_METADATA.get(sent["kind"], frozenset())
    known = sent["metadata"].keys() | SERVER_METADATA | added
    errors += [f"metadata.{key}: added as {metadata[key]!r}" for key in metadata.keys() - known]
    for key in ("labels", "annotations"):
        expected = (sent["metadata"].get(key) or {}).keys() | added
        for name in (metadata.get(key) or {}).keys() - expected:
            errors.append(f"metadata.{key}[{name}]: added")
    _raise_errors(errors, f"{sent['kind']} {sent['metadata']['name']} is stored differently")


def _find_differences(at: str, sent: Any, stored: Any) -> Iterator[str]:
    if isinstance(sent, Mapping) and isinstance(stored, Mapping):
        for key, value in sent.items():
            where = f"{at}.{key}"
            if key in QUANTITY_FIELDS and isinstance(value, Mapping):
                yield from _compare_amounts(where, value, stored.get(key) or {})
            elif key in stored:
                yield from _find_differences(where, value, stored[key])
            elif value is not None and (value or key != "matchLabels"):
                yield f"{where}: lost, was {value!r}"
    elif isinstance(sent, list) and isinstance(stored, list):
        if len(sent) != len(stored):
            yield f"{at}: {len(sent)} items became {len(stored)}"
        for index, (sent_item, stored_item) in enumerate(zip(sent, stored, strict=False)):
            yield from _find_differences(f"{at}[{index}]", sent_item, stored_item)
    elif at.endswith(".sizeLimit") and sent is not None:
        yield from _compare_amounts(at, {"": sent}, {"": stored})
    elif sent != stored:
        yield f"{at}: {sent!r} became {stored!r}"


def _compare_amounts(at: str, sent: Mapping[str, Any], stored: Mapping[str, Any]) -> Iterator[str]:
    if sent.keys() != stored.keys():
        yield f"{at}: {sorted(sent)} became {sorted(stored)}"
    for name in sent.keys() & stored.keys():
        if quantity.parse(sent[name]) != quantity.parse(stored[name]):
            yield f"{at}[{name}]: {sent[name]!r} became {stored[name]!r}"


def assert_pods_match_plan(plan: ServicePlan, namespace: str, pods: Pods) -> None:
    """Assert that pods have the names, labels, commands and accelerators of the plan."""
    wanted = {
        name: (role, lws, group, worker)
        for role in plan.roles
        for lws in role.lws
        for group in range(len(lws.replicas))
        for worker, name in enumerate(list_pod_names(lws.name, group, role.nodes))
    }
    live = {pod["metadata"]["name"]: pod for pod in pods}
    errors = [f"missing: {name}" for name in sorted(wanted.keys() - live.keys())]
    errors += [f"not planned: {name}" for name in sorted(live.keys() - wanted.keys())]
    for name in sorted(wanted.keys() & live.keys()):
        compare = _compare_pod(plan, namespace, *wanted[name])
        errors += [
            f"{name}: {field} is {actual!r}, planned {planned!r}"
            for field, actual, planned in compare(live[name])
            if actual != planned
        ]
    _raise_errors(errors, f"pods of {plan.service} are not as planned")


def list_pod_names(lws_name: str, group: int, nodes: int) -> list[str]:
    """Return the pods of a replica, leader first; on purpose independent of the library."""
    leader = f"{lws_name}-{group}"
    return [leader, *(f"{leader}-{worker}" for worker in range(1, nodes))]


def get_replica(pod: Object) -> str:
    """Return the replica of a pod: its LeaderWorkerSet, or its group with layout PerRole."""
    labels = pod["metadata"].get("labels") or {}
    name = str(labels.get(LWS_NAME))
    return name if "fusioninfer.io/replica-index" in labels else f"{name}-{labels.get(GROUP_INDEX)}"


def _compare_pod(
    plan: ServicePlan, namespace: str, role: RolePlan, planned: LwsPlan, group: int, worker: int
) -> Any:
    planned_pod = (role.pods.worker if worker else None) or role.pods.leader
    user_metadata = planned_pod.initial_template.get("metadata") or {}
    containers = {item["name"]: item for item in planned_pod.spec["containers"]}
    gpus = role.pod_accelerators[worker]
    leader = f"{planned.name}-{group}"
    domain = _get_subdomain(role, planned, group)

    def compare(pod: Object) -> Iterator[tuple[str, Any, Any]]:
        labels, spec = pod["metadata"]["labels"], pod["spec"]
        annotations = pod["metadata"].get("annotations", {})
        yield "label service", labels.get("fusioninfer.io/service"), plan.service
        yield "label role", labels.get("fusioninfer.io/role-name"), role.name
        index = None if planned.ordinal is None else str(planned.ordinal)
        yield "label replica", labels.get("fusioninfer.io/replica-index"), index
        yield "label group", labels.get(GROUP_INDEX), str(group)
        kind = labels.get("fusioninfer.io/component-type")
        yield "label component", kind, role.component_type.value
        yield "label name", labels.get(LWS_NAME), planned.name
        index = labels.get("leaderworkerset.sigs.k8s.io/worker-index")
        yield "label worker-index", index, str(worker)
        wanted = user_metadata.get("labels") or {}
        yield "user's labels", {key: labels.get(key) for key in wanted}, dict(wanted)

        gang = plan.service if plan.shape.needs_gang else None
        yield "PodGroup", annotations.get("scheduling.k8s.io/group-name"), gang
        task = planned.task if plan.shape.needs_gang else None
        yield "task", annotations.get("volcano.sh/task-spec"), task
        wanted = user_metadata.get("annotations") or {}
        yield "user's annotations", {key: annotations.get(key) for key in wanted}, dict(wanted)
        scheduler = plan.shape.scheduler or spec.get("schedulerName")
        yield "scheduler", spec.get("schedulerName"), scheduler

        names = [container["name"] for container in spec["containers"]]
        yield "containers", names, list(containers)
        matches = [
            item for item in spec["containers"] if item["name"] == role.pods.leader.container_name
        ]
        serving: Object = matches[0] if matches else {}
        for key in ("command", "args"):
            yield (
                key,
                serving.get(key, []),
                list(containers[role.pods.leader.container_name].get(key) or ()),
            )
        if worker:
            # All pods of a replica have the generated preStop hook, but only leaders the user's.
            hooks = ("lifecycle",) if "lifecycle" in planned_pod.initial_container else ()
            leader_fields = sorted(k for k in ("ports", "readinessProbe", *hooks) if k in serving)
            yield "fields for leaders only", leader_fields, []
        yield "accelerators", _count_accelerators(spec), gpus
        for container in (*spec.get("initContainers", ()), *spec["containers"]):
            env = [(item["name"], item.get("value")) for item in container["env"][:4]]
            yield (
                f"env of {container['name']}",
                env[0],
                ("LWS_LEADER_ADDRESS", f"{leader}.{domain}.{namespace}"),
            )
            output = dict(env)
            yield "env LWS_GROUP_SIZE", output.get("LWS_GROUP_SIZE"), str(role.nodes)
            yield "env LWS_WORKER_INDEX", output.get("LWS_WORKER_INDEX"), str(worker)
        if not worker:
            address = f"{spec['hostname']}.{spec['subdomain']}"
            yield "own address", address, f"{leader}.{domain}"

    return compare


def _count_accelerators(spec: Object) -> int:
    limits = [c.get("resources", {}).get("limits", {}) for c in spec["containers"]]
    return sum(int(limit.get("nvidia.com/gpu", 0)) for limit in limits)


def _get_subdomain(role: RolePlan, planned: LwsPlan, group: int) -> str:
    network = role.args.network_config
    unique = network is not None and network.subdomain_policy.value == "UniquePerReplica"
    return f"{planned.name}-{group}" if unique else planned.name


def assert_service_selects(service: Object, pods: Pods, wanted: Sequence[str]) -> None:
    """Assert that a Service selects exactly these pods, on one of their ports."""
    selector = service["spec"]["selector"].items()
    selected = [pod for pod in pods if selector <= pod["metadata"]["labels"].items()]
    names = sorted(pod["metadata"]["name"] for pod in selected)
    errors = [f"missing: {name}" for name in sorted(set(wanted) - set(names))]
    errors += [f"too many: {name}" for name in sorted(set(names) - set(wanted))]
    (port,) = service["spec"]["ports"]
    for pod in selected:
        ports = [p for c in pod["spec"]["containers"] for p in c.get("ports", ())]
        if ports and port["targetPort"] not in [item["containerPort"] for item in ports]:
            errors.append(f"{pod['metadata']['name']}: has no port {port['targetPort']}")
    _raise_errors(errors, f"Service {service['metadata']['name']} selects other pods")


def _raise_errors(errors: Sequence[str], title: str) -> None:
    if errors:
        raise AssertionError(f"{title}:\n  " + "\n  ".join(errors[:20]))
