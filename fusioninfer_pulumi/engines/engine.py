"""The protocol of an inference engine, and what its methods take and return.

All that differs between engines is in the modules of their names (`vllm`, `sglang`); no other
package asks which engine it is. Everything is pure. Findings are located relative to what was
asked about: `()` or the flag that is meant, `("--nnodes",)`; the caller places them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple, Protocol

from fusioninfer_pulumi.api.role import Launcher
from fusioninfer_pulumi.engines._argv import UNKNOWN, Argv
from fusioninfer_pulumi.engines._image import Image
from fusioninfer_pulumi.engines.flags import flag_value, has_flag, integer, last_values, parsed_json
from fusioninfer_pulumi.engines.sizes import Parallelism, Sizes
from fusioninfer_pulumi.findings import Finding, Location
from fusioninfer_pulumi.kube.outputs import is_output

#: Flag of all engines that says on which port they serve.
PORT_FLAG = "--port"
#: Flag of all engines that says on which address they serve.
HOST_FLAG = "--host"
#: Flag of all engines with a file of further arguments; the command line comes before it.
CONFIG_FLAG = "--config"
#: Flag of all engines with the settings of their KV cache events, a JSON object.
KV_EVENTS_FLAG = "--kv-events-config"
#: vLLM's connector over NIXL (RDMA, NVLink or TCP), by which KV cache goes to other pods where
#: nothing else is chosen.
NIXL = "NixlConnector"

_SERVED_NAME = "--served-model-name"


@dataclass(frozen=True)
class Argument:
    """An argument that a command line shall have.

    Attributes:
        names: Its spellings, the one that is written first.
        values: The values behind it; none for a switch, and for a value that only a shell can
            work out. They may hold `$(NAME)`, which the kubelet expands.
        replaces: Whether it replaces the value of one that is there, which stays otherwise.
        in_script: Its value in a shell script, where that is not its quoted values.
    """

    names: tuple[str, ...]
    values: tuple[str, ...] = ()
    replaces: bool = False
    in_script: str | None = None

    @property
    def words(self) -> tuple[str, ...]:
        """The argument as elements of a list."""
        return (self.names[0], *self.values)


@dataclass(frozen=True)
class Word:
    """A word of a command line.

    Attributes:
        place: Where it stands in the container, such as `("args", 2)`; empty in a script.
    """

    value: str
    place: Location


@dataclass(frozen=True)
class ContainerCommand:
    """The command line that a container gets in place of its own.

    Attributes:
        command: The container's `command`; empty when it gets none, so that the image's own
            entrypoint runs.
        args: The container's `args`; None when it gets none.
        note: What was changed beyond what was asked for, else None.
    """

    command: list[Any]
    args: list[Any] | None
    note: str | None = None


class LoadMetrics(NamedTuple):
    """Metrics of an engine's load, as its release calls them.

    Attributes:
        running: Requests that it computes.
        waiting: Requests that wait for it.
        kv_cache: Part of its KV cache that is in use, from 0 to 1.
        lora: LoRA adapters, in vLLM's format; empty where there is none.
        cache: Block size and number of blocks, as labels of vLLM's names; empty where there is
            none.
    """

    running: str
    waiting: str
    kv_cache: str
    lora: str = ""
    cache: str = ""


#: What endpoint pickers read of an engine they know nothing about.
VLLM_METRICS = LoadMetrics(
    running="vllm:num_requests_running",
    waiting="vllm:num_requests_waiting",
    kv_cache="vllm:kv_cache_usage_perc",
    lora="vllm:lora_requests_info",
    cache="vllm:cache_config_info",
)


@dataclass(frozen=True)
class KvConnector:
    """How an engine hands its KV cache over.

    Attributes:
        name: vLLM's connector, or SGLang's transfer backend, as given.
        role: vLLM's `kv_role`, or SGLang's `prefill` or `decode`; None where none is given.
        names: The connector, and those inside of it.
        transfers: Those by which the cache goes to other pods, which both sides need.
        side_channel: Variables with the address and the port at which pods meet, where they need
            that; then either of them may be on either side.
    """

    name: str
    role: str | None
    names: tuple[str, ...]
    transfers: tuple[str, ...]
    side_channel: tuple[str, str] | None = None


@dataclass(frozen=True)
class TransferRequest:
    """What a user says of the way from prefill to decode; None leaves the engine's default."""

    prefills: bool
    connector: str | None = None
    role: str | None = None
    extra_config: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Transfer:
    """How the engines of a role hand their KV cache over.

    Attributes:
        arguments: What every pod's engine gets for it.
        connector: What the engine then does, None where it is not known.
        findings: What speaks against it, at fields of `kvTransfer`.
    """

    arguments: tuple[Argument, ...] = ()
    connector: KvConnector | None = None
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class Offloading:
    """Where an engine's KV cache goes beyond its accelerators.

    Attributes:
        cpu: Bytes of host memory of each engine.
        eviction: Policy of the host memory, None for the engine's default.
        folders: Where the tiers behind it are mounted, in their order.
        shared: Whether other processes read what a tier holds.
    """

    cpu: int
    eviction: str | None = None
    folders: tuple[str, ...] = ()
    shared: bool = False


