"""Devices that pods claim by dynamic resource allocation (DRA) instead of extended resources."""

from typing import Annotated, Any

from pydantic import Field, StringConstraints

from fusioninfer_pulumi.api.field_types import (
    DnsLabel,
    NameOrOutput,
    ObjectName,
    PositiveCount,
    fits,
)
from fusioninfer_pulumi.api.spec_model import SpecModel
from fusioninfer_pulumi.schemas.kind_schema import DEVICE_CLAIM


class ResourceClaimArgs(SpecModel):
    """Devices of each pod of a role.

    Either describe them, by `deviceClassName` with `count` and `selectors` or by the `spec` of a
    ResourceClaim, which creates a ResourceClaimTemplate (resource.k8s.io/v1, Kubernetes 1.34). Or
    name an existing object, by `templateName` or `claimName`.
    """

    name: DnsLabel
    """Name of the claim in the pod."""

    device_class_name: ObjectName | None = None
    """DeviceClass of the devices, such as `gpu.nvidia.com`."""

    count: PositiveCount | None = None
    """Number of devices per pod; 1 by default."""

    selectors: list[Annotated[str, StringConstraints(min_length=1)]] | None = None
    """CEL expressions that each device must match."""

    admin_access: bool | None = None
    """Whether to request admin access, for example to monitor devices that others use. Requires
    permission."""

    spec: Annotated[dict[str, Any], Field(min_length=1), fits(DEVICE_CLAIM)] | None = None
    """The spec of a ResourceClaim, passed through."""

    template_name: NameOrOutput | None = None
    """Name of an existing ResourceClaimTemplate; may be an Output."""

    claim_name: NameOrOutput | None = None
    """Name of an existing ResourceClaim, shared by all pods; may be an Output."""

    @property
    def made(self) -> bool:
        """Whether it needs a ResourceClaimTemplate of ours."""
        return self.device_class_name is not None or self.spec is not None

    ONE_OF = ("device_class_name", "spec", "template_name", "claim_name")
    SWITCH = ("device_class_name", "count", "selectors", "admin_access")
