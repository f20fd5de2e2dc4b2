"""Grafana dashboards of a service: files of `generated/dashboards` with its names filled in."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from fusioninfer_pulumi.generated import FOLDER
from fusioninfer_pulumi.kube import labels, object_names
from fusioninfer_pulumi.kube.object_metadata import ServiceMeta, build_object, metadata
from fusioninfer_pulumi.operations.monitors import (
    MonitoringPlan,
    replicas_up,
    role_selector,
)

#: The label by which the sidecar of Grafana's Helm chart finds ConfigMaps with dashboards.
GRAFANA_LABELS = {"grafana_dashboard": "1"}
#: Placeholder in the panels for the GPUs of all ready replicas.
_GPUS = "$gpus"
#: Grafana's longest uid.
_UID = 40


def boards(monitoring: MonitoringPlan) -> list[str]:
    """Return the names of the dashboards of a service, none without any monitor."""
    chosen = ["service", "replicas"] if monitoring.engines else []
    if monitoring.picker:
        chosen.append("picker")
    return [*chosen, "gateway"] if chosen and monitoring.gateway else chosen


def render_dashboards(meta: ServiceMeta, monitoring: MonitoringPlan) -> dict[str, str]:
    """Return the dashboards of a service, JSON by the name of the file.

    Grafana's sidecar writes the files of all ConfigMaps into one folder: their names differ
    between services.
    """
    return {
        f"{meta.namespace}.{meta.service}.{name}.json": _filled(meta, monitoring, name)
        for name in boards(monitoring)
    }


def dashboards_config_map(meta: ServiceMeta, monitoring: MonitoringPlan) -> dict[str, Any]:
    """Build the ConfigMap that Grafana's sidecar reads."""
    args = monitoring.args.dashboards
    chosen = GRAFANA_LABELS if args is None or not args.labels else args.labels
    built = metadata(
        meta, object_names.dashboards(meta.service), {**chosen, labels.SERVICE: meta.service}
    )
    if args is not None and args.folder is not None:
        built["annotations"] = {**built.get("annotations", {}), "grafana_folder": args.folder}
    return build_object("v1", "ConfigMap", built, data=render_dashboards(meta, monitoring))


def _filled(meta: ServiceMeta, monitoring: MonitoringPlan, name: str) -> str:
    text = (FOLDER / "dashboards" / f"{name}.json").read_text(encoding="utf-8")
    board = json.loads(text)
    values = {"namespace": meta.namespace, "service": meta.service}
    for variable in board["templating"]["list"]:
        if variable["type"] == "constant":
            variable["query"] = values[variable["name"]]
    gpus = _gpus(meta, monitoring)
    if gpus is None:
        board["panels"] = [panel for panel in board["panels"] if _GPUS not in json.dumps(panel)]
    for panel in board["panels"]:
        for target in panel.get("targets", ()):
            target["expr"] = target["expr"].replace(_GPUS, gpus or "")
    board["title"] = f"{meta.namespace}/{meta.service}: {name}"
    # Stable across updates, and unique to the service.
    digest = hashlib.sha256("/".join([*values.values(), name]).encode()).hexdigest()
    board["uid"] = f"fusioninfer-{digest}"[:_UID]
    return json.dumps(board, indent=1, sort_keys=True) + "\n"


def _gpus(meta: ServiceMeta, monitoring: MonitoringPlan) -> str | None:
    """Return the GPUs of ready replicas in PromQL; None if no role requests any."""
    parts = [
        f"{replicas_up(role_selector(meta, role))} * {role.replica_accelerators}"
        for role in monitoring.engines
        if role.replica_accelerators
    ]
    return " + ".join(parts) or None
