"""What a pod template must hold so that Kubernetes takes it and the plan can read it.

Fields that nothing here knows are passed through as they are; the API server is their judge.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fusioninfer_pulumi import labels
from fusioninfer_pulumi.findings import LIFT, Location, shown
from fusioninfer_pulumi.outputs import is_output
from fusioninfer_pulumi.spec.base import key_problem, label_problem
from fusioninfer_pulumi.spec.container import (
    amount_problems,
    container_problems,
    resource_problems,
)
from fusioninfer_pulumi.spec.plain import plain_problems
from fusioninfer_pulumi.spec.pod_fields import container_fields, pod_fields
from fusioninfer_pulumi.spec.problem import Problem


def pod_template_problems(
    at: Location, template: Mapping[str, Any], serving: str | None
) -> Iterator[Problem]:
    """Checks one pod template.

    Args:
        at: Where it stands.
        template: The template.
        serving: Name of the container that must exist in it, None for any.

    Yields:
        Every problem.
    """
    found = list(_shape_problems(at, template, serving))
    known = {problem.location for problem in found}
    yield from found
    yield from (each for each in plain_problems(at, template) if each.location not in known)


def _shape_problems(
    at: Location, template: Mapping[str, Any], serving: str | None
) -> Iterator[Problem]:
    for key in template:
        if key not in ("metadata", "spec"):
            yield Problem((*at, key), "unknown key; a pod template has metadata and spec")
    yield from _metadata((*at, "metadata"), template.get("metadata"))
    spec = template.get("spec")
    if not isinstance(spec, Mapping):
        yield _not_a("mapping", (*at, "spec"), spec)
        return
    at = (*at, "spec")
    yield from _containers(at, spec, serving)
    # Both count when the pod's requests are added up.
    yield from amount_problems((*at, "overhead"), spec.get("overhead"))
    yield from resource_problems((*at, "resources"), spec.get("resources"))
    if spec.get("restartPolicy") not in (None, "Always"):
        yield Problem(
            (*at, "restartPolicy"),
            f"must be Always for pods of a LeaderWorkerSet, got {shown(spec['restartPolicy'])}",
        )
    yield from pod_fields(at, spec)


def _metadata(at: Location, metadata: Any) -> Iterator[Problem]:
    if metadata is None:
        return
    if not isinstance(metadata, Mapping):
        yield _not_a("mapping", at, metadata)
        return
    for key, value in metadata.items():
        if key not in ("labels", "annotations"):
            yield Problem((*at, key), "has no effect on pods; allowed: labels, annotations")
        elif value is not None and not isinstance(value, Mapping):
            yield _not_a("mapping", (*at, key), value)
        else:
            check = _label if key == "labels" else _annotation
            for name, item in (value or {}).items():
                yield from check((*at, key, str(name)), name, item)


def _label(at: Location, key: Any, value: Any) -> Iterator[Problem]:
    if key in labels.OWNED_LABELS or key in labels.LWS_OWNED_LABELS:
        owner = "fusioninfer-pulumi" if key in labels.OWNED_LABELS else "LeaderWorkerSet"
        yield Problem(at, f"is set by {owner}; remove it")
    elif is_output(value):
        yield Problem(at, LIFT, value)
    elif problem := label_problem(key, value):
        yield Problem(at, problem, value)


def _annotation(at: Location, key: Any, value: Any) -> Iterator[Problem]:
    if problem := key_problem(key):
        yield Problem(at, problem, key)
    elif not isinstance(value, str) and not is_output(value):
        yield _not_a("string", at, value)


def _containers(at: Location, spec: Mapping[str, Any], serving: str | None) -> Iterator[Problem]:
    names: list[str] = []
    for key in ("containers", "initContainers"):
        listed = spec.get(key)
        if key == "initContainers" and listed is None:
            continue
        if not isinstance(listed, list):
            yield _not_a("list", (*at, key), listed)
            continue
        if not listed and key == "containers":
            yield Problem((*at, key), "must hold at least one container")
        for index, container in enumerate(listed):
            here = (*at, key, index)
            if not isinstance(container, Mapping):
                yield _not_a("mapping", here, container)
                continue
            yield from container_problems(here, container)
            yield from container_fields(here, container)
            name = container.get("name")
            if isinstance(name, str):
                if name in names:
                    yield Problem((*here, "name"), f'"{name}" names two containers of the pod')
                names.append(name)
    if serving is not None and isinstance(spec.get("containers"), list):
        regular = [c.get("name") for c in spec["containers"] if isinstance(c, Mapping)]
        if serving not in regular:
            listed_names = ", ".join(str(name) for name in regular)
            yield Problem(
                (*at[:2], "container"),
                f"no container of that name in {at[2]}; allowed: {listed_names}",
                serving,
            )


def _not_a(kind: str, at: Location, value: Any) -> Problem:
    if value is None:
        return Problem(at, f"is required: a {kind}")
    return Problem(at, LIFT if is_output(value) else f"must be a {kind}, got {shown(value)}", value)
