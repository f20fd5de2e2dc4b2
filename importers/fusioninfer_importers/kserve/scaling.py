"""Converts the `scaling` block of a workload, and the annotation that stops a service."""

from __future__ import annotations

import re
from typing import Any

import yaml

from fusioninfer_importers.conversion import ServiceBuilder, filter_kind
from fusioninfer_importers.gang import GANG, GANG_MODE
from fusioninfer_importers.kserve._child_names import WORKLOADS, name_child
from fusioninfer_importers.kserve._nodes import Node, copy_fields, copy_node, set_fields
from fusioninfer_importers.rules import REFERENCE_MISSING
from fusioninfer_pulumi.plugins.importers import Location, SourceDocument, SourceField, object_names

#: Annotation that scales a service to zero (GetForceStopRuntime of KServe, any letter case).
STOP = "serving.kserve.io/stop"
#: The ConfigMap with the settings of KServe's controller, and its key for the Workload Variant
#: Autoscaler (WVA).
SETTINGS, WVA_SETTINGS = "inferenceservice-config", "autoscaling-wva-controller-config"
#: Label by which WVA knows the accelerator (wvaLabels of KServe's scaling.go).
_ACCELERATOR = "inference.optimization/acceleratorName"
#: Matches the pattern by which queries match the end of a Deployment's pod names: the hash of the
#: ReplicaSet and a random suffix.
_REPLICA_SET_POD = re.escape("-[a-z0-9]+-[a-z0-9]+")
#: Metric with WVA's decision.
_DESIRED = "wva_desired_replicas"
#: Supported fields of a ScaledObject.
_KEDA_FIELDS = (
    "pollingInterval",
    "cooldownPeriod",
    "initialCooldownPeriod",
    "idleReplicaCount",
    "fallback",
)
#: Path of the HorizontalPodAutoscaler's behavior in a ScaledObject.
_BEHAVIOR_PATH = ("advanced", "horizontalPodAutoscalerConfig", "behavior")


def find_stop_annotation(document: SourceDocument) -> SourceField | None:
    """Return the annotation that stops a service, or None if the service runs."""
    value = (document.metadata.get("annotations") or {}).get(STOP)
    is_stopped = isinstance(value, str) and value.lower() == "true"
    return document.at("metadata", "annotations", STOP) if is_stopped else None


def scale_roles_to_zero(builder: ServiceBuilder) -> None:
    """Set the replicas of every serving role to 0 when the service is stopped."""
    stop = find_stop_annotation(builder.main)
    if stop is None:
        return
    for index, role in enumerate(builder.roles):
        if role["componentType"] != "router":
            builder.derive(("spec", "roles", index, "replicas"), 0, stop)


def convert_scaling(builder: ServiceBuilder, target: Location, workload: Node) -> None:
    """Convert the scaling of a workload: KEDA's triggers, or WVA with an HPA or KEDA."""
    scaling, report = workload.get("scaling"), builder.report
    if scaling is None:
        return
    if workload.get("replicas") is not None:
        report.invalid(
            scaling.field,
            "replicas and scaling are mutually exclusive; use scaling for autoscaled deployments "
            "or replicas for static deployments",
        )
        return
    if find_stop_annotation(builder.main) is not None:
        report.left_out(scaling.field, "ignored while the service is stopped")
        # With this layout the LeaderWorkerSets keep their names when the service starts again.
        builder.default(("spec", "layout"), "PerRole", scaling.field)
        return
    wva = scaling.get("wva")
    if wva is None:
        _convert_triggers(builder, target, scaling)
    else:
        _convert_wva(builder, target, workload, scaling, wva)


