"""The engine of a role and its parallelism. The fields for parallelism have KServe's names."""

import enum
from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from fusioninfer_pulumi.api.field_types import Port, PositiveCount
from fusioninfer_pulumi.api.spec_model import SpecModel
from fusioninfer_pulumi.api.validation_errors import string_format
from fusioninfer_pulumi.findings import Finding, Location, Rule, error
from fusioninfer_pulumi.rules.common import FIELD_OUT_OF_PLACE, PARALLELISM_NOT_DIVISIBLE, SET_TWICE


class EngineName(str, enum.Enum):
    """Engines whose containers the library can generate."""

    VLLM = "vllm"
    SGLANG = "sglang"


class Edition(str, enum.Enum):
    """Editions of the library's defaults, oldest first."""

    OF_2026_11 = "2026.11"


ReleaseText = Annotated[
    str,
    string_format(
        r"^[0-9]+\.[0-9]+\.[0-9]+(\.post[0-9]+)?$", "a release such as 0.32.0, without a v"
    ),
]

Registry = Annotated[
    str,
    string_format(
        r"^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]+)?(/[a-z0-9._-]+)*$",
        "a registry such as registry.example.com, and a path in it, without a / at its end",
    ),
]


class EngineArgs(SpecModel):
    """The engine that a role runs, and its release.

    If the template has an image, the library still generates the rest of the container; values of
    the template take precedence.
    """

    name: Annotated[EngineName, Field(strict=False)] = EngineName.VLLM
    """`vllm` (default) or `sglang`."""

    version: ReleaseText | None = None
    """Release, such as `0.32.0`. Default: the release of the service's `edition`, which `plan`
    prints."""


PODS_PER_REPLICA_UNKNOWN = Rule("pods-per-replica-unknown")


class ParallelismArgs(SpecModel):
    """Parallel sizes, passed to vLLM or SGLang as arguments.

    They also determine the pods per replica, unless `multinode.nodeCount` is set: `data` divided by
    `dataLocal`, else one per pipeline stage.
    """

    tensor: PositiveCount | None = None
    """Tensor parallel size: accelerators that share each layer; the engine's default is 1."""

    pipeline: PositiveCount | None = None
    """Pipeline parallel size: stages of layers; by default one per pod of a replica."""

    data: PositiveCount | None = None
    """Data parallel size: copies of the model (ranks) over all pods of a replica."""

    data_local: PositiveCount | None = None
    """Copies per pod. Default: `data`, divided by `multinode.nodeCount` if that is set."""

    data_rpc_port: Annotated[Port | None, Field(alias="dataRPCPort")] = None
    """Port on which the leader coordinates copies in other pods; the engine's default if not
    set."""

    expert: bool | None = None
    """Whether experts are distributed over all accelerators of a replica (expert parallelism)."""

    port_per_rank: bool | None = None
    """Whether each copy in the pod serves on its own port, so that the endpoint picker chooses
    among copies by their cache and load (vLLM 0.22 or later, one pod per replica)."""

    @property
    def accelerators(self) -> int:
        """Accelerators of one replica according to the sizes."""
        return (self.tensor or 1) * (self.pipeline or 1) * (self.data or 1)

    @property
    def has_sizes(self) -> bool:
        """Whether `tensor`, `pipeline` or `data` is set."""
        return any(size is not None for size in (self.tensor, self.pipeline, self.data))

    @property
    def pods(self) -> int | None:
        """Number of pods of one replica, or None if the sizes do not determine it."""
        if self.data is not None and self.data_local is not None:
            return max(self.data // self.data_local, 1)
        return self.pipeline

    OTHERS_REQUIRE_FIRST = ("data", "data_local", "data_rpc_port", "port_per_rank")


def parallelism_findings(
    location: Location, sizes: ParallelismArgs, node_count: int | None
) -> Iterator[Finding]:
    """Check the sizes against each other and against `multinode.nodeCount` (`node_count`)."""
    data, local = sizes.data or 1, sizes.data_local
    nodes = node_count or sizes.pods or 1
    if sizes.data is not None and local is not None and data % local:
        message = f"must divide data ({data}), got {local}: {data} / {local} leaves {data % local}"
        yield error(PARALLELISM_NOT_DIVISIBLE, (*location, "dataLocal"), message)
    # A copy with several pipeline stages may span pods, so `dataLocal` does not determine the pods.
    elif (sizes.pipeline or 1) > 1 and data > 1 and node_count is None:
        message = (
            f"together with data ({data}) does not determine the pods per replica; "
            "set multinode.nodeCount"
        )
        yield error(PODS_PER_REPLICA_UNKNOWN, (*location, "pipeline"), message)
    elif sizes.data is not None and local is not None and sizes.pods != nodes:
        yield error(
            SET_TWICE,
            (*location, "dataLocal"),
            f"results in data {data} / dataLocal {local} = {sizes.pods} pods per replica, but "
            f"multinode.nodeCount is {nodes}; remove one of them",
        )
    elif sizes.has_sizes and sizes.accelerators % nodes:
        factors = {"tensor": sizes.tensor, "pipeline": sizes.pipeline, "data": sizes.data}
        product = " x ".join(f"{name} {size}" for name, size in factors.items() if size is not None)
        yield error(
            PARALLELISM_NOT_DIVISIBLE,
            location,
            f"{product} = {sizes.accelerators} accelerators cannot be divided among "
            f"multinode.nodeCount {nodes}: {sizes.accelerators % nodes} would be left",
        )
    if sizes.port_per_rank and nodes > 1:
        yield error(
            FIELD_OUT_OF_PLACE,
            (*location, "portPerRank"),
            f"needs one pod per replica, got {nodes}: the pool contains only leaders, so copies in "
            "other pods would get no requests; set data for one pod and raise replicas, or remove "
            "this",
        )
