"""What API validation rejects in a finished pod template, as far as people get it wrong.

Constraints of single fields are JSON Schema (`schemas/pod_template.json`), those between fields are
here. The rest is left to the API server: `checks.server` asks it.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from typing import Any

from fusioninfer_pulumi.checks.pods.resources import (
    known_list,
    known_mapping,
    known_mappings,
    known_text,
    missing_name,
    resource_findings,
)
from fusioninfer_pulumi.findings import Finding, Location, error, shown
from fusioninfer_pulumi.kube.outputs import is_output
from fusioninfer_pulumi.rules.common import DUPLICATE_NAME, FIELD_OUT_OF_PLACE
from fusioninfer_pulumi.schemas.check import pod_template_findings


class Owner(enum.Enum):
    """Whose pod template it is."""

    STATEFUL_SET = enum.auto()
    DEPLOYMENT = enum.auto()
    JOB = enum.auto()


_RESTART_POLICY: Location = ("spec", "restartPolicy")


def template_findings(
    template: Mapping[str, Any], owner: Owner = Owner.STATEFUL_SET
) -> Iterator[Finding]:
    """Checks a finished pod template; locations are relative to it."""
    for finding in pod_template_findings(template):
        if owner is not Owner.JOB or finding.location != _RESTART_POLICY:
            yield finding
    spec = known_mapping(template.get("spec"))
    volumes, claims = _names(spec, "volumes"), _names(spec, "resourceClaims")
    names = _names(spec, "containers") or ()
    for key in ("initContainers", "containers"):
        for index, container in known_mappings(spec.get(key)):
            at: Location = ("spec", key, index)
            yield from resource_findings((*at, "resources"), container.get("resources"), claims)
            yield from _port_names(at, container)
            for position, mount in known_mappings(container.get("volumeMounts")):
                yield from missing_name((*at, "volumeMounts", position), mount, volumes, "volume")
            name = known_text(container.get("name"))
            if key == "initContainers" and name and name in names:
                message = f"{shown(name)} names two containers of the pod"
                yield error(DUPLICATE_NAME, (*at, "name"), message)
    priority = spec.get("priority")
    if isinstance(priority, int) and priority and spec.get("priorityClassName") in (None, ""):
        message = "is set by the API server, by priorityClassName alone; name a class instead"
        yield error(FIELD_OUT_OF_PLACE, ("spec", "priority"), message)


def _port_names(at: Location, container: Mapping[str, Any]) -> Iterator[Finding]:
    names: set[str] = set()
    for index, port in known_mappings(container.get("ports")):
        name = known_text(port.get("name"))
        if name and name in names:
            message = f"{shown(name)} names two ports of the container"
            yield error(DUPLICATE_NAME, (*at, "ports", index, "name"), message)
        names.add(name)


def _names(spec: Mapping[str, Any], key: str) -> set[str] | None:
    """The names of a list's items, None where they are not all known."""
    value = spec.get(key)
    if is_output(value) or any(
        is_output(item) or is_output(known_mapping(item).get("name")) for item in known_list(value)
    ):
        return None
    return {known_text(item.get("name")) for _, item in known_mappings(value)} - {""}
