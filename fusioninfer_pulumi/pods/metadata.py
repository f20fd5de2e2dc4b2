"""`podLabels` and `podAnnotations`: metadata of pods beside that of their templates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fusioninfer_pulumi.api.role import ComponentType, RoleArgs
from fusioninfer_pulumi.api.router import EndpointPickerArgs
from fusioninfer_pulumi.api.service import InferenceServiceArgs

_TEMPLATES = ("template", "leader_template", "worker_template")


def with_pod_metadata(args: InferenceServiceArgs) -> InferenceServiceArgs:
    """A service whose templates have its pod labels and annotations, and those of their roles.

    A role's value of a key wins over the service's, and a template's over both.
    """

    def labelled(role: RoleArgs) -> RoleArgs:
        more = {
            "labels": {**args.pod_labels, **role.pod_labels},
            "annotations": {**args.pod_annotations, **role.pod_annotations},
        }
        if not any(more.values()):
            return role
        if role.component_type is ComponentType.ROUTER:
            picker = role.endpoint_picker or EndpointPickerArgs()
            template = _with_metadata(picker.template or {}, more)
            changed = picker.model_copy(update={"template": template})
            return role.model_copy(update={"endpoint_picker": changed})
        templates = {
            name: _with_metadata(template, more)
            for name in _TEMPLATES
            if (template := getattr(role, name)) is not None
        }
        return role.model_copy(update=templates)

    return args.model_copy(update={"roles": [labelled(role) for role in args.roles]})


def _with_metadata(
    template: Mapping[str, Any], more: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    metadata = dict(template.get("metadata") or {})
    for key, values in more.items():
        if values:
            metadata[key] = {**values, **(metadata.get(key) or {})}
    return {**template, "metadata": metadata}
