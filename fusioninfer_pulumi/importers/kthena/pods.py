"""Pod templates of a ModelServing, with variables and labels of Kthena's pods.

Kthena's controller sets three variables in every container (`environment: Kthena` of a role), and
labels that selectors refer to (pkg/model-serving-controller/utils/utils.go).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fusioninfer_pulumi.findings import Location
from fusioninfer_pulumi.importers.conversion import ConversionReport, ServiceBuilder
from fusioninfer_pulumi.importers.kthena.models import PodTemplate, Role
from fusioninfer_pulumi.importers.source import SourceField
from fusioninfer_pulumi.kube import labels

PREFIX = "modelserving.volcano.sh/"
NAME, ROLE = f"{PREFIX}name", f"{PREFIX}role"
#: Labels that our pods have under another key, with the same values.
_SAME = {NAME: labels.SERVICE, ROLE: labels.ROLE_NAME}
#: Labels that our pods have under another key, with values that differ between the same pods.
_KEYS = {
    **_SAME,
    f"{PREFIX}group-name": labels.GROUP_INDEX,
    f"{PREFIX}role-id": labels.REPLICA_INDEX,
    f"{PREFIX}revision": labels.REVISION,
}
_KEY_LISTS = ("matchLabelKeys", "mismatchLabelKeys")


def convert_template(
    builder: ServiceBuilder, target: Location, template: PodTemplate, at: SourceField
) -> None:
    """Converts a pod template: selectors use labels of our pods."""
    spec = _relabelled(builder.report, template.spec, at / "spec")
    given = {"metadata": template.metadata, "spec": spec}
    builder.copy(target, {key: value for key, value in given.items() if value is not None}, at)


def needs_environment(role: Role) -> bool:
    """Whether a role's containers may read the variables that Kthena sets in every pod.

    Single pods get them only if their template names one.
    """
    templates = [each for each in (role.entry_template, role.worker_template) if each is not None]
    return bool(role.worker_replicas) or any(_mentions(each.spec) for each in templates)


def _mentions(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_mentions, value.values()))
    if isinstance(value, list):
        return any(map(_mentions, value))
    return isinstance(value, str) and any(name in value for name in labels.KTHENA_ENVIRONMENT)


def _relabelled(report: ConversionReport, value: Any, at: SourceField) -> Any:
    """Replaces Kthena's labels in selectors by ours."""
    if isinstance(value, list):
        return [_relabelled(report, item, at / index) for index, item in enumerate(value)]
    if not isinstance(value, Mapping):
        if isinstance(value, str) and PREFIX in value:
            report.unsupported(
                "pod-label-unsupported",
                at,
                f"pods of ours have no label of {PREFIX}; their labels: {_ours()}",
            )
        return value
    built: dict[Any, Any] = {}
    for key, item in value.items():
        place = at / key
        if key in _KEY_LISTS and isinstance(item, list):
            built[key] = [_key(report, each, place / index) for index, each in enumerate(item)]
        elif key == "matchLabels" and isinstance(item, Mapping):
            built[key] = {_same(report, each, place / each): held for each, held in item.items()}
        elif key == "key" and "operator" in value:
            built[key] = _same(report, item, place)
        else:
            built[key] = _relabelled(report, item, place)
    return built


def _key(report: ConversionReport, key: Any, at: SourceField) -> Any:
    """Our label for one by which pods are told apart, whatever its values are."""
    if key in _KEYS:
        report.info("pod-label-renamed", at, f"{key} is {_KEYS[key]} on pods of ours")
        return _KEYS[key]
    return _same(report, key, at)


def _same(report: ConversionReport, key: Any, at: SourceField) -> Any:
    """Our label for one that has the same values."""
    if key in _SAME:
        report.info("pod-label-renamed", at, f"{key} is {_SAME[key]} on pods of ours")
        return _SAME[key]
    if isinstance(key, str) and key.startswith(PREFIX):
        report.unsupported(
            "pod-label-unsupported",
            at,
            f"pods of ours have no label {key} with these values; theirs: {_ours()}",
        )
    return key


def _ours() -> str:
    return ", ".join(dict.fromkeys(_KEYS.values()))
