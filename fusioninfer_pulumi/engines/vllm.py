"""vLLM: the facts about its releases and its command line.

Sources: the source distributions of 0.11.0 to 0.14.0, 0.16.0 to 0.18.0, 0.21.0 to 0.25.0 and
0.33.0, the requirements in the wheels of 0.11.0 to 0.20.0, and the files named in comments.
Releases before 0.11.0 are rejected. Nothing was run on accelerators.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from fusioninfer_pulumi.api.role import Launcher
from fusioninfer_pulumi.engines._shell_words import UNKNOWN
from fusioninfer_pulumi.engines.command_editing import EditError
from fusioninfer_pulumi.engines.command_flags import DASH_VALUE, normalize_flag, parse_integer
from fusioninfer_pulumi.engines.engine import (
    Argument,
    Engine,
    EngineCommand,
    HttpServer,
    MetricsFlag,
    MultiNode,
    Parallelism,
    ParallelSizes,
    Telemetry,
    Word,
    build_rank_argument,
)
from fusioninfer_pulumi.engines.engine_images import ReleaseNumber, format_release
from fusioninfer_pulumi.engines.launchers import OWN_ADDRESS_ENV
from fusioninfer_pulumi.engines.metric_names import VLLM_METRICS
from fusioninfer_pulumi.engines.vllm_kv_cache import VllmKvCache
from fusioninfer_pulumi.findings import Finding, Rule, warning

IMAGE_WITHOUT_RAY = Rule("image-without-ray")
RANKS_ON_LEADER_ALONE = Rule("ranks-on-leader-alone")

#: First release without ray. Wheels up to 0.17.1 require `ray[cgraph]` and later ones do not, and
#: `docker/Dockerfile` of 0.18.0 and 0.33.0 does not install ray.
WITHOUT_RAY: ReleaseNumber = (0, 18, 0)
LAST_WITH_RAY: ReleaseNumber = (0, 17, 1)
#: Moving tags of vllm/vllm-openai; all of them are newer than 0.18.0.
_MOVING_TAGS = ("latest", "nightly")

#: Port of the rendezvous with launcher `multiprocessing`: torch's default, as in FusionInfer's
#: design documents. vLLM's default is 29501.
_MASTER_PORT = 29500

_EXECUTOR_FLAG = "--distributed-executor-backend"
_DATA_FLAGS = ("--data-parallel-size", "-dp")
_LOCAL_FLAGS = ("--data-parallel-size-local", "-dpl")
_RANK_FLAGS = ("--data-parallel-rank", "-dpn")
_EXTERNAL_LB_FLAGS = ("--data-parallel-external-lb", "-dpe")
_DATA_BACKEND_FLAGS = ("--data-parallel-backend", "-dpb")
_MULTI_PORT_FLAGS = ("--data-parallel-multi-port-external-lb", "-dpm")
_ADDRESS_FLAGS = ("--data-parallel-address", "-dpa")
_START_RANK_FLAGS = ("--data-parallel-start-rank", "-dpr")
_HEADLESS = Argument(("--headless",))
# Flags that conflict with the launchers `multiprocessing` and `data-parallel`: `--headless` keeps
# the leader from serving; flags of load balancers (`lb`) make every node serve, which vLLM rejects
# on headless workers; and a fixed rank would be the same on all workers, which share a template.
_LAUNCHER_CONFLICTS = (
    _HEADLESS.names,
    _RANK_FLAGS,
    _START_RANK_FLAGS,
    ("--data-parallel-hybrid-lb", "-dph"),
    _EXTERNAL_LB_FLAGS,
    _MULTI_PORT_FLAGS,
)


class VllmNodes(MultiNode):
    """The launchers of vLLM."""

    launchers = (Launcher.RAY, Launcher.MULTIPROCESSING, Launcher.DATA_PARALLEL)
    ray_data_backend = Argument(_DATA_BACKEND_FLAGS, ("ray",))

    def build_arguments(
        self, command: EngineCommand, launcher: Launcher, nodes: int, *, is_leader: bool
    ) -> list[Argument]:
        # Without a command the image's entrypoint runs, which is `vllm serve` from 0.11.1 on. Older
        # images are not detected here.
        if command.program and not command.is_vllm_serve:
            raise EditError(
                f"launcher: {launcher.value} starts workers with --headless, which only "
                "`vllm serve` accepts; start the engine with `vllm serve`"
            )
        for names in _LAUNCHER_CONFLICTS:
            if command.has(*names):
                raise EditError(
                    f"{names[0]} cannot be used with launcher: {launcher.value}, which assigns the "
                    "ranks and lets only the leader serve; remove it"
                )
        if command.value(*_DATA_BACKEND_FLAGS) == "ray":
            raise EditError(
                f"--data-parallel-backend ray cannot be used with launcher: {launcher.value}; "
                "remove it, or use launcher: ray"
            )
        if launcher is Launcher.DATA_PARALLEL:
            local_ranks = _compute_local_ranks(command, nodes)
            return _build_data_parallel_arguments(local_ranks, is_leader=is_leader)
        return _build_multiprocessing_arguments(nodes, is_leader=is_leader)

    def check_launcher(self, command: EngineCommand, launcher: Launcher) -> list[Finding]:
        if launcher is not Launcher.RAY:
            return []
        findings, location = [], ("multinode", "launcher")
        image, parallelism = command.image, command.parallelism
        has_moving_tag = image.is_stock and (image.tag or "").startswith(_MOVING_TAGS)
        if has_moving_tag or (
            image.stock_release is not None and image.stock_release >= WITHOUT_RAY
        ):
            message = (
                f"the image vllm/vllm-openai:{image.tag} has no ray "
                f"({format_release(LAST_WITH_RAY)} is the last with it); use launcher: "
                "multiprocessing, or an image that adds ray"
            )
            findings.append(warning(IMAGE_WITHOUT_RAY, location, message))
        # Source: vLLM's docs/serving/data_parallel_deployment.md, and `launch_core_engines`.
        has_ray_ranks = command.value(*_DATA_BACKEND_FLAGS) == "ray"
        if parallelism is not None and parallelism.data > 1 and not has_ray_ranks:
            message = (
                "without --data-parallel-backend ray vLLM starts all data parallel ranks on the "
                "leader; add that flag, or use launcher: multiprocessing"
            )
            findings.append(warning(RANKS_ON_LEADER_ALONE, location, message))
        return findings


def _build_multiprocessing_arguments(nodes: int, *, is_leader: bool) -> list[Argument]:
    """Return the arguments that number the nodes and connect them to the leader.

    From `--nnodes` and `--node-rank` vLLM also computes which data parallel ranks a node runs
    (`create_engine_config`, 0.11.1 to 0.33.0).
    """
    arguments = [
        # Without this flag vLLM 0.11.1 chooses the executor `uni` for ranks of one accelerator, and
        # then rejects `--nnodes`. Later releases do not need the flag.
        Argument((_EXECUTOR_FLAG,), ("mp",)),
        Argument(("--nnodes", "-n"), (str(nodes),)),
        build_rank_argument(("--node-rank", "-r"), is_leader=is_leader),
        Argument(
            ("--master-addr",), ("$(LWS_LEADER_ADDRESS)",), in_script='"${LWS_LEADER_ADDRESS}"'
        ),
        Argument(("--master-port",), (str(_MASTER_PORT),)),
    ]
    # Only the leader serves HTTP.
    return arguments if is_leader else [*arguments, _HEADLESS]


def _build_data_parallel_arguments(local_ranks: int, *, is_leader: bool) -> list[Argument]:
    """Return the arguments that run `local_ranks` data parallel ranks on a node.

    Workers run `--headless`, start at their first rank, and connect to the leader's address, as in
    KServe, llm-d and vLLM's `docs/serving/data_parallel_deployment.md`.
    """
    # The leader binds to its own IP address, because it cannot bind to a DNS name.
    address_env = OWN_ADDRESS_ENV if is_leader else "LWS_LEADER_ADDRESS"
    arguments = [
        Argument(_LOCAL_FLAGS, (str(local_ranks),)),
        Argument(_ADDRESS_FLAGS, (f"$({address_env})",), in_script=f'"${address_env}"'),
    ]
    if is_leader:
        return arguments
    # With one rank on each node, a rank is the node's index. Otherwise a shell must compute it.
    values = ("$(LWS_WORKER_INDEX)",) if local_ranks == 1 else ()
    first_rank = f'"$((LWS_WORKER_INDEX * {local_ranks}))"'
    return [*arguments, _HEADLESS, Argument(_START_RANK_FLAGS, values, in_script=first_rank)]


def _compute_local_ranks(command: EngineCommand, nodes: int) -> int:
    """Return the data parallel ranks of one node."""
    ranks = parse_integer(command.value(*_DATA_FLAGS))
    local_ranks = parse_integer(command.value(*_LOCAL_FLAGS))
    if ranks is None:
        raise EditError(
            "launcher: data-parallel divides the ranks of --data-parallel-size among the nodes; "
            "set parallelism.data"
        )
    if local_ranks is None:
        local_ranks = ranks // nodes
    if local_ranks * nodes != ranks:
        raise EditError(
            f"--data-parallel-size {ranks} cannot be divided among {nodes} nodes of {local_ranks} "
            f"ranks each ({_LOCAL_FLAGS[0]})"
        )
    return local_ranks


class VllmSizes(ParallelSizes):
    """The parallel sizes of vLLM."""

    # `vllm/engine/arg_utils.py` 0.11.0 to 0.33.0. vLLM's documentation also uses the abbreviation
    # `--tensor-parallel`, which argparse completes.
    flags: Mapping[str, tuple[str, ...]] = {
        "tensor": ("--tensor-parallel-size", "-tp", "--tensor-parallel"),
        "pipeline": ("--pipeline-parallel-size", "-pp", "--pipeline-parallel"),
        "context": ("--prefill-context-parallel-size", "-pcp"),
        "data": _DATA_FLAGS,
        "data_local": _LOCAL_FLAGS,
    }
    rpc_flags = ("--data-parallel-rpc-port", "-dpp")
    expert_flags = ("--enable-expert-parallel", "-ep")
    rank_port_flags = _MULTI_PORT_FLAGS
    # The supervisor reports the health of a pod's ranks (`dp_supervisor.py`, 0.22.0 and later).
    supervisor_port = ("--data-parallel-supervisor-port", 9256)

    def parse(self, command: EngineCommand) -> Parallelism | None:
        sizes = super().parse(command)
        # With these flags a process runs only one data parallel rank.
        runs_one_rank = command.has(*_RANK_FLAGS, *_EXTERNAL_LB_FLAGS)
        if sizes is not None and sizes.data_local is None and runs_one_rank:
            return sizes._replace(data_local=1)
        return sizes


class Vllm(Engine):
    """vLLM."""

    name = "vllm"
    title = "vLLM"
    # The entrypoint of vllm/vllm-openai starts the engine: `python3 -m
    # vllm.entrypoints.openai.api_server` up to 0.11.0, `vllm serve` from 0.11.1 on
    # (`docker/Dockerfile`).
    image_serves = True
    # `vllm serve --model X` is an error up to 0.11.0 and a warning from 0.11.1 to 0.33.0
    # (`FlexibleArgumentParser`), so the library passes the model to `vllm serve` as a positional
    # argument, which all these releases accept. The library adds the flag only to the arguments of
    # the image's entrypoint and of the older program.
    model_flags = ("--model",)
    lora_flags: Mapping[str, str] = {
        "modules": "--lora-modules",
        "maxRank": "--max-lora-rank",
        "maxAdapters": "--max-loras",
        "maxCpuAdapters": "--max-cpu-loras",
    }
    length_flag = "--max-model-len"
    compile_cache_variable = "VLLM_CACHE_ROOT"
    sizes = VllmSizes()
    multi_node = VllmNodes()
    kv_cache = VllmKvCache()
    http = HttpServer(
        default_port=8000,  # `vllm/entrypoints`
        # entrypoints/serve/middleware/authenticate.py
        paths_with_api_key=re.compile(r"/(v1|v2|inference|cohere)"),
        api_key_variable="VLLM_API_KEY",  # `vllm/envs.py`
        # The default is 5 s (`vllm/envs.py`, 0.11.2 to 0.32.0).
        keep_alive_variable="VLLM_HTTP_TIMEOUT_KEEP_ALIVE",
        # With the default of 0, SIGTERM aborts running requests (`handle_shutdown`, 0.18.0 and
        # later).
        drain_flag="--shutdown-timeout",
        rejects_unknown_models=True,
        reasoning_fields={
            "0.11.0": ("reasoning_content",),
            "0.11.1": ("reasoning", "reasoning_content"),
            "0.16.0": ("reasoning",),
        },
        api_source="vLLM 0.11.0 to 0.33.0, _check_model and ChatMessage",
    )
    telemetry = Telemetry(
        load_metrics=VLLM_METRICS,
        # Besides the log, the flag disables Prometheus metrics (`vllm/v1/engine/async_llm.py`).
        metrics_flag=MetricsFlag(
            "--disable-log-stats",
            enables=False,
            message="vLLM collects no metrics with --disable-log-stats; remove it",
        ),
        tracing_flag="--otlp-traces-endpoint",
    )

    def preprocess_words(self, words: Sequence[Word]) -> list[Word]:
        # As `FlexibleArgumentParser.parse_args` does, up to 0.33.0.
        kept, skips_next = [], False
        for word in words:
            name, equals, value = word.value.partition("=")
            if skips_next:
                skips_next = False
            elif name.startswith("-O"):
                # `-O2` or `-O 2` sets the optimization level.
                skips_next = word.value == "-O"
            elif not name.startswith("-") or DASH_VALUE.fullmatch(word.value):
                kept.append(word)
            elif "." in name:
                # vLLM merges `--flag.key1 1 --flag.key2 2` into one JSON object for `--flag`.
                skips_next = not equals
                flag = normalize_flag(name).partition(".")[0]
                kept.append(Word(f"{flag}={UNKNOWN}", word.location))
            else:
                kept.append(Word(f"{normalize_flag(name)}{equals}{value}", word.location))
        return kept


VLLM = Vllm()
