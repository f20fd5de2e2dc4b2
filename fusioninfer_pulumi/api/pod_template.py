"""Checks of users' pod templates: structure, and fields that the library reads or sets.

Further rules of API validation apply to finished pods (`checks/pods/template.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fusioninfer_pulumi.api.field_types import json_findings, known_json_findings, label_key_finding
from fusioninfer_pulumi.api.validation_errors import type_mismatch
from fusioninfer_pulumi.findings import OUTPUT_HINT, Finding, Location, error
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.kube.pulumi_outputs import is_output, output_paths
from fusioninfer_pulumi.rules.common import (
    FIELD_REQUIRED,
    FIELD_WITHOUT_EFFECT,
    INVALID_FORMAT,
    NAME_NOT_FOUND,
    OUTPUT_NOT_ALLOWED,
    SET_BY_LIBRARY,
)
from fusioninfer_pulumi.schemas.kind_schema import POD_TEMPLATE, Part
from fusioninfer_pulumi.schemas.schema_check import part_findings

Check = Callable[[Location, Any], Iterator[Finding]]


def pod_template_findings(
    at: Location, template: Mapping[str, Any], serving: str | None
) -> Iterator[Finding]:
    """Check one pod template; `serving` names a container that must be in it, None for any."""
    yield from part_findings(at, template, POD_TEMPLATE)
    yield from json_findings(at, template)
    for location in output_paths(template):
        if not _may_be_output(location):
            yield error(OUTPUT_NOT_ALLOWED, (*at, *location), OUTPUT_HINT)
    spec = template.get("spec")
    if not isinstance(spec, Mapping):
        if spec is None:
            yield type_mismatch((*at, "spec"), spec, "a mapping")
        return
    for location, value in _walk(template):
        check = _RULES.get(_pattern(location))
        if check is not None and value is not None and not is_output(value):
            yield from check((*at, *location), value)
    yield from _containers((*at, "spec"), spec, serving)


def pod_part_findings(at: Location, value: Any, part: Part) -> Iterator[Finding]:
    """Check a part of a pod outside of its template, without Outputs; None is not set."""
    if value is not None:
        yield from part_findings(at, value, part)
        yield from known_json_findings(at, value)


def image_findings(at: Location, image: Any) -> Iterator[Finding]:
    """Check the reference of an image, which may be an Output; None is not set."""
    if isinstance(image, str) and (not image or " " in image):
        yield type_mismatch(at, image, "an image reference", INVALID_FORMAT)


def _walk(value: Any, at: Location = ()) -> Iterator[tuple[Location, Any]]:
    """Yield every value in a template with its location, in document order."""
    yield at, value
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _walk(item, (*at, str(key)))
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _walk(item, (*at, index))


def _pattern(location: Location) -> str:
    """A location without list indexes: `spec.volumes[0].name` becomes `spec.volumes.name`."""
    return ".".join(part for part in location if isinstance(part, str))


def _label_key(at: Location, value: Any) -> Iterator[Finding]:
    problem = label_key_finding(at, value) if isinstance(value, str) else None
    if problem is not None:
        yield problem


def _scheduler(at: Location, value: Any) -> Iterator[Finding]:
    if isinstance(value, str) and any(letter.isspace() for letter in value):
        yield type_mismatch(at, value, "the name of a scheduler", INVALID_FORMAT)


def _metadata(at: Location, metadata: Any) -> Iterator[Finding]:
    for key in _mapping(metadata):
        if key in ("finalizers", "name", "namespace"):
            message = "has no effect on pods; allowed: labels, annotations"
            yield error(FIELD_WITHOUT_EFFECT, (*at, key), message)


def _labels(at: Location, value: Any) -> Iterator[Finding]:
    for key in _mapping(value):
        if key in labels.OWNED_LABELS or key in labels.LWS_OWNED_LABELS:
            owner = "fusioninfer-pulumi" if key in labels.OWNED_LABELS else "LeaderWorkerSet"
            yield error(SET_BY_LIBRARY, (*at, str(key)), f"is set by {owner}; remove it")


def _mapping(value: Any) -> Mapping[Any, Any]:
    return value if isinstance(value, Mapping) else {}


def _containers(at: Location, spec: Mapping[str, Any], serving: str | None) -> Iterator[Finding]:
    listed = spec.get("containers")
    if not isinstance(listed, list):
        return
    if not listed:
        yield error(FIELD_REQUIRED, (*at, "containers"), "must contain at least one container")
    names = [container.get("name") for container in listed if isinstance(container, Mapping)]
    if serving is not None and names and serving not in names:
        listed_names = ", ".join(str(name) for name in names)
        yield error(
            NAME_NOT_FOUND,
            (*at[:2], "container"),
            f"no container of that name in {at[2]}; allowed: {listed_names}",
        )


#: Rules by the fields that they check, without the indexes of lists.
_RULES: Mapping[str, Check] = {
    "metadata": _metadata,
    "metadata.labels": _labels,
    # The API server accepts any value for these fields, but an invalid name never matches a node or
    # scheduler.
    "spec.schedulerName": _scheduler,
    "spec.topologySpreadConstraints.topologyKey": _label_key,
}

# Fields that are read or extended: an Output there, or in the items of a list, is rejected.

_AMOUNTS = ("", ".limits", ".limits.*", ".requests", ".requests.*", ".claims")
_READ_OF_CONTAINERS = (
    "", ".name", ".command", ".args", ".env", ".env.name", ".ports", ".ports.containerPort",
    ".ports.protocol", ".volumeMounts", ".volumeDevices", ".securityContext",
    ".securityContext.capabilities", ".securityContext.capabilities.add",
    ".securityContext.capabilities.drop", *(f".resources{path}" for path in _AMOUNTS),
)  # fmt: skip
_READ = {
    "", "metadata", "metadata.labels", "metadata.annotations", "spec",
    "spec.overhead", "spec.overhead.*", "spec.volumes", "spec.volumes.emptyDir.sizeLimit",
    "spec.imagePullSecrets", "spec.resourceClaims", "spec.topologySpreadConstraints",
    "spec.restartPolicy", "spec.schedulerName", "spec.priorityClassName",
    *(f"spec.resources{path}" for path in _AMOUNTS),
    *(
        f"spec.{field}{suffix}"
        for field in ("containers", "initContainers")
        for suffix in _READ_OF_CONTAINERS
    ),
}  # fmt: skip
#: Lists whose items may be Outputs: the items are passed on, only the list is read.
_LISTS_OF_LEAVES = ("command", "args", "add", "drop")


def _may_be_output(location: Location) -> bool:
    if location and isinstance(location[-1], int) and location[-2] in _LISTS_OF_LEAVES:
        return True
    return not {_pattern(location), f"{_pattern(location[:-1])}.*"} & _READ
