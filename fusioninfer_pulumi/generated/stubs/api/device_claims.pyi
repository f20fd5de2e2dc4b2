"""Devices that pods claim by dynamic resource allocation (DRA) instead of extended resources."""

from typing import Any

from typing_extensions import Unpack

from fusioninfer_pulumi.api.field_types import (
    DnsLabel,
    NameOrOutput,
    ObjectName,
    PositiveCount,
)
from fusioninfer_pulumi.api.spec_model import SpecModel
from fusioninfer_pulumi.generated import dicts

class ResourceClaimArgs(SpecModel):
    """Devices of each pod of a role.

    Either describe them, by `deviceClassName` with `count` and `selectors` or by the `spec` of a
    ResourceClaim, which creates a ResourceClaimTemplate (resource.k8s.io/v1, Kubernetes 1.34). Or
    name an existing object, by `templateName` or `claimName`.
    """

    def __init__(self, **fields: Unpack[dicts.ResourceClaimArgsDict]) -> None: ...
    name: DnsLabel
    "Name of the claim in the pod."
    device_class_name: ObjectName | None
    "DeviceClass of the devices, such as `gpu.nvidia.com`."
    count: PositiveCount | None
    "Number of devices per pod; 1 by default."
    selectors: list[str] | None
    "CEL expressions that each device must match."
    admin_access: bool | None
    "Whether to request admin access, for example to monitor devices that others use. Requires\n    permission."
    spec: dict[str, Any] | None
    "The spec of a ResourceClaim, passed through."
    template_name: NameOrOutput | None
    "Name of an existing ResourceClaimTemplate; may be an Output."
    claim_name: NameOrOutput | None
    "Name of an existing ResourceClaim, shared by all pods; may be an Output."

    @property
    def made(self) -> bool: ...
