"""Ports that a container declares twice, which an API server takes with a warning."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fusioninfer_pulumi.findings import Finding, warning
from fusioninfer_pulumi.plan.completion.templates import places
from fusioninfer_pulumi.spec.role import RoleArgs


def declared_port_findings(position: int, role: RoleArgs) -> Iterator[Finding]:
    """Looks at all containers of a role's pods.

    Args:
        position: Index of the role in the spec.
        role: The role as the user wrote it.

    Yields:
        One warning for each number that a container declares again for the same protocol.
    """
    for place in places(position, role):
        for field in ("initContainers", "containers"):
            for index, container in enumerate(place.template["spec"].get(field) or ()):
                yield from _twice(f"{place.at}.spec.{field}[{index}].ports", container)


def _twice(at: str, container: Mapping[str, Any]) -> Iterator[Finding]:
    seen: set[tuple[int, str]] = set()
    for index, port in enumerate(container.get("ports") or ()):
        number, protocol = port["containerPort"], port.get("protocol") or "TCP"
        if (number, protocol) in seen:
            yield warning(
                f"{at}[{index}]", f"{number}/{protocol} is declared twice; remove one of the two"
            )
        seen.add((number, protocol))
