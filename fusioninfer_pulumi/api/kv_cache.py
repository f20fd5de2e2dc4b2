"""KV cache transfer from prefill to decode pods, KV cache events, and KV cache offloading."""

import enum
from typing import Annotated, Any

from pydantic import Field

from fusioninfer_pulumi.api.field_types import (
    JSON_WITHOUT_OUTPUTS,
    Bytes,
    Count,
    ImageOrOutput,
    ObjectNameOrOutput,
    Port,
    PositiveCount,
    Resources,
    Text,
    matches_schema,
)
from fusioninfer_pulumi.api.spec_model import SpecModel, default, empty_list
from fusioninfer_pulumi.api.validation_errors import string_format
from fusioninfer_pulumi.schemas.kind_schema import SIZE_LIMIT, VOLUME_CLAIM


class KvRole(str, enum.Enum):
    """vLLM's `kv_role`: the direction in which an engine transfers the KV cache."""

    BOTH = "kv_both"  #: sends and receives; deprecated for NIXL since vLLM 0.23.0
    PRODUCER = "kv_producer"  #: sends
    CONSUMER = "kv_consumer"  #: receives


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

    enabled: bool = True
    """Whether to add the sidecar; if not, the template's containers are used unchanged."""

    image: ImageOrOutput | None = None
    """Image; by default the sidecar released with the endpoint picker. May be an Output."""

    family: str | None = None
    """Release of the sidecar, such as `llm-d-0.10`. Default: the release in the image's name or
    tag; without one, the endpoint picker's release."""

    connector: Annotated[SidecarConnector, Field(strict=False)] | None = None
    """Protocol; by default the one that matches the engine's connector."""

    ssrf_protection: bool | None = None
    """Whether prompts are sent only to pods of the service's pool, even if a client's header names
    another address. By default enabled if the release supports it (llm-d v0.10.0 or later). The
    sidecar then reads the pool and the pods, with its own ServiceAccount and Role."""

    resources: Resources | None = None
    """Resources of the sidecar's container, replacing the default requests."""

    args: list[str] | None = None
    """Additional command-line flags; flags that the library sets are rejected."""

    OTHERS_REQUIRE_FIRST = ("enabled",)


_Resource = Annotated[
    str, string_format(r"^[a-z0-9.-]+/[A-Za-z0-9._-]+$", "an extended resource such as rdma/ib")
]
_Device = Annotated[
    str, string_format(r"^[A-Za-z0-9_.-]+(:[0-9]+)?$", "a device such as mlx5_0 or mlx5_0:1")
]
_Transports = Annotated[
    str, string_format(r"^[^\s]+$", "transports without spaces between them, such as rc,cuda_copy")
]
_Endpoint = Annotated[
    str,
    string_format(r"^tcp://.+:[0-9]{1,5}$", "a ZMQ endpoint such as tcp://*:5557, with its port"),
]


class RdmaArgs(SpecModel):
    """RDMA devices (InfiniBand, RoCE) through which NIXL, UCX and NCCL reach other pods."""

    resource: _Resource | None = None
    """Extended resource of the devices, such as `rdma/ib`; none by default."""

    count: PositiveCount = 1
    """Number of devices that each pod requests."""

    devices: list[_Device] = Field(default_factory=empty_list)
    """Devices with their ports, such as `mlx5_0:1`, for `UCX_NET_DEVICES` and `NCCL_IB_HCA`; by
    default UCX and NCCL choose."""

    transports: _Transports | None = None
    """`UCX_TLS`, such as `rc,cuda_copy,cuda_ipc`; by default UCX chooses."""

    gid_index: Count | None = None
    """GID index of RoCE devices, for `UCX_IB_GID_INDEX` and `NCCL_IB_GID_INDEX`."""

    lock_memory: bool = True
    """Whether to add the capability `IPC_LOCK` to the serving container, which memory registration
    requires."""


