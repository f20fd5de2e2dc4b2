"""Variables that containers expect from the controller that they were written for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fusioninfer_pulumi.api.role import PodEnvironment
from fusioninfer_pulumi.kube import labels

Manifest = dict[str, Any]


def with_environment(spec: Manifest, asked: PodEnvironment | None) -> Manifest:
    """Adds variables to every container of a pod.

    Args:
        spec: Pod spec; it is not changed.
        asked: Whose variables, None for none.

    Returns:
        The pod spec. What is added stands before the container's own variables, which may refer
        to it, and behind those of LeaderWorkerSet, which its webhook puts first.
    """
    if asked is None:
        return spec
    return {
        **spec,
        **{
            key: [_container(each) for each in spec[key]]
            for key in ("initContainers", "containers")
            if spec.get(key)
        },
    }


def _container(container: Mapping[str, Any]) -> Manifest:
    own = list(container.get("env") or ())
    said = {each.get("name") for each in own}
    added = [
        {"name": name, "value": value}
        for name, value in labels.KTHENA_ENVIRONMENT.items()
        if name not in said
    ]
    return {**container, "env": [*added, *own]}
