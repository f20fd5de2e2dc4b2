"""SGLang: the facts about its releases and its command line.

Sources: `server_args.py` and `mem_cache` of 0.5.3 and 0.5.23. Older releases are rejected. Nothing
was run on accelerators.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from decimal import Decimal

from fusioninfer_pulumi.api.kv_cache import KvTransferArgs
from fusioninfer_pulumi.api.role import Launcher
from fusioninfer_pulumi.engines.engine import (
    Argument,
    Engine,
    EngineCommand,
    HttpServer,
    KvCache,
    KvConnector,
    MetricsFlag,
    MultiNode,
    OffloadRequest,
    OffloadResult,
    Parallelism,
    ParallelSizes,
    Telemetry,
    Transfer,
    build_rank_argument,
)
from fusioninfer_pulumi.engines.engine_images import ReleaseNumber
from fusioninfer_pulumi.engines.metric_names import LoadMetrics
from fusioninfer_pulumi.findings import Finding, error
from fusioninfer_pulumi.rules.common import OUT_OF_RANGE, UNSUPPORTED_BY_ENGINE

#: First release whose decoder rejects a prefiller whose KV cache has another type ("KV cache dtype
#: mismatch"; `disaggregation/common/conn.py` of 0.5.10, not of 0.5.9).
COMPARES_CACHE_DTYPE: ReleaseNumber = (0, 5, 10)
#: First release whose decoder rejects a prefiller with another page size (0.5.8, not 0.5.7).
COMPARES_PAGE_SIZE: ReleaseNumber = (0, 5, 8)

#: Port for `--dist-init-addr`, as in SGLang's multi-node guide.
_INIT_PORT = 20000
#: Directory of the storage backend `file`.
_DIRECTORY_ENV = "SGLANG_HICACHE_FILE_BACKEND_STORAGE_DIR"
_GIGABYTE = 10**9  # the unit of `--hicache-size`

_MODE = "--disaggregation-mode"
_BACKEND = "--disaggregation-transfer-backend"
_SGLANG_DEFAULT_BACKEND = "mooncake"
#: Backend in generated arguments if `kvTransfer.connector` is not set.
_GENERATED_BACKEND = "nixl"
_DP_ATTENTION = "--enable-dp-attention"
_HICACHE, _HICACHE_SIZE = "--enable-hierarchical-cache", "--hicache-size"
_HICACHE_STORAGE = "--hicache-storage-backend"


class SglangNodes(MultiNode):
    """The launchers of SGLang."""

    launchers = (Launcher.MULTIPROCESSING,)

    def build_arguments(
        self, command: EngineCommand, launcher: Launcher, nodes: int, *, is_leader: bool
    ) -> list[Argument]:
        return [
            Argument(("--nnodes",), (str(nodes),)),
            build_rank_argument(("--node-rank",), is_leader=is_leader),
            Argument(
                ("--dist-init-addr", "--nccl-init-addr"),
                (f"$(LWS_LEADER_ADDRESS):{_INIT_PORT}",),
                in_script=f'"${{LWS_LEADER_ADDRESS}}:{_INIT_PORT}"',
            ),
        ]


class SglangKvCache(KvCache):
    """The KV cache of SGLang."""

    block_size_flag = "--page-size"
    transfer_flag = _MODE
    sidecar_protocol = "sglang"
    offloading_flags = (_HICACHE, _HICACHE_SIZE, "--hicache-ratio", _HICACHE_STORAGE)
    pair_setting_flags: Mapping[str, tuple[str, ...]] = {
        "dtype": ("--dtype",),
        "cache dtype": ("--kv-cache-dtype",),
        "quantization": ("--quantization",),
        "revision": ("--revision",),
        "tokenizer": ("--tokenizer-path",),
        "attention backend": ("--attention-backend",),
    }
    handshake_source = "SGLang 0.5.3 to 0.5.23, disaggregation/common/conn.py"

    def parse_connector(self, command: EngineCommand) -> KvConnector | str | None:
        mode = command.value(_MODE)
        if mode in (None, "null"):
            return None
        return _build_connector(command.value(_BACKEND) or _SGLANG_DEFAULT_BACKEND, mode)

    def list_pair_settings(self, prefill: EngineCommand, decode: EngineCommand) -> Collection[str]:
        # SGLang's decoder rejects a prefiller with a different value, from these releases on.
        compared_since = {"block size": COMPARES_PAGE_SIZE, "cache dtype": COMPARES_CACHE_DTYPE}
        release = decode.image.stock_release
        if release is None:
            return []
        return [setting for setting, since in compared_since.items() if release >= since]

    def build_transfer(
        self,
        command: EngineCommand,
        args: KvTransferArgs | None,
        offloading: OffloadRequest | None,
        *,
        is_prefiller: bool = False,
    ) -> Transfer:
        assert args is not None, "SGLang does not offload by connector, so the role has kvTransfer"
        for field, value in (("role", args.role), ("extraConfig", args.extra_config)):
            if value is not None:
                message = "is not supported by SGLang"
                return Transfer(findings=(error(UNSUPPORTED_BY_ENGINE, (field,), message),))
        mode = "prefill" if is_prefiller else "decode"
        backend = args.connector or _GENERATED_BACKEND
        return Transfer(
            (
                Argument((_MODE,), (mode,), replaces=True),
                Argument((_BACKEND,), (backend,), replaces=True),
            ),
            _build_connector(backend, mode),
        )

    def build_offloading(
        self, command: EngineCommand, request: OffloadRequest, nodes: int, *, is_decoder: bool
    ) -> OffloadResult:
        sizes = command.parallelism
        ranks = 1 if sizes is None else sizes.tensor * sizes.pipeline
        # The flag sets the memory of each rank, in whole gigabytes.
        gigabytes = request.host_bytes // (_GIGABYTE * ranks)
        memory = Decimal(request.host_bytes)  # of one pod
        if sizes is not None:
            memory = Decimal(gigabytes * _GIGABYTE * sizes.count_accelerators() // nodes)
        arguments = [Argument((_HICACHE,)), Argument((_HICACHE_SIZE,), (str(gigabytes),))]
        variables = {}
        if request.directories:
            arguments.append(Argument((_HICACHE_STORAGE,), ("file",)))
            variables[_DIRECTORY_ENV] = request.directories[0]
        findings = list(_check_offload(request, is_decoder=is_decoder))
        if sizes is None:
            message = (
                "SGLang needs the memory of each rank, but the number of ranks is unknown; set "
                "--hicache-size yourself"
            )
            findings.append(error(UNSUPPORTED_BY_ENGINE, ("cpu",), message))
        elif gigabytes < 1:
            findings.append(error(OUT_OF_RANGE, ("cpu",), "must be at least 1G for each rank"))
        return OffloadResult(
            tuple(arguments), variables, memory, in_shared_memory=False, findings=tuple(findings)
        )


def _build_connector(backend: str, mode: str | None) -> KvConnector:
    return KvConnector(name=backend, role=mode, names=(backend,), transfer_connectors=(backend,))


def _check_offload(request: OffloadRequest, *, is_decoder: bool) -> Iterator[Finding]:
    if is_decoder:
        message = "SGLang does not support kvCacheOffloading on decoders; set it on prefillers"
        yield error(UNSUPPORTED_BY_ENGINE, (), message)
    if request.eviction == "arc":
        message = "SGLang does not support arc; use lru"
        yield error(UNSUPPORTED_BY_ENGINE, ("evictionPolicy",), message)
    if len(request.directories) > 1:
        message = f"SGLang supports one secondary tier, got {len(request.directories)}"
        yield error(UNSUPPORTED_BY_ENGINE, ("secondary",), message)


class SglangSizes(ParallelSizes):
    """The parallel sizes of SGLang."""

    # SGLang's documentation uses the abbreviation `--tp`, which argparse completes.
    flags: Mapping[str, tuple[str, ...]] = {
        "tensor": ("--tp-size", "--tensor-parallel-size", "--tp"),
        "pipeline": ("--pp-size", "--pipeline-parallel-size", "--pp"),
        "data": ("--dp-size", "--data-parallel-size", "--dp"),
    }
    expert_flags = ("--ep-size", "--expert-parallel-size", "--ep")
    needs_expert_ranks = True

    def parse(self, command: EngineCommand) -> Parallelism | None:
        sizes = super().parse(command)
        if sizes is None or sizes.data == 1:
            return sizes
        # With context parallelism (--attn-cp-size) the ranks of --dp-size may not be copies of the
        # model, so the sizes are unknown.
        flags = [word.partition("=")[0] for word in command.arguments if word.startswith("--")]
        if any("cp" in flag.split("-") or "context-parallel" in flag for flag in flags):
            return None
        # With data parallel attention, the ranks share the accelerators of tensor parallelism.
        return sizes._replace(data=1) if command.has(_DP_ATTENTION) else sizes


class Sglang(Engine):
    """SGLang."""

    name = "sglang"
    title = "SGLang"
    server_flag = "--model-type"  # `sglang serve` handles it before it parses the arguments
    model_flags = ("--model-path", "--model")
    lora_flags: Mapping[str, str] = {
        "modules": "--lora-paths",
        "maxRank": "--max-lora-rank",
        "maxAdapters": "--max-loras-per-batch",
        "maxCpuAdapters": "--max-loaded-loras",
    }
    length_flag = "--context-length"
    sizes = SglangSizes()
    multi_node = SglangNodes()
    kv_cache = SglangKvCache()
    http = HttpServer(
        default_port=30000,  # `ServerArgs.port`
        default_host="127.0.0.1",  # `ServerArgs.host`
        paths_with_api_key=re.compile(r"/(?!health|metrics)"),  # srt/utils: add_api_key_middleware
        keep_alive_variable="SGLANG_TIMEOUT_KEEP_ALIVE",  # 5 s by default (srt/environ.py)
        rejects_unknown_models=False,
        reasoning_fields={"0.5.3": ("reasoning_content",)},
        api_source="SGLang 0.5.3 to 0.5.23, openai/protocol.py",
    )
    telemetry = Telemetry(
        # From SGLang's guide to production metrics.
        load_metrics=LoadMetrics(
            "sglang:num_running_reqs",
            "sglang:num_queue_reqs",
            "sglang:token_usage",
            ttft="sglang:time_to_first_token_seconds",
            itl="sglang:inter_token_latency_seconds",
        ),
        metrics_flag=MetricsFlag(
            "--enable-metrics",
            enables=True,
            message="SGLang serves metrics only with --enable-metrics; add it to the arguments",
        ),
    )


SGLANG = Sglang()
