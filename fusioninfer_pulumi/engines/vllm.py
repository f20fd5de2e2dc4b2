"""vLLM: the facts about its releases and its command line.

Read in the source distributions of 0.11.0 to 0.14.0, 0.16.0 to 0.18.0, 0.21.0 to 0.25.0 and
0.33.0, and in the requirements that the wheels of 0.11.0 to 0.20.0 declare. Older releases are
rejected. Nothing was run on accelerators. Facts that are missing here are not checked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from fusioninfer_pulumi.api.role import Launcher
from fusioninfer_pulumi.engines._container_words import UNKNOWN
from fusioninfer_pulumi.engines.command_flags import canonical
from fusioninfer_pulumi.engines.engine import (
    VLLM_METRICS,
    Argument,
    Engine,
    EngineCommand,
    Parallelism,
    Word,
)
from fusioninfer_pulumi.engines.vllm_kv_cache import TRANSFER, VllmKvCache
from fusioninfer_pulumi.engines.vllm_nodes import (
    DATA,
    DATA_BACKEND,
    EXTERNAL_BALANCER,
    LOCAL,
    PORT_PER_RANK,
    RANK,
    VllmNodes,
)

_NUMBER = re.compile(r"-\d+|-\d*\.\d+")


class Vllm(Engine):
    """vLLM."""

    name = "vllm"
    title = "vLLM"
    launcher = Launcher.RAY
    data_launcher = Launcher.DATA_PARALLEL
    default_port = 8000  # `vllm/entrypoints`
    # `vllm/envs.py`; "don't name the service as vllm" of its documents.
    port_variables = ("VLLM_PORT", "VLLM_DP_MASTER_PORT")
    workers_answer = False  # they run `--headless`
    # `vllm/entrypoints/openai/api_server.py` and `vllm/entrypoints/serve`.
    probe_paths = (
        "/ping", "/version", "/metrics", "/load", "/v1/models", "/is_sleeping", "/docs",
        "/openapi.json", "/server_info", "/is_paused",
    )  # fmt: skip
    # entrypoints/serve/middleware/authenticate.py
    paths_with_api_key = re.compile(r"/(v1|v2|inference|cohere)")
    key_variable = "VLLM_API_KEY"
    grpc_flags = ("--grpc",)
    # The entrypoint of vllm/vllm-openai is `python3 -m vllm.entrypoints.openai.api_server` up to
    # 0.11.0 and `vllm serve` from 0.11.1 on (`docker/Dockerfile`). `vllm serve --model X` is an
    # error up to 0.11.0 and a warning from 0.11.1 to 0.33.0 (`FlexibleArgumentParser`), so the
    # model is written as the positional argument, which all of them take.
    image_serves = True
    block_size_flag = "--block-size"
    model_flags = ("--model",)
    # `vllm/engine/arg_utils.py` 0.11.0 to 0.33.0. `--tensor-parallel` is an abbreviation that
    # argparse completes, as vLLM's own documents write it.
    size_flags: Mapping[str, tuple[str, ...]] = {
        "tensor": ("--tensor-parallel-size", "-tp", "--tensor-parallel"),
        "pipeline": ("--pipeline-parallel-size", "-pp", "--pipeline-parallel"),
        "context": ("--prefill-context-parallel-size", "-pcp"),
        "data": DATA,
        "data_local": LOCAL,
    }
    rpc_flags = ("--data-parallel-rpc-port", "-dpp")
    expert_flags = ("--enable-expert-parallel", "-ep")
    rank_port_flags = PORT_PER_RANK
    ray_data_backend = Argument(DATA_BACKEND, ("ray",))
    # `ParallelConfig`: answers once all ranks of the pod do (`dp_supervisor.py`, 0.22.0 and later).
    supervisor = ("--data-parallel-supervisor-port", 9256)
    lora_flags: Mapping[str, str] = {
        "modules": "--lora-modules",
        "max_rank": "--max-lora-rank",
        "max_adapters": "--max-loras",
        "max_cpu_adapters": "--max-cpu-loras",
    }
    transfer_flag = TRANSFER
    offloads_by_connector = True
    events: Mapping[str, bool] = {"enable_kv_cache_events": True}
    model_setup_flags: Mapping[str, tuple[str, ...]] = {
        "dtype": ("--dtype",),
        "cache dtype": ("--kv-cache-dtype",),
        "quantization": ("--quantization", "-q"),
        "revision": ("--revision",),
        "tokenizer": ("--tokenizer",),
        "attention backend": ("--attention-backend",),
        "hybrid cache": ("--disable-hybrid-kv-cache-manager",),
        "speculation": ("--speculative-config", "-sc"),
    }
    length_flag = "--max-model-len"
    keep_alive_variable = "VLLM_HTTP_TIMEOUT_KEEP_ALIVE"  # `vllm/envs.py`, 0.11.2 to 0.32.0: 5 s
    # With 0, the default, running requests are lost at SIGTERM (`handle_shutdown`, from v0.18.0
    # on).
    drain_flag = "--shutdown-timeout"
    rejects_unknown_models = True
    reasoning_names: Mapping[str, tuple[str, ...]] = {
        "0.11.0": ("reasoning_content",),
        "0.11.1": ("reasoning", "reasoning_content"),
        "0.16.0": ("reasoning",),
    }
    api_source = "vLLM 0.11.0 to 0.33.0, _check_model and ChatMessage"
    metrics = VLLM_METRICS
    # The engine then has no loggers, Prometheus's among them (`vllm/v1/engine/async_llm.py`).
    metrics_flag = (
        "--disable-log-stats",
        False,
        "vLLM collects no metrics with --disable-log-stats; remove it",
    )
    tracing_flag = "--otlp-traces-endpoint"
    multi_node = VllmNodes()
    kv_cache = VllmKvCache()

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

    def parallelism(self, command: EngineCommand) -> Parallelism | None:
        sizes = self.read_sizes(command)
        if sizes is None:
            return None
        local = sizes.get("data_local")
        # With these a process runs one data parallel rank, the others run elsewhere.
        if local is None and command.has(*RANK, *EXTERNAL_BALANCER):
            local = 1
        return Parallelism(
            tensor=sizes.get("tensor", 1),
            pipeline=sizes.get("pipeline", 1),
            data=sizes.get("data", 1),
            data_local=local,
            is_explicit=bool(sizes),
            context=sizes.get("context", 1),
        )


VLLM = Vllm()
