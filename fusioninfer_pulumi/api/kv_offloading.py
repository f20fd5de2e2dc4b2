"""KV cache in host memory and on disks; the fields are named as KServe's."""

import enum
from typing import Annotated, Any

from pydantic import Field

from fusioninfer_pulumi.api.field_types import Bytes, NameOrOutput, fits
from fusioninfer_pulumi.api.spec_model import SpecModel, empty_list
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

    LRU = "lru"  #: least recently used
    ARC = "arc"  #: adapts between least recently and least frequently used; vLLM only


class EmptyDirTierArgs(SpecModel):
    """The node's disk, as an `emptyDir` of each pod."""

    size: Bytes
    """Size, such as `200Gi`: the volume's limit and the request of `ephemeral-storage`."""


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
    """Storage for KV cache beyond the accelerators' memory: host memory, then disks.

    Uses vLLM's OffloadingConnector (0.14 or later, `secondary` 0.22) or SGLang's hierarchical cache
    (`secondary` 0.5.3 or later).
    """

    cpu: Bytes
    """Host memory for the KV cache, such as `64Gi`: per engine, or per copy with
    `parallelism.data`, for all accelerators together. The container's memory limit must be
    larger."""

    eviction_policy: Annotated[EvictionPolicy, Field(strict=False)] | None = None
    """Eviction policy of host memory: `lru` (the engines' default) or `arc` (vLLM)."""

    secondary: list[SecondaryTierArgs] = Field(default_factory=empty_list)
    """Tiers after host memory, in lookup order; SGLang supports one. None by default."""
