"""The node pools of a cluster, and what services require of pools."""

import enum
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from fusioninfer_pulumi.api.field_types import Bytes, Count, LabelKey, LabelMap, PositiveCount, Text
from fusioninfer_pulumi.api.spec_model import SpecModel, check_model, default, empty_list
from fusioninfer_pulumi.api.validation_errors import raise_findings
from fusioninfer_pulumi.findings import Finding, Location, error
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.rules.common import DUPLICATE_NAME, FIELD_REQUIRED, OUT_OF_RANGE

INVENTORY_KIND = "NodePoolInventory"


class TaintEffect(str, enum.Enum):
    """Effect of a taint on pods that do not tolerate it."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"  #: pods may still be scheduled there
    NO_EXECUTE = "NoExecute"


class TaintArgs(SpecModel):
    """A taint of a pool's nodes."""

    key: Text
    """Key of the taint."""

    value: str = ""
    """Value of the taint, empty by default."""

    effect: Annotated[TaintEffect, Field(strict=False)]
    """`NoSchedule`, `PreferNoSchedule` or `NoExecute`."""


class DeviceArgs(SpecModel):
    """Accelerators of a node pool."""

    memory: Bytes | None = None
    """Memory of one accelerator, such as `80Gi`. If unset, roles that require memory are not placed
    on this pool."""

    attributes: dict[Text, Text] = Field(default_factory=dict)
    """Other attributes that roles may require, such as `{model: H100, fabric: ib-1}`."""


class NodePoolArgs(SpecModel):
    """A pool of equal nodes."""

    name: Text
    """Name of the pool, unique in the inventory."""

    nodes: Count
    """Number of nodes; the maximum number of an autoscaled pool."""

    accelerators: Count
    """Accelerators per node."""

    resource: Text | None = "nvidia.com/gpu"
    """Resource name of the accelerators; null if they can only be claimed (DRA)."""

    device_classes: list[Text] = Field(default_factory=empty_list)
    """DeviceClasses that select these accelerators (DRA); none by default."""

    in_use: list[PositiveCount] = Field(default_factory=empty_list)
    """Accelerators in use by other workloads, one number per affected node: `[8, 2]` means eight on
    one node and two on another. None by default."""

    device: DeviceArgs = default(DeviceArgs)
    """Properties of the accelerators."""

    labels: LabelMap = Field(default_factory=dict)
    """Labels of all nodes. Placement adds `kubernetes.io/os: linux` if that label is not set."""

    taints: list[TaintArgs] = Field(default_factory=empty_list)
    """Taints of all nodes."""

    cost: Annotated[float, Field(ge=0)] = 0
    """Price of one accelerator, in the same unit for all pools; 0 by default. The cheapest suitable
    pools are used first."""

    def findings(self, location: Location) -> Iterator[Finding]:
        """Check the resource and the accelerators in use."""
        if self.resource is None and not self.device_classes:
            message = "is required if deviceClasses is empty, got null"
            yield error(FIELD_REQUIRED, (*location, "resource"), message)
        if len(self.in_use) > self.nodes:
            message = f"must have at most {self.nodes} items, one per node, got {len(self.in_use)}"
            yield error(OUT_OF_RANGE, (*location, "inUse"), message)
        for index, in_use in enumerate(self.in_use):
            if in_use > self.accelerators:
                message = f"must be at most {self.accelerators}, got {in_use}"
                yield error(OUT_OF_RANGE, (*location, "inUse", index), message)


class InventoryArgs(SpecModel):
    """The node pools of a cluster.

    Raises:
        InvalidServiceError: The input is invalid; the error has every finding.
    """

    pool_label: LabelKey | None = None
    """Node label that identifies a pool. Its value is the pool's name, unless the pool's `labels`
    set it. Default: the label of GKE, EKS, AKS or Karpenter that all pools have in their
    `labels`."""

    pools: list[NodePoolArgs] = Field(min_length=1)
    """The pools; the first of equally suitable pools is used."""

    @property
    def selector_label(self) -> str | None:
        """Label that identifies a pool: `poolLabel` or its default; None if there is neither."""
        if self.pool_label is not None:
            return self.pool_label
        for key in labels.NODE_POOLS:
            if all(key in pool.labels for pool in self.pools):
                return key
        return None

    def selector_value(self, pool: NodePoolArgs) -> str:
        """Return the value of the selector label on a pool's nodes."""
        return pool.labels.get(self.selector_label or "", pool.name)

    @model_validator(mode="after")
    def _check_rules(self) -> "InventoryArgs":
        raise_findings(type(self).__name__, check_model((), self))
        return self

    UNIQUE = (("pools", "name"),)

    def findings(self, location: Location) -> Iterator[Finding]:
        """Check that each pool can be selected."""
        key = self.selector_label
        if key is None:
            message = (
                "is required: the node label that identifies a pool (by default one of "
                f"{', '.join(labels.NODE_POOLS)}, if all pools have it in their labels)"
            )
            yield error(FIELD_REQUIRED, (*location, "poolLabel"), message)
            return
        first_pools: dict[str, str] = {}
        for index, pool in enumerate(self.pools):
            value = self.selector_value(pool)
            first_pool = first_pools.setdefault(value, pool.name)
            if first_pool != pool.name:
                message = f"must differ between pools: {key} is {value} in pool {first_pool}, too"
                yield error(DUPLICATE_NAME, (*location, "pools", index, "labels"), message)


class InventoryMetadata(SpecModel):
    """Metadata of an inventory. It has no effect."""

    name: Text | None = None
    """Name, such as that of the cluster."""


class InventoryManifest(SpecModel):
    """An inventory as a Kubernetes-style document; it is not created in a cluster."""

    api_version: Literal["fusioninfer.io/v1alpha1"]
    """API version."""

    kind: Literal["NodePoolInventory"]
    """The kind, always `NodePoolInventory`."""

    metadata: InventoryMetadata = default(InventoryMetadata)
    """Metadata; has no effect."""

    spec: InventoryArgs
    """The pools."""


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


#: One allowed value, or several.
AnyOf = Annotated[
    list[Text],
    BeforeValidator(_as_list),
    Field(min_length=1),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "minLength": 1},
                {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1},
            ]
        }
    ),
]


class DeviceRequirementArgs(SpecModel):
    """Requirements for each accelerator of a role."""

    attributes: dict[Text, AnyOf] = Field(default_factory=dict)
    """Allowed values of device attributes, one or a list: `{model: [H100, H200]}`."""

    min_memory: Bytes | None = None
    """Minimum memory of an accelerator, such as `80Gi`; any by default."""


class RolePlacementArgs(SpecModel):
    """Restricts the node pools of a role. The constraints of its pod templates also apply."""

    pools: Annotated[list[Text], Field(min_length=1)] | None = None
    """Names of the allowed pools; all by default. Taints of pools named here are tolerated."""

    device: DeviceRequirementArgs | None = None
    """Requirements for each accelerator; none by default."""


class ServicePlacementArgs(SpecModel):
    """Device attribute or node label that the node pools of all roles must share."""

    colocate: Text | None = None
    """Device attribute or node label, such as `topology.kubernetes.io/zone`, that must have the
    same value on the pools of all roles, for example for KV cache transfer. By default roles may
    use any pools."""
