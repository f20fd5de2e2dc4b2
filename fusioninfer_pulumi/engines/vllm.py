"""vLLM: the facts about its releases and its command line.

Sources: the source distributions of 0.11.0 to 0.14.0, 0.16.0 to 0.18.0, 0.21.0 to 0.25.0 and
0.33.0, and the requirements in the wheels of 0.11.0 to 0.20.0. Older releases are rejected. Nothing
was run on accelerators.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from fusioninfer_pulumi.api.role import Launcher
from fusioninfer_pulumi.engines._shell_words import UNKNOWN
from fusioninfer_pulumi.engines.command_editing import EditError
from fusioninfer_pulumi.engines.command_flags import integer, normalize_flag
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
)
from fusioninfer_pulumi.engines.engine_images import Version, format_version
from fusioninfer_pulumi.engines.launchers import LEADER_ADDRESS_ENV, NODES_FLAGS
from fusioninfer_pulumi.engines.metric_names import VLLM_METRICS
from fusioninfer_pulumi.engines.vllm_kv_cache import VllmKvCache
from fusioninfer_pulumi.findings import Finding, Rule, warning

IMAGE_WITHOUT_RAY = Rule("image-without-ray")
RANKS_ON_LEADER_ALONE = Rule("ranks-on-leader-alone")

#: First release without ray. Wheels up to 0.17.1 require `ray[cgraph]` and later ones do not, and
#: `docker/Dockerfile` of 0.18.0 and 0.33.0 does not install ray.
WITHOUT_RAY: Version = (0, 18, 0)
LAST_WITH_RAY: Version = (0, 17, 1)
#: Moving tags of vllm/vllm-openai; all of them are newer than 0.18.0.
_MOVING_TAGS = ("latest", "nightly")

#: Port of the multi-node rendezvous. It is torch's default, as in FusionInfer's later design
#: document; vLLM's default is 29501. Data parallel ranks use other ports, which the leader chooses.
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
# Flags that conflict with the launchers: `--headless` keeps the leader from serving; flags of load
# balancers make every node serve, which vLLM rejects on headless workers; and a fixed rank would be
# the same on all nodes, because they share a template.
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
            return _build_rank_arguments(_compute_local_ranks(command, nodes), is_leader=is_leader)
        return _build_node_arguments(nodes, is_leader=is_leader)

    def check_launcher(self, command: EngineCommand, launcher: Launcher) -> list[Finding]:
        if launcher is not Launcher.RAY:
            return []
        findings, at = [], ("multinode", "launcher")
        image, parallelism = command.image, command.parallelism
        is_moving = image.is_stock and (image.tag or "").startswith(_MOVING_TAGS)
        if is_moving or (image.version is not None and image.version >= WITHOUT_RAY):
            message = (
                f"the image vllm/vllm-openai:{image.tag} has no ray "
                f"({format_version(LAST_WITH_RAY)} is the last with it); use launcher: "
                "multiprocessing, or an image that adds ray"
            )
            findings.append(warning(IMAGE_WITHOUT_RAY, at, message))
        # vLLM's docs/serving/data_parallel_deployment.md, and `launch_core_engines`.
        has_ray_ranks = command.value(*_DATA_BACKEND_FLAGS) == "ray"
        if parallelism is not None and parallelism.data > 1 and not has_ray_ranks:
            message = (
                "without --data-parallel-backend ray vLLM starts all data parallel ranks on the "
                "leader; add that flag, or use launcher: multiprocessing"
            )
            findings.append(warning(RANKS_ON_LEADER_ALONE, at, message))
        return findings


def _build_node_arguments(nodes: int, *, is_leader: bool) -> list[Argument]:
    """Return the arguments that give every node its rank.

    vLLM divides data parallel ranks among the nodes by `--nnodes` and `--node-rank`
    (`create_engine_config`, 0.11.1 to 0.33.0).
    """
    index, leader = "LWS_WORKER_INDEX", "LWS_LEADER_ADDRESS"
    rank = Argument(("--node-rank", "-r"), ("0",))
    if not is_leader:
        rank = Argument(rank.names, (f"$({index})",), in_script=f'"${{{index}}}"')
    arguments = [
        # Without this flag vLLM 0.11.1 chooses the executor `uni` for ranks of one accelerator, and
        # then rejects `--nnodes`. Later releases do not need the flag.
        Argument((_EXECUTOR_FLAG,), ("mp",)),
        Argument(NODES_FLAGS, (str(nodes),)),
        rank,
        Argument(("--master-addr",), (f"$({leader})",), in_script=f'"${{{leader}}}"'),
        Argument(("--master-port",), (str(_MASTER_PORT),)),
    ]
    # Only the leader serves HTTP.
    return arguments if is_leader else [*arguments, _HEADLESS]


def _build_rank_arguments(local: int, *, is_leader: bool) -> list[Argument]:
    """Return the arguments that run `local` data parallel ranks on a node.

    Workers run `--headless`, start at their first rank, and connect to the leader's address, as in
    KServe, llm-d and vLLM's `docs/serving/data_parallel_deployment.md`.
    """
    address = LEADER_ADDRESS_ENV if is_leader else "LWS_LEADER_ADDRESS"
    arguments = [
        Argument(_LOCAL_FLAGS, (str(local),)),
        Argument(_ADDRESS_FLAGS, (f"$({address})",), in_script=f'"${address}"'),
    ]
    if is_leader:
        return arguments
    # With one rank on each node, a rank is the node's index. Otherwise a shell must compute it.
    values = ("$(LWS_WORKER_INDEX)",) if local == 1 else ()
    first = Argument(_START_RANK_FLAGS, values, in_script=f'"$((LWS_WORKER_INDEX * {local}))"')
    return [*arguments, _HEADLESS, first]


def _compute_local_ranks(command: EngineCommand, nodes: int) -> int:
    data, local = integer(command.value(*_DATA_FLAGS)), integer(command.value(*_LOCAL_FLAGS))
    if data is None:
        raise EditError(
            "launcher: data-parallel divides the ranks of --data-parallel-size among the nodes; "
            "set parallelism.data"
        )
    if local is None and data % nodes == 0:
        return data // nodes
    if local is None or local * nodes != data:
        share = "" if local is None else f" of {local} ranks each ({_LOCAL_FLAGS[0]})"
        raise EditError(f"--data-parallel-size {data} cannot be divided among {nodes} nodes{share}")
    return local


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
    supervisor = ("--data-parallel-supervisor-port", 9256)

    def read(self, command: EngineCommand) -> Parallelism | None:
        sizes = super().read(command)
        if sizes is None or sizes.data_local is not None:
            return sizes
        # With these flags a process runs only one data parallel rank.
        has_one_rank = command.has(*_RANK_FLAGS, *_EXTERNAL_LB_FLAGS)
        return sizes._replace(data_local=1) if has_one_rank else sizes


_NUMBER = re.compile(r"-\d+|-\d*\.\d+")


class Vllm(Engine):
    """vLLM."""

    name = "vllm"
    title = "vLLM"
    # The entrypoint of vllm/vllm-openai is `python3 -m vllm.entrypoints.openai.api_server` up to
    # 0.11.0 and `vllm serve` from 0.11.1 on (`docker/Dockerfile`). `vllm serve --model X` is an
    # error up to 0.11.0 and a warning from 0.11.1 to 0.33.0 (`FlexibleArgumentParser`), so the
    # library passes the model as a positional argument, which all these releases accept.
    image_serves = True
    model_flags = ("--model",)
    lora_flags: Mapping[str, str] = {
        "modules": "--lora-modules",
        "max_rank": "--max-lora-rank",
        "max_adapters": "--max-loras",
        "max_cpu_adapters": "--max-cpu-loras",
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

    def preprocess_words(self, command: EngineCommand, words: Sequence[Word]) -> list[Word]:
        # `FlexibleArgumentParser.parse_args`, up to 0.33.0. `-O` sets the optimization level.
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
                # `--flag.key`: vLLM merges the keys into one JSON object.
                skip = not equals
                head = normalize_flag(name).partition(".")[0]
                kept.append(Word(f"{head}={UNKNOWN}", word.place))
            else:
                kept.append(Word(f"{normalize_flag(name)}{equals}{value}", word.place))
        return kept


VLLM = Vllm()
