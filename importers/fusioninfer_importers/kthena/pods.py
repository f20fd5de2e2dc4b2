"""Converts pod templates of a ModelServing, with variables and labels of Kthena's pods.

Kthena's controller sets three variables in every container (`environment: Kthena` of a role), and
labels that selectors refer to (pkg/model-serving-controller/utils/utils.go).
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from typing import Any

from fusioninfer_importers.conversion import ConversionReport, ServiceBuilder
from fusioninfer_importers.kthena.models import PodTemplate, Role
from fusioninfer_pulumi.plugins.importers import Location, SourceField, labels

PREFIX = "modelserving.volcano.sh/"
NAME, ROLE = f"{PREFIX}name", f"{PREFIX}role"
#: Labels that our pods have under another key, with the same values.
_EQUIVALENT_LABELS = {NAME: labels.SERVICE, ROLE: labels.ROLE_NAME}
#: Labels that our pods have under another key. Their values are different, but distinguish the same
#: pods.
_LABEL_KEYS = {
    **_EQUIVALENT_LABELS,
    f"{PREFIX}group-name": labels.GROUP_INDEX,
    f"{PREFIX}role-id": labels.REPLICA_INDEX,
    f"{PREFIX}revision": labels.REVISION,
}
_KEY_LISTS = ("matchLabelKeys", "mismatchLabelKeys")
#: The fieldPath of a variable whose value is a label of the pod.
_LABEL = re.compile(r"metadata\.labels\['([^']+)'\]")


def _make_variable(name: str, label: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{label}']"}}}


_GROUP = _make_variable("FUSIONINFER_GROUP_INDEX", labels.GROUP_INDEX)
_REPLICA = _make_variable("FUSIONINFER_REPLICA_INDEX", labels.REPLICA_INDEX)
#: Labels whose values have the form `NAME-NUMBER`: the variable that has the number, and the label
#: that has the name.
_COMPOSED = {f"{PREFIX}group-name": (_GROUP, NAME), f"{PREFIX}role-id": (_REPLICA, ROLE)}


def convert_template(
    builder: ServiceBuilder, target: Location, template: PodTemplate, role: str, field: SourceField
) -> None:
    """Convert a pod template: selectors and variables use labels of our pods."""
    pod_spec, new_positions = _replace_variables(template.spec, str(builder.main.name), role)
    spec = _replace_labels(builder.report, pod_spec, field / "spec")
    converted = {"metadata": template.metadata, "spec": spec}
    builder.copy(
        target, {key: value for key, value in converted.items() if value is not None}, field
    )
    for (key, index), positions in new_positions.items():
        env = field / "spec" / key / index / "env"
        for number, _ in enumerate(env.value):
            if number in positions:
                variable_target = (*target, "spec", key, index, "env", positions[number])
                builder.set_origin(variable_target, env / number, copied=True)
            else:
                builder.report.left_out(
                    env / number, "Kthena's controller overwrites it in every container"
                )


def read_index_from_lws_label(builder: ServiceBuilder, role: Location) -> None:
    """Make variables read the replica's index from LeaderWorkerSet's label, as PerRole needs."""
    for key in ("template", "leaderTemplate", "workerTemplate"):
        for _, container in _find_containers_with_env(builder.get((*role, key, "spec"))):
            for variable in container.get("env") or ():
                if variable == _REPLICA:
                    variable.update(_make_variable(_REPLICA["name"], labels.LWS_GROUP_INDEX))


def _find_containers_with_env(spec: Any) -> Iterator[tuple[tuple[str, int], dict[str, Any]]]:
    for key in ("initContainers", "containers"):
        containers = spec.get(key) if isinstance(spec, Mapping) else None
        for index, container in enumerate(containers if isinstance(containers, list) else ()):
            if isinstance(container, dict) and isinstance(container.get("env"), list):
                yield (key, index), container


def _replace_variables(
    template_spec: dict[str, Any] | None, service: str, role: str
) -> tuple[dict[str, Any] | None, dict[tuple[str, int], dict[int, int]]]:
    """Replace variables that are read from Kthena's labels with the labels' values.

    Variables that Kthena overwrites are dropped.

    Returns:
        The pod spec, and for each container the new index of each variable by its old index.
    """
    spec = copy.deepcopy(template_spec)
    new_positions: dict[tuple[str, int], dict[int, int]] = {}
    values = {NAME: service, ROLE: role}
    for container_key, container in _find_containers_with_env(spec):
        helpers: list[dict[str, Any]] = []
        env = container["env"]
        for position, variable in enumerate(env):
            label = _find_label(variable)
            if label in values:
                value = values[label]
            elif label in _COMPOSED:
                helper, name_label = _COMPOSED[label]
                if helper not in helpers:
                    helpers.append(copy.deepcopy(helper))
                value = f"{values[name_label]}-$({helper['name']})"
            else:
                continue
            rest = {key: item for key, item in variable.items() if key != "valueFrom"}
            env[position] = {**rest, "value": value}
        kept = [number for number, variable in enumerate(env) if not _is_overwritten(variable)]
        container["env"] = [*helpers, *(env[number] for number in kept)]
        new_positions[container_key] = {old: new + len(helpers) for new, old in enumerate(kept)}
    return spec, new_positions


def _is_overwritten(variable: Any) -> bool:
    name = variable.get("name") if isinstance(variable, Mapping) else None
    return isinstance(name, str) and name in labels.KTHENA_ENVIRONMENT


def _find_label(variable: Any) -> str:
    """Return the pod label that a variable is read from; empty if it is read from none."""
    value: Any = variable
    for key in ("valueFrom", "fieldRef", "fieldPath"):
        value = value.get(key) if isinstance(value, Mapping) else None
    match = _LABEL.fullmatch(value) if isinstance(value, str) else None
    return match[1] if match is not None else ""


def needs_environment(role: Role) -> bool:
    """Return whether a role's containers may read the variables that Kthena sets in every pod.

    Roles of single pods need the variables only if a template names one.
    """
    templates = [
        template for template in (role.entry_template, role.worker_template) if template is not None
    ]
    return bool(role.worker_replicas) or any(_uses_environment(pod.spec) for pod in templates)


def _uses_environment(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_uses_environment, value.values()))
    if isinstance(value, list):
        return any(map(_uses_environment, value))
    return isinstance(value, str) and any(name in value for name in labels.KTHENA_ENVIRONMENT)


def _replace_labels(report: ConversionReport, value: Any, field: SourceField) -> Any:
    """Replace Kthena's labels in selectors with ours."""
    if isinstance(value, list):
        return [_replace_labels(report, item, field / index) for index, item in enumerate(value)]
    if not isinstance(value, Mapping):
        if isinstance(value, str) and PREFIX in value:
            report.unsupported(
                field,
                f"pods have no labels with the prefix {PREFIX}; available: "
                f"{_list_available_labels()}",
            )
        return value
    replaced: dict[Any, Any] = {}
    for key, item in value.items():
        subfield = field / key
        if key in _KEY_LISTS and isinstance(item, list):
            replaced[key] = [
                _convert_key(report, entry, subfield / index) for index, entry in enumerate(item)
            ]
        elif key == "matchLabels" and isinstance(item, Mapping):
            replaced[key] = {
                _convert_label(report, label, subfield / label): value
                for label, value in item.items()
            }
        elif key == "key" and "operator" in value:
            replaced[key] = _convert_label(report, item, subfield)
        else:
            replaced[key] = _replace_labels(report, item, subfield)
    return replaced


def _convert_key(report: ConversionReport, key: Any, field: SourceField) -> Any:
    """Return our label that distinguishes the same pods as a label of Kthena."""
    if isinstance(key, str) and key in _LABEL_KEYS:
        report.translated(field, f"{key} becomes {_LABEL_KEYS[key]}")
        return _LABEL_KEYS[key]
    return _convert_label(report, key, field)


def _convert_label(report: ConversionReport, key: Any, field: SourceField) -> Any:
    """Return our label that has the same values as a label of Kthena."""
    if isinstance(key, str) and key in _EQUIVALENT_LABELS:
        report.translated(field, f"{key} becomes {_EQUIVALENT_LABELS[key]}")
        return _EQUIVALENT_LABELS[key]
    if isinstance(key, str) and key.startswith(PREFIX):
        report.unsupported(
            field,
            f"pods have no label {key} with these values; available: {_list_available_labels()}",
        )
    return key


def _list_available_labels() -> str:
    return ", ".join(dict.fromkeys(_LABEL_KEYS.values()))
