"""Where an engine keeps the KV cache that its accelerators have no room for, in KServe's words."""

import enum
from typing import Annotated, Any

from pydantic import Field

from fusioninfer_pulumi.api.field_types import Bytes, NameOrOutput, fits
from fusioninfer_pulumi.api.spec_model import SpecModel
from fusioninfer_pulumi.api.validation_errors import string_format
from fusioninfer_pulumi.schemas.kind_schema import CLAIM

_Folder = Annotated[
    str,
    string_format(
        r"^\.?[^./\s][^/\s]*(/\.?[^./\s][^/\s]*)*/?$",
        "a folder such as cache/chat, without spaces, .. or a / before it",
    ),
]


class EvictionPolicy(str, enum.Enum):
    """Eviction policy of the host memory."""

    LRU = "lru"  #: what was used least recently
    ARC = "arc"  #: adapts between least recently and least often used; vLLM only


class EmptyDirTierArgs(SpecModel):
    """The node's disk, as an `emptyDir` of each pod."""

    size: Bytes
    """Size, such as `200Gi`: limits the volume, and is requested as `ephemeral-storage`."""


class ClaimReferenceArgs(SpecModel):
    """An existing PersistentVolumeClaim of the service's namespace."""

    name: NameOrOutput
    """Name of the claim; must be `ReadWriteMany` if several pods use it."""

    path: _Folder | None = None
    """Directory in the claim; its root by default."""


class ClaimTierArgs(SpecModel):
    """A PersistentVolumeClaim: `spec` creates one per pod, `ref` names an existing claim."""

    spec: Annotated[dict[str, Any], fits(CLAIM)] | None = None
    """The spec of a claim that is created and deleted with each pod (an ephemeral volume)."""

    ref: ClaimReferenceArgs | None = None
    """An existing claim, whose content outlives the pods."""

    ONE_OF = ("spec", "ref")


class FileSystemTierArgs(SpecModel):
    """A directory for KV cache blocks: in an `emptyDir`, or in a claim (`pvc`)."""

    empty_dir: EmptyDirTierArgs | None = None
    """The node's disk."""

    pvc: ClaimTierArgs | None = None
    """A claim."""

    ONE_OF = ("empty_dir", "pvc")


class SecondaryTierArgs(SpecModel):
    """A tier after host memory."""

    file_system: FileSystemTierArgs
    """A directory; the only kind of tier."""


class KvCacheOffloadingArgs(SpecModel):
    """The KV cache beyond the accelerators' memory: host memory, then disks.

    KServe's `kvCacheOffloading`. vLLM's OffloadingConnector from 0.14, with `secondary` from 0.22;
    SGLang's hierarchical cache, with `secondary` from 0.5.3.
    """

    cpu: Bytes
    """Host memory for the KV cache of each engine, such as `64Gi`, for all its accelerators
    together; with `parallelism.data`, of each copy. The container's memory limit must be larger."""

    eviction_policy: Annotated[EvictionPolicy, Field(strict=False)] | None = None
    """Eviction policy of host memory: `lru` (the engines' default) or `arc` (vLLM)."""

    secondary: list[SecondaryTierArgs] = Field(default_factory=list)
    """Tiers after host memory, in lookup order; SGLang supports one. None by default."""
