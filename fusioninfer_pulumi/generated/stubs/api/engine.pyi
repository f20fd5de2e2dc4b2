"""The engine of a role, and how it splits and copies the model, in KServe's words."""

from __future__ import annotations

import enum

from typing_extensions import Unpack

from fusioninfer_pulumi.api.field_types import Port, PositiveCount
from fusioninfer_pulumi.api.spec_model import SpecModel
from fusioninfer_pulumi.generated import dicts

class EngineName(str, enum.Enum):
    """The engines whose containers can be written."""

    VLLM = "vllm"
    SGLANG = "sglang"

ReleaseText = str
Registry = str

class EngineArgs(SpecModel):
    """Which engine a role runs, and in which release, where its template names no image.

    Beside a template with an image it asks for the rest of the container, which the template's own
    values replace.
    """

    def __init__(self, **fields: Unpack[dicts.EngineArgsDict]) -> None: ...
    name: EngineName
    "`vllm` (default) or `sglang`."
    version: ReleaseText | None
    "Its release, such as `0.32.0`; by default the one that this version of the library names,\n    which `plan` shows."

MAX_TARGET_PORTS: int

class ParallelismArgs(SpecModel):
    """Sizes that become arguments of vLLM or SGLang, and the number of pods in a replica.

    KServe's `parallelism`: a replica has `data / dataLocal` pods, or one for each pipeline stage,
    unless `multinode.nodeCount` says otherwise.
    """

    def __init__(self, **fields: Unpack[dicts.ParallelismArgsDict]) -> None: ...
    tensor: PositiveCount | None
    "Accelerators that share each layer; by default the engine's 1."
    pipeline: PositiveCount | None
    "Stages that the layers are divided into, by default one in each pod of a replica."
    data: PositiveCount | None
    "Copies of the model that share one endpoint, over all pods of a replica."
    data_local: PositiveCount | None
    "Copies in each pod; by default all of them, or their share of `multinode.nodeCount`."
    data_rpc_port: Port | None
    "Port on which the leader coordinates the copies in other pods; by default the engine's."
    expert: bool | None
    "Whether the layers of experts are spread over all accelerators of a replica."
    port_per_rank: bool | None
    "Whether each copy of the pod serves on a port of its own, so that the endpoint picker chooses\n    among copies, by the cache and the load of each (vLLM 0.22 or later, one pod in a replica)."

    @property
    def ranks(self) -> int: ...
    @property
    def sized(self) -> bool: ...
    @property
    def determines_pod_count(self) -> bool: ...
    @property
    def pods(self) -> int: ...
