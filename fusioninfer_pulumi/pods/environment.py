"""Variables that containers expect from the controller that they were written for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fusioninfer_pulumi.findings import Finding
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.pods.pod import Context, Pods


def environment(pods: Pods, ctx: Context) -> tuple[Pods, list[Finding]]:
    """Adds variables to every container of the pods.

    They stand before the container's own variables, which may refer to them, and behind those of
    LeaderWorkerSet, which its webhook puts first.
    """
    if ctx.role.environment is None:
        return pods, []
    for pod in pods.each():
        fields = {
            key: [_container(container) for container in pod.spec[key]]
            for key in ("initContainers", "containers")
            if pod.spec.get(key)
        }
        pods = pods.put(pod.with_spec(**fields))
    return pods, []


def _container(container: Mapping[str, Any]) -> dict[str, Any]:
    variables = list(container.get("env") or ())
    names = {variable.get("name") for variable in variables}
    added = [
        {"name": name, "value": value}
        for name, value in labels.KTHENA_ENVIRONMENT.items()
        if name not in names
    ]
    return {**container, "env": [*added, *variables]}
