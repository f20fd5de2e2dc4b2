"""KV cache in host memory and on disks; the fields are named as KServe's."""

import enum
from typing import Any

from typing_extensions import Unpack

from fusioninfer_pulumi.api.field_types import Bytes, NameOrOutput
from fusioninfer_pulumi.api.spec_model import SpecModel
from fusioninfer_pulumi.generated import dicts

_Folder = str

class EvictionPolicy(str, enum.Enum):
    """Eviction policy of the host memory."""

    LRU = "lru"
    ARC = "arc"

class EmptyDirTierArgs(SpecModel):
    """The node's disk, as an `emptyDir` of each pod."""

    def __init__(self, **fields: Unpack[dicts.EmptyDirTierArgsDict]) -> None: ...
    size: Bytes
    "Size, such as `200Gi`: the volume's limit and the request of `ephemeral-storage`."

class ClaimReferenceArgs(SpecModel):
    """An existing PersistentVolumeClaim of the service's namespace."""

    def __init__(self, **fields: Unpack[dicts.ClaimReferenceArgsDict]) -> None: ...
    name: NameOrOutput
    "Name of the claim; must be `ReadWriteMany` if several pods use it."
    path: _Folder | None
    "Directory in the claim; its root by default."

class ClaimTierArgs(SpecModel):
    """A PersistentVolumeClaim: `spec` creates one per pod, `ref` names an existing claim."""

    def __init__(self, **fields: Unpack[dicts.ClaimTierArgsDict]) -> None: ...
    spec: dict[str, Any] | None
    "The spec of a claim that is created and deleted with each pod (an ephemeral volume)."
    ref: ClaimReferenceArgs | None
    "An existing claim, whose content outlives the pods."

class FileSystemTierArgs(SpecModel):
    """A directory for KV cache blocks: in an `emptyDir`, or in a claim (`pvc`)."""

    def __init__(self, **fields: Unpack[dicts.FileSystemTierArgsDict]) -> None: ...
    empty_dir: EmptyDirTierArgs | None
    "The node's disk."
    pvc: ClaimTierArgs | None
    "A claim."

class SecondaryTierArgs(SpecModel):
    """A tier after host memory."""

    def __init__(self, **fields: Unpack[dicts.SecondaryTierArgsDict]) -> None: ...
    file_system: FileSystemTierArgs
    "A directory; the only kind of tier."

class KvCacheOffloadingArgs(SpecModel):
    """Storage for KV cache beyond the accelerators' memory: host memory, then disks.

    Uses vLLM's OffloadingConnector (0.14 or later, `secondary` 0.22) or SGLang's hierarchical cache
    (`secondary` 0.5.3 or later).
    """

    def __init__(self, **fields: Unpack[dicts.KvCacheOffloadingArgsDict]) -> None: ...
    cpu: Bytes
    "Host memory for the KV cache, such as `64Gi`: per engine, or per copy with\n    `parallelism.data`, for all accelerators together. The container's memory limit must be\n    larger."
    eviction_policy: EvictionPolicy | None
    "Eviction policy of host memory: `lru` (the engines' default) or `arc` (vLLM)."
    secondary: list[SecondaryTierArgs]
    "Tiers after host memory, in lookup order; SGLang supports one. None by default."
