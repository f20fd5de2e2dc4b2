"""vLLM, with the evidence for what is known about its releases.

Read in the source distributions of 0.11.0 to 0.14.0, 0.16.0 to 0.18.0, 0.21.0 to 0.25.0 and
0.33.0, and in the requirements that the wheels of 0.11.0 to 0.20.0 declare. Older releases are
rejected. Nothing was run on accelerators. Facts that are missing here are not checked.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from fusioninfer_pulumi.api.role import Launcher
from fusioninfer_pulumi.engines._argv import UNKNOWN
from fusioninfer_pulumi.engines._image import Version, version_text
from fusioninfer_pulumi.engines.editing import missing, script_words
from fusioninfer_pulumi.engines.engine import (
    CONFIG_FLAG,
    KV_EVENTS_FLAG,
    NIXL,
    VLLM_METRICS,
    Argument,
    ContainerCommand,
    Engine,
    EngineCommand,
    KvConnector,
    LoadMetrics,
    Offload,
    Offloading,
    Transfer,
    TransferRequest,
    Word,
)
from fusioninfer_pulumi.engines.flags import (
    canonical,
    flag_value,
    has_flag,
    integer,
    json_text,
    last_values,
    parsed_json,
    split_joined_flags,
)
from fusioninfer_pulumi.engines.launch import (
    BY_HAND,
    LEADER_ADDRESS_ENV,
    NODES,
    LaunchError,
    check_divisible,
    check_nodes,
    node_lists,
    node_script,
    positional_model,
    program_and_arguments,
    ray_launch,
    refuse_outputs,
)
from fusioninfer_pulumi.engines.parallelism import local_ranks, stated_sizes
from fusioninfer_pulumi.engines.rules import ARGUMENT_VALUE_INVALID
from fusioninfer_pulumi.engines.sizes import Parallelism, Sizes
from fusioninfer_pulumi.findings import Finding, Rule, error, info, shown, warning
from fusioninfer_pulumi.rules.common import OUT_OF_RANGE, RELEASE_WITHOUT_FEATURE, STATED_TWICE

LAUNCHER_CONTRADICTED = Rule("launcher-contradicted")
MODEL_AS_ARGUMENT = Rule("model-as-argument")

IMAGE_WITHOUT_RAY = Rule("image-without-ray")
RANKS_ON_LEADER_ALONE = Rule("ranks-on-leader-alone")
RANK_ACROSS_NODES = Rule("rank-across-nodes")
KV_CONNECTOR_UNKNOWN = Rule("kv-connector-unknown")
CONNECTOR_WITH_OFFLOADING = Rule("connector-with-offloading")

#: First release without ray. The wheels up to 0.17.1 require `ray[cgraph]`, those of
#: 0.18.0 and later do not, and `docker/Dockerfile` of 0.18.0 and 0.33.0 installs none.
WITHOUT_RAY: Version = (0, 18, 0)
LAST_WITH_RAY: Version = (0, 17, 1)
#: Moving tags of vllm/vllm-openai. They only move forward, and were past 0.18.0 when this was read.
_MOVING_TAGS = ("latest", "nightly")

#: First release whose multiprocessing executor spans nodes (`--nnodes`, `--node-rank`,
#: `--master-addr`, `--master-port`; vllm#23691): in `vllm/engine/arg_utils.py` of 0.11.1, not of
#: 0.11.0. Only `vllm serve` obeys `--headless` (`vllm/entrypoints/cli/serve.py`): the older
#: `python3 -m vllm.entrypoints.openai.api_server` accepts it and starts a server all the same.
MULTI_NODE: Version = (0, 11, 1)
#: First release in which data parallel ranks that each span several nodes work with
#: multiprocessing (vllm#35429: workers bound the message queue to the head's address). The old
#: line is in `vllm/v1/executor/multiproc_executor.py` of 0.16.0, the fix in that of 0.17.0.
MULTI_NODE_RANKS: Version = (0, 17, 0)

#: A connector of the old (V0) engine, which no supported release has.
_REMOVED_CONNECTOR = "PyNcclConnector"
#: The releases that register a connector: from the first on, and before the second; None where that
#: is outside of the releases that were read (0.11.0, 0.11.1, and the first of each minor release
#: from 0.12.0 to 0.33.0 but 0.15.0). With another connector vLLM stops: "Unsupported connector
#: type".
_CONNECTOR_RELEASES: Mapping[str, tuple[Version | None, Version | None]] = {
    "DecodeBenchConnector": ((0, 11, 1), None),
    "LMCacheMPConnector": ((0, 11, 1), None),
    "MooncakeConnector": ((0, 13, 0), None),
    "P2pNcclConnector": (None, (0, 24, 0)),
    "SharedStorageConnector": (None, (0, 13, 0)),
}
#: Those that `KVConnectorFactory` registers in any supported release.
_CONNECTORS = (
    "DecodeBenchConnector",
    "LMCacheConnectorV1",
    "LMCacheMPConnector",
    "MooncakeConnector",
    "MultiConnector",
    "NixlConnector",
    "OffloadingConnector",
    "P2pNcclConnector",
    "SharedStorageConnector",
)
#: `KVRole` of `KVTransferConfig`.
_TRANSFER_ROLES = ("kv_both", "kv_consumer", "kv_producer")
#: Holds other connectors in its extra settings.
_MULTI = "MultiConnector"
#: The connector to host memory and the tiers behind it.
_OFFLOADING = "OffloadingConnector"

#: First release whose OffloadingConnector takes bytes (`cpu_bytes_to_use`). 0.11.0 to 0.13.0 want
#: a number of blocks, whose size follows from the model. (`vllm/v1/kv_offload`, read in 0.11.0 to
#: 0.14.0, 0.18.0, 0.21.0 to 0.25.0 and 0.33.0.)
CPU_OFFLOADING: Version = (0, 14, 0)
#: First release with tiers behind the host memory (`TieringOffloadingSpec`; vllm#40020).
SECONDARY_OFFLOADING: Version = (0, 22, 0)
#: First release whose tests run NixlConnector and OffloadingConnector in one MultiConnector, as
#: far as was read (`tests/v1/kv_connector/nixl_integration` of 0.21.0, not of 0.18.0).
OFFLOADING_WITH_NIXL: Version = (0, 21, 0)

#: Releases before this one stop at `vllm serve --model X` (`FlexibleArgumentParser`); later ones
#: warn.
MODEL_ALLOWED: Version = (0, 11, 1)
#: First release whose images start `vllm serve` (`docker/Dockerfile`).
SERVE_ENTRYPOINT: Version = (0, 11, 1)

#: First release in which NIXL compares a hash of vLLM's version, the model, its type and that of
#: the KV cache between prefill and decode, and refuses to go on where it differs
#: (`compute_nixl_compatibility_hash`: in 0.13.0, not in 0.12.0). Before, it compares sizes alone.
NIXL_HASH: Version = (0, 13, 0)
_ENFORCE = "enforce_handshake_compat"
#: First release in which a decoder's block may be several of a prefiller's (`block_size_ratio` of
#: NIXL: in 0.11.1; 0.11.0 wants the same size), and in which it may have other sizes too
#: (`_split_remote_blocks`: in 0.33.0, not in 0.32.0).
NIXL_BLOCKS: Version = (0, 11, 1)
NIXL_ANY_BLOCKS: Version = (0, 33, 0)
#: First release in which NIXL's decoders may have a smaller tensor parallel size than prefillers
#: ("Decode TP cannot be smaller than prefill TP" in 0.13.0, not in 0.14.0). One must divide the
#: other in all releases (`tp_ratio`, up to 0.33.0).
NIXL_SMALLER_DECODE: Version = (0, 14, 0)

#: First release in which NIXL knows who sends and who fetches: it warns that `kv_both` will go
#: (`NixlConnector.__init__`: in 0.23.0 to 0.32.0, not in 0.14.0 and 0.20.0 to 0.22.0).
NIXL_ROLES: Version = (0, 23, 0)

#: First release that fails a request whose KV cache could not be loaded unless
#: `kv_load_failure_policy` is `recompute` (`KVTransferConfig`: 0.13.0 to 0.16.0 have the field with
#: that default, 0.11.2 and 0.12.0 always recompute; the default is `fail` in 0.17.0 to 0.32.0).
FAILS_LOADS: Version = (0, 17, 0)
_LOAD_FAILURE_POLICY, _RECOMPUTE = "kv_load_failure_policy", "recompute"


#: First release whose `--lora-modules NAME=PATH` may have another `=` in its path
#: (`LoRAParserAction`: in 0.30.0, not in 0.29.0).
PATHS_WITH_EQUALS: Version = (0, 30, 0)

#: Where NIXL's agents of two pods meet: the address is the one that others reach, and ranks count
#: up from the port (`vllm/envs.py`; the default address is localhost).
_SIDE_CHANNEL = ("VLLM_NIXL_SIDE_CHANNEL_HOST", "VLLM_NIXL_SIDE_CHANNEL_PORT")
#: Seeds block hashes. Random in each process up to 0.25.0 at least, so that no process finds what
#: another one has written.
_HASH_SEED_ENV = "PYTHONHASHSEED"
#: Port of the multi-node rendezvous: torch's own default, which FusionInfer's later design writes
#: (vLLM's default is 29501; its data parallel ports are free ports that the head picks).
_MASTER_PORT = 29500
#: Where the leader coordinates data parallel ranks of other nodes (`ParallelConfig`).
_RPC_PORT = 29550

_TRANSFER = "--kv-transfer-config"
_TRACING = "--otlp-traces-endpoint"
_EXECUTOR = "--distributed-executor-backend"
_SHUTDOWN = "--shutdown-timeout"
_DATA = ("--data-parallel-size", "-dp")
_LOCAL = ("--data-parallel-size-local", "-dpl")
_ADDRESS = ("--data-parallel-address", "-dpa")
_RPC = ("--data-parallel-rpc-port", "-dpp")
_RANK = ("--data-parallel-rank", "-dpn")
_START_RANK = ("--data-parallel-start-rank", "-dpr")
_EXTERNAL_BALANCER = ("--data-parallel-external-lb", "-dpe")
_DATA_BACKEND = ("--data-parallel-backend", "-dpb")
_PORT_PER_RANK = ("--data-parallel-multi-port-external-lb", "-dpm")
# With these every node serves its own endpoint or holds a rank that its command states: vLLM
# refuses them together with `--headless`, or the one template cannot say them for every node.
_OWN_RANKS = (
    _RANK,
    _START_RANK,
    ("--data-parallel-hybrid-lb", "-dph"),
    _EXTERNAL_BALANCER,
    _PORT_PER_RANK,
)
# `ParallelConfig`: answers once all ranks of the pod do (`dp_supervisor.py`, 0.22.0 and later).
_SUPERVISOR, _SUPERVISOR_PORT = "--data-parallel-supervisor-port", 9256
_HEADLESS = Argument(("--headless",))
_ENABLE_LORA = "--enable-lora"
_NUMBER = re.compile(r"-\d+|-\d*\.\d+")


class Vllm(Engine):
    """vLLM."""

    name = "vllm"
    title = "vLLM"
    default_port = 8000  # `vllm/entrypoints`
    default_host = None
    # `vllm/envs.py`; "don't name the service as vllm" of its documents.
    port_variables = ("VLLM_PORT", "VLLM_DP_MASTER_PORT")
    workers_answer = False  # they run `--headless`
    health_path = "/health"
    # `vllm/entrypoints/openai/api_server.py` and `vllm/entrypoints/serve`.
    probe_paths = (
        "/ping", "/version", "/metrics", "/load", "/v1/models", "/is_sleeping", "/docs",
        "/openapi.json", "/server_info", "/is_paused",
    )  # fmt: skip
    # entrypoints/serve/middleware/authenticate.py
    keyed_paths = re.compile(r"/(v1|v2|inference|cohere)")
    key_variable = "VLLM_API_KEY"
    grpc_flags = ("--grpc",)
    # The entrypoint of vllm/vllm-openai is `python3 -m vllm.entrypoints.openai.api_server` up to
    # 0.11.0 and `vllm serve` from 0.11.1 on (`docker/Dockerfile`). `vllm serve --model X` is an
    # error up to 0.11.0 and a warning from 0.11.1 to 0.33.0 (`FlexibleArgumentParser`), so the
    # model is written as the positional argument, which all of them take.
    image_serves = True
    block_size_flag = "--block-size"
    model_flags = ("--model",)
    needs_model = False  # `ModelConfig.model` has a default
    # `vllm/engine/arg_utils.py` 0.11.0 to 0.33.0. `--tensor-parallel` is an abbreviation that
    # argparse completes, as vLLM's own documents write it.
    size_flags: Mapping[str, tuple[str, ...]] = {
        "tensor": ("--tensor-parallel-size", "-tp", "--tensor-parallel"),
        "pipeline": ("--pipeline-parallel-size", "-pp", "--pipeline-parallel"),
        "context": ("--prefill-context-parallel-size", "-pcp"),
        "data": _DATA,
        "data_local": _LOCAL,
    }
    expert_flags = ("--enable-expert-parallel", "-ep")
    lora_flags: Mapping[str, str] = {
        "modules": "--lora-modules",
        "max_rank": "--max-lora-rank",
        "max_adapters": "--max-loras",
        "max_cpu_adapters": "--max-cpu-loras",
    }
    transfer_flag = _TRANSFER
    sidecar_protocol = None
    offloads_by_connector = True
    setup_flags: Mapping[str, tuple[str, ...]] = {
        "dtype": ("--dtype",),
        "cache dtype": ("--kv-cache-dtype",),
        "quantization": ("--quantization", "-q"),
        "revision": ("--revision",),
        "tokenizer": ("--tokenizer",),
    }
    length_flag = "--max-model-len"
    keep_alive_variable = "VLLM_HTTP_TIMEOUT_KEEP_ALIVE"  # `vllm/envs.py`, 0.11.2 to 0.32.0: 5 s
    refuses_unknown_models = True
    # From the last releases that have the old ones (`vllm/engine/arg_utils.py` of 0.11.0 and
    # 0.12.0, `config/model.py` of 0.11.0).
    successors: Mapping[str, str] = {
        "--task": "--runner and --convert",
        "--disable-log-requests": "--no-enable-log-requests",
        "--rope-scaling": "--hf-overrides",
        "--rope-theta": "--hf-overrides",
        "--override-pooler-config": "--pooler-config",
        "--guided-decoding-backend": "--structured-outputs-config.backend",
        "--guided-decoding-disable-fallback": "--structured-outputs-config.disable_fallback",
        "--guided-decoding-disable-any-whitespace": (
            "--structured-outputs-config.disable_any_whitespace"
        ),
        "--guided-decoding-disable-additional-properties": (
            "--structured-outputs-config.disable_additional_properties"
        ),
        "--num-redundant-experts": "--eplb-config.num_redundant_experts",
        "--eplb-window-size": "--eplb-config.window_size",
        "--eplb-step-interval": "--eplb-config.step_interval",
        "--eplb-log-balancedness": "--eplb-config.log_balancedness",
        "--disable-mm-preprocessor-cache": "--mm-processor-cache-gb 0",
        "--enable-multimodal-encoder-data-parallel": "--mm-encoder-tp-mode data",
    }

    # The command line.

    def argparse_words(self, command: EngineCommand, words: Sequence[Word]) -> list[Word]:
        # `FlexibleArgumentParser.parse_args`, up to 0.33.0.
        kept, skip = [], False
        for word in words:
            name, equals, value = word.value.partition("=")
            if skip:
                skip = False
            elif name.startswith("-O"):
                skip = word.value == "-O"
            elif not name.startswith("-") or _NUMBER.fullmatch(word.value):
                kept.append(word)
            elif "." in name:
                # A key of a JSON object, whose values are not known here.
                skip = not equals
                head = canonical(name).partition(".")[0]
                kept.append(Word(f"{head}={UNKNOWN}", word.place))
            else:
                kept.append(Word(f"{canonical(name)}{equals}{value}", word.place))
        return kept

    def check_words(self, command: EngineCommand, words: Sequence[Word]) -> list[Finding]:
        version = command.image.version
        if version is None:
            return []
        release = version_text(version)
        if _is_api_server(command):
            if not words or words[0].value.startswith("-"):
                return []
            message = (
                f"vLLM {release} ignores this model and serves its default, because it is started "
                "as api_server; write --model, or start it with vllm serve"
            )
            return [warning(MODEL_AS_ARGUMENT, words[0].place, message)]
        if version >= MODEL_ALLOWED:
            return []
        message = (
            f"vllm serve of {release} refuses --model; write the model before all arguments: "
            "vllm serve MODEL"
        )
        model_words = [word for word in words if word.value == "--model"]
        return [error(MODEL_AS_ARGUMENT, word.place, message) for word in model_words]

    def positionals(self, command: EngineCommand) -> int:
        return 1

    def checks_shared_memory(self, command: EngineCommand, launcher: Launcher | None) -> bool:
        # The ring of `shm_broadcast.py` takes 160 MiB, which v0.32 checks. On processors a rank is
        # always a process of its own, and so it is where ranks span nodes or copies
        # (`ParallelConfig.__post_init__`: `mp` where `world_size_across_dp` is more than 1).
        version, name = command.image.version, command.image.name or ""
        processors = command.value("--device") == "cpu" or "cpu" in name
        sizes, backend = command.parallelism, command.value(_EXECUTOR)
        copies = backend is None and sizes is not None and sizes.data > 1
        apart = (
            copies
            or backend == "mp"
            or launcher
            in (
                Launcher.MULTIPROCESSING,
                Launcher.DATA_PARALLEL,
            )
        )
        return version is not None and version >= (0, 32) and (processors or apart)

    def drain_seconds(self, command: EngineCommand) -> int:
        # With 0, the default, running requests are lost at SIGTERM (`handle_shutdown`, from v0.18.0
        # on).
        return max(0, integer(command.value(_SHUTDOWN)) or 0)

    def check_lora(self, command: EngineCommand) -> list[Finding]:
        # `LoRAConfig` and `init_static_loras`, up to 0.33.0.
        if not command.has(_ENABLE_LORA):
            return []
        modules = last_values(command.arguments, self.lora_flags["modules"])
        problems = list(_check_modules(modules, command.image.version))
        cpu_flag, flag = self.lora_flags["max_cpu_adapters"], self.lora_flags["max_adapters"]
        cpu, gpu = integer(command.value(cpu_flag)), integer(command.value(flag))
        if gpu is None and not command.has(flag, CONFIG_FLAG):
            gpu = 1
        # With none and fewer vLLM takes the default.
        if cpu is not None and gpu is not None and 0 < cpu < gpu:
            message = f"{cpu_flag} {cpu} is less than {flag} {gpu}; vLLM wants at least as many"
            problems.append(error(OUT_OF_RANGE, (cpu_flag,), message))
        return problems

    # Several nodes.

    def default_launcher(self, nodes: int, data: int | None) -> Launcher:
        divides = data is not None and data % nodes == 0
        return Launcher.DATA_PARALLEL if divides else Launcher.RAY

    def launch(
        self, command: EngineCommand, launcher: Launcher, nodes: int, *, leads: bool, retry: bool
    ) -> ContainerCommand:
        if launcher is Launcher.RAY:
            return ray_launch(command, leads=leads, retry=retry)
        refuse_outputs(command.argv)
        ranks = launcher is Launcher.DATA_PARALLEL

        def wanted(command_line: Sequence[str], *, serve: bool) -> list[Argument]:
            if ranks:
                return _rank_arguments(_local_ranks(command_line, nodes, serve=serve), leads=leads)
            _check_nodes(command, command_line, nodes, serve=serve)
            return _node_arguments(nodes, leads=leads)

        if command.script is not None:
            return node_script(
                command, launcher, lambda call: wanted(call.arguments, serve=call.serve)
            )
        added = wanted(command.arguments, serve=command.serve or not command.program)
        return _data_parallel_lists(command, added) if ranks else node_lists(command, added)

    def check_image(self, command: EngineCommand, launcher: Launcher) -> list[Finding]:
        if launcher is Launcher.RAY:
            return list(_ray_image(command))
        version = command.image.version
        if launcher is not Launcher.MULTIPROCESSING or version is None or version >= MULTI_NODE:
            return []
        message = (
            f"vLLM {version_text(version)} cannot span nodes with multiprocessing (--nnodes exists "
            f"from {version_text(MULTI_NODE)} on): use launcher: ray, or a newer image"
        )
        return [warning(RELEASE_WITHOUT_FEATURE, (), message)]

    def check_launch(self, command: EngineCommand, launcher: Launcher, nodes: int) -> list[Finding]:
        if launcher is Launcher.RAY:
            return list(_ray_flags(command))
        if launcher is Launcher.MULTIPROCESSING:
            return [
                *_ranks_across_nodes(command, nodes),
                *check_nodes(command, nodes),
                *_executor(command),
                *check_divisible(command, self, nodes),
            ]
        return []  # data parallel ranks are checked where they are launched

    def rank_ports(self, command: EngineCommand) -> int:
        # `dp_supervisor.py`: one server for each local rank, on consecutive ports.
        return local_ranks(command, 1) if command.has(*_PORT_PER_RANK) else 1

    def health_port(self, command: EngineCommand) -> int | None:
        if not command.has(*_PORT_PER_RANK):
            return None
        return integer(command.value(_SUPERVISOR)) or _SUPERVISOR_PORT

    # Parallelism.

    def parallelism(self, command: EngineCommand) -> Parallelism | None:
        sizes = stated_sizes(command, self)
        if sizes is None:
            return None
        local = sizes.get("data_local")
        # With these a process runs one data parallel rank, the others run elsewhere.
        if local is None and command.has(*_RANK, *_EXTERNAL_BALANCER):
            local = 1
        return Parallelism(
            tensor=sizes.get("tensor", 1),
            pipeline=sizes.get("pipeline", 1),
            data=sizes.get("data", 1),
            data_local=local,
            stated=bool(sizes),
            context=sizes.get("context", 1),
        )

    def size_arguments(self, sizes: Sizes) -> dict[str, Argument]:
        flags = self.size_flags
        numbers = {
            "tensor": (flags["tensor"], sizes.tensor),
            "pipeline": (flags["pipeline"], sizes.pipeline),
            "data": (flags["data"], sizes.data),
            "dataLocal": (flags["data_local"], sizes.data_local),
            "dataRPCPort": (_RPC, sizes.rpc_port),
        }
        size_flags = {
            field: Argument(names, (str(number),))
            for field, (names, number) in numbers.items()
            if number is not None
        }
        if sizes.expert:
            size_flags["expert"] = Argument(self.expert_flags)
        if sizes.port_per_rank:
            size_flags["portPerRank"] = Argument(_PORT_PER_RANK)
        return size_flags

    def ray_arguments(self, sizes: Sizes) -> list[Argument]:
        return [Argument(_DATA_BACKEND, ("ray",))] if (sizes.data or 1) > 1 else []

    def spreads_experts(self, command: EngineCommand) -> bool:
        return command.has(*self.expert_flags)

    # The KV cache.

    def connector(self, command: EngineCommand) -> KvConnector | str | None:
        settings = transfer_config(command)
        if settings is None:
            return "has no value" if command.has(_TRANSFER) else None
        if isinstance(settings, str):
            return "is not a JSON object"
        if not isinstance(settings.get("kv_connector"), str):
            return "names no kv_connector"
        return _connector_of(settings)

    def check_connector(self, command: EngineCommand) -> list[Finding]:
        settings = transfer_config(command)
        if not isinstance(settings, dict):
            return []
        return list(_check_transfer(settings, command.image.version))

    def must_agree(self, prefill: EngineCommand, decode: EngineCommand) -> Collection[str]:
        if not _by_nixl(prefill, decode):
            return ()
        # The sidecar passes a prefiller's 404 on to the client.
        always: tuple[str, ...] = ("served name",)
        versions = [side.image.version for side in (prefill, decode)]
        if _blocks_refused(prefill, decode):
            always += ("block size",)
        if any(version is None for version in versions):
            return always
        if any(version < NIXL_HASH for version in versions if version is not None):
            return (*always, "dtype", "cache dtype")
        if any(_leaves_hash(side) for side in (prefill, decode)):
            return always
        return (*always, "model", "release", "dtype", "cache dtype")

    def missing_recompute(self, command: EngineCommand) -> str | None:
        settings = transfer_config(command)
        recomputes = isinstance(settings, dict) and settings.get(_LOAD_FAILURE_POLICY) == _RECOMPUTE
        if recomputes or not _fails_loads(command.image.version):
            return None
        return f'"{_LOAD_FAILURE_POLICY}": "{_RECOMPUTE}" to {_TRANSFER}'

    def check_pair_sizes(self, prefill: EngineCommand, decode: EngineCommand) -> str | None:
        first, second = prefill.parallelism, decode.parallelism
        if not _by_nixl(prefill, decode) or first is None or second is None:
            return None
        large, small = max(first.tensor, second.tensor), min(first.tensor, second.tensor)
        if large % small:
            return f"{large} is no multiple of {small}"
        version = decode.image.version
        old = version is not None and version < NIXL_SMALLER_DECODE
        if old and second.tensor < first.tensor:
            needed = version_text(NIXL_SMALLER_DECODE)
            return f"decoders can have a smaller one than prefillers from vLLM {needed} on"
        return None

    def transfer(
        self, command: EngineCommand, asked: TransferRequest | None, offloading: Offloading | None
    ) -> Transfer:
        if asked is None:
            if offloading is None:
                return Transfer()
            return Transfer((_transfer_argument(_offloading_settings(offloading)),))
        name = asked.connector or NIXL
        role = asked.role or _default_role(name, asked, command.image.version)
        settings = _connector_settings(name, role, asked.extra_config)
        findings: tuple[Finding, ...] = ()
        if offloading is not None:
            both = {"connectors": [settings, _offloading_settings(offloading)]}
            settings = _connector_settings(_MULTI, "kv_both", both)
            findings = tuple(_check_together(name, command.image.version))
        if not asked.prefills and _fails_loads(command.image.version):
            settings[_LOAD_FAILURE_POLICY] = _RECOMPUTE
        return Transfer((_transfer_argument(settings),), _connector_of(settings), findings)

    def events_argument(self, endpoint: str, topic: str) -> Argument:
        settings = {
            "enable_kv_cache_events": True,
            "publisher": "zmq",
            "endpoint": endpoint,
            "topic": topic,
        }
        return Argument((KV_EVENTS_FLAG,), (json_text(settings),))

    def offload(
        self, command: EngineCommand, wanted: Offloading, nodes: int, *, decodes: bool
    ) -> Offload:
        # The ranks share one region in /dev/shm, which every pod of an engine creates in full size;
        # each data parallel copy has its own.
        sizes = command.parallelism
        copies = 1
        if sizes is not None:
            copies = min(sizes.data_local or max(sizes.data // nodes, 1), sizes.data)
        return Offload(
            arguments=(),
            variables={_HASH_SEED_ENV: "0"} if wanted.shared else {},
            memory=Decimal(wanted.cpu * copies),
            in_shared_memory=True,
            findings=tuple(_check_offload(command, wanted)),
        )

    # Metrics and traces.

    def metrics_off(self, command: EngineCommand) -> str | None:
        # The engine then has no loggers, Prometheus's among them (`vllm/v1/engine/async_llm.py`).
        if command.readable and command.has("--disable-log-stats"):
            return "vLLM counts nothing with --disable-log-stats; remove it"
        return None

    def has_panels(self) -> bool:
        return True

    def load_metrics(self, command: EngineCommand) -> LoadMetrics:
        return VLLM_METRICS

    def tracing_arguments(self, endpoint: str) -> list[Argument] | None:
        return [Argument((_TRACING,), (endpoint,), replaces=True)]


def _node_arguments(nodes: int, *, leads: bool) -> list[Argument]:
    """Runs the same command on every node, each with its own rank.

    Data parallel ranks need no further arguments: vLLM divides them among the nodes by
    `--nnodes` and `--node-rank` (`create_engine_config`, 0.11.1 to 0.33.0).
    """
    index, leader = "LWS_WORKER_INDEX", "LWS_LEADER_ADDRESS"
    rank = Argument(("--node-rank", "-r"), ("0",))
    if not leads:
        rank = Argument(rank.names, (f"$({index})",), in_script=f'"${{{index}}}"')
    arguments = [
        # vLLM 0.11.1 chooses the executor `uni` for ranks of one accelerator and then refuses
        # `--nnodes`; later releases choose `mp` or `uni` themselves.
        Argument((_EXECUTOR,), ("mp",)),
        Argument(NODES, (str(nodes),)),
        rank,
        Argument(("--master-addr",), (f"$({leader})",), in_script=f'"${{{leader}}}"'),
        Argument(("--master-port",), (str(_MASTER_PORT),)),
    ]
    # Only the leader serves HTTP.
    return arguments if leads else [*arguments, _HEADLESS]


def _check_nodes(
    command: EngineCommand, arguments: Sequence[str], nodes: int, *, serve: bool
) -> None:
    """Refuses arguments that do not go together with those of `_node_arguments`."""
    _check_serve(Launcher.MULTIPROCESSING, serve=serve)
    if has_flag(arguments, *_HEADLESS.names):
        raise LaunchError(
            "--headless would keep the leader from serving: leave it out, the workers get it from "
            f"launcher: multiprocessing, {BY_HAND}"
        )
    for names in _OWN_RANKS:
        if has_flag(arguments, *names):
            raise LaunchError(
                f"{names[0]} cannot be used with launcher: multiprocessing, where the leader alone "
                "serves and vLLM gives every node its data parallel ranks by --node-rank: leave it "
                f"out, {BY_HAND}"
            )
    _check_data_backend(Launcher.MULTIPROCESSING, arguments)
    local_size, parallelism = integer(flag_value(arguments, *_LOCAL)), command.parallelism
    if local_size is None or parallelism is None:
        return
    # How vLLM infers the number of local ranks: the share of a node, at least one.
    rank = parallelism.devices() // parallelism.data
    right = max(parallelism.devices() // nodes // rank, 1)
    if local_size != right:
        raise LaunchError(
            f"--data-parallel-size-local {local_size} does not fit --data-parallel-size "
            f"{parallelism.data} on {nodes} nodes, where each runs {right}: leave it out, {BY_HAND}"
        )


def _check_serve(launcher: Launcher, *, serve: bool) -> None:
    if not serve:
        raise LaunchError(
            f"launcher: {launcher.value} starts workers with --headless, which only `vllm serve` "
            f"obeys: start the engine with `vllm serve`, {BY_HAND}"
        )


def _check_data_backend(launcher: Launcher, arguments: Sequence[str]) -> None:
    if flag_value(arguments, *_DATA_BACKEND) == "ray":
        raise LaunchError(
            f"--data-parallel-backend ray cannot be used with launcher: {launcher.value}: leave it "
            f"out, use launcher: ray, {BY_HAND}"
        )


def _rank_arguments(local: int, *, leads: bool) -> list[Argument]:
    """Runs the data parallel ranks of a node, as many as `local`.

    As KServe and llm-d launch them, and `docs/serving/data_parallel_deployment.md` of vLLM
    describes: the other nodes run `--headless` from their first rank on, and find the leader by
    its address.
    """
    address = LEADER_ADDRESS_ENV if leads else "LWS_LEADER_ADDRESS"
    arguments = [
        Argument(_LOCAL, (str(local),)),
        # `$NAME` is expanded by the shell alone; the kubelet would expand $(NAME) too.
        Argument(_ADDRESS, (f"$({address})",), in_script=f'"${address}"'),
    ]
    if leads:
        return arguments
    # With one rank a node, the rank is the node's index: no arithmetic is needed.
    values = ("$(LWS_WORKER_INDEX)",) if local == 1 else ()
    first = Argument(_START_RANK, values, in_script=f'"$((LWS_WORKER_INDEX * {local}))"')
    return [*arguments, _HEADLESS, first]


def _data_parallel_lists(command: EngineCommand, wanted: Sequence[Argument]) -> ContainerCommand:
    program, arguments = program_and_arguments(command)
    if all(isinstance(word, str) for word in arguments):
        arguments = list(positional_model(arguments))
    # Only `vllm serve` knows --headless, and older images start something else.
    program = program or ["vllm", "serve"]
    added = missing(command, wanted)
    computed = [argument for argument in added if argument.in_script and not argument.values]
    arguments += [word for argument in added if argument not in computed for word in argument.words]
    if not computed:
        return ContainerCommand(program, arguments)
    # The shell computes the first rank, and passes the other words on.
    script = f'exec {shlex.join(program)} "$@"{script_words(computed)}'
    return ContainerCommand(["/bin/sh", "-c", script, "sh"], arguments)


def _local_ranks(arguments: Sequence[str], nodes: int, *, serve: bool) -> int:
    """Data parallel ranks on each node."""
    words = split_joined_flags(arguments)
    _check_serve(Launcher.DATA_PARALLEL, serve=serve)
    others = [names for names in _OWN_RANKS if names != _START_RANK]
    # vLLM refuses these with `--headless`, or they serve HTTP on every node.
    for names in (*others, _HEADLESS.names, _START_RANK):
        if has_flag(words, *names):
            raise LaunchError(
                f"{names[0]} cannot be used with launcher: data-parallel, which lets the leader "
                f"alone serve and gives every node its ranks: leave it out, {BY_HAND}"
            )
    _check_data_backend(Launcher.DATA_PARALLEL, words)
    data = integer(flag_value(words, *_DATA))
    if data is None:
        raise LaunchError(
            "launcher: data-parallel divides the ranks of --data-parallel-size among the nodes: "
            "state parallelism.data and dataLocal"
        )
    local = integer(flag_value(words, *_LOCAL))
    if local is None and data % nodes == 0:
        return data // nodes
    if local is None or local * nodes != data:
        share = "" if local is None else f" of {local} ranks each ({_LOCAL[0]})"
        raise LaunchError(
            f"--data-parallel-size {data} cannot be divided among {nodes} nodes{share}"
        )
    return local


def _ray_image(command: EngineCommand) -> Iterator[Finding]:
    version, tag = command.image.version, command.image.tag
    moving = command.image.stock and tag is not None and tag.startswith(_MOVING_TAGS)
    if moving or (version is not None and version >= WITHOUT_RAY):
        yield warning(
            IMAGE_WITHOUT_RAY,
            (),
            f"the image vllm/vllm-openai:{tag} has no ray ({version_text(LAST_WITH_RAY)} is the "
            f"last with it): use launcher: multiprocessing, or an image that adds ray",
        )


def _ray_flags(command: EngineCommand) -> Iterator[Finding]:
    backend = command.value(_EXECUTOR)
    if backend is not None and backend != "ray":
        yield warning(
            LAUNCHER_CONTRADICTED,
            (_EXECUTOR,),
            f"{_EXECUTOR} {backend} does not use the ray cluster that launcher: ray starts: leave "
            f"it out, or use launcher: multiprocessing",
        )
    if command.has(*NODES) and command.value(*NODES) != "1":
        message = "vLLM refuses --nnodes with ray: leave it out, or use launcher: multiprocessing"
        yield error(LAUNCHER_CONTRADICTED, (NODES[0],), message)
    parallelism = command.parallelism
    ray_ranks = command.value(*_DATA_BACKEND) == "ray"
    # Documented in docs/serving/data_parallel_deployment.md; read in `launch_core_engines`.
    if parallelism is not None and parallelism.data > 1 and not ray_ranks:
        yield warning(
            RANKS_ON_LEADER_ALONE,
            (_DATA[0],),
            "without --data-parallel-backend ray vLLM starts all data parallel ranks on the "
            "leader: add it, or use launcher: multiprocessing",
        )


def _ranks_across_nodes(command: EngineCommand, nodes: int) -> Iterator[Finding]:
    version, parallelism = command.image.version, command.parallelism
    if parallelism is None or version is None or not MULTI_NODE <= version < MULTI_NODE_RANKS:
        return
    rank = parallelism.devices() // parallelism.data
    if parallelism.data > 1 and parallelism.devices() < rank * nodes:
        yield warning(
            RANK_ACROSS_NODES,
            (_DATA[0],),
            f"in vLLM {version_text(version)} a data parallel rank cannot span nodes with "
            f"multiprocessing (vllm#35429, fixed in {version_text(MULTI_NODE_RANKS)})",
        )


def _executor(command: EngineCommand) -> Iterator[Finding]:
    # ParallelConfig: "nnodes > 1 can only be set when distributed executor backend is mp".
    if command.value(_EXECUTOR) == "ray":
        yield error(
            LAUNCHER_CONTRADICTED,
            (_EXECUTOR,),
            f"{_EXECUTOR} ray cannot be used with launcher: multiprocessing: leave it out, or use "
            f"launcher: ray",
        )


def transfer_config(command: EngineCommand) -> dict[str, Any] | str | None:
    """The settings behind `--kv-transfer-config`; the text as written when it is no JSON object.

    None when the flag is absent. Keys written as `--kv-transfer-config.kv_role kv_both` are merged
    in, as vLLM does.
    """
    text = command.value(_TRANSFER)
    settings: dict[str, Any] = {}
    if text is not None:
        try:
            parsed = parsed_json(text)
        except ValueError:
            return text
        if not isinstance(parsed, dict):
            return text
        settings.update(parsed)
    for argument in command.arguments:
        name = argument.partition("=")[0]
        flag, dot, key = name.partition(".")
        if dot and canonical(flag) == _TRANSFER and "." not in key:
            settings[key] = command.value(name)
    return settings or None if text is None else settings


def _check_modules(values: Sequence[str] | None, version: Version | None) -> Iterator[Finding]:
    """The adapters that are neither NAME=PATH nor JSON (`LoRAParserAction`)."""
    flag = Vllm.lora_flags["modules"]
    for value in values or ():
        if not value or UNKNOWN in value or "$" in value:
            continue
        if "=" in value and "," not in value:
            taken = value.count("=") == 1 or version is None or version >= PATHS_WITH_EQUALS
        else:
            try:
                module = parsed_json(value)
            except ValueError:
                module = None
            taken = isinstance(module, dict) and {"name", "path"} <= module.keys()
        if not taken:
            message = f"it must be NAME=PATH, or JSON with name and path, got {shown(value)}"
            yield error(ARGUMENT_VALUE_INVALID, (flag,), message)


def _missing_connector(connector: str, version: Version) -> str | None:
    """Return the releases that have a connector, None where this one does."""
    since, until = _CONNECTOR_RELEASES.get(connector, (None, None))
    if since is not None and version < since:
        return f"{version_text(since)} or later"
    if until is not None and version >= until:
        return f"before {version_text(until)}"
    return None


def _check_transfer(settings: Mapping[str, Any], version: Version | None) -> Iterator[Finding]:
    """What `KVTransferConfig` refuses, and connectors that no registry has."""
    role, name = settings.get("kv_role"), settings.get("kv_connector")
    if role not in _TRANSFER_ROLES and (role is not None or name is not None):
        text = "but is missing" if role is None else f"got {shown(role)}"
        message = f"kv_role must be one of {', '.join(_TRANSFER_ROLES)}, {text}"
        if role is None and isinstance(name, str):
            message += f" beside kv_connector {name}"
        yield error(ARGUMENT_VALUE_INVALID, (_TRANSFER,), message)
    module_path = settings.get("kv_connector_module_path")
    if name == _REMOVED_CONNECTOR and not module_path:
        message = (
            f"{_REMOVED_CONNECTOR} is not a connector of vLLM's V1 engine, which stops with "
            f"'Unsupported connector type'; use {NIXL}"
        )
        yield warning(RELEASE_WITHOUT_FEATURE, (_TRANSFER,), message)
    # Unknown names may be newer, or a plugin's: only a likely typing error is reported.
    elif isinstance(name, str) and name not in _CONNECTORS and not module_path:
        import difflib  # noqa: PLC0415  # start-up time: few connectors are unknown

        near = difflib.get_close_matches(name, _CONNECTORS, n=1, cutoff=0.85)
        if near and not name.startswith(_CONNECTORS):
            message = f"vLLM has no connector {shown(name)}; did you mean {near[0]}?"
            yield warning(KV_CONNECTOR_UNKNOWN, (_TRANSFER,), message)
    if isinstance(name, str) and version is not None and not module_path:
        needed = _missing_connector(name, version)
        if needed is not None:
            message = (
                f"vLLM {version_text(version)} has no {name} and stops; it needs vLLM {needed}"
            )
            yield warning(RELEASE_WITHOUT_FEATURE, (_TRANSFER,), message)
    extra = settings.get("kv_connector_extra_config")
    inner = extra.get("connectors") if name == _MULTI and isinstance(extra, Mapping) else None
    for connector in inner if isinstance(inner, list) else ():
        if isinstance(connector, Mapping):
            yield from _check_transfer(connector, version)


def _is_api_server(command: EngineCommand) -> bool:
    """Whether the older program runs, written or as the entrypoint of an older image."""
    if command.program:
        return not command.serve
    version = command.image.version
    return version is not None and version < SERVE_ENTRYPOINT


def _by_nixl(*commands: EngineCommand) -> bool:
    """Whether all of them hand their KV cache over by NIXL."""
    configs = [transfer_config(command) for command in commands]
    return all(isinstance(config, dict) and NIXL in _names(config) for config in configs)


def _blocks_refused(prefill: EngineCommand, decode: EngineCommand) -> bool:
    """Whether NIXL cannot map the blocks of one size onto those of the other."""
    version, blocks, decode_blocks = decode.image.version, prefill.block_size, decode.block_size
    if version is None or blocks is None or decode_blocks is None or blocks == decode_blocks:
        return False
    return version < NIXL_BLOCKS or (version < NIXL_ANY_BLOCKS and decode_blocks % blocks > 0)


def _leaves_hash(command: EngineCommand) -> bool:
    """Whether NIXL skips its comparison of prefill and decode."""
    settings = transfer_config(command)
    extra = settings.get("kv_connector_extra_config") if isinstance(settings, dict) else None
    return isinstance(extra, Mapping) and extra.get(_ENFORCE) is False


def _connector_of(settings: Mapping[str, Any]) -> KvConnector:
    role = settings.get("kv_role")
    names = tuple(_names(settings))
    to_pods = tuple(connector for connector in names if connector not in (_MULTI, _OFFLOADING))
    return KvConnector(
        name=names[0],
        role=role if isinstance(role, str) else None,
        names=names,
        transfers=to_pods or names,
        side_channel=_SIDE_CHANNEL if NIXL in names else None,
    )


def _names(settings: Mapping[str, Any]) -> Iterator[str]:
    """The connector that settings name, and those inside of it."""
    name = settings.get("kv_connector")
    if isinstance(name, str):
        yield name
    extra = settings.get("kv_connector_extra_config")
    inner = extra.get("connectors") if name == _MULTI and isinstance(extra, Mapping) else None
    for connector in inner if isinstance(inner, list) else ():
        if isinstance(connector, Mapping):
            yield from _names(connector)


def _transfer_argument(settings: Mapping[str, Any]) -> Argument:
    return Argument((_TRANSFER,), (json_text(settings),), replaces=True)


def _connector_settings(
    connector: str, role: str, extra: Mapping[str, Any] | None
) -> dict[str, Any]:
    settings: dict[str, Any] = {"kv_connector": connector, "kv_role": role}
    if extra:
        settings["kv_connector_extra_config"] = dict(extra)
    return settings


def _fails_loads(version: Version | None) -> bool:
    return version is not None and version >= FAILS_LOADS


def _default_role(connector: str, asked: TransferRequest, version: Version | None) -> str:
    if connector != NIXL or version is None or version < NIXL_ROLES:
        return "kv_both"
    return "kv_producer" if asked.prefills else "kv_consumer"


def _offloading_settings(wanted: Offloading) -> dict[str, Any]:
    extra: dict[str, Any] = {}
    if wanted.folders:
        extra["spec_name"] = "TieringOffloadingSpec"
    extra["cpu_bytes_to_use"] = wanted.cpu
    if wanted.eviction is not None:
        extra["eviction_policy"] = wanted.eviction
    if wanted.folders:
        extra["secondary_tiers"] = [{"type": "fs", "root_dir": folder} for folder in wanted.folders]
    return _connector_settings(_OFFLOADING, "kv_both", extra)


def _check_together(connector: str, version: Version | None) -> Iterator[Finding]:
    """What is not known to work together with offloading in one engine."""
    if connector != NIXL:
        yield error(
            CONNECTOR_WITH_OFFLOADING,
            ("connector",),
            f"{connector} together with kvCacheOffloading is not known to work, {NIXL} is; remove "
            f"one, or write {_TRANSFER} with both into the arguments",
        )
    elif version is not None and version < OFFLOADING_WITH_NIXL:
        yield error(
            RELEASE_WITHOUT_FEATURE,
            (),
            f"together with kvCacheOffloading needs vLLM {version_text(OFFLOADING_WITH_NIXL)}, got "
            f"{version_text(version)}",
        )


def _check_offload(command: EngineCommand, wanted: Offloading) -> Iterator[Finding]:
    for flag in ("--kv-offloading-size", "--kv-offloading-backend"):
        if command.has(flag):
            message = f"{flag} is what kvCacheOffloading stands for; remove one of them"
            yield error(STATED_TWICE, (), message)
    version = command.image.version
    needed, field = (
        (SECONDARY_OFFLOADING, ("secondary",)) if wanted.folders else (CPU_OFFLOADING, ())
    )
    rule = RELEASE_WITHOUT_FEATURE
    if version is None:
        message = f"needs vLLM {version_text(needed)} or later, which the image's tag does not say"
        yield info(RELEASE_WITHOUT_FEATURE, field, message)
    elif version < CPU_OFFLOADING:
        message = (
            f"needs vLLM {version_text(CPU_OFFLOADING)}: the connector of {version_text(version)} "
            "cannot be told how much memory to use"
        )
        yield error(rule, (), message)
    elif version < needed:
        message = (
            f"needs vLLM {version_text(needed)}; {version_text(version)} offloads to host memory "
            "alone"
        )
        yield error(rule, field, message)


VLLM = Vllm()
