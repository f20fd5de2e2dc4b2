"""KV cache transfer from prefill to decode pods, KV cache events, and KV cache offloading."""

import enum
from typing import Any

from typing_extensions import Unpack

from fusioninfer_pulumi.api.field_types import (
    Bytes,
    Count,
    ImageOrOutput,
    ObjectNameOrOutput,
    Port,
    PositiveCount,
    Resources,
    Text,
)
from fusioninfer_pulumi.api.spec_model import SpecModel
from fusioninfer_pulumi.generated import dicts

class KvRole(str, enum.Enum):
    """vLLM's `kv_role`: the direction in which an engine transfers the KV cache."""

    BOTH = "kv_both"
    PRODUCER = "kv_producer"
    CONSUMER = "kv_consumer"

class SidecarConnector(str, enum.Enum):
    """Protocol by which the sidecar coordinates prefill and decode."""

    NIXL = "nixlv2"
    SHARED_STORAGE = "shared-storage"
    SGLANG = "sglang"
    MOONCAKE = "mooncake"
    OFFLOADING = "offloading"

class SidecarArgs(SpecModel):
    """Sidecar of decode leaders: sends each prompt to the prefill pod that the picker chose.

    It listens on the pool's port. Without a prefill pod, the decode engine computes the prompt.
    """

    def __init__(self, **fields: Unpack[dicts.SidecarArgsDict]) -> None: ...
    enabled: bool
    "Whether to add the sidecar; if not, the template's containers are used unchanged."
    image: ImageOrOutput | None
    "Image; by default the sidecar released with the endpoint picker. May be an Output."
    family: str | None
    "Release of the sidecar, such as `llm-d-0.10`. Default: the release in the image's name or\n    tag; without one, the endpoint picker's release."
    connector: SidecarConnector | None
    "Protocol; by default the one that matches the engine's connector."
    ssrf_protection: bool | None
    "Whether prompts are sent only to pods of the service's pool, even if a client's header names\n    another address. By default enabled if the release supports it (llm-d v0.10.0 or later). The\n    sidecar then reads the pool and the pods, with its own ServiceAccount and Role."
    resources: Resources | None
    "Resources of the sidecar's container, replacing the default requests."
    args: list[str] | None
    "Additional command-line flags; flags that the library sets are rejected."

_Resource = str
_Device = str
_Transports = str
_Endpoint = str

class RdmaArgs(SpecModel):
    """RDMA devices (InfiniBand, RoCE) through which NIXL, UCX and NCCL reach other pods."""

    def __init__(self, **fields: Unpack[dicts.RdmaArgsDict]) -> None: ...
    resource: _Resource | None
    "Extended resource of the devices, such as `rdma/ib`; none by default."
    count: PositiveCount
    "Number of devices that each pod requests."
    devices: list[_Device]
    "Devices with their ports, such as `mlx5_0:1`, for `UCX_NET_DEVICES` and `NCCL_IB_HCA`; by\n    default UCX and NCCL choose."
    transports: _Transports | None
    "`UCX_TLS`, such as `rc,cuda_copy,cuda_ipc`; by default UCX chooses."
    gid_index: Count | None
    "GID index of RoCE devices, for `UCX_IB_GID_INDEX` and `NCCL_IB_GID_INDEX`."
    lock_memory: bool
    "Whether to add the capability `IPC_LOCK` to the serving container, which memory registration\n    requires."

class KvTransferArgs(SpecModel):
    """KV cache transfer from prefill to decode pods.

    `{}` generates the engine's settings for NIXL, on prefillers and decoders. A
    `--kv-transfer-config` among the engine's arguments is used unchanged.
    """

    def __init__(self, **fields: Unpack[dicts.KvTransferArgsDict]) -> None: ...
    enabled: bool
    "Whether engines transfer the KV cache; otherwise decode pods compute each prompt again."
    connector: Text | None
    "vLLM's KV connector; `NixlConnector` by default."
    role: KvRole | None
    "vLLM's `kv_role`. Default: `kv_both`; with NIXL and vLLM 0.23.0 or later `kv_producer` for\n    prefillers and `kv_consumer` for decoders."
    extra_config: dict[str, Any] | None
    "vLLM's `kv_connector_extra_config`."
    side_channel_port: Port
    "First port of NIXL's side channel, on which pods negotiate transfers."
    rdma: RdmaArgs | None
    "RDMA devices to request and use; by default the template's requests apply."
    shared_memory: str | None
    "Size limit of the memory volume at /dev/shm, such as `16Gi`; unlimited by default."
    engine_port: Port | None
    "Decoders only: port of the engine behind the sidecar. Default: the engine's port if it\n    differs from the pool's, otherwise 8001."
    sidecar: SidecarArgs
    "Decoders only: the sidecar."

class KvEventsArgs(SpecModel):
    """KV cache events of the engine, for an endpoint picker that uses them for scoring.

    With `{}` each pod publishes events on its own address, where pickers subscribe to them.
    """

    def __init__(self, **fields: Unpack[dicts.KvEventsArgsDict]) -> None: ...
    endpoint: _Endpoint
    "ZMQ endpoint. The engine listens if the host is `*` or `[::]`; otherwise it connects."
    topic: Text | None
    "Topic of the events. Default: `kv@$(POD_IP):PORT@MODEL`, the name that llm-d's pickers\n    subscribe to."

_Directory = str

class EvictionPolicy(str, enum.Enum):
    """Policy that chooses the KV cache blocks to evict from host memory."""

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
    name: ObjectNameOrOutput
    "Name of the claim; must be `ReadWriteMany` if several pods use it."
    path: _Directory | None
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

    Uses the OffloadingConnector of vLLM 0.14 or later, or SGLang's hierarchical cache. `secondary`
    needs vLLM 0.22 or SGLang 0.5.3.
    """

    def __init__(self, **fields: Unpack[dicts.KvCacheOffloadingArgsDict]) -> None: ...
    cpu: Bytes
    "Host memory for the KV cache of one copy of the model, over all its accelerators, such as\n    `64Gi`; with `parallelism.data`, for each of the copies. The container's memory limit must be\n    larger."
    eviction_policy: EvictionPolicy | None
    "Eviction policy of host memory: `lru` (the engines' default) or `arc` (vLLM)."
    secondary: list[SecondaryTierArgs]
    "Tiers after host memory, in lookup order; SGLang supports one. None by default."
