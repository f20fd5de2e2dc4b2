"""The engine of a role, and how it splits and copies the model, in KServe's words."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Annotated

from pydantic import Field
from typing_extensions import Unpack

from fusioninfer_pulumi.api.field_types import Port, PositiveCount
from fusioninfer_pulumi.api.spec_model import SpecModel
from fusioninfer_pulumi.api.validation_errors import string_format
from fusioninfer_pulumi.findings import Finding, Location, Rule
from fusioninfer_pulumi.generated import dicts

class EngineName(str, enum.Enum):
    """The engines whose containers can be written."""

    VLLM = "vllm"
    SGLANG = "sglang"

ReleaseText = Annotated[
    str,
    string_format(
        "^[0-9]+\\.[0-9]+\\.[0-9]+(\\.post[0-9]+)?$", "a release such as 0.32.0, without a v"
    ),
]
Registry = Annotated[
    str,
    string_format(
        "^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]+)?(/[a-z0-9._-]+)*$",
        "a registry such as registry.example.com, and a path in it, without a / at its end",
    ),
]

class EngineArgs(SpecModel):
    """Which engine a role runs, and in which release, where its template names no image.

    Beside a template with an image it asks for the rest of the container, which the template's own
    values replace.
    """

    def __init__(self, **fields: Unpack[dicts.EngineArgsDict]) -> None: ...
    name: Annotated[EngineName, Field(strict=False)] = EngineName.VLLM
    "`vllm` (default) or `sglang`."
    version: ReleaseText | None = None
    "Its release, such as `0.32.0`; by default the one that this version of the library names,\n    which `plan` shows."

MAX_TARGET_PORTS = 8
PODS_PER_REPLICA_UNKNOWN = Rule("pods-per-replica-unknown")

class ParallelismArgs(SpecModel):
    """Sizes that become arguments of vLLM or SGLang, and the number of pods in a replica.

    KServe's `parallelism`: a replica has `data / dataLocal` pods, or one for each pipeline stage,
    unless `multinode.nodeCount` says otherwise.
    """

    def __init__(self, **fields: Unpack[dicts.ParallelismArgsDict]) -> None: ...
    tensor: PositiveCount | None = None
    "Accelerators that share each layer; by default the engine's 1."
    pipeline: PositiveCount | None = None
    "Stages that the layers are divided into, by default one in each pod of a replica."
    data: PositiveCount | None = None
    "Copies of the model that share one endpoint, over all pods of a replica."
    data_local: PositiveCount | None = None
    "Copies in each pod; by default all of them, or their share of `multinode.nodeCount`."
    data_rpc_port: Annotated[Port | None, Field(alias="dataRPCPort")] = None
    "Port on which the leader coordinates the copies in other pods; by default the engine's."
    expert: bool | None = None
    "Whether the layers of experts are spread over all accelerators of a replica."
    port_per_rank: bool | None = None
    "Whether each copy of the pod serves on a port of its own, so that the endpoint picker chooses\n    among copies, by the cache and the load of each (vLLM 0.22 or later, one pod in a replica)."

    @property
    def ranks(self) -> int: ...
    @property
    def sized(self) -> bool: ...
    @property
    def determines_pod_count(self) -> bool: ...
    @property
    def pods(self) -> int: ...

def parallelism_findings(
    at: Location, sizes: ParallelismArgs, node_count: int | None
) -> Iterator[Finding]: ...
def _port_per_rank(at: Location, sizes: ParallelismArgs, pods: int) -> Iterator[Finding]: ...
def size_findings(
    at: Location, sizes: ParallelismArgs, node_count: int | None
) -> Iterator[Finding]: ...
def _node_count(at: Location, sizes: ParallelismArgs, nodes: int) -> Iterator[Finding]: ...
