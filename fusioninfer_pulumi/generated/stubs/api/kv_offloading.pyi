"""Where an engine keeps the KV cache that its accelerators have no room for, in KServe's words."""

from __future__ import annotations

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
    """The node's disk: each pod has its own, which ends with it."""

    def __init__(self, **fields: Unpack[dicts.EmptyDirTierArgsDict]) -> None: ...
    size: Bytes
    "How much of it, such as `200Gi`: the volume's limit, and asked for as `ephemeral-storage`."

class ClaimReferenceArgs(SpecModel):
    """An existing PersistentVolumeClaim of the service's namespace."""

    def __init__(self, **fields: Unpack[dicts.ClaimReferenceArgsDict]) -> None: ...
    name: NameOrOutput
    "Name of the claim; several pods need one that is `ReadWriteMany`."
    path: _Folder | None
    "Folder in the claim, by default its root."

class ClaimTierArgs(SpecModel):
    """A PersistentVolumeClaim: `spec` creates one for each pod, `ref` names an existing claim."""

    def __init__(self, **fields: Unpack[dicts.ClaimTierArgsDict]) -> None: ...
    spec: dict[str, Any] | None
    "The spec of a claim that each pod gets, and that is deleted with it (an ephemeral volume)."
    ref: ClaimReferenceArgs | None
    "An existing claim, whose content outlives the pods."

class FileSystemTierArgs(SpecModel):
    """A folder that blocks are written to: of an `emptyDir`, or of a claim (`pvc`)."""

    def __init__(self, **fields: Unpack[dicts.FileSystemTierArgsDict]) -> None: ...
    empty_dir: EmptyDirTierArgs | None
    "The node's disk."
    pvc: ClaimTierArgs | None
    "A claim."

class SecondaryTierArgs(SpecModel):
    """A place behind the host memory."""

    def __init__(self, **fields: Unpack[dicts.SecondaryTierArgsDict]) -> None: ...
    file_system: FileSystemTierArgs
    "A folder, the only kind there is."

class KvCacheOffloadingArgs(SpecModel):
    """The KV cache beyond the accelerators' memory: host memory, then disks.

    KServe's `kvCacheOffloading`. vLLM's OffloadingConnector from 0.14, with `secondary` from 0.22;
    SGLang's hierarchical cache, with `secondary` from 0.5.3.
    """

    def __init__(self, **fields: Unpack[dicts.KvCacheOffloadingArgsDict]) -> None: ...
    cpu: Bytes
    "Host memory of each engine for its KV cache, such as `64Gi`, over all its accelerators; with\n    `parallelism.data` each copy has so much. The container's memory limit has to be more."
    eviction_policy: EvictionPolicy | None
    "What leaves the host memory first: `lru` (the engines' default) or `arc` (vLLM)."
    secondary: list[SecondaryTierArgs]
    "What comes behind the host memory, in the order in which it is asked; SGLang has one. By\n    default nothing."
