"""The facts that every inference engine defines, and the parsed command line of a container.

The modules `vllm` and `sglang` fill in these classes. Code outside `engines` compares engine names
only for the model catalogue. Methods that return findings document what the locations are relative
to, or that they name a flag; callers complete them.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple

from fusioninfer_pulumi.api.engine import ParallelismArgs
from fusioninfer_pulumi.api.kv_cache import KvTransferArgs
from fusioninfer_pulumi.api.role import Launcher
from fusioninfer_pulumi.engines._shell_words import Argv
from fusioninfer_pulumi.engines.command_flags import (
    get_flag_value,
    get_last_values,
    has_flag,
    parse_integer,
    parse_json,
)
from fusioninfer_pulumi.engines.engine_images import Image
from fusioninfer_pulumi.engines.metric_names import LoadMetrics
from fusioninfer_pulumi.findings import Finding, Location

# These flags are the same for all engines.
PORT_FLAG = "--port"
HOST_FLAG = "--host"
#: A file with additional arguments, which the command line overrides.
CONFIG_FLAG = "--config"
#: Settings of KV cache events, a JSON object.
KV_EVENTS_FLAG = "--kv-events-config"
SERVED_NAME_FLAG = "--served-model-name"

#: vLLM's connector over NIXL (RDMA, NVLink or TCP), the default between pods.
NIXL = "NixlConnector"


class Argument(NamedTuple):
    """An argument to add to a command line.

    Attributes:
        names: Its spellings; the library writes the first.
        values: Its values, which may contain `$(NAME)` for the kubelet to expand. Empty for a
            switch, and for a value that only a shell can compute (`in_script`).
        replaces: Whether to overwrite the value if the flag is already set.
        in_script: The value as shell text, such as `"${LWS_WORKER_INDEX}"`, if the command line is
            a script. By default scripts get the quoted `values`.
    """

    names: tuple[str, ...]
    values: tuple[str, ...] = ()
    replaces: bool = False
    in_script: str | None = None

    @property
    def words(self) -> tuple[str, ...]:
        """The flag and its values, as elements of `args`."""
        return (self.names[0], *self.values)


class Word(NamedTuple):
    """A word of a command line, and its container field, such as `("args", 2)`."""

    value: str
    location: Location


class ContainerCommand(NamedTuple):
    """The new command line of a container."""

    command: list[Any]  #: the container's `command`; empty if the image's entrypoint runs
    args: list[Any] | None  #: the container's `args`; None if it has none


class Parallelism(NamedTuple):
    """The parallel sizes of an engine.

    Attributes:
        tensor: Parts that each layer is split into.
        pipeline: Stages that the layers are divided into.
        data: Copies of the model (data parallel ranks), each on its own accelerators. 1 for
            SGLang's data parallel attention, because its ranks share the tensor parallel
            accelerators.
        data_local: Copies on one node; None if no flag determines them (only vLLM has such flags).
        is_explicit: Whether any flag sets a size.
        context: Parts that a prompt is split into (vLLM's prefill context parallelism, 0.12.0 and
            later). Decode context parallelism needs no additional accelerators, so it is ignored.
    """

    tensor: int = 1
    pipeline: int = 1
    data: int = 1
    data_local: int | None = None
    is_explicit: bool = False
    context: int = 1

    def count_accelerators(self, nodes: int | None = None) -> int:
        """Return the accelerators that the ranks of a replica with `nodes` nodes need.

        Every data parallel rank needs tensor x pipeline x context accelerators (vLLM
        `ParallelConfig.world_size`, SGLang `compute_world_size`). With `--data-parallel-size-local`
        a replica may run fewer than `data` ranks; other deployments then run the rest. If `nodes`
        is None, all `data` ranks are counted.
        """
        return self.tensor * self.pipeline * self.context * self._count_ranks(nodes)

    def _count_ranks(self, nodes: int | None) -> int:
        if nodes is None or self.data_local is None:
            return self.data
        return min(self.data, self.data_local * nodes)

    def count_pod_ranks(self, nodes: int) -> int:
        """Return the number of data parallel ranks in one pod."""
        return self.data_local or max(self.data // nodes, 1)

    def describe(self, size_flags: Mapping[str, Sequence[str]], nodes: int) -> str:
        """Return the factors of `count_accelerators` as text: `--tp-size 4 x --dp-size 2`."""
        names = {size: spellings[0] for size, spellings in size_flags.items()}
        sizes = {"tensor": self.tensor, "pipeline": self.pipeline, "context": self.context}
        parts = [f"{names[size]} {number}" for size, number in sizes.items() if number > 1]
        ranks = self._count_ranks(nodes)
        # Other flags may imply a `data_local` of 1, see `VllmSizes.parse`.
        if ranks < self.data and self.data_local != 1:
            parts.append(f"{names['data_local']} {self.data_local} on each node")
        elif ranks > 1:
            parts.append(f"{names['data']} {ranks}")
        return " x ".join(parts) or f"{names['tensor']} 1"


class ParallelSizes:
    """The flags of an engine for its parallel sizes; `parse` returns the sizes as `Parallelism`.

    A tuple named `..._flags` has the spellings of one flag.

    Attributes:
        flags: Spellings by size (`tensor`, `pipeline`, `data`, and for vLLM `context` and
            `data_local`); messages use the first spelling.
        rpc_flags: Port on which the ranks of several nodes are coordinated.
        expert_flags: Expert parallelism.
        needs_expert_ranks: Whether the flag for expert parallelism has the number of ranks as its
            value; otherwise it is a switch.
        rank_port_flags: Switch that gives every data parallel rank a separate HTTP port.
        supervisor_port: Flag and default of the port that reports the health of all ranks of a pod;
            only used with `rank_port_flags`.
    """

    flags: Mapping[str, tuple[str, ...]]
    rpc_flags: tuple[str, ...] = ()
    expert_flags: tuple[str, ...]
    needs_expert_ranks: bool = False
    rank_port_flags: tuple[str, ...] = ()
    supervisor_port: tuple[str, int] = ("", 0)

    def parse(self, command: EngineCommand) -> Parallelism | None:
        """Return the parallel sizes that the arguments set, or None if a size is unknown.

        A size is unknown if arguments are hidden, a value is not a positive integer (such as `$TP`;
        `data_local` may be 0), or `--config` names a file, which may set sizes.
        """
        if not command.is_readable or command.has(CONFIG_FLAG):
            return None
        sizes: dict[str, int] = {}
        for size, names in self.flags.items():
            if not command.has(*names):
                continue
            number = parse_integer(command.value(*names))
            minimum = 0 if size == "data_local" else 1
            if number is None or number < minimum:
                return None
            sizes[size] = number
        return Parallelism(**sizes, is_explicit=bool(sizes))

    def build_arguments(self, sizes: ParallelismArgs) -> dict[str, Argument]:
        """Return the arguments that set these sizes, keyed by field of `parallelism`."""
        rows = (
            ("tensor", self.flags["tensor"], sizes.tensor),
            ("pipeline", self.flags["pipeline"], sizes.pipeline),
            ("data", self.flags["data"], sizes.data),
            ("dataLocal", self.flags.get("data_local"), sizes.data_local),
            ("dataRPCPort", self.rpc_flags, sizes.data_rpc_port),
        )
        arguments = {
            field_name: Argument(names, (str(number),))
            for field_name, names, number in rows
            if names and number is not None
        }
        if sizes.expert:
            # SGLang recommends as many expert ranks as tensor ranks.
            values = (str(sizes.tensor or 1),) if self.needs_expert_ranks else ()
            arguments["expert"] = Argument(self.expert_flags, values)
        if sizes.port_per_rank and self.rank_port_flags:
            arguments["portPerRank"] = Argument(self.rank_port_flags)
        return arguments

    def has_expert_parallelism(self, command: EngineCommand) -> bool:
        """Return whether the arguments enable expert parallelism, which `--ep-size 1` does not."""
        return (
            command.has(*self.expert_flags)
            and parse_integer(command.value(*self.expert_flags)) != 1
        )


class MultiNode:
    """How an engine runs on several nodes."""

    launchers: tuple[Launcher, ...]  #: the supported launchers, the default first
    ray_data_backend: Argument | None = None  #: spreads data parallel ranks over a ray cluster

    def build_arguments(
        self, command: EngineCommand, launcher: Launcher, nodes: int, *, is_leader: bool
    ) -> list[Argument]:
        """Return the arguments of the leader or of a worker for a launcher other than ray.

        Raises:
            command_editing.EditError: If the launcher cannot start this command line.
        """
        raise NotImplementedError

    def check_launcher(self, command: EngineCommand, launcher: Launcher) -> list[Finding]:
        """Check image and arguments against the launcher; locations are relative to the role."""
        return []


def build_rank_argument(names: tuple[str, ...], *, is_leader: bool) -> Argument:
    """Return the argument that sets a node's index in its replica: 0 on the leader."""
    if is_leader:
        return Argument(names, ("0",))
    return Argument(names, ("$(LWS_WORKER_INDEX)",), in_script='"${LWS_WORKER_INDEX}"')


