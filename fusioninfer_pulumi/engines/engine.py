"""The facts that every inference engine defines, and the parsed command line of a container.

The modules `vllm` and `sglang` fill in these classes; no other package checks which engine it has.
All functions are pure. Locations of findings are relative: `()`, a flag such as `("--nnodes",)`, or
a field of the object that the function documents. Callers prefix or replace them.
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
from fusioninfer_pulumi.engines._shell_words import UNKNOWN, Argv
from fusioninfer_pulumi.engines.command_flags import (
    dump_json,
    get_flag_value,
    get_last_values,
    has_flag,
    integer,
    parse_json,
)
from fusioninfer_pulumi.engines.engine_images import Image
from fusioninfer_pulumi.findings import Finding, Location, Rule, error
from fusioninfer_pulumi.kube.pulumi_outputs import is_output

ARGUMENT_VALUE_INVALID = Rule("argument-value-invalid")
UNSUPPORTED_BY_ENGINE = Rule("unsupported-by-engine")

# These flags are the same for all engines.
#: Serving port.
PORT_FLAG = "--port"
#: Address to listen on.
HOST_FLAG = "--host"
#: A file of further arguments; the command line overrides it.
CONFIG_FLAG = "--config"
#: Settings of KV cache events, a JSON object.
KV_EVENTS_FLAG = "--kv-events-config"

#: vLLM's connector over NIXL (RDMA, NVLink or TCP), the default between pods.
NIXL = "NixlConnector"

_SERVED_NAME = "--served-model-name"


class Argument(NamedTuple):
    """An argument to add to a command line.

    Attributes:
        names: Its spellings; the library writes the first.
        values: Its values, which may contain `$(NAME)` for the kubelet to expand. Empty for a
            switch, or if only a shell can compute the value, which is then `in_script`.
        replaces: Whether to overwrite the value if the flag is already set.
        in_script: Shell text that replaces the quoted `values` in a script; None to quote `values`.
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
    """A word of a command line and the container field it is in, such as `("args", 2)`."""

    value: str
    place: Location


class ContainerCommand(NamedTuple):
    """The new command line of a container.

    Attributes:
        command: The container's `command`; empty if the image's entrypoint runs.
        args: The container's `args`; None if it has none.
    """

    command: list[Any]
    args: list[Any] | None


class LoadMetrics(NamedTuple):
    """Names of an engine's load metrics.

    Attributes:
        running: Running requests.
        waiting: Waiting requests.
        kv_cache: KV cache usage, from 0 to 1.
        lora: LoRA adapters, in vLLM's format; empty if the engine has no such metric.
        cache: Block size and number of blocks, in labels named as in vLLM; empty if the engine has
            no such metric.
        ttft: Histogram of the time to first token, in seconds.
        itl: Histogram of the time between two tokens, in seconds.
    """

    running: str
    waiting: str
    kv_cache: str
    lora: str = ""
    cache: str = ""
    ttft: str = ""
    itl: str = ""


#: vLLM's metrics: the defaults of the inference extension from v1.3 on and of all llm-d pickers.
VLLM_METRICS = LoadMetrics(
    running="vllm:num_requests_running",
    waiting="vllm:num_requests_waiting",
    kv_cache="vllm:kv_cache_usage_perc",
    lora="vllm:lora_requests_info",
    cache="vllm:cache_config_info",
    ttft="vllm:time_to_first_token_seconds",
    itl="vllm:inter_token_latency_seconds",
)