@dataclass(frozen=True)
class Offload:
    """What offloading takes.

    Attributes:
        arguments: What every engine gets for it, beside those of its connector.
        memory: Bytes of host memory in each pod.
        in_shared_memory: Whether they lie in /dev/shm.
        findings: What speaks against it, at fields of `kvCacheOffloading`.
    """

    arguments: tuple[Argument, ...]
    variables: Mapping[str, str]
    memory: Decimal
    in_shared_memory: bool
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class EngineCommand:
    """A container's command line, and the engine that it starts.

    Attributes:
        engine: The engine, None when none is recognised.
        program: The words before the engine's arguments as written, for example
            `("vllm", "serve")`; empty when the image's own entrypoint runs.
        arguments: The engine's arguments, what could be read of them, with a flag and its value
            as two elements; `<output>` stands for an Output.
        readable: False when an Output or a script that could not be read hides arguments.
        serve: Whether the program is `vllm serve`, written or as the image's entrypoint: it takes
            the model as a positional argument and obeys `--headless`.
        program_in_args: Whether the program stands in `args` of an image whose own entrypoint
            starts the engine, which gets those words as arguments.
        argv: The words of the container.
    """

    engine: Engine | None
    program: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    readable: bool = True
    image: Image = field(default_factory=Image)
    serve: bool = False
    program_in_args: bool = False
    argv: Argv = field(default_factory=Argv)

    def has(self, *names: str) -> bool:
        """Whether a flag is given, in one of its spellings."""
        return has_flag(self.arguments, *names)

    def value(self, *names: str) -> str | None:
        """The value of a flag, None when it has none."""
        return flag_value(self.arguments, *names)

    @property
    def script(self) -> str | None:
        """The text given to `sh -c`, when the container runs one."""
        script = self.argv.script
        return None if script is None else UNKNOWN if is_output(script) else str(script)

    @property
    def port(self) -> int | None:
        """The engine's `--port`; None when it is not given, or not a port number."""
        port = integer(self.value(PORT_FLAG)) if self.engine is not None else None
        return port if port is not None and 0 < port < 65536 else None

    @property
    def serves_https(self) -> bool:
        """Whether the engine's port speaks TLS, so that probes need `scheme: HTTPS`."""
        return self.engine is not None and self.has("--ssl-certfile", "--ssl-keyfile")

    @property
    def block_size(self) -> int | None:
        """Tokens in a block of the KV cache, as given."""
        size = integer(self.value(self.engine.block_size_flag)) if self.engine else None
        return size if size is not None and size > 0 else None

    @property
    def model(self) -> str | None:
        """The model that the arguments name; None when they name none."""
        if self.engine is None:
            return None
        if self.serve and self.arguments and not self.arguments[0].startswith("-"):
            return self.arguments[0]
        return self.value(*self.engine.model_flags)

    @property
    def served_names(self) -> tuple[str, ...] | None:
        """The names by which requests may ask for the model, adapters aside.

        That of the model where it is given none; None where the arguments do not say it.
        """
        if self.engine is None or not self.readable:
            return None
        names = last_values(self.arguments, _SERVED_NAME)
        if names is None:
            if self.has(CONFIG_FLAG):
                return None
            names = [self.model or ""]
        return None if any(not name or "$" in name for name in names) else tuple(names) or None

    @property
    def adapter_names(self) -> tuple[str, ...] | None:
        """The names of LoRA adapters that are loaded at the start; None where they are not known.

        Each is NAME=PATH, or JSON with a name.
        """
        if self.engine is None or not self.readable or self.has(CONFIG_FLAG):
            return None
        values = last_values(self.arguments, self.engine.lora_flags["modules"]) or []
        return tuple(_adapter_name(value) for value in values)

    @property
    def rank_ports(self) -> int:
        """Ports that the engine serves on, one for each rank that has its own."""
        return 1 if self.engine is None else self.engine.rank_ports(self)

    @property
    def asked_names(self) -> tuple[str, ...] | None:
        """The names by which requests may ask for the model or an adapter, None if not known."""
        served, adapters = self.served_names, self.adapter_names
        return None if served is None or adapters is None else (*served, *adapters)

    @property
    def parallelism(self) -> Parallelism | None:
        """How the model is split and copied; None when that is not known."""
        return self.engine.parallelism(self) if self.engine is not None else None

    @property
    def connector(self) -> KvConnector | str | None:
        """How the KV cache is handed over; see `Engine.connector`."""
        return self.engine.connector(self) if self.engine is not None else None


