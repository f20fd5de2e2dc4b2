"""The engine of a role and its parallelism. The fields for parallelism have KServe's names."""

import enum

from typing_extensions import Unpack

from fusioninfer_pulumi.api.field_types import Port, PositiveCount
from fusioninfer_pulumi.api.spec_model import SpecModel
from fusioninfer_pulumi.generated import dicts

class EngineName(str, enum.Enum):
    """Engines whose containers the library can generate."""

    VLLM = "vllm"
    SGLANG = "sglang"

class Edition(str, enum.Enum):
    """Editions of the library's defaults, oldest first."""

    OF_2026_11 = "2026.11"

ReleaseText = str
Registry = str

class EngineArgs(SpecModel):
    """The engine that a role runs, and its release.

    If the template has an image, the library still generates the rest of the container; values of
    the template take precedence.
    """

    def __init__(self, **fields: Unpack[dicts.EngineArgsDict]) -> None: ...
    name: EngineName
    "`vllm` (default) or `sglang`."
    version: ReleaseText | None
    "Release, such as `0.32.0`. Default: the release of the service's `edition`, which `plan`\n    prints."

class ParallelismArgs(SpecModel):
    """Parallel sizes, passed to vLLM or SGLang as arguments.

    They also determine the pods per replica, unless `multinode.nodeCount` is set: `data` divided by
    `dataLocal`, else one per pipeline stage.
    """

    def __init__(self, **fields: Unpack[dicts.ParallelismArgsDict]) -> None: ...
    tensor: PositiveCount | None
    "Tensor parallel size: accelerators that share each layer; the engine's default is 1."
    pipeline: PositiveCount | None
    "Pipeline parallel size: stages of layers; by default one per pod of a replica."
    data: PositiveCount | None
    "Data parallel size: copies of the model (ranks) over all pods of a replica."
    data_local: PositiveCount | None
    "Copies per pod. Default: `data`, divided by `multinode.nodeCount` if that is set."
    data_rpc_port: Port | None
    "Port on which the leader coordinates copies in other pods; the engine's default if not\n    set."
    expert: bool | None
    "Whether experts are distributed over all accelerators of a replica (expert parallelism)."
    port_per_rank: bool | None
    "Whether each copy in the pod serves on its own port, so that the endpoint picker chooses\n    among copies by their cache and load (vLLM 0.22 or later, one pod per replica)."

    @property
    def accelerators(self) -> int: ...
    @property
    def has_sizes(self) -> bool: ...
    @property
    def pods(self) -> int | None: ...
