"""One object that differs, with what the other modules ask of it."""

from __future__ import annotations

from dataclasses import dataclass

from fusioninfer_pulumi.cli.diff.identity import Identity, Manifest
from fusioninfer_pulumi.cli.diff.records import ObjectChange
from fusioninfer_pulumi.cli.diff.workloads import service_of

#: Namespace and name of a service.
Service = tuple[str, str]


@dataclass(frozen=True)
class Edit:
    """A change of one object.

    Attributes:
        key: Identity of the object.
        old: Manifest before, None where the object is added.
        new: Manifest after, None where it is removed.
        change: What is told about it.
        restarts: Whether its pods are made anew.
        refused: Field for which it must be replaced, if any.
    """

    key: Identity
    old: Manifest | None
    new: Manifest | None
    change: ObjectChange
    restarts: bool = False
    refused: str | None = None

    @property
    def services(self) -> tuple[Service, ...]:
        """Services that the object belongs to: two where its label changed, else one or none."""
        found = {
            (self.key.namespace, service_of(self.key, manifest)): None
            for manifest in (self.old, self.new)
            if manifest is not None
        }
        return tuple(service for service in found if service[1])