class Parallelism(NamedTuple):
    """Degrees of parallelism.

    Attributes:
        tensor: Ways each layer is split.
        pipeline: Ways the layers are divided into stages.
        data: Copies of the model, each on its own accelerators. 1 for SGLang's data parallel
            attention, because its ranks share the tensor parallel accelerators.
        data_local: Copies on one node, if flags determine it (vLLM only).
        is_explicit: Whether any flag sets a size.
        context: Ways the prompt is split (vLLM's prefill context parallelism, 0.12.0 and later).
            Decode context parallelism needs no further accelerators, so it is ignored.
    """

    tensor: int
    pipeline: int
    data: int
    data_local: int | None
    is_explicit: bool
    context: int = 1

    def devices(self, nodes: int | None = None) -> int:
        """Return the accelerators that a replica on this many nodes needs; None counts all ranks.

        Every data parallel rank needs tensor x pipeline x context accelerators (vLLM
        `ParallelConfig.world_size`, SGLang `compute_world_size`). With `--data-parallel-size-local`
        a replica may run only some ranks, and other deployments the rest.
        """
        return self.tensor * self.pipeline * self.context * self._ranks(nodes)

    def _ranks(self, nodes: int | None) -> int:
        if nodes is None or self.data_local is None:
            return self.data
        return min(self.data, self.data_local * nodes)

    def count_pod_ranks(self, nodes: int) -> int:
        """Return the number of data parallel ranks in one pod."""
        return self.data_local or max(self.data // nodes, 1)

    def describe(self, size_flags: Mapping[str, Sequence[str]], nodes: int | None = None) -> str:
        """Return the sizes that `devices` multiplies, for messages: `--tp-size 4 x --dp-size 2`."""
        names = {size: spellings[0] for size, spellings in size_flags.items()}
        sizes = {"tensor": self.tensor, "pipeline": self.pipeline, "context": self.context}
        parts = [f"{names[size]} {number}" for size, number in sizes.items() if number > 1]
        ranks = self._ranks(nodes)
        if ranks < self.data and self.data_local != 1:
            parts.append(f"{names['data_local']} {self.data_local} on each node")
        elif ranks > 1:
            parts.append(f"{names['data']} {ranks}")
        return " x ".join(parts) or f"{names['tensor']} 1"


class KvConnector(NamedTuple):
    """The KV connector that an engine's arguments configure.

    Attributes:
        name: vLLM's connector, or SGLang's transfer backend.
        role: vLLM's `kv_role`, or SGLang's `prefill` or `decode`; None if not set.
        names: The connector and its nested connectors.
        transfer_connectors: Connectors between pods; prefill and decode must have the same.
        side_channel: Environment variables for the address and port of the handshake; None if the
            connector has no handshake. A connector that has one supports both prefill and decode.
    """

    name: str
    role: str | None
    names: tuple[str, ...]
    transfer_connectors: tuple[str, ...]
    side_channel: tuple[str, str] | None = None


class Transfer(NamedTuple):
    """What KV cache transfer adds to a role.

    Attributes:
        arguments: Arguments for the engine of every pod.
        connector: The connector that they configure, None if unknown.
        findings: Problems, located relative to `kvTransfer`.
    """

    arguments: tuple[Argument, ...] = ()
    connector: KvConnector | None = None
    findings: tuple[Finding, ...] = ()


class OffloadRequest(NamedTuple):
    """Where an engine stores KV cache that does not fit on its accelerators.

    Attributes:
        host_bytes: Bytes of host memory for each engine.
        eviction: Eviction policy of the host memory, None for the engine's default.
        folders: Mount paths of the secondary tiers, in order.
        is_shared: Whether several processes use the same tier.
    """

    host_bytes: int
    eviction: str | None = None
    folders: tuple[str, ...] = ()
    is_shared: bool = False


class OffloadResult(NamedTuple):
    """What offloading adds to each pod.

    Attributes:
        arguments: Engine arguments; empty if a KV connector offloads, which `Transfer` configures.
        variables: Environment variables.
        memory: Bytes of host memory in a pod.
        in_shared_memory: Whether that memory is in /dev/shm.
        findings: Problems, located relative to `kvCacheOffloading`.
    """

    arguments: tuple[Argument, ...]
    variables: Mapping[str, str]
    memory: Decimal
    in_shared_memory: bool
    findings: tuple[Finding, ...]


class MultiNode:
    """How an engine runs on several nodes.

    Attributes:
        launchers: The launchers it supports.
    """

    launchers: tuple[Launcher, ...]

    def build_arguments(
        self, command: EngineCommand, launcher: Launcher, nodes: int, *, is_leader: bool
    ) -> list[Argument]:
        """Return the arguments of the leader or of a worker for a launcher other than ray.

        Raises:
            EditError: If the launcher cannot start this command line.
        """
        raise NotImplementedError

    def check_launcher(self, command: EngineCommand, launcher: Launcher) -> list[Finding]:
        """Check for an image or arguments that do not work with the role's launcher."""
        return []


class PairState(str, enum.Enum):
    """Whether a decode pod can use the KV cache of a prefill pod.

    `DEGRADED`: no, and it computes the prompts itself. `BROKEN`: no, and the requests fail.
    """

    COMPATIBLE = "compatible"
    DEGRADED = "degraded"
    BROKEN = "broken"
    UNKNOWN = "unknown"


class KvCache:
    """How an engine transfers, offloads and matches its KV cache.

    Attributes:
        handshake_source: Source of the facts about the handshake of prefill and decode.
        recompute_setting: Setting that makes a decode engine compute a prompt whose KV cache it
            cannot load; empty if the engine has none.
    """

    handshake_source: str
    recompute_setting: str = ""

    def connector(self, command: EngineCommand) -> KvConnector | str | None:
        """Return the configured connector, None if there is none, or the problem of the flag.

        The problem is text that follows the name of `transfer_flag`, such as "has no value".
        """
        raise NotImplementedError

    def check_connector(self, command: EngineCommand) -> list[Finding]:
        """Check for a connector that the engine does not have."""
        return []

    def transfer(
        self,
        command: EngineCommand,
        args: KvTransferArgs | None,
        offloading: OffloadRequest | None,
        *,
        is_prefiller: bool = False,
    ) -> Transfer:
        """Return the arguments that transfer the KV cache to other pods and offload it.

        Called only if the command line configures no connector. `args` is None if the KV cache is
        not transferred, `offloading` if it is not offloaded, or offloaded without a connector.
        """
        raise NotImplementedError

    def offload(
        self, command: EngineCommand, request: OffloadRequest, nodes: int, *, is_decoder: bool
    ) -> OffloadResult:
        """Return what offloading adds to each pod of a replica with this many nodes.

        The command line already sets the parallel sizes.
        """
        raise NotImplementedError

    def settings_to_match(self, prefill: EngineCommand, decode: EngineCommand) -> Collection[str]:
        """Return the names of the settings that prefill and decode must have in common.

        Names are `model`, `release`, `served name`, `block size` and keys of `model_setup_flags`.
        """
        raise NotImplementedError

    def explain_size_mismatch(self, prefill: EngineCommand, decode: EngineCommand) -> str | None:
        """Return why the connector cannot combine the two tensor parallel sizes, None if it can."""
        return None

    def predict_load_failure(self, command: EngineCommand) -> PairState:
        """Return what a decode engine does if it cannot load the KV cache of a request."""
        return PairState.UNKNOWN

    def can_survive_failed_handshake(self, command: EngineCommand) -> bool:
        """Return whether a decode engine keeps running after a failed handshake."""
        return True

    def can_decode_hang(self, prefill: EngineCommand, decode: EngineCommand) -> bool:
        """Return whether decode waits forever, because prefill does not answer as it expects."""
        return False

    def can_end_listener(self, prefill: EngineCommand, decode: EngineCommand) -> bool:
        """Return whether decode's handshake ends prefill's listener, which nothing restarts."""
        return False


class Engine:
    """An inference engine: its facts, and how it reads its arguments.

    A tuple named `..._flags` has the spellings of one flag.

    Attributes:
        name: Its name, as in its program and its images.
        title: Its name as its project spells it.
        launcher: Default launcher for multi-node replicas.
        data_launcher: Default launcher if data parallel ranks are spread evenly over the nodes.
        default_port: Default of `--port`.
        default_host: Default of `--host`, None for all addresses.
        health_path: Path that answers 200 once the engine serves.
        paths_with_api_key: Pattern of the paths that require the API key.
        key_variable: Environment variable that sets the API key.
        image_serves: Whether the entrypoint of its images starts the engine.
        block_size_flag: Tokens in a block of the KV cache.
        model_flags: Path or name of the model.
        size_flags: Spellings by size (`tensor`, `pipeline`, `data`, and for vLLM `context` and
            `data_local`); messages use the first.
        rpc_flags: Port that coordinates the ranks of several nodes.
        expert_flags: Expert parallelism.
        takes_expert_ranks: Whether `expert_flags` take the number of ranks as their value.
        shared_copies_flags: Make data parallel ranks share accelerators.
        rank_port_flags: Give every rank a separate port.
        supervisor: Flag and default of the health port for all ranks, used with `rank_port_flags`.
        lora_flags: Flags for LoRA adapters (`modules`) and their limits.
        transfer_flag: Flag that configures the KV connector.
        sidecar_protocol: Protocol of the prefill/decode sidecar; None if the connector decides.
        offloads_by_connector: Whether offloading is a KV connector, set by `transfer_flag`.
        events: Settings of KV cache events other than endpoint and topic.
        ray_data_backend: Argument that spreads data parallel ranks over a ray cluster.
        serve_starts_others: Whether `NAME serve` may start another server (SGLang: diffusion).
        model_setup_flags: Spellings by setting that prefill and decode should share, such as the
            type of the model (`dtype`) and of its KV cache (`cache dtype`).
        rejects_unknown_models: Whether requests for another model get HTTP 404.
        reasoning_names: Response fields that hold the reasoning, by the first release with exactly
            these fields.
        api_source: Source of `rejects_unknown_models` and `reasoning_names`.
        length_flag: Tokens of the longest sequence.
        compile_cache_variable: Environment variable: directory of its compiled kernels.
        keep_alive_variable: Environment variable: seconds until it closes an idle connection.
        drain_flag: Seconds that running requests may take after SIGTERM.
        metrics: Names of its load metrics.
        metrics_flag: Flag for metrics, True if it enables and False if it disables them, and the
            message if the engine serves none.
        tracing_flag: Endpoint of traces; None if the library does not know the flag.
    """

    name: str
    title: str
    launcher: Launcher
    data_launcher: Launcher
    default_port: int
    default_host: str | None = None
    health_path: str = "/health"
    paths_with_api_key: re.Pattern[str]
    key_variable: str | None = None
    image_serves: bool
    block_size_flag: str
    model_flags: tuple[str, ...]
    size_flags: Mapping[str, tuple[str, ...]]
    rpc_flags: tuple[str, ...] = ()
    expert_flags: tuple[str, ...]
    takes_expert_ranks: bool = False
    shared_copies_flags: tuple[str, ...] = ()
    rank_port_flags: tuple[str, ...] = ()
    supervisor: tuple[str, int] = ("", 0)
    lora_flags: Mapping[str, str]
    transfer_flag: str
    sidecar_protocol: str | None = None
    offloads_by_connector: bool
    ray_data_backend: Argument | None = None
    serve_starts_others: bool = False
    events: Mapping[str, Any]
    model_setup_flags: Mapping[str, tuple[str, ...]]
    rejects_unknown_models: bool
    reasoning_names: Mapping[str, tuple[str, ...]]
    api_source: str
    length_flag: str
    compile_cache_variable: str | None = None
    keep_alive_variable: str
    drain_flag: str | None = None
    metrics: LoadMetrics
    metrics_flag: tuple[str, bool, str]
    tracing_flag: str | None = None
    multi_node: MultiNode
    kv_cache: KvCache

    def preprocess_words(self, command: EngineCommand, words: Sequence[Word]) -> list[Word]:
        """Return the words that the engine's own preprocessing leaves for argparse."""
        raise NotImplementedError

    def parallelism(self, command: EngineCommand) -> Parallelism | None:
        """Return the parallel sizes that the arguments set.

        None if unknown: arguments are hidden, a value is not a positive integer (`$TP`), or
        `--config` names a file.
        """
        raise NotImplementedError

    def read_sizes(self, command: EngineCommand) -> dict[str, int] | None:
        """Return the sizes that `size_flags` set, None if any is unknown."""
        if not command.is_readable:
            return None
        sizes: dict[str, int] = {}
        for size, names in self.size_flags.items():
            if not command.has(*names):
                continue
            number = integer(command.value(*names))
            if number is None or number < (0 if size == "data_local" else 1):
                return None
            sizes[size] = number
        # The config file may set any of these flags.
        return None if command.has(CONFIG_FLAG) else sizes

    def build_size_arguments(self, sizes: ParallelismArgs) -> dict[str, Argument]:
        """Return the arguments that set these sizes, by field of `parallelism`."""
        numbers = {
            "tensor": (self.size_flags["tensor"], sizes.tensor),
            "pipeline": (self.size_flags["pipeline"], sizes.pipeline),
            "data": (self.size_flags["data"], sizes.data),
            "dataLocal": (self.size_flags.get("data_local"), sizes.data_local),
            "dataRPCPort": (self.rpc_flags, sizes.data_rpc_port),
        }
        arguments = {
            field: Argument(names, (str(number),))
            for field, (names, number) in numbers.items()
            if names and number is not None
        }
        if sizes.expert:
            # SGLang recommends as many expert ranks as tensor ranks.
            ranks = (str(sizes.tensor or 1),) if self.takes_expert_ranks else ()
            arguments["expert"] = Argument(self.expert_flags, ranks)
        if sizes.port_per_rank and self.rank_port_flags:
            arguments["portPerRank"] = Argument(self.rank_port_flags)
        return arguments

    def check_sizes(self, sizes: ParallelismArgs) -> list[Finding]:
        """Check for sizes that the engine does not support; located relative to `parallelism`."""
        missing = {
            "dataRPCPort": sizes.data_rpc_port is not None and not self.rpc_flags,
            "portPerRank": bool(sizes.port_per_rank) and not self.rank_port_flags,
        }
        problems = [
            error(UNSUPPORTED_BY_ENGINE, (field,), f"is not supported by {self.title}; remove it")
            for field, is_missing in missing.items()
            if is_missing
        ]
        if sizes.expert and self.takes_expert_ranks and sizes.tensor is None:
            message = f"requires tensor: {self.title} spreads experts over that many ranks"
            problems.append(error(UNSUPPORTED_BY_ENGINE, ("expert",), message))
        return problems

    def spreads_experts(self, command: EngineCommand) -> bool:
        """Return whether the arguments enable expert parallelism."""
        return command.has(*self.expert_flags) and integer(command.value(*self.expert_flags)) != 1

    def build_events_argument(self, endpoint: str, topic: str) -> Argument:
        """Return the argument that publishes KV cache events over ZMQ."""
        settings = {**self.events, "publisher": "zmq", "endpoint": endpoint, "topic": topic}
        return Argument((KV_EVENTS_FLAG,), (dump_json(settings),))

    def explain_missing_metrics(self, command: EngineCommand) -> str | None:
        """Return why the engine serves no metrics, None if it does."""
        flag, enables, reason = self.metrics_flag
        return reason if command.is_readable and command.has(flag) is not enables else None


@dataclass(frozen=True)
class EngineCommand:
    """A container's command line, and the engine it starts.

    Attributes:
        engine: The engine, None if none is recognized.
        program: The words before the engine's arguments, such as `("vllm", "serve")`; empty
            if the image's entrypoint runs.
        arguments: The engine's arguments; a flag and its value are two elements, and an Output is
            `<output>`.
        is_readable: False if an Output or an unreadable script hides arguments.
        image: The container's image.
        is_vllm_serve: Whether the program, or the image's entrypoint, is `vllm serve`. Only
            `vllm serve` accepts `--headless` and the model as a positional argument.
        program_in_args: Whether `args` starts with a program although the image's entrypoint starts
            the engine, which then gets the program's name as an argument.
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
        """Return the value of a flag, None if it is not set or has no value."""
        return get_flag_value(self.arguments, *names)

    @property
    def script(self) -> str | None:
        """The script that `sh -c` runs, `UNKNOWN` for an Output; None if there is none."""
        script = self.argv.script
        return None if script is None else UNKNOWN if is_output(script) else str(script)

    @property
    def port(self) -> int | None:
        """The engine's `--port`; None if it is unset or not a port number."""
        port = integer(self.value(PORT_FLAG)) if self.engine is not None else None
        return port if port is not None and 0 < port < 65536 else None

    @property
    def serves_https(self) -> bool:
        """Whether the engine's port speaks TLS, so that probes need `scheme: HTTPS`."""
        return self.engine is not None and self.has("--ssl-certfile", "--ssl-keyfile")

    @property
    def block_size(self) -> int | None:
        """Tokens in a block of the KV cache, None if not set."""
        size = integer(self.value(self.engine.block_size_flag)) if self.engine else None
        return size if size is not None and size > 0 else None

    @property
    def model(self) -> str | None:
        """The model in the arguments, None if they name none."""
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
        names = get_last_values(self.arguments, _SERVED_NAME)
        if names is None:
            if self.has(CONFIG_FLAG):
                return None
            names = [self.model or ""]
        return None if any(not name or "$" in name for name in names) else tuple(names) or None

    @property
    def requestable_names(self) -> set[str] | None:
        """The names of the model and its LoRA adapters in requests, None if unknown."""
        served = self.served_names
        if served is None or self.engine is None or self.has(CONFIG_FLAG):
            return None
        adapters = get_last_values(self.arguments, self.engine.lora_flags["modules"]) or []
        return {*served, *map(_parse_adapter_name, adapters)}

    @property
    def drain_seconds(self) -> int:
        """Seconds that running requests may take after SIGTERM, 0 if no flag sets them."""
        flag = self.engine.drain_flag if self.engine is not None else None
        return max(0, integer(self.value(flag)) or 0) if flag is not None else 0

    @property
    def rank_ports(self) -> int:
        """Number of ports that the engine serves on: 1, or one port for each rank of the pod."""
        sizes = self.parallelism
        return sizes.count_pod_ranks(1) if self._has_port_per_rank and sizes is not None else 1

    @property
    def health_port(self) -> int | None:
        """Port with the health of all ranks of the pod, None if that is the serving port."""
        if self.engine is None or not self._has_port_per_rank:
            return None
        flag, default = self.engine.supervisor
        return integer(self.value(flag)) or default

    @property
    def _has_port_per_rank(self) -> bool:
        return self.engine is not None and self.has(*self.engine.rank_port_flags)

    @property
    def parallelism(self) -> Parallelism | None:
        """The parallel sizes; see `Engine.parallelism`."""
        return self.engine.parallelism(self) if self.engine is not None else None

    @property
    def connector(self) -> KvConnector | str | None:
        """The KV connector; see `KvCache.connector`."""
        return self.engine.kv_cache.connector(self) if self.engine is not None else None


def _parse_adapter_name(value: str) -> str:
    # A value is NAME=PATH, or JSON with a name.
    try:
        module = parse_json(value)
    except ValueError:
        module = None
    if isinstance(module, dict):
        return str(module.get("name") or module.get("lora_name"))
    return value.partition("=")[0]