def _convert_wva(
    builder: ServiceBuilder, target: Location, workload: Node, scaling: Node, wva: Node
) -> None:
    """Convert a workload whose replicas WVA decides (KServe's scaling.go).

    WVA finds the autoscaler by annotations, and publishes its decision under the autoscaler's name.
    """
    autoscaling = (*target, "autoscaling")
    builder.report.consume(wva.field)
    name = object_names.role_lws(str(builder.main.name), builder.get((*target, "name")))
    keda, behavior = wva.get("keda"), wva.get("hpa", "behavior")
    if keda is None:
        selector = {"variant_name": name}
        metric = {"name": _DESIRED, "source": "External", "selector": selector, "target": "1"}
        builder.derive((*autoscaling, "metrics"), [metric], wva.field)
        builder.report.translated(
            wva.field,
            f"the HorizontalPodAutoscaler takes {_DESIRED} as the number of replicas "
            "(AverageValue); KServe's target of type Value multiplies the replicas by it",
        )
    else:
        trigger = _build_trigger(builder, name, keda.field)
        if trigger is None:
            builder.report.consume(scaling.field)
            return
        builder.default((*autoscaling, "engine"), "KEDA", keda.field)
        builder.default((*autoscaling, "keda", "triggers"), [trigger], keda.field)
        _convert_keda_fields(builder, autoscaling, keda)
    if behavior is not None:
        copy_node(builder, (*autoscaling, "behavior"), behavior)
    copy_fields(builder, autoscaling, scaling, "minReplicas", "maxReplicas")
    _set_minimum(builder, target, scaling)
    model, cost = builder.get(("spec", "model")) or {}, wva.get("variantCost")
    annotations = {
        "llm-d.ai/managed": "true",
        "llm-d.ai/model-id": model.get("name") or str(builder.main.name),
        "llm-d.ai/variant-cost": "10.0" if cost is None else str(cost.content),
    }
    builder.derive((*autoscaling, "annotations"), annotations, wva.field)
    label = ("metadata", "labels", _ACCELERATOR)
    accelerator = workload.get("labels", _ACCELERATOR)
    current = builder.get(label) or "unknown"
    value = current if accelerator is None else str(accelerator.content)
    if current not in ("unknown", value):
        builder.report.unsupported(
            wva.field,
            f"{_ACCELERATOR} applies to all autoscalers of a service, but the values {current} "
            f"and {value} conflict; use one value for prefill and decode",
        )
    builder.default(label, value, wva.field)


def _build_trigger(builder: ServiceBuilder, name: str, field: SourceField) -> dict[str, Any] | None:
    """Return KEDA's trigger for WVA's decision, or None if Prometheus's address is unknown."""
    documents = filter_kind(builder.report.documents, "ConfigMap")
    settings: Any = {}
    for document in filter(is_settings, documents):
        settings_field = document.at("data", WVA_SETTINGS)
        try:
            settings = (yaml.safe_load(str(settings_field.value)) or {}).get("prometheus") or {}
        except (AttributeError, yaml.YAMLError):
            continue
        builder.report.consume(settings_field)
        builder.add_source(document)
    if not settings.get("url"):
        builder.report.unsupported(
            field,
            f"the address of Prometheus is in {WVA_SETTINGS} of KServe's ConfigMap {SETTINGS}, "
            "which is not in this input; add it as a document, or use wva.hpa",
            REFERENCE_MISSING,
        )
        return None
    namespace = builder.main.namespace
    query = f'{_DESIRED}{{variant_name="{name}",exported_namespace="{namespace}"}}'
    metadata = {
        "serverAddress": settings["url"],
        "query": query,
        "threshold": "1",
        "unsafeSsl": str(settings.get("tlsInsecureSkipVerify", False)).lower(),
    }
    trigger = {"type": "prometheus", "name": "wva-desired-replicas", "metadata": metadata}
    if settings.get("authModes"):
        metadata["authModes"] = settings["authModes"]
    if settings.get("triggerAuthName"):
        reference = {"name": settings["triggerAuthName"], "kind": settings.get("triggerAuthKind")}
        trigger["authenticationRef"] = {key: item for key, item in reference.items() if item}
    return trigger


