"""Reads where services were placed before: what runs is not moved without need."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fusioninfer_pulumi.findings import InvalidServiceError, error, shown
from fusioninfer_pulumi.kube.outputs import UNKNOWN, is_output
from fusioninfer_pulumi.loading.load import file_text
from fusioninfer_pulumi.placement.needs import Previous
from fusioninfer_pulumi.placement.records import Placement

#: Roles by service, `namespace/name` or the name alone.
Before = Mapping[str, Mapping[str, Previous]]
PreviousPlacement = (
    None | str | os.PathLike[str] | Placement | Sequence[Any] | Mapping[str, Mapping[str, Any]]
)


def read_previous(source: PreviousPlacement) -> Before:
    """Reads an earlier placement.

    Args:
        source: None for none; what `place` returned; the JSON of `plan --inventory` as a path or
            as data; or a mapping of service (`name` or `namespace/name`) to role to pool.

    Returns:
        The pools of each service's roles.

    Raises:
        OSError: The file cannot be read.
        InvalidServiceError: The source is none of these.
    """
    if source is None:
        return {}
    if isinstance(source, Placement):
        return {
            service_key(each.namespace, each.service): {
                role.name: Previous(role.pool, role.accelerators) for role in each.roles
            }
            for each in source.placed
            if each is not None
        }
    title = ""
    if isinstance(source, (str, os.PathLike)):
        title = str(source)
        try:
            source = json.loads(file_text(Path(source)))
        except ValueError as problem:
            raise InvalidServiceError(
                [error("not-json", (), f"not JSON: {problem}")], title
            ) from None
    try:
        return _from_mapping(source) if isinstance(source, Mapping) else _from_json(source)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise InvalidServiceError(
            [
                error(
                    "previous-placement-malformed",
                    (),
                    "must be the JSON of `plan --inventory`, or a mapping of service to role to "
                    f"pool, got {shown(source)}",
                )
            ],
            title,
        ) from None


def service_key(namespace: Any, name: str) -> str:
    """The name of a service in a placement; the namespace of an Output is not known."""
    return name if is_output(namespace) or namespace == UNKNOWN else f"{namespace}/{name}"


def _from_json(source: Any) -> Before:
    return {
        service_key(each["namespace"], each["service"]): {
            role["name"]: Previous(_text(role["pool"]), int(role["accelerators"]))
            for role in each["placement"]["roles"]
        }
        for each in source
    }


def _from_mapping(source: Mapping[str, Mapping[str, Any]]) -> Before:
    return {
        service: {
            role: pool if isinstance(pool, Previous) else Previous(_text(pool))
            for role, pool in roles.items()
        }
        for service, roles in source.items()
    }


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value
