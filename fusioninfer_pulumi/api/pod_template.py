"""Checks of users' pod templates: structure, and fields that the library reads or sets.

`checks/pods/template_checks.py` checks the generated pods against further API server rules.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from fusioninfer_pulumi.api.field_types import check_json
from fusioninfer_pulumi.findings import OUTPUT_HINT, Finding, Location, error
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.kube.pulumi_outputs import output_paths
from fusioninfer_pulumi.rules.common import (
    FIELD_REQUIRED,
    FIELD_WITHOUT_EFFECT,
    NAME_NOT_FOUND,
    OUTPUT_NOT_ALLOWED,
    SET_BY_LIBRARY,
)
from fusioninfer_pulumi.schemas.kind_schema import POD_TEMPLATE
from fusioninfer_pulumi.schemas.schema_check import part_findings


def pod_template_findings(
    prefix: Location, template: Mapping[str, Any], serving_container: str | None = None
) -> Iterator[Finding]:
    """Check one pod template; a container named `serving_container`, if set, must exist."""
    yield from part_findings(prefix, template, POD_TEMPLATE)
    yield from check_json(prefix, template)
    for location in output_paths(template):
        if not _may_be_output(location):
            yield error(OUTPUT_NOT_ALLOWED, (*prefix, *location), OUTPUT_HINT)
    spec, metadata = template.get("spec"), template.get("metadata")
    if isinstance(metadata, Mapping):
        for key in metadata:
            if key in ("finalizers", "name", "namespace"):
                message = "has no effect on pods; allowed: labels, annotations"
                yield error(FIELD_WITHOUT_EFFECT, (*prefix, "metadata", key), message)
        pod_labels = metadata.get("labels")
        if isinstance(pod_labels, Mapping):
            owned = labels.OWNED_LABELS | labels.LWS_OWNED_LABELS
            # Other labels with the library's prefix are allowed in templates.
            owned_keys = [key for key in pod_labels if key in owned]
            yield from reserved_key_findings((*prefix, "metadata", "labels"), owned_keys)
    if isinstance(spec, Mapping):
        yield from _container_findings((*prefix, "spec"), spec, serving_container)
    elif spec is None:
        yield error(FIELD_REQUIRED, (*prefix, "spec"), "is required: a mapping")


def role_template_findings(
    location: Location, template: Mapping[str, Any], container: str | None, *, has_model: bool
) -> Iterator[Finding]:
    """Check a role's template; the field `template` may be partial if the service has a model."""
    if has_model and location[-1] == "template":
        yield from partial_template_findings(location, template, container)
    else:
        yield from pod_template_findings(location, template, container)


def partial_template_findings(
    location: Location, template: Mapping[str, Any], serving_container: str | None = None
) -> Iterator[Finding]:
    """Check a template that the library completes, in which only names are required."""
    for finding in pod_template_findings(location, template, serving_container):
        if finding.rule != FIELD_REQUIRED.id or finding.location[-1] == "name":
            yield finding


def reserved_key_findings(
    location: Location, keys: Iterable[Any], reserved: Collection[str] = labels.LWS_OWNED_LABELS
) -> Iterator[Finding]:
    """Reject label or annotation keys that are reserved or have the library's prefix."""
    for key in keys:
        if str(key).startswith(labels.PREFIX) or key in reserved:
            message = "is set by fusioninfer-pulumi or LeaderWorkerSet; remove it"
            yield error(SET_BY_LIBRARY, (*location, str(key)), message)


def _container_findings(
    location: Location, spec: Mapping[str, Any], serving_container: str | None
) -> Iterator[Finding]:
    containers = spec.get("containers")
    if not isinstance(containers, list):
        return
    if not containers:
        yield error(
            FIELD_REQUIRED, (*location, "containers"), "must contain at least one container"
        )
    names = [container.get("name") for container in containers if isinstance(container, Mapping)]
    if serving_container is not None and names and serving_container not in names:
        # `location` is ("roles", index, template, "spec").
        message = (
            f"no container of that name in {location[2]}; allowed: {', '.join(map(str, names))}"
        )
        yield error(NAME_NOT_FOUND, (*location[:2], "container"), message)


# Fields that cannot be Outputs, because the library reads or extends them. `*` is any key.

_RESOURCE_FIELDS = ("", ".limits", ".limits.*", ".requests", ".requests.*", ".claims")
_CONTAINER_FIELDS = (
    "", ".name", ".command", ".args", ".env", ".env.name", ".ports", ".ports.containerPort",
    ".ports.protocol", ".volumeMounts", ".volumeDevices", ".securityContext",
    ".securityContext.capabilities", ".securityContext.capabilities.add",
    ".securityContext.capabilities.drop", *(f".resources{path}" for path in _RESOURCE_FIELDS),
)  # fmt: skip
_READ_FIELDS = {
    "", "metadata", "metadata.labels", "metadata.annotations", "spec",
    "spec.overhead", "spec.overhead.*", "spec.volumes", "spec.volumes.emptyDir.sizeLimit",
    "spec.imagePullSecrets", "spec.resourceClaims", "spec.topologySpreadConstraints",
    "spec.restartPolicy", "spec.schedulerName", "spec.priorityClassName",
    *(f"spec.resources{path}" for path in _RESOURCE_FIELDS),
    *(
        f"spec.{field}{suffix}"
        for field in ("containers", "initContainers")
        for suffix in _CONTAINER_FIELDS
    ),
}  # fmt: skip
#: Lists whose items may be Outputs, because the library passes the items through.
_LISTS_WITH_OUTPUTS = ("command", "args", "add", "drop")


def _may_be_output(location: Location) -> bool:
    if location and isinstance(location[-1], int) and location[-2] in _LISTS_WITH_OUTPUTS:
        return True
    # Omit list indexes: `spec.volumes[0].name` is `spec.volumes.name`.
    *parents, last = (part for part in location if isinstance(part, str))
    return _READ_FIELDS.isdisjoint(".".join([*parents, key]) for key in (last, "*"))