def is_settings(document: SourceDocument) -> bool:
    """Return whether a ConfigMap has the settings of KServe's controller."""
    return bool(document.name == SETTINGS)


def _set_minimum(builder: ServiceBuilder, target: Location, scaling: Node) -> None:
    """Set replicas, gang and layout so that the autoscaler can scale to its minimum."""
    minimum = scaling.get("minReplicas")
    if minimum is not None:
        builder.default((*target, "replicas"), minimum.content, minimum.field)
    is_pd = any(role["componentType"] == "prefiller" for role in builder.roles)
    if is_pd and builder.get(GANG_MODE) is None:
        # The gang must be complete when the role has its minimum of replicas.
        gang_minimum = minimum or Node(scaling.field, 1)
        name = builder.get((*target, "name"))
        builder.default((*GANG, "minRoleReplicas", name), gang_minimum.content, gang_minimum.field)
    # An autoscaler scales one object: all replicas of a role must be in one LeaderWorkerSet.
    builder.default(("spec", "layout"), "PerRole", scaling.field)


def _convert_triggers(builder: ServiceBuilder, target: Location, scaling: Node) -> None:
    """Copy the triggers, whose queries may name pods of KServe's Deployments."""
    report, autoscaling = builder.report, (*target, "autoscaling")
    keda, triggers = scaling.get("keda"), scaling.get("keda", "triggers")
    if keda is None or triggers is None or not triggers.items:
        report.unsupported(scaling.field, "has no metrics; set scaling.keda.triggers")
        return
    copy_fields(builder, autoscaling, scaling, "minReplicas", "maxReplicas")
    builder.default((*autoscaling, "engine"), "KEDA", keda.field)
    _set_minimum(builder, target, scaling)
    items = [_replace_pod_names(builder, trigger) for trigger in triggers.items]
    copy_node(builder, (*autoscaling, "keda", "triggers"), Node(triggers.field, items))
    _convert_keda_fields(builder, autoscaling, set_fields(keda, triggers=None))


def _convert_keda_fields(builder: ServiceBuilder, autoscaling: Location, keda: Node) -> None:
    """Convert the fields of a ScaledObject other than its triggers."""
    copy_fields(builder, (*autoscaling, "keda"), keda, *_KEDA_FIELDS)
    behavior = keda.get(*_BEHAVIOR_PATH)
    if behavior is not None:
        copy_node(builder, (*autoscaling, "behavior"), behavior)
    for path, field in keda.leaves():
        if path and path[0] not in _KEDA_FIELDS and path[:3] != _BEHAVIOR_PATH:
            builder.report.unsupported(
                field.field,
                f"is not supported; scaling.keda has triggers, {', '.join(_KEDA_FIELDS)} and "
                f"{'.'.join(_BEHAVIOR_PATH)}",
            )


def _replace_pod_names(builder: ServiceBuilder, trigger: Node) -> Node:
    """Return a trigger whose query names the pods of our LeaderWorkerSets."""
    metadata, node = trigger.get("metadata"), trigger.get("metadata", "query")
    if metadata is None or node is None:
        return trigger
    service = str(builder.main.name)
    main_role = "decode" if builder.roles[0]["name"] == "prefill" else "main"
    query = str(node.content)
    for suffix in WORKLOADS:
        role = "prefill" if suffix.endswith("prefill") else main_role
        pods = object_names.role_lws(service, role)
        kserve_name = re.escape(name_child(service, suffix))
        query = re.sub(rf"\b{kserve_name}(?:{_REPLICA_SET_POD})", f"{pods}-[0-9]+", query)
        # The name with a pattern for the rest (`-.*`, `-[0-9]+`), or at the end of an alternative.
        query = re.sub(rf"\b{kserve_name}(?=-[.\[]|[\"|)$])", pods, query)
    if query == node.content:
        return trigger
    builder.report.translated(node.field, f"names the pods of the LeaderWorkerSet here: {query}")
    return set_fields(trigger, metadata=set_fields(metadata, query=Node(node.field, query)))
