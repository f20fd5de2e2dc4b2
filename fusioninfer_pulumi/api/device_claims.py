"""Devices that pods claim by dynamic resource allocation (DRA) instead of extended resources."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

from pydantic import Field, StringConstraints

from fusioninfer_pulumi.api.field_types import (
    NameOrOutput,
    ObjectName,
    PositiveCount,
    fits,
    json_findings,
)
from fusioninfer_pulumi.api.spec_model import SpecModel, reject_fields, require_one
from fusioninfer_pulumi.api.validation_errors import string_format
from fusioninfer_pulumi.findings import OUTPUT_HINT, Finding, Location, error
from fusioninfer_pulumi.kube.pulumi_outputs import has_output
from fusioninfer_pulumi.rules.common import (
    DUPLICATE_NAME,
    OUTPUT_NOT_ALLOWED,
)
from fusioninfer_pulumi.schemas.kind_schema import DEVICE_CLAIM

_Label = Annotated[
    str,
    string_format(
        r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$",
        "a name of at most 63 of a-z, 0-9 and - that starts and ends with a letter or digit",
    ),
]


class ResourceClaimArgs(SpecModel):
    """Devices of each pod of a role.

    `deviceClassName` with `count` and `selectors` describes them, or `spec` does as in a
    ResourceClaim; either creates a ResourceClaimTemplate (resource.k8s.io/v1, Kubernetes 1.34).
    `templateName` and `claimName` name existing objects.
    """

    name: _Label
    """Name of the claim in the pod."""

    device_class_name: ObjectName | None = None
    """DeviceClass of the devices, such as `gpu.nvidia.com`."""

    count: PositiveCount | None = None
    """Devices of each pod, by default 1."""

    selectors: list[Annotated[str, StringConstraints(min_length=1)]] | None = None
    """CEL expressions that each device has to meet."""

    admin_access: bool | None = None
    """Whether devices are shared with their users, for monitoring; needs rights."""

    spec: Annotated[dict[str, Any], Field(min_length=1), fits(DEVICE_CLAIM)] | None = None
    """The spec of a ResourceClaim, passed on as it is."""

    template_name: NameOrOutput | None = None
    """An existing ResourceClaimTemplate; may be an Output."""

    claim_name: NameOrOutput | None = None
    """An existing ResourceClaim, which all pods share; may be an Output."""

    @property
    def made(self) -> bool:
        """Whether it needs a ResourceClaimTemplate of ours."""
        return self.device_class_name is not None or self.spec is not None


def claim_findings(at: Location, claims: Sequence[ResourceClaimArgs]) -> Iterator[Finding]:
    """Check the claims of a role, each field of which is valid."""
    names: dict[str, int] = {}
    for index, claim in enumerate(claims):
        here = (*at, index)
        first = names.setdefault(claim.name, index)
        if first != index:
            yield error(
                DUPLICATE_NAME,
                (*here, "name"),
                f'"{claim.name}" is also the name of resourceClaims[{first}]',
            )
        yield from require_one(
            here, claim, "device_class_name", "spec", "template_name", "claim_name"
        )
        if claim.device_class_name is None:
            typed = ("count", "selectors", "admin_access")
            yield from reject_fields(here, claim, typed, "belongs to deviceClassName")
        if claim.spec is not None:
            yield from json_findings((*here, "spec"), claim.spec)
            if has_output(claim.spec):
                yield error(OUTPUT_NOT_ALLOWED, (*here, "spec"), OUTPUT_HINT)
