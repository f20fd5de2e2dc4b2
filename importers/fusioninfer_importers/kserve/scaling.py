"""Replicas of a workload: its `scaling` block as autoscaling, and the annotation that stops all."""

from __future__ import annotations

import re

from fusioninfer_importers.conversion import ServiceBuilder
from fusioninfer_importers.gang import GANG_MODE
from fusioninfer_importers.kserve._child_names import WORKLOADS, child_name
from fusioninfer_importers.kserve._nodes import Node, copy_fields, copy_node, with_fields
from fusioninfer_pulumi.plugins.importers import Location, SourceDocument, SourceField, object_names

#: Scales everything to nothing (GetForceStopRuntime of KServe's pkg/utils, any letter case).
STOP = "serving.kserve.io/stop"
#: Label by which WVA knows the accelerator (wvaLabels of KServe's scaling.go).
_ACCELERATOR = "inference.optimization/acceleratorName"
#: Pattern of the end of a Deployment's pod names: hash of the ReplicaSet and of the pod.
_REPLICA_SET_POD = re.escape("-[a-z0-9]+-[a-z0-9]+")
#: Fields of a ScaledObject that are passed on.
_KEDA = (
    "pollingInterval",
    "cooldownPeriod",
    "initialCooldownPeriod",
    "idleReplicaCount",
    "fallback",
)
#: How fast replicas change.
_BEHAVIOR = ("advanced", "horizontalPodAutoscalerConfig", "behavior")


def stop_annotation(document: SourceDocument) -> SourceField | None:
    """The annotation that stops a service, None when the service runs."""
    value = (document.metadata.get("annotations") or {}).get(STOP)
    stops = isinstance(value, str) and value.lower() == "true"
    return document.at("metadata", "annotations", STOP) if stops else None


def park_roles(builder: ServiceBuilder) -> None:
    """Sets the replicas of every serving role to 0 when the service is stopped."""
    stop = stop_annotation(builder.main)
    if stop is None:
        return
    for index, role in enumerate(builder.roles):
        if role["componentType"] != "router":
            builder.derive(("spec", "roles", index, "replicas"), 0, stop)


def convert_scaling(builder: ServiceBuilder, target: Location, workload: Node) -> None:
    """Convert the scaling of a workload: KEDA's triggers, or WVA with an HPA."""
    scaling, report = workload.get("scaling"), builder.report
    if scaling is None:
        return
    if workload.get("replicas") is not None:
        report.invalid(
            scaling.at,
            "replicas and scaling are mutually exclusive; use scaling for autoscaled deployments "
            "or replicas for static deployments",
        )
        return
    if stop_annotation(builder.main) is not None:
        report.left_out(
            scaling.at,
            "ignored while the service is stopped",
        )
        # So that the LeaderWorkerSets keep their names when the service starts again.
        builder.default(("spec", "layout"), "PerRole", scaling.at)
        return
    wva = scaling.get("wva")
    if wva is None:
        _convert_triggers(builder, target, scaling)
    elif wva.get("hpa") is None:
        report.consume(scaling.at)
        report.unsupported(
            wva.at,
            "the address of Prometheus is a setting of KServe's controller; use wva.hpa, or "
            "scaling.keda with a trigger for wva_desired_replicas",
        )
    else:
        _convert_wva(builder, target, scaling, wva)


def _convert_wva(builder: ServiceBuilder, target: Location, scaling: Node, wva: Node) -> None:
    """Convert a workload that follows the Workload Variant Autoscaler (expectedHPA of KServe).

    WVA finds the HorizontalPodAutoscaler by its annotations, which are the service's here, and
    publishes its decision under the autoscaler's name.
    """
    ours = (*target, "autoscaling")
    copy_fields(builder, ours, scaling, "minReplicas", "maxReplicas")
    name = object_names.role_lws(str(builder.main.name), builder.get((*target, "name")))
    metric = {
        "name": "wva_desired_replicas",
        "source": "External",
        "selector": {"variant_name": name},
        "target": "1",
    }
    builder.derive((*ours, "metrics"), [metric], wva.at)
    behavior = wva.get("hpa", "behavior")
    if behavior is not None:
        copy_node(builder, (*ours, "behavior"), behavior)
    _set_minimum(builder, target, scaling)
    model = builder.get(("spec", "model")) or {}
    cost = wva.get("variantCost")
    annotations = {
        "llm-d.ai/managed": "true",
        "llm-d.ai/model-id": model.get("name") or str(builder.main.name),
        "llm-d.ai/variant-cost": "10.0" if cost is None else str(cost.content),
    }
    for key, value in annotations.items():
        at: Location = ("metadata", "annotations", key)
        if builder.get(at) not in (None, value):
            builder.report.unsupported(
                wva.at / "variantCost",
                "annotations are the same for all autoscalers of a service; give prefill and "
                "decode the same cost",
            )
        builder.default(at, value, wva.at)
    labels = ("metadata", "labels", _ACCELERATOR)
    if builder.get(labels) is None:
        builder.default(labels, "unknown", wva.at)


