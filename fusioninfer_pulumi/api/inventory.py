"""The node pools of a cluster, and what services demand of the pools that `place` chooses."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from fusioninfer_pulumi.api.field_types import (
    Bytes,
    Count,
    LabelMap,
    PositiveCount,
    Text,
    label_finding,
)
from fusioninfer_pulumi.api.spec_model import SpecModel, default
from fusioninfer_pulumi.api.validation_errors import raise_findings
from fusioninfer_pulumi.findings import Finding, error, shown
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.rules.common import DUPLICATE_NAME, FIELD_REQUIRED, OUT_OF_RANGE

INVENTORY_KIND = "NodePoolInventory"


class TaintEffect(str, enum.Enum):
    """Effect of a taint on pods that do not tolerate it."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"  #: never keeps a pod away
    NO_EXECUTE = "NoExecute"


class TaintArgs(SpecModel):
    """A taint of a pool's nodes, as Kubernetes writes it."""

    key: Text
    """Key of the taint."""

    value: str = ""
    """Its value, empty by default."""

    effect: Annotated[TaintEffect, Field(strict=False)]
    """`NoSchedule`, `PreferNoSchedule` or `NoExecute`."""


class DeviceArgs(SpecModel):
    """Accelerators of a pool."""

    memory: Bytes | None = None
    """Memory of one accelerator, such as `80Gi`; a role that asks for memory never comes here
    without it."""

    attributes: dict[Text, Text] = Field(default_factory=dict)
    """Anything else that roles may ask for, such as `{model: H100, fabric: ib-1}`."""


class NodePoolArgs(SpecModel):
    """Nodes of one kind."""

    name: Text
    """Name of the pool, unique in the inventory."""

    nodes: Count
    """Nodes that it has (with an autoscaler: that it may have)."""

    accelerators: Count
    """Accelerators of each node."""

    resource: Text | None = "nvidia.com/gpu"
    """Resource by which pods ask for these accelerators; null where they can only be claimed."""

    device_classes: list[Text] = Field(default_factory=list)
    """DeviceClasses by which pods claim these accelerators (dynamic resource allocation): each
    device of such a claim is one of them. By default none."""

    in_use: list[PositiveCount] = Field(default_factory=list)
    """Accelerators that others hold, one number for each node where they hold any: `[8, 2]` are
    one full node and two accelerators of another. By default none."""

    device: DeviceArgs = default(DeviceArgs)
    """What its accelerators are."""

    labels: LabelMap = Field(default_factory=dict)
    """Labels that all of its nodes have; `kubernetes.io/os: linux` unless it says otherwise."""

    taints: list[TaintArgs] = Field(default_factory=list)
    """Taints that all of its nodes have."""

    cost: Annotated[float, Field(ge=0)] = 0
    """Price of one accelerator in any unit, the same for all pools; 0 by default. The cheapest
    pools that work are taken first."""


class InventoryArgs(SpecModel):
    """The node pools of a cluster.

    Raises:
        InvalidServiceError: The input cannot work; every problem is listed.
    """

    pool_label: Text | None = None
    """Node label that identifies a pool; its value is the pool's name unless the pool's own
    `labels` say otherwise. By default the one of GKE, EKS, AKS or Karpenter that all pools list
    among their `labels`."""

    pools: list[NodePoolArgs] = Field(min_length=1)
    """The pools; the first of equally good pools is used."""

    @property
    def selector_label(self) -> str | None:
        """The label that identifies a pool, None where neither is given."""
        known = (key for key in labels.NODE_POOLS if all(key in p.labels for p in self.pools))
        return self.pool_label or next(known, None)

    def selected_by(self, pool: NodePoolArgs) -> str:
        """Value of the selector label on a pool's nodes."""
        return pool.labels.get(self.selector_label or "", pool.name)

    @model_validator(mode="after")
    def _rules(self) -> InventoryArgs:
        raise_findings(type(self).__name__, _findings(self))
        return self


class InventoryMetadata(SpecModel):
    """Metadata of an inventory; for people only."""

    name: Text | None = None
    """Name of the cluster, say."""


class InventoryManifest(SpecModel):
    """An inventory as a Kubernetes-style document; it is no object of any cluster."""

    api_version: Literal["fusioninfer.io/v1alpha1"]
    """API version."""

    kind: Literal["NodePoolInventory"]
    """The kind, always `NodePoolInventory`."""

    metadata: InventoryMetadata = default(InventoryMetadata)
    """For people only."""

    spec: InventoryArgs
    """The pools."""


def _findings(inventory: InventoryArgs) -> Iterator[Finding]:
    names = Counter(pool.name for pool in inventory.pools)
    for index, pool in enumerate(inventory.pools):
        at = ("pools", index)
        if names[pool.name] > 1:
            yield error(
                DUPLICATE_NAME,
                (*at, "name"),
                f"{shown(pool.name)} names {names[pool.name]} pools",
            )
        if pool.resource is None and not pool.device_classes:
            yield error(
                FIELD_REQUIRED,
                (*at, "resource"),
                "must name a resource where deviceClasses name no class, got null",
            )
        if len(pool.in_use) > pool.nodes:
            yield error(
                OUT_OF_RANGE,
                (*at, "inUse"),
                f"must name at most {pool.nodes} nodes, got {len(pool.in_use)}",
            )
        for node_index, in_use in enumerate(pool.in_use):
            if in_use > pool.accelerators:
                yield error(
                    OUT_OF_RANGE,
                    (*at, "inUse", node_index),
                    f"must be at most {pool.accelerators}, got {in_use}",
                )
    key = inventory.selector_label
    if key is None:
        yield error(
            FIELD_REQUIRED,
            ("poolLabel",),
            "is required: the node label that identifies a pool (by default one of "
            f"{', '.join(labels.NODE_POOLS)}, where all pools list it among their labels)",
        )
        return
    values = [inventory.selected_by(pool) for pool in inventory.pools]
    for index, value in enumerate(values):
        if problem := label_finding(("poolLabel",), key, value):
            yield problem
        elif value in values[:index]:
            first = inventory.pools[values.index(value)].name
            if first != inventory.pools[index].name:
                yield error(
                    DUPLICATE_NAME,
                    ("pools", index, "labels"),
                    f"{key}: {value} is also that of pool {first}",
                )


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


#: One allowed value, or several.
AnyOf = Annotated[
    list[Text],
    BeforeValidator(_listed),
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
    """Attributes of the pool's devices and the values that are allowed, one or a list:
    `{model: [H100, H200]}`."""

    min_memory: Bytes | None = None
    """Least memory of one accelerator, such as `80Gi`; by default any."""


class RolePlacementArgs(SpecModel):
    """Which node pools a role may be placed on, beside what its pod templates select."""

    pools: Annotated[list[Text], Field(min_length=1)] | None = None
    """Names of the pools that are allowed; by default all. Their taints are tolerated."""

    device: DeviceRequirementArgs | None = None
    """What each accelerator has to be; by default anything."""


class ServicePlacementArgs(SpecModel):
    """Placement of a service's roles relative to each other."""

    colocate: Text | None = None
    """Device attribute or node label, such as `topology.kubernetes.io/zone`, that must have one
    value on the pools of all roles: the KV cache goes over the network between them. By default
    roles may be anywhere."""
