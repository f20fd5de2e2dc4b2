"""How the KV cache gets from prefill to decode pods, and how pods publish what they cache."""

from __future__ import annotations

import enum
from typing import Any

from typing_extensions import Unpack

from fusioninfer_pulumi.api.field_types import (
    Count,
    PodPart,
    Port,
    PositiveCount,
    StringOrOutput,
    Text,
)
from fusioninfer_pulumi.api.spec_model import SpecModel
from fusioninfer_pulumi.generated import dicts

class KvRole(str, enum.Enum):
    """vLLM's `kv_role`: which way the KV cache goes."""

    BOTH = "kv_both"
    PRODUCER = "kv_producer"
    CONSUMER = "kv_consumer"

class SidecarConnector(str, enum.Enum):
    """The protocol by which the sidecar sends a request to prefill and decode."""

    NIXL = "nixlv2"
    SHARED_STORAGE = "shared-storage"
    SGLANG = "sglang"
    MOONCAKE = "mooncake"
    OFFLOADING = "offloading"

class SidecarArgs(SpecModel):
    """The sidecar of decode leaders: it sends each prompt to the prefill pod that the picker chose.

    It listens on the pool's port and passes everything else on to the engine beside it.
    """

    def __init__(self, **fields: Unpack[dicts.SidecarArgsDict]) -> None: ...
    enabled: bool
    "Whether it is added; without it the pods serve as their template says."
    image: StringOrOutput | None
    "Its image, by default the one that was released with the endpoint picker; may be an\n    Output."
    family: str | None
    "Which release the image is (`llm-d-0.10`, ...), where its name and tag do not say so; by\n    default the endpoint picker's."
    connector: SidecarConnector | None
    "Its protocol, by default the one that fits the engine's connector."
    ssrf_protection: bool | None
    "Whether it sends prompts to pods of the service's pool only, whatever a client's header\n    says; by default where its release can (llm-d v0.10.0 or later). It then reads pool and pods,\n    with a ServiceAccount and a Role of its own."
    resources: PodPart | None
    "Resources of its container, in place of the default requests."
    args: list[str] | None
    "More command line flags; flags that the library sets are rejected."

_Resource = str
_Device = str
_Transports = str
_Endpoint = str

class RdmaArgs(SpecModel):
    """RDMA devices (InfiniBand, RoCE) by which NIXL, UCX and NCCL reach other pods."""

    def __init__(self, **fields: Unpack[dicts.RdmaArgsDict]) -> None: ...
    resource: _Resource | None
    "Extended resource of the devices, such as `rdma/ib`; by default none is asked for."
    count: PositiveCount
    "How many of it each pod asks for."
    devices: list[_Device]
    "Devices with their ports, such as `mlx5_0:1`, for `UCX_NET_DEVICES` and `NCCL_IB_HCA`; by\n    default UCX and NCCL choose."
    transports: _Transports | None
    "`UCX_TLS`, such as `rc,cuda_copy,cuda_ipc`; by default UCX chooses."
    gid_index: Count | None
    "Index of the address of RoCE devices, for `UCX_IB_GID_INDEX` and `NCCL_IB_GID_INDEX`."
    lock_memory: bool
    "Whether the serving container may lock memory (`IPC_LOCK`), which registering it needs."

class KvTransferArgs(SpecModel):
    """The KV cache's way from prefill to decode.

    `{}` generates what the engine needs for NIXL, on a prefiller and on a decoder alike. Where the
    engine's arguments hold `--kv-transfer-config` already, they are used as they are.
    """

    def __init__(self, **fields: Unpack[dicts.KvTransferArgsDict]) -> None: ...
    enabled: bool
    "Whether the engines hand the KV cache over; false: decode computes each prompt again."
    connector: Text | None
    "vLLM's KV connector, by default `NixlConnector`."
    role: KvRole | None
    "vLLM's `kv_role`, by default `kv_both`; with NIXL and vLLM 0.23.0 or later that of the role:\n    `kv_producer` or `kv_consumer`."
    extra_config: dict[str, Any] | None
    "vLLM's `kv_connector_extra_config`."
    side_channel_port: Port
    "First port of NIXL's side channel, over which pods agree on a transfer."
    rdma: RdmaArgs | None
    "RDMA devices; by default those that the template asks for."
    shared_memory: str | None
    "Size limit of the memory volume at /dev/shm, such as `16Gi`; by default that of the node."
    engine_port: Port | None
    "Decoders only: port that the engine serves on behind the sidecar; by default its own where\n    that is not the pool's, else 8001."
    sidecar: SidecarArgs
    "Decoders only: the sidecar."

class KvEventsArgs(SpecModel):
    """Events about the engine's KV cache, for an endpoint picker that scores by them.

    With `{}` each pod publishes on its own address, where a picker that discovers pods subscribes.
    """

    def __init__(self, **fields: Unpack[dicts.KvEventsArgsDict]) -> None: ...
    endpoint: _Endpoint
    "ZMQ endpoint: with `*` the pod listens there, else it connects to that address."
    topic: Text | None
    "Topic of the events, by default `kv@$(POD_IP):PORT@MODEL`, the name under which llm-d's\n    pickers look for a pod."
