"""What a service demands of the node pools that `place` chooses for it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from fusioninfer_pulumi.api.base import SpecModel
from fusioninfer_pulumi.api.types import Bytes, Text


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
    """What each accelerator of a role has to be."""

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
    """How the roles of a service are placed in relation to each other."""

    colocate: Text | None = None
    """Device attribute or node label, such as `topology.kubernetes.io/zone`, that must have one
    value on the pools of all roles: the KV cache goes over the network between them. By default
    roles may be anywhere."""
