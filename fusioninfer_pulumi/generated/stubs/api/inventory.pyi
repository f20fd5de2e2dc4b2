"""The node pools of a cluster, and what services require of pools."""

import enum
from typing import Literal

from typing_extensions import Unpack

from fusioninfer_pulumi.api.field_types import Bytes, Count, LabelKey, LabelMap, PositiveCount, Text
from fusioninfer_pulumi.api.spec_model import SpecModel
from fusioninfer_pulumi.generated import dicts

INVENTORY_KIND: str

class TaintEffect(str, enum.Enum):
    """Effect of a taint on pods that do not tolerate it."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"

class TaintArgs(SpecModel):
    """A taint of a pool's nodes."""

    def __init__(self, **fields: Unpack[dicts.TaintArgsDict]) -> None: ...
    key: Text
    "Key of the taint."
    value: str
    "Value of the taint, empty by default."
    effect: TaintEffect
    "`NoSchedule`, `PreferNoSchedule` or `NoExecute`."

class DeviceArgs(SpecModel):
    """Accelerators of a node pool."""

    def __init__(self, **fields: Unpack[dicts.DeviceArgsDict]) -> None: ...
    memory: Bytes | None
    "Memory of one accelerator, such as `80Gi`. If unset, roles that require memory are not placed\n    on this pool."
    attributes: dict[Text, Text]
    "Other attributes that roles may require, such as `{model: H100, fabric: ib-1}`."

class NodePoolArgs(SpecModel):
    """A pool of equal nodes."""

    def __init__(self, **fields: Unpack[dicts.NodePoolArgsDict]) -> None: ...
    name: Text
    "Name of the pool, unique in the inventory."
    nodes: Count
    "Number of nodes; the maximum number of an autoscaled pool."
    accelerators: Count
    "Accelerators per node."
    resource: Text | None
    "Resource name of the accelerators; null if they can only be claimed (DRA)."
    device_classes: list[Text]
    "DeviceClasses that select these accelerators (DRA); none by default."
    in_use: list[PositiveCount]
    "Accelerators in use by other workloads, one number per affected node: `[8, 2]` means eight on\n    one node and two on another. None by default."
    device: DeviceArgs
    "Properties of the accelerators."
    labels: LabelMap
    "Labels of all nodes. Placement adds `kubernetes.io/os: linux` if that label is not set."
    taints: list[TaintArgs]
    "Taints of all nodes."
    cost: float
    "Price of one accelerator, in the same unit for all pools; 0 by default. The cheapest suitable\n    pools are used first."

class InventoryArgs(SpecModel):
    """The node pools of a cluster.

    Raises:
        InvalidServiceError: The input is invalid; the error has every finding.
    """

    def __init__(self, **fields: Unpack[dicts.InventoryArgsDict]) -> None: ...
    pool_label: LabelKey | None
    "Node label that identifies a pool. Its value is the pool's name, unless the pool's `labels`\n    set it. Default: the label of GKE, EKS, AKS or Karpenter that all pools have in their\n    `labels`."
    pools: list[NodePoolArgs]
    "The pools; the first of equally suitable pools is used."

    @property
    def selector_label(self) -> str | None: ...
    def selector_value(self, pool: NodePoolArgs) -> str: ...

class InventoryMetadata(SpecModel):
    """Metadata of an inventory. It has no effect."""

    name: Text | None
    "Name, such as that of the cluster."

class InventoryManifest(SpecModel):
    """An inventory as a Kubernetes-style document; it is not created in a cluster."""

    api_version: Literal["fusioninfer.io/v1alpha1"]
    "API version."
    kind: Literal["NodePoolInventory"]
    "The kind, always `NodePoolInventory`."
    metadata: InventoryMetadata
    "Metadata; has no effect."
    spec: InventoryArgs
    "The pools."

AnyOf = list[Text]

class DeviceRequirementArgs(SpecModel):
    """Requirements for each accelerator of a role."""

    def __init__(self, **fields: Unpack[dicts.DeviceRequirementArgsDict]) -> None: ...
    attributes: dict[Text, AnyOf]
    "Allowed values of device attributes, one or a list: `{model: [H100, H200]}`."
    min_memory: Bytes | None
    "Minimum memory of an accelerator, such as `80Gi`; any by default."

class RolePlacementArgs(SpecModel):
    """Restricts the node pools of a role. The constraints of its pod templates also apply."""

    def __init__(self, **fields: Unpack[dicts.RolePlacementArgsDict]) -> None: ...
    pools: list[Text] | None
    "Names of the allowed pools; all by default. Taints of pools named here are tolerated."
    device: DeviceRequirementArgs | None
    "Requirements for each accelerator; none by default."

class ServicePlacementArgs(SpecModel):
    """Device attribute or node label that the node pools of all roles must share."""

    def __init__(self, **fields: Unpack[dicts.ServicePlacementArgsDict]) -> None: ...
    colocate: Text | None
    "Device attribute or node label, such as `topology.kubernetes.io/zone`, that must have the\n    same value on the pools of all roles, for example for KV cache transfer. By default roles may\n    use any pools."