def _adapter_name(value: str) -> str:
    try:
        module = parsed_json(value)
    except ValueError:
        module = None
    if isinstance(module, dict):
        return str(module.get("name") or module.get("lora_name"))
    return value.partition("=")[0]


class Engine(Protocol):
    """An inference engine.

    Attributes:
        name: Its name, as its program and its images have it.
        title: Its name as its project writes it.
        default_port: HTTP port that it listens on without `--port`.
        default_host: Address that it serves on without `--host`, None for all of the pod's.
        port_variables: Variables that it takes for port numbers, and that Kubernetes sets to an
            address for a Service of such a name.
        workers_answer: Whether its processes on other nodes than the leader's answer probes.
        health_path: Path that answers 200 once it serves.
        probe_paths: Other paths that answer 200 to GET.
        keyed_paths: Paths that answer 401 without the API key, if one is set (`--api-key`).
        key_variable: Variable that sets the API key, too; None for none.
        grpc_flags: Flags with which it speaks gRPC in place of HTTP.
        image_serves: Whether the entrypoint of its images starts it, and takes arguments alone.
        block_size_flag: Flag with the tokens in a block of its KV cache.
        model_flags: Spellings of the flag with its model.
        needs_model: Whether it stops without a model, and has no default one.
        size_flags: Spellings by the size that they set (`tensor`, `pipeline`, `data`), the one for
            messages first.
        expert_flags: Spellings of the flag that spreads experts.
        lora_flags: Flags of LoRA adapters (`modules`) and of their limits.
        transfer_flag: Flag without which it hands no KV cache over.
        sidecar_protocol: What a decode engine's sidecar speaks to it; None where its connector
            decides.
        offloads_by_connector: Whether offloading is a KV connector of its own, named in one
            argument with that of a transfer.
        setup_flags: Spellings of the flags with the model's type (`dtype`), that of its KV cache
            (`cache dtype`), its `quantization`, `revision` and `tokenizer`.
        refuses_unknown_models: Whether a request for another model gets an error.
        successors: What replaced arguments that were removed, where their help did not say it.
        length_flag: Flag with the tokens of the longest sequence.
        keep_alive_variable: Variable with the seconds after which it closes an idle connection.
    """

    name: str
    title: str
    default_port: int
    default_host: str | None
    port_variables: tuple[str, ...]
    workers_answer: bool
    health_path: str
    probe_paths: tuple[str, ...]
    keyed_paths: re.Pattern[str]
    key_variable: str | None
    grpc_flags: tuple[str, ...]
    image_serves: bool
    block_size_flag: str
    model_flags: tuple[str, ...]
    needs_model: bool
    size_flags: Mapping[str, tuple[str, ...]]
    expert_flags: tuple[str, ...]
    lora_flags: Mapping[str, str]
    transfer_flag: str
    sidecar_protocol: str | None
    offloads_by_connector: bool
    setup_flags: Mapping[str, tuple[str, ...]]
    refuses_unknown_models: bool
    successors: Mapping[str, str]
    length_flag: str
    keep_alive_variable: str

    def argparse_words(self, command: EngineCommand, words: Sequence[Word]) -> list[Word]:
        """The words as argparse gets them, after what the program does to them first."""
        ...

    def check_words(self, command: EngineCommand, words: Sequence[Word]) -> list[Finding]:
        """What the release refuses although its table has it; located at the words."""
        return []

    def positionals(self, command: EngineCommand) -> int:
        """How many words the program takes that belong to no argument."""
        ...

    def checks_shared_memory(self, command: EngineCommand, launcher: Launcher | None) -> bool:
        """Whether even one rank needs shared memory, and stops at its start without.

        Args:
            command: The engine's command line, without what the launcher adds.
            launcher: Of a replica that spans nodes, None for others.
        """
        return False

    def drain_seconds(self, command: EngineCommand) -> int:
        """How long running requests may take after SIGTERM, where an argument says it; else 0."""
        return 0

    def takes_other_arguments(self, command: EngineCommand) -> bool:
        """Whether the program may start something that takes other arguments."""
        return False

    def check_lora(self, command: EngineCommand) -> list[Finding]:
        """What its LoRA arguments contradict."""
        ...

    def must_agree(self, prefill: EngineCommand, decode: EngineCommand) -> Collection[str]:
        """What the connector refuses where prefill and decode differ in it.

        Of `model`, `release`, `served name`, `block size`, and the names of `setup_flags`.
        """
        ...

    def missing_recompute(self, command: EngineCommand) -> str | None:
        """Return the setting without which requests fail whose KV cache cannot be loaded.

        None where the engine computes their prompts itself, or has no such setting.
        """
        return None

    def check_pair_sizes(self, prefill: EngineCommand, decode: EngineCommand) -> str | None:
        """Why the connector cannot go from one's parallelism to the other's; None where it can."""
        return None

    def default_launcher(self, nodes: int, data: int | None) -> Launcher:
        """The launcher where none is chosen, for `data` copies of the model if that is stated."""
        ...

    def launch(
        self, command: EngineCommand, launcher: Launcher, nodes: int, *, leads: bool, retry: bool
    ) -> ContainerCommand:
        """The command line of one of several nodes; see `launch.launch`."""
        ...

    def check_image(self, command: EngineCommand, launcher: Launcher) -> list[Finding]:
        """Return what the image lacks for a launcher; located at the launcher."""
        return []

    def check_launch(self, command: EngineCommand, launcher: Launcher, nodes: int) -> list[Finding]:
        """Return which flags cannot, or probably do not, work with a launcher."""
        ...

    def rank_ports(self, command: EngineCommand) -> int:
        """Ports that it serves on, from its port upwards: one for each rank that has its own."""
        return 1

    def health_port(self, command: EngineCommand) -> int | None:
        """Port that answers for all ranks of the pod; None where the serving port does."""
        return None

    def parallelism(self, command: EngineCommand) -> Parallelism | None:
        """How the arguments split and copy the model.

        None when it is not known: hidden arguments, a value that is no positive integer (`$TP`),
        or options in a file.
        """
        ...

    def size_arguments(self, sizes: Sizes) -> dict[str, Argument]:
        """The arguments that say these sizes, by the field of `parallelism` that asks for them."""
        ...

    def check_sizes(self, sizes: Sizes) -> list[Finding]:
        """The sizes for which there is no argument, at fields of `parallelism`."""
        return []

    def ray_arguments(self, sizes: Sizes) -> list[Argument]:
        """What these sizes need besides, in a ray cluster."""
        return []

    def copies_share_accelerators(self, command: EngineCommand) -> bool:
        """Whether data parallel copies share the tensor parallel accelerators."""
        return False

    def spreads_experts(self, command: EngineCommand) -> bool:
        """Whether the arguments spread experts."""
        ...

    def connector(self, command: EngineCommand) -> KvConnector | str | None:
        """How the arguments hand the KV cache over; None when they do not say.

        Text is what is wrong with them, as the end of a sentence about `transfer_flag`.
        """
        ...

    def check_connector(self, command: EngineCommand) -> list[Finding]:
        """Whether the engine has the connector that its arguments name."""
        return []

    def transfer(
        self, command: EngineCommand, asked: TransferRequest | None, offloading: Offloading | None
    ) -> Transfer:
        """How the KV cache goes to other pods, and by the same argument to other memory.

        For a command line that says nothing of it. Only engines that offload by a connector
        get `offloading`.
        """
        ...

    def events_argument(self, endpoint: str, topic: str) -> Argument:
        """The argument that publishes the events of the KV cache over ZMQ."""
        ...

    def offload(
        self, command: EngineCommand, wanted: Offloading, nodes: int, *, decodes: bool
    ) -> Offload:
        """What it takes to keep KV cache beyond the accelerators' memory, on so many nodes.

        The command line holds the sizes already. One that decodes gets its cache from a prefiller.
        """
        ...

    def metrics_off(self, command: EngineCommand) -> str | None:
        """Why it serves no metrics of its own, None where nothing speaks against them."""
        ...

    def has_panels(self) -> bool:
        """Whether alerts and dashboards read its metrics of requests."""
        return False

    def load_metrics(self, command: EngineCommand) -> LoadMetrics:
        """What its release calls the metrics of its load."""
        ...

    def tracing_arguments(self, endpoint: str) -> Sequence[Argument] | None:
        """The arguments that make it trace, None where none are known."""
        ...