class KvConnector(NamedTuple):
    """The KV connector that an engine's arguments configure.

    Attributes:
        name: vLLM's connector, such as `NixlConnector`, or SGLang's transfer backend, such as
            `nixl`.
        role: vLLM's `kv_role`, or SGLang's `prefill` or `decode`; None if not set.
        names: The names of the connector and its nested connectors.
        transfer_connectors: The names in `names` of connectors that transfer KV caches between
            pods. They must be the same on prefill and decode.
        side_channel: Environment variables for the address and port of the handshake, or None if
            the connector has no handshake. A connector with a handshake works with any `role`.
    """

    name: str
    role: str | None
    names: tuple[str, ...]
    transfer_connectors: tuple[str, ...]
    side_channel: tuple[str, str] | None = None


class Transfer(NamedTuple):
    """The arguments and the connector that KV cache transfer adds to a role."""

    arguments: tuple[Argument, ...] = ()  #: arguments for the engine of every pod
    connector: KvConnector | None = None  #: the connector between pods, or None if there is none
    findings: tuple[Finding, ...] = ()  #: locations are relative to `kvTransfer`


class OffloadRequest(NamedTuple):
    """Memory and directories for KV cache that does not fit on the accelerators."""

    host_bytes: int  #: bytes of host memory for each copy of the model
    eviction: str | None = None  #: eviction policy of the host memory, or None for the default
    directories: tuple[str, ...] = ()  #: mount paths of the secondary tiers, in order
    is_shared: bool = False  #: whether multiple processes use the same tier


