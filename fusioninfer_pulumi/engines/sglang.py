"""SGLang: read in `server_args.py` and `mem_cache` of 0.5.3 and 0.5.23.

Older releases are rejected. Nothing was run on accelerators. Facts that are missing here are not
checked.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from decimal import Decimal

from fusioninfer_pulumi.api.role import Launcher
from fusioninfer_pulumi.engines._image import Version
from fusioninfer_pulumi.engines.engine import (
    KV_EVENTS_FLAG,
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
from fusioninfer_pulumi.engines.flags import integer, json_text, last_values
from fusioninfer_pulumi.engines.launch import (
    BY_HAND,
    LaunchError,
    check_divisible,
    check_nodes,
    engine_script,
    node_lists,
    node_script,
    refuse_outputs,
    unknown_engine,
)
from fusioninfer_pulumi.engines.parallelism import stated_sizes
from fusioninfer_pulumi.engines.rules import UNSUPPORTED_BY_ENGINE
from fusioninfer_pulumi.engines.sizes import Parallelism, Sizes
from fusioninfer_pulumi.findings import Finding, Rule, error
from fusioninfer_pulumi.rules.common import OUT_OF_RANGE, STATED_TWICE

OFFLOADING_RANKS_UNKNOWN = Rule("offloading-ranks-unknown")
OFFLOADING_TOO_SMALL = Rule("offloading-too-small")

#: First release whose decoder stops when the prefiller's KV cache has another type ("KV cache dtype
#: mismatch"; `disaggregation/common/conn.py` of 0.5.10, not of 0.5.9).
CACHE_DTYPE_AGREES: Version = (0, 5, 10)
#: The same of its page size ("Page size mismatch": in 0.5.8, not in 0.5.7).
PAGE_SIZE_AGREES: Version = (0, 5, 8)

#: Port of the multi-node guide for `--dist-init-addr`.
_INIT_PORT = 20000
#: Folder of the `file` storage.
_FOLDER_ENV = "SGLANG_HICACHE_FILE_BACKEND_STORAGE_DIR"
_GIGABYTE = 10**9  # the unit of `--hicache-size`

_MODE = "--disaggregation-mode"
_BACKEND = "--disaggregation-transfer-backend"
_DEFAULT_BACKEND = "mooncake"
#: The backend that is chosen where nothing else is.
_NIXL_BACKEND = "nixl"
_DP_ATTENTION = "--enable-dp-attention"
#: `ServerArgs.disaggregation_bootstrap_port`: where decode meets a prefill pod.
_MODEL_TYPE = "--model-type"
_ENABLE_LORA = "--enable-lora"
_DEFAULT_LORAS = 8  # `ServerArgs.max_loras_per_batch`


class Sglang(Engine):
    """SGLang."""

    name = "sglang"
    title = "SGLang"
    default_port = 30000  # `ServerArgs.port`
    default_host = "127.0.0.1"  # `ServerArgs.host`
    port_variables = ()
    # `launch_dummy_health_check_server` of `entrypoints/engine.py`.
    workers_answer = True
    health_path = "/health"
    # `entrypoints/http_server.py`.
    probe_paths = (
        "/", "/ping", "/health_generate", "/metrics", "/v1/models", "/get_model_info",
        "/model_info", "/get_server_info", "/server_info", "/get_load", "/v1/loads", "/docs",
        "/openapi.json",
    )  # fmt: skip
    # srt/utils: add_api_key_middleware
    keyed_paths = re.compile(r"/(?!health|metrics)")
    key_variable: str | None = None
    grpc_flags = ("--grpc-mode", "--smg-grpc-mode")
    image_serves = False
    block_size_flag = "--page-size"
    model_flags = ("--model-path", "--model")
    needs_model = True  # `required=True`
    # `--tp` is an abbreviation that argparse completes, as SGLang's own documents write it.
    size_flags: Mapping[str, tuple[str, ...]] = {
        "tensor": ("--tp-size", "--tensor-parallel-size", "--tp"),
        "pipeline": ("--pp-size", "--pipeline-parallel-size", "--pp"),
        "data": ("--dp-size", "--data-parallel-size", "--dp"),
    }
    expert_flags = ("--ep-size", "--expert-parallel-size", "--ep")
    lora_flags: Mapping[str, str] = {
        "modules": "--lora-paths",
        "max_rank": "--max-lora-rank",
        "max_adapters": "--max-loras-per-batch",
        "max_cpu_adapters": "--max-loaded-loras",
    }
    transfer_flag = _MODE
    sidecar_protocol = "sglang"
    offloads_by_connector = False
    setup_flags: Mapping[str, tuple[str, ...]] = {
        "dtype": ("--dtype",),
        "cache dtype": ("--kv-cache-dtype",),
        "quantization": ("--quantization",),
        "revision": ("--revision",),
        "tokenizer": ("--tokenizer-path",),
    }
    keep_alive_variable = "SGLANG_TIMEOUT_KEEP_ALIVE"  # `srt/environ.py`, 0.5.10 to 0.5.23: 5 s
    length_flag = "--context-length"
    refuses_unknown_models = False
    # Renamed without a word in the help of the old one (`ServerArgs`, by release).
    successors: Mapping[str, str] = {
        "--max-micro-batch-size": "--pp-max-micro-batch-size",
        "--nsa-decode": "--nsa-decode-backend",
        "--nsa-prefill": "--nsa-prefill-backend",
        "--kt-amx-method": "--kt-method",
        "--kt-amx-weight-path": "--kt-weight-path",
        "--oltp-traces-endpoint": "--otlp-traces-endpoint",
        "--speculative-ngram-branch-length": "--speculative-ngram-max-trie-depth",
        "--optimistic-prefill-retries": "--optimistic-prefill-attempts",
        "--enable-deepep-waterfill": "--enable-waterfill",
    }

    def argparse_words(self, command: EngineCommand, words: Sequence[Word]) -> list[Word]:
        kept, skip = [], False
        for word in words:
            name, equals, _ = word.value.partition("=")
            # `sglang serve` alone takes it, and hands the rest on (`sglang/cli/serve.py`).
            if name == _MODEL_TYPE and self.takes_other_arguments(command):
                skip = not equals
            elif not skip:
                kept.append(word)
            else:
                skip = False
        return kept

    def positionals(self, command: EngineCommand) -> int:
        return int(self.takes_other_arguments(command))

    def takes_other_arguments(self, command: EngineCommand) -> bool:
        # `sglang serve` starts diffusion models as well, by what the model is.
        return command.program[-1:] == ("serve",)

    def check_lora(self, command: EngineCommand) -> list[Finding]:
        # `check_lora_server_args`, up to 0.5.23.
        loaded, batch = (
            integer(command.value(self.lora_flags[key]))
            for key in ("max_cpu_adapters", "max_adapters")
        )
        modules = self.lora_flags["modules"]
        if not (command.has(_ENABLE_LORA, modules) and loaded is not None):
            return []
        problems, flag = [], self.lora_flags["max_cpu_adapters"]
        if batch is None and not command.has(self.lora_flags["max_adapters"]):
            batch = _DEFAULT_LORAS
        if batch is not None and loaded < batch:
            message = (
                f"{flag} {loaded} is less than {self.lora_flags['max_adapters']} {batch}; SGLang "
                "wants at least as many"
            )
            problems.append(error(OUT_OF_RANGE, (flag,), message))
        listed = len(last_values(command.arguments, modules) or ())
        if listed > loaded:
            message = f"{flag} {loaded} is less than the {listed} adapters of {modules}"
            problems.append(error(OUT_OF_RANGE, (flag,), message))
        return problems

    def must_agree(self, prefill: EngineCommand, decode: EngineCommand) -> Collection[str]:
        version = decode.image.version
        if version is None or version < PAGE_SIZE_AGREES:
            return ()
        return ("block size", "cache dtype") if version >= CACHE_DTYPE_AGREES else ("block size",)

    def default_launcher(self, nodes: int, data: int | None) -> Launcher:
        return Launcher.MULTIPROCESSING

    def launch(
        self, command: EngineCommand, launcher: Launcher, nodes: int, *, leads: bool, retry: bool
    ) -> ContainerCommand:
        if launcher is Launcher.RAY:
            raise LaunchError(
                "SGLang does not use launcher: ray; use launcher: multiprocessing, which gives "
                f"every node SGLang's own --nnodes, --node-rank and --dist-init-addr, {BY_HAND}"
            )
        refuse_outputs(command.argv)
        if launcher is Launcher.DATA_PARALLEL:
            if command.script is None:
                raise unknown_engine(launcher)
            engine_script(command, launcher)
            raise LaunchError(
                "the container's shell script starts sglang, which does not use launcher: "
                f"data-parallel: use launcher: multiprocessing, {BY_HAND}"
            )
        index, leader = "LWS_WORKER_INDEX", "LWS_LEADER_ADDRESS"
        rank = Argument(("--node-rank",), ("0",))
        if not leads:
            rank = Argument(("--node-rank",), (f"$({index})",), in_script=f'"${{{index}}}"')
        arguments = [
            Argument(("--nnodes",), (str(nodes),)),
            rank,
            Argument(
                ("--dist-init-addr", "--nccl-init-addr"),
                (f"$({leader}):{_INIT_PORT}",),
                in_script=f'"${{{leader}}}:{_INIT_PORT}"',
            ),
        ]
        if command.script is not None:
            return node_script(command, launcher, lambda _: arguments)
        return node_lists(command, arguments)

    def check_launch(self, command: EngineCommand, launcher: Launcher, nodes: int) -> list[Finding]:
        if launcher is not Launcher.MULTIPROCESSING:
            return []
        problems = list(check_nodes(command, nodes))
        parallelism = command.parallelism
        # `check_server_args`: "multi-node data parallel is not supported unless dp attention!"
        if parallelism is not None and parallelism.data > 1:
            message = (
                f"SGLang does not run --dp-size {parallelism.data} on {nodes} nodes without data "
                f"parallel attention ({_DP_ATTENTION}, or --attn-dp-size in newer releases)"
            )
            problems.append(error(UNSUPPORTED_BY_ENGINE, ("--dp-size",), message))
        return [*problems, *check_divisible(command, self, nodes)]

    def parallelism(self, command: EngineCommand) -> Parallelism | None:
        sizes = stated_sizes(command, self)
        if sizes is None:
            return None
        data = sizes.get("data", 1)
        if data > 1:
            context = ("-cp", "context-parallel")
            if any(part in argument for argument in command.arguments for part in context):
                return None  # some of its context parallel layouts reuse --dp-size for other ranks
            data = 1 if self.copies_share_accelerators(command) else data
        tensor, pipeline = sizes.get("tensor", 1), sizes.get("pipeline", 1)
        return Parallelism(tensor, pipeline, data, None, stated=bool(sizes))

    def size_arguments(self, sizes: Sizes) -> dict[str, Argument]:
        numbers = {"tensor": sizes.tensor, "pipeline": sizes.pipeline, "data": sizes.data}
        size_flags = {
            field: Argument(self.size_flags[field], (str(number),))
            for field, number in numbers.items()
            if number is not None
        }
        if sizes.expert:
            # SGLang's own advice: as many expert ranks as tensor ranks.
            size_flags["expert"] = Argument(self.expert_flags, (str(sizes.tensor or 1),))
        return size_flags

    def check_sizes(self, sizes: Sizes) -> list[Finding]:
        problems = []
        if sizes.rpc_port is not None:
            message = "is vLLM's; SGLang has no such argument"
            problems.append(error(UNSUPPORTED_BY_ENGINE, ("dataRPCPort",), message))
        if sizes.port_per_rank:
            message = "is vLLM's; SGLang's ranks share one port"
            problems.append(error(UNSUPPORTED_BY_ENGINE, ("portPerRank",), message))
        if sizes.expert and sizes.tensor is None:
            message = "needs tensor: SGLang spreads experts over that many"
            problems.append(error(UNSUPPORTED_BY_ENGINE, ("expert",), message))
        return problems

    def copies_share_accelerators(self, command: EngineCommand) -> bool:
        return command.has(_DP_ATTENTION)

    def spreads_experts(self, command: EngineCommand) -> bool:
        return command.has(*self.expert_flags) and integer(command.value(*self.expert_flags)) != 1

    def connector(self, command: EngineCommand) -> KvConnector | str | None:
        mode = command.value(_MODE)
        if mode in (None, "null"):
            return None
        backend = command.value(_BACKEND) or _DEFAULT_BACKEND
        return KvConnector(backend, mode, (backend,), (backend,))

    def transfer(
        self, command: EngineCommand, asked: TransferRequest | None, offloading: Offloading | None
    ) -> Transfer:
        if asked is None:
            return Transfer()
        for field, value in (("role", asked.role), ("extraConfig", asked.extra_config)):
            if value is not None:
                message = "is vLLM's; SGLang has no such"
                return Transfer(findings=(error(UNSUPPORTED_BY_ENGINE, (field,), message),))
        mode, backend = "prefill" if asked.prefills else "decode", asked.connector or _NIXL_BACKEND
        return Transfer(
            tuple(
                Argument((flag,), (value,), replaces=True)
                for flag, value in ((_MODE, mode), (_BACKEND, backend))
            ),
            KvConnector(backend, mode, (backend,), (backend,)),
        )

    def events_argument(self, endpoint: str, topic: str) -> Argument:
        settings = {"publisher": "zmq", "endpoint": endpoint, "topic": topic}
        return Argument((KV_EVENTS_FLAG,), (json_text(settings),))

    def offload(
        self, command: EngineCommand, wanted: Offloading, nodes: int, *, decodes: bool
    ) -> Offload:
        sizes = command.parallelism
        ranks = 1 if sizes is None else sizes.tensor * sizes.pipeline
        # The flag sets the memory of each rank, in whole gigabytes.
        of_rank = wanted.cpu // (_GIGABYTE * ranks)
        memory = Decimal(wanted.cpu)
        if sizes is not None:
            memory = Decimal(of_rank * _GIGABYTE * sizes.devices() // nodes)
        arguments = [
            Argument(("--enable-hierarchical-cache",)),
            Argument(("--hicache-size",), (str(of_rank),)),
        ]
        variables = {}
        if wanted.folders:
            arguments.append(Argument(("--hicache-storage-backend",), ("file",)))
            variables[_FOLDER_ENV] = wanted.folders[0]
        problems = list(self._check_offload(command, wanted, decodes=decodes))
        if sizes is None:
            message = (
                "SGLang is told the memory of each rank, but how many there are cannot be read "
                "here; write --hicache-size yourself"
            )
            problems.append(error(OFFLOADING_RANKS_UNKNOWN, ("cpu",), message))
        elif of_rank < 1:
            message = "is less than SGLang's smallest amount, one gigabyte for each rank"
            problems.append(error(OFFLOADING_TOO_SMALL, ("cpu",), message))
        return Offload(
            tuple(arguments), variables, memory, in_shared_memory=False, findings=tuple(problems)
        )

    def _check_offload(
        self, command: EngineCommand, wanted: Offloading, *, decodes: bool
    ) -> Iterator[Finding]:
        for flag in (
            "--enable-hierarchical-cache",
            "--hicache-size",
            "--hicache-ratio",
            "--hicache-storage-backend",
        ):
            if command.has(flag):
                message = f"{flag} is what kvCacheOffloading stands for; remove one of them"
                yield error(STATED_TWICE, (), message)
        if decodes:
            message = "SGLang has no hierarchical cache on decoders; state it on prefillers"
            yield error(UNSUPPORTED_BY_ENGINE, (), message)
        if wanted.eviction == "arc":
            message = "arc is vLLM's; SGLang has lru"
            yield error(UNSUPPORTED_BY_ENGINE, ("evictionPolicy",), message)
        if len(wanted.folders) > 1:
            message = f"SGLang has one tier behind the host memory, got {len(wanted.folders)}"
            yield error(UNSUPPORTED_BY_ENGINE, ("secondary",), message)

    def metrics_off(self, command: EngineCommand) -> str | None:
        # As its guide to production metrics says.
        if command.readable and not command.has("--enable-metrics"):
            return "SGLang serves metrics only with --enable-metrics; add it to the arguments"
        return None

    def load_metrics(self, command: EngineCommand) -> LoadMetrics:
        # As its guide to production metrics says.
        return LoadMetrics("sglang:num_running_reqs", "sglang:num_queue_reqs", "sglang:token_usage")

    def tracing_arguments(self, endpoint: str) -> list[Argument] | None:
        return None  # they have changed their spelling between releases, so they are the user's


SGLANG = Sglang()