class KvTransferArgs(SpecModel):
    """KV cache transfer from prefill to decode pods.

    `{}` generates the engine's settings for NIXL, on prefillers and decoders. A
    `--kv-transfer-config` among the engine's arguments is used unchanged.
    """

    enabled: bool = True
    """Whether engines transfer the KV cache; otherwise decode pods compute each prompt again."""

    connector: Text | None = None
    """vLLM's KV connector; `NixlConnector` by default."""

    role: Annotated[KvRole, Field(strict=False)] | None = None
    """vLLM's `kv_role`. Default: `kv_both`; with NIXL and vLLM 0.23.0 or later `kv_producer` for
    prefillers and `kv_consumer` for decoders."""

    extra_config: Annotated[dict[str, Any], JSON_WITHOUT_OUTPUTS] | None = None
    """vLLM's `kv_connector_extra_config`."""

    side_channel_port: Port = 5600
    """First port of NIXL's side channel, on which pods negotiate transfers."""

    rdma: RdmaArgs | None = None
    """RDMA devices to request and use; by default the template's requests apply."""

    shared_memory: Annotated[str, matches_schema(SIZE_LIMIT)] | None = None
    """Size limit of the memory volume at /dev/shm, such as `16Gi`; unlimited by default."""

    engine_port: Port | None = None
    """Decoders only: port of the engine behind the sidecar. Default: the engine's port if it
    differs from the pool's, otherwise 8001."""

    sidecar: SidecarArgs = default(SidecarArgs)
    """Decoders only: the sidecar."""


class KvEventsArgs(SpecModel):
    """KV cache events of the engine, for an endpoint picker that uses them for scoring.

    With `{}` each pod publishes events on its own address, where pickers subscribe to them.
    """

    endpoint: _Endpoint = "tcp://*:5557"
    """ZMQ endpoint. The engine listens if the host is `*` or `[::]`; otherwise it connects."""

    topic: Text | None = None
    """Topic of the events. Default: `kv@$(POD_IP):PORT@MODEL`, the name that llm-d's pickers
    subscribe to."""


_Directory = Annotated[
    str,
    string_format(
        r"^\.?[^./\s][^/\s]*(/\.?[^./\s][^/\s]*)*/?$",
        "a directory such as cache/chat, without spaces, .. or a / before it",
    ),
]


class EvictionPolicy(str, enum.Enum):
    """Policy that chooses the KV cache blocks to evict from host memory."""

    LRU = "lru"  #: least recently used
    ARC = "arc"  #: adapts between least recently and least frequently used; vLLM only


class EmptyDirTierArgs(SpecModel):
    """The node's disk, as an `emptyDir` of each pod."""

    size: Bytes
    """Size, such as `200Gi`: the volume's limit and the request of `ephemeral-storage`."""


class ClaimReferenceArgs(SpecModel):
    """An existing PersistentVolumeClaim of the service's namespace."""

    name: ObjectNameOrOutput
    """Name of the claim; must be `ReadWriteMany` if several pods use it."""

    path: _Directory | None = None
    """Directory in the claim; its root by default."""


class ClaimTierArgs(SpecModel):
    """A PersistentVolumeClaim: `spec` creates one per pod, `ref` names an existing claim."""

    spec: Annotated[dict[str, Any], matches_schema(VOLUME_CLAIM)] | None = None
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

    Uses the OffloadingConnector of vLLM 0.14 or later, or SGLang's hierarchical cache. `secondary`
    needs vLLM 0.22 or SGLang 0.5.3.
    """

    cpu: Bytes
    """Host memory for the KV cache of one copy of the model, over all its accelerators, such as
    `64Gi`; with `parallelism.data`, for each of the copies. The container's memory limit must be
    larger."""

    eviction_policy: Annotated[EvictionPolicy, Field(strict=False)] | None = None
    """Eviction policy of host memory: `lru` (the engines' default) or `arc` (vLLM)."""

    secondary: list[SecondaryTierArgs] = Field(default_factory=empty_list)
    """Tiers after host memory, in lookup order; SGLang supports one. None by default."""