def _set_minimum(builder: ServiceBuilder, target: Location, scaling: Node) -> None:
    """Set the replicas before the autoscaler acts, and one LeaderWorkerSet for the role."""
    lowest = scaling.get("minReplicas")
    if lowest is not None:
        builder.default((*target, "replicas"), lowest.content, lowest.at)
    paired = any(role["componentType"] == "prefiller" for role in builder.roles)
    if paired and builder.get(GANG_MODE) is None:
        # The gang must be complete at the minimum, too.
        least = lowest.content if lowest is not None else 1
        minima = ("spec", "schedulingStrategy", "gangPolicy", "minRoleReplicas")
        name = builder.get((*target, "name"))
        builder.default((*minima, name), least, lowest.at if lowest is not None else scaling.at)
    # LeaderWorkerSets of one replica cannot be scaled as a role.
    builder.default(("spec", "layout"), "PerRole", scaling.at)


def _convert_triggers(builder: ServiceBuilder, target: Location, scaling: Node) -> None:
    """Pass on the triggers, whose queries may name pods of KServe's Deployments."""
    report, ours = builder.report, (*target, "autoscaling")
    keda, triggers = scaling.get("keda"), scaling.get("keda", "triggers")
    if keda is None or triggers is None or not triggers.items:
        report.unsupported(scaling.at, "has no metrics; set scaling.keda.triggers")
        return
    copy_fields(builder, ours, scaling, "minReplicas", "maxReplicas")
    builder.default((*ours, "engine"), "KEDA", keda.at)
    _set_minimum(builder, target, scaling)
    items = [_with_our_pods(builder, trigger) for trigger in triggers.items]
    copy_node(builder, (*ours, "keda", "triggers"), Node(triggers.at, items))
    copy_fields(builder, (*ours, "keda"), keda, *_KEDA)
    behavior = keda.get(*_BEHAVIOR)
    if behavior is not None:
        copy_node(builder, (*ours, "behavior"), behavior)
    for path, field in keda.leaves():
        if path[0] not in ("triggers", *_KEDA) and path[:3] != _BEHAVIOR:
            report.unsupported(
                field.at,
                f"is not supported; scaling.keda has triggers, {', '.join(_KEDA)} and "
                f"{'.'.join(_BEHAVIOR)}",
            )


def _with_our_pods(builder: ServiceBuilder, trigger: Node) -> Node:
    """Return a trigger whose query names the pods of our LeaderWorkerSets."""
    metadata, node = trigger.get("metadata"), trigger.get("metadata", "query")
    if metadata is None or node is None:
        return trigger
    service = str(builder.main.name)
    main = "decode" if builder.roles[0]["name"] == "prefill" else "main"
    changed = str(node.content)
    for suffix in WORKLOADS:
        role = "prefill" if suffix.endswith("prefill") else main
        pods = object_names.role_lws(service, role)
        theirs = re.escape(child_name(service, suffix))
        changed = re.sub(rf"\b{theirs}(?:{_REPLICA_SET_POD})", f"{pods}-[0-9]+", changed)
        changed = re.sub(rf"\b{theirs}(?=-[.\[]|[\"|)$])", pods, changed)
    if changed == node.content:
        return trigger
    builder.report.translated(node.at, f"names the pods of the LeaderWorkerSet here: {changed}")
    return with_fields(trigger, metadata=with_fields(metadata, query=Node(node.at, changed)))