class OffloadResult(NamedTuple):
    """The arguments, variables and memory that offloading adds to each pod."""

    arguments: tuple[Argument, ...]  #: engine arguments; empty if a KV connector offloads
    variables: Mapping[str, str]  #: environment variables
    memory: Decimal  #: bytes of host memory in a pod
    in_shared_memory: bool  #: whether `memory` is in /dev/shm
    findings: tuple[Finding, ...]  #: locations are relative to `kvCacheOffloading`


class Compatibility(str, enum.Enum):
    """Whether two components that communicate, such as a prefill and a decode pod, are compatible.

    `DEGRADED`: they work at a cost, such as prompts that the decode pod computes again. `BROKEN`:
    requests fail or hang.
    """

    COMPATIBLE = "compatible"
    DEGRADED = "degraded"
    BROKEN = "broken"
    UNKNOWN = "unknown"


class KvCache:
    """An engine's KV cache: transfer, offloading, events, and what prefill and decode must share.

    Attributes:
        block_size_flag: Flag for the tokens in a block.
        transfer_flag: Flag that configures the KV connector.
        sidecar_protocol: Protocol of the prefill/decode sidecar; None if the connector defines it.
        offloads_by_connector: Whether `transfer_flag` also configures offloading, as a connector.
        offloading_flags: Flags that conflict with `kvCacheOffloading`.
        event_settings: Settings of KV cache events other than publisher, endpoint and topic.
        pair_setting_flags: Settings that prefill and decode should share, such as the type of the
            weights (`dtype`) and of the KV cache (`cache dtype`), with the spellings of the flags.
        handshake_source: Source of the facts about the handshake of prefill and decode.
    """

    block_size_flag: str
    transfer_flag: str
    sidecar_protocol: str | None = None
    offloads_by_connector: bool = False
    offloading_flags: tuple[str, ...]
    event_settings: Mapping[str, Any] = {}
    pair_setting_flags: Mapping[str, tuple[str, ...]]
    handshake_source: str

    def parse_connector(self, command: EngineCommand) -> KvConnector | str | None:
        """Return the configured connector, or None if there is none, or the error in its flag.

        The error is a text that follows `transfer_flag` in a message, such as "has no value".
        """
        raise NotImplementedError

    def check_connector(self, command: EngineCommand) -> list[Finding]:
        """Check whether the engine's release has the connector; locations name the flag."""
        return []

    def build_transfer(
        self,
        command: EngineCommand,
        args: KvTransferArgs | None,
        offloading: OffloadRequest | None,
        *,
        is_prefiller: bool = False,
    ) -> Transfer:
        """Return the arguments that transfer the KV cache to other pods and offload it.

        Called only if the command line configures no connector. `args` is None if the role only
        offloads its KV cache. `offloading` is None if the role does not offload its KV cache, or if
        the engine does not use a connector for that.
        """
        raise NotImplementedError

    def build_offloading(
        self, command: EngineCommand, request: OffloadRequest, nodes: int, *, is_decoder: bool
    ) -> OffloadResult:
        """Return what offloading adds to each pod of a replica with this number of nodes.

        The command line already sets the parallel sizes.
        """
        raise NotImplementedError

    def list_pair_settings(self, prefill: EngineCommand, decode: EngineCommand) -> Collection[str]:
        """Return the names of the settings that prefill and decode must have in common.

        Names are `model`, `release`, `served name`, `block size` and keys of `pair_setting_flags`.
        """
        raise NotImplementedError

    def explain_size_mismatch(self, prefill: EngineCommand, decode: EngineCommand) -> str | None:
        """Return why the connector cannot combine two tensor parallel sizes, or None if it can."""
        return None

    def predict_failure(
        self, prefill: EngineCommand, decode: EngineCommand, *, differs: bool
    ) -> tuple[Compatibility, str]:
        """Return what happens to requests whose KV cache decode cannot load, and what clients see.

        `differs` is True if settings are known to differ. The text about clients is empty if the
        outcome is unknown.
        """
        return Compatibility.UNKNOWN, ""

    def find_recompute_setting(self, decode: EngineCommand) -> str:
        """Return the missing setting that lets decode compute prompts whose KV cache does not load.

        The result is empty if that is set already, or if no setting helps.
        """
        return ""


