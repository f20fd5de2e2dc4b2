"""The node pools of a cluster, and what services demand of the pools that `place` chooses."""

from __future__ import annotations

import enum
from typing import Literal

from typing_extensions import Unpack

from fusioninfer_pulumi.api.field_types import (
    Bytes,
    Count,
    LabelMap,
    PositiveCount,
    Text,
)
from fusioninfer_pulumi.api.spec_model import SpecModel
from fusioninfer_pulumi.generated import dicts

INVENTORY_KIND: str

class TaintEffect(str, enum.Enum):
    """Effect of a taint on pods that do not tolerate it."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"

class TaintArgs(SpecModel):
    """A taint of a pool's nodes, as Kubernetes writes it."""

    def __init__(self, **fields: Unpack[dicts.TaintArgsDict]) -> None: ...
    key: Text
    "Key of the taint."
    value: str
    "Its value, empty by default."
    effect: TaintEffect
    "`NoSchedule`, `PreferNoSchedule` or `NoExecute`."

class DeviceArgs(SpecModel):
    """Accelerators of a pool."""

    def __init__(self, **fields: Unpack[dicts.DeviceArgsDict]) -> None: ...
    memory: Bytes | None
    "Memory of one accelerator, such as `80Gi`; a role that asks for memory never comes here\n    without it."
    attributes: dict[Text, Text]
    "Anything else that roles may ask for, such as `{model: H100, fabric: ib-1}`."

class NodePoolArgs(SpecModel):
    """Nodes of one kind."""

    def __init__(self, **fields: Unpack[dicts.NodePoolArgsDict]) -> None: ...
    name: Text
    "Name of the pool, unique in the inventory."
    nodes: Count
    "Nodes that it has (with an autoscaler: that it may have)."
    accelerators: Count
    "Accelerators of each node."
    resource: Text | None
    "Resource by which pods ask for these accelerators; null where they can only be claimed."
    device_classes: list[Text]
    "DeviceClasses by which pods claim these accelerators (dynamic resource allocation): each\n    device of such a claim is one of them. By default none."
    in_use: list[PositiveCount]
    "Accelerators that others hold, one number for each node where they hold any: `[8, 2]` are\n    one full node and two accelerators of another. By default none."
    device: DeviceArgs
    "What its accelerators are."
    labels: LabelMap
    "Labels that all of its nodes have; `kubernetes.io/os: linux` unless it says otherwise."
    taints: list[TaintArgs]
    "Taints that all of its nodes have."
    cost: float
    "Price of one accelerator in any unit, the same for all pools; 0 by default. The cheapest\n    pools that work are taken first."

class InventoryArgs(SpecModel):
    """The node pools of a cluster.

    Raises:
        InvalidServiceError: The input cannot work; every problem is listed.
    """

    def __init__(self, **fields: Unpack[dicts.InventoryArgsDict]) -> None: ...
    pool_label: Text | None
    "Node label that identifies a pool; its value is the pool's name unless the pool's own\n    `labels` say otherwise. By default the one of GKE, EKS, AKS or Karpenter that all pools list\n    among their `labels`."
    pools: list[NodePoolArgs]
    "The pools; the first of equally good pools is used."

    @property
    def selector_label(self) -> str | None: ...
    def selected_by(self, pool: NodePoolArgs) -> str: ...

class InventoryMetadata(SpecModel):
    """Metadata of an inventory; for people only."""

    name: Text | None
    "Name of the cluster, say."

class InventoryManifest(SpecModel):
    """An inventory as a Kubernetes-style document; it is no object of any cluster."""

    api_version: Literal["fusioninfer.io/v1alpha1"]
    "API version."
    kind: Literal["NodePoolInventory"]
    "The kind, always `NodePoolInventory`."
    metadata: InventoryMetadata
    "For people only."
    spec: InventoryArgs
    "The pools."

AnyOf = list[Text]

class DeviceRequirementArgs(SpecModel):
    """Requirements for each accelerator of a role."""

    def __init__(self, **fields: Unpack[dicts.DeviceRequirementArgsDict]) -> None: ...
    attributes: dict[Text, AnyOf]
    "Attributes of the pool's devices and the values that are allowed, one or a list:\n    `{model: [H100, H200]}`."
    min_memory: Bytes | None
    "Least memory of one accelerator, such as `80Gi`; by default any."

class RolePlacementArgs(SpecModel):
    """Which node pools a role may be placed on, beside what its pod templates select."""

    def __init__(self, **fields: Unpack[dicts.RolePlacementArgsDict]) -> None: ...
    pools: list[Text] | None
    "Names of the pools that are allowed; by default all. Their taints are tolerated."
    device: DeviceRequirementArgs | None
    "What each accelerator has to be; by default anything."

class ServicePlacementArgs(SpecModel):
    """Placement of a service's roles relative to each other."""

    def __init__(self, **fields: Unpack[dicts.ServicePlacementArgsDict]) -> None: ...
    colocate: Text | None
    "Device attribute or node label, such as `topology.kubernetes.io/zone`, that must have one\n    value on the pools of all roles: the KV cache goes over the network between them. By default\n    roles may be anywhere."
