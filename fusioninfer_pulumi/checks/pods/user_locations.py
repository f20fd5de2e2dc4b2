"""Checks of finished pod templates; findings are located at what the user wrote."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fusioninfer_pulumi.checks.pods.resources import known_list, known_mapping, known_text
from fusioninfer_pulumi.checks.pods.template import template_findings
from fusioninfer_pulumi.findings import Finding, Location
from fusioninfer_pulumi.pods.model import FETCHER_PREFIX
from fusioninfer_pulumi.pods.pod import Context, Pod, RolePods
from fusioninfer_pulumi.pods.sidecar import SIDECAR


def pod_findings(pods: RolePods, ctx: Context) -> Iterator[Finding]:
    """Yields what the API server refuses of a role's pods, once for both of their templates."""
    seen: set[tuple[str, Location]] = set()
    for pod in pods.each:
        for finding in template_findings(pod.template):
            if generated_label(pod.written, finding.location):
                continue
            moved = finding.at(*_role_location(pod, ctx, finding.location))
            if (moved.rule, moved.location) not in seen:
                yield moved
            seen.add((moved.rule, moved.location))


def generated_label(written: Any, location: Location) -> bool:
    """Whether a location is that of a label which the user did not write.

    Names that become labels are checked where they are planned.
    """
    metadata = known_mapping(known_mapping(written).get("metadata"))
    user_labels = known_mapping(metadata.get("labels"))
    return location[:2] == ("metadata", "labels") and location[-1] not in user_labels


def written_location(finished: Any, written: Any, location: Location) -> Location:
    """Returns a location of a finished template in the template that the user wrote.

    Generated items of lists stand behind those of the user, or are merged with them by name. What
    the user did not write is reported at the field that it would stand in.
    """
    at: list[str | int] = []
    for position, part in enumerate(location):
        if isinstance(part, int):
            index = _index(finished, written, part)
            if index is None:
                break
            at.append(index)
            finished, written = finished[part], written[index]
        else:
            if not isinstance(written, Mapping):
                break
            if part not in written and position < len(location) - 1:
                break
            at.append(part)
            finished, written = known_mapping(finished).get(part), written.get(part)
    return tuple(at)


def _index(finished: Any, written: Any, index: int) -> int | None:
    """Index of an item of a finished list among the user's, None where it is generated."""
    items = known_list(written)
    name = known_mapping(finished[index]).get("name")
    if index < len(items) and known_mapping(items[index]).get("name") == name:
        return index
    if name is None:
        return None
    return next(
        (at for at, item in enumerate(items) if known_mapping(item).get("name") == name), None
    )


def _role_location(pod: Pod, ctx: Context, location: Location) -> Location:
    at = written_location(pod.template, pod.written, location)
    generated = _generated(pod, location) if at != location else None
    if generated is None:
        return (*pod.path, *at)
    field, ordinal, rest = generated
    if field == "topologySpreadConstraints":
        return ctx.at("topologySpread", ordinal)
    count = len(known_list(pod.written["spec"].get(field)))
    name = known_text(known_mapping((pod.spec.get(field) or ())[count + ordinal]).get("name"))
    if name == SIDECAR:
        return ctx.at("kvTransfer", "sidecar", *rest)
    if name.startswith(FETCHER_PREFIX):
        return ("model", "fetcher", *rest)
    return (*pod.path, *at)


def _generated(pod: Pod, location: Location) -> tuple[str, int, Location] | None:
    """List, ordinal and rest of a location in an item that a pass added to a list of the pod."""
    if len(location) < 3:
        return None
    field, index = location[1], location[2]
    if not isinstance(field, str) or not isinstance(index, int):
        return None
    ordinal = index - len(known_list(pod.written["spec"].get(field)))
    return (field, ordinal, location[3:]) if ordinal >= 0 else None