@dataclass(frozen=True, kw_only=True)
class HttpServer:
    """How an engine serves HTTP."""

    default_port: int  #: default of `--port`
    default_host: str | None = None  #: default of `--host`, or None for all addresses
    health_path: str = "/health"  #: path that answers 200 once the engine serves
    paths_with_api_key: re.Pattern[str]  #: pattern of the paths that require the API key
    api_key_variable: str | None = None  #: environment variable that sets the API key
    keep_alive_variable: str  #: variable with the seconds that idle connections stay open
    drain_flag: str | None = None  #: flag for the seconds that requests may take after SIGTERM
    rejects_unknown_models: bool  #: whether requests for another model get HTTP 404
    reasoning_fields: Mapping[str, tuple[str, ...]]  #: response fields, by first release
    api_source: str  #: source of `rejects_unknown_models` and `reasoning_fields`


class MetricsFlag(NamedTuple):
    """The flag that enables or disables an engine's metrics."""

    flag: str
    enables: bool  #: whether metrics need the flag; otherwise it disables them
    message: str  #: finding for engines that serve no metrics because of the flag


@dataclass(frozen=True, kw_only=True)
class Telemetry:
    """The metrics and traces of an engine."""

    load_metrics: LoadMetrics  #: names of its load metrics
    metrics_flag: MetricsFlag  #: the flag that enables or disables metrics
    tracing_flag: str | None = None  #: flag for the endpoint of traces, or None if unknown


class Engine:
    """An inference engine: its programs, its model arguments, and how it parses arguments."""

    name: str  #: its name, as in its program and its images
    title: str  #: its name as its project spells it
    image_serves: bool = False  #: whether the entrypoint of its images starts the engine
    server_flag: str | None = None  #: flag of `NAME serve` that selects a diffusion server
    model_flags: tuple[str, ...]  #: spellings of the flag for the path or name of the model
    lora_flags: Mapping[str, str]  #: flags for LoRA adapters (`modules`) and their limits
    length_flag: str  #: flag for the tokens of the longest sequence
    compile_cache_variable: str | None = None  #: variable with the directory of compiled kernels
    sizes: ParallelSizes
    multi_node: MultiNode
    kv_cache: KvCache
    http: HttpServer
    telemetry: Telemetry

    def preprocess_words(self, words: Sequence[Word]) -> list[Word]:
        """Preprocess a command line's words as the engine does before it runs argparse."""
        return list(words)


@dataclass(frozen=True)
class EngineCommand:
    """A container's command line, and the engine it starts.

    Attributes:
        engine: The engine, or None if none is recognized.
        program: The words before the engine's arguments, such as `("vllm", "serve")`; empty
            if the image's entrypoint runs.
        arguments: The engine's arguments; a flag and its value are two elements, and an Output is
            `<output>`.
        is_readable: False if an Output or a script hides arguments.
        image: The container's image.
        is_vllm_serve: Whether the program, or the image's entrypoint, is `vllm serve`. Only
            `vllm serve` accepts `--headless` and the model as a positional argument.
        program_in_args: Whether `args` starts with a program although the image's entrypoint starts
            the engine. The engine then gets the program's name as an argument.
        argv: The container's `command` and `args`.
    """

    engine: Engine | None
    program: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    is_readable: bool = True
    image: Image = field(default_factory=Image)
    is_vllm_serve: bool = False
    program_in_args: bool = False
    argv: Argv = field(default_factory=Argv)

    def has(self, *names: str) -> bool:
        """Return whether a flag is set; `names` are its spellings."""
        return has_flag(self.arguments, *names)

    def value(self, *names: str) -> str | None:
        """Return the value of a flag, or None if it is not set or has no value."""
        return get_flag_value(self.arguments, *names)

    @property
    def script(self) -> str | None:
        """The script that `sh -c` runs (`UNKNOWN` for an Output), or None if there is none."""
        script_index = self.argv.script_index
        return None if script_index is None else self.argv.texts()[script_index]

    @property
    def port(self) -> int | None:
        """The engine's `--port`, or None if it is unset or not a port number."""
        if self.engine is None:
            return None
        port = parse_integer(self.value(PORT_FLAG))
        return port if port is not None and 0 < port < 65536 else None

    def explain_missing_metrics(self) -> str | None:
        """Return why the engine serves no metrics, or None if it does or that is unknown."""
        if self.engine is None or not self.is_readable:
            return None
        metrics_flag = self.engine.telemetry.metrics_flag
        serves_metrics = self.has(metrics_flag.flag) == metrics_flag.enables
        return None if serves_metrics else metrics_flag.message

    @property
    def serves_https(self) -> bool:
        """Whether the engine's port speaks TLS, so that probes need `scheme: HTTPS`."""
        return self.engine is not None and self.has("--ssl-certfile", "--ssl-keyfile")

    @property
    def block_size(self) -> int | None:
        """Tokens in a block of the KV cache, or None if not set."""
        if self.engine is None:
            return None
        size = parse_integer(self.value(self.engine.kv_cache.block_size_flag))
        return size if size is not None and size > 0 else None

    @property
    def model(self) -> str | None:
        """The model in the arguments, or None if they name none."""
        if self.engine is None:
            return None
        if self.is_vllm_serve and self.arguments and not self.arguments[0].startswith("-"):
            return self.arguments[0]
        return self.value(*self.engine.model_flags)

    @property
    def served_names(self) -> tuple[str, ...] | None:
        """Names of the served model, without adapters; None if unknown."""
        if self.engine is None or not self.is_readable:
            return None
        names = get_last_values(self.arguments, SERVED_NAME_FLAG)
        if names is None:
            if self.has(CONFIG_FLAG):
                return None
            names = [self.model or ""]
        is_known = bool(names) and all(name and "$" not in name for name in names)
        return tuple(names) if is_known else None

    @property
    def requestable_names(self) -> set[str] | None:
        """Models that requests may name: `served_names` and LoRA adapters; None if unknown."""
        served = self.served_names
        if served is None or self.engine is None or self.has(CONFIG_FLAG):
            return None
        adapters = get_last_values(self.arguments, self.engine.lora_flags["modules"]) or []
        return {*served, *map(_parse_adapter_name, adapters)}

    @property
    def drain_seconds(self) -> int:
        """Seconds that running requests may take after SIGTERM, 0 if no flag sets them."""
        if self.engine is None or self.engine.http.drain_flag is None:
            return 0
        return max(0, parse_integer(self.value(self.engine.http.drain_flag)) or 0)

    @property
    def port_count(self) -> int:
        """Number of ports that the engine serves on: 1, or the pod's ranks if each has a port."""
        sizes = self.parallelism
        if sizes is None or not self._has_port_per_rank:
            return 1
        return sizes.count_pod_ranks(nodes=1)

    @property
    def health_port(self) -> int | None:
        """Port that reports the health of the pod's ranks, or None if the serving port does."""
        if self.engine is None or not self._has_port_per_rank:
            return None
        flag, default = self.engine.sizes.supervisor_port
        return parse_integer(self.value(flag)) or default

    @property
    def _has_port_per_rank(self) -> bool:
        return self.engine is not None and self.has(*self.engine.sizes.rank_port_flags)

    @property
    def parallelism(self) -> Parallelism | None:
        """The parallel sizes; see `ParallelSizes.parse`."""
        return self.engine.sizes.parse(self) if self.engine is not None else None

    @property
    def connector(self) -> KvConnector | str | None:
        """The KV connector; see `KvCache.parse_connector`."""
        return self.engine.kv_cache.parse_connector(self) if self.engine is not None else None


def _parse_adapter_name(value: str) -> str:
    # A value is NAME=PATH, or JSON with a name.
    try:
        module = parse_json(value)
    except ValueError:
        module = None
    if isinstance(module, dict):
        return str(module.get("name") or module.get("lora_name"))
    return value.partition("=")[0]
