"""vLLM on several nodes: with ray, with multiprocessing, or a share of data parallel ranks each."""

from __future__ import annotations

from fusioninfer_pulumi.api.role import Launcher
from fusioninfer_pulumi.engines.command_editing import EditError
from fusioninfer_pulumi.engines.command_flags import integer
from fusioninfer_pulumi.engines.engine import Argument, EngineCommand, MultiNode
from fusioninfer_pulumi.engines.engine_images import Version, version_text
from fusioninfer_pulumi.engines.launchers import (
    LEADER_ADDRESS_ENV,
    NODES,
)
from fusioninfer_pulumi.findings import Finding, Rule, warning

IMAGE_WITHOUT_RAY = Rule("image-without-ray")
RANKS_ON_LEADER_ALONE = Rule("ranks-on-leader-alone")

#: First release without ray. The wheels up to 0.17.1 require `ray[cgraph]`, those of
#: 0.18.0 and later do not, and `docker/Dockerfile` of 0.18.0 and 0.33.0 installs none.
WITHOUT_RAY: Version = (0, 18, 0)
LAST_WITH_RAY: Version = (0, 17, 1)
#: Moving tags of vllm/vllm-openai. They only move forward, and were past 0.18.0 when this was read.
_MOVING_TAGS = ("latest", "nightly")

#: Port of the multi-node rendezvous: torch's own default, which FusionInfer's later design writes
#: (vLLM's default is 29501; its data parallel ports are free ports that the head picks).
MASTER_PORT = 29500

EXECUTOR = "--distributed-executor-backend"
DATA = ("--data-parallel-size", "-dp")
LOCAL = ("--data-parallel-size-local", "-dpl")
RANK = ("--data-parallel-rank", "-dpn")
EXTERNAL_BALANCER = ("--data-parallel-external-lb", "-dpe")
DATA_BACKEND = ("--data-parallel-backend", "-dpb")
PORT_PER_RANK = ("--data-parallel-multi-port-external-lb", "-dpm")
_ADDRESS = ("--data-parallel-address", "-dpa")
_START_RANK = ("--data-parallel-start-rank", "-dpr")
_HEADLESS = Argument(("--headless",))
# With these every node serves an endpoint or has a fixed rank: vLLM rejects them together with
# `--headless`, or one template cannot set them for every node. With `--headless` itself the leader
# would not serve.
_OWN_RANKS = (
    _HEADLESS.names,
    RANK,
    _START_RANK,
    ("--data-parallel-hybrid-lb", "-dph"),
    EXTERNAL_BALANCER,
    PORT_PER_RANK,
)


class VllmNodes(MultiNode):
    """The launchers of vLLM."""

    launchers = (Launcher.RAY, Launcher.MULTIPROCESSING, Launcher.DATA_PARALLEL)

    def arguments(
        self, command: EngineCommand, launcher: Launcher, nodes: int, *, is_leader: bool
    ) -> list[Argument]:
        # Without a command the entrypoint of the image runs, which is `vllm serve`.
        if command.program and not command.serve:
            raise EditError(
                f"launcher: {launcher.value} starts workers with --headless, which only "
                "`vllm serve` obeys: start the engine with `vllm serve`"
            )
        for names in _OWN_RANKS:
            if command.has(*names):
                raise EditError(
                    f"{names[0]} cannot be used with launcher: {launcher.value}, where the leader "
                    "alone serves and every node gets its ranks: leave it out"
                )
        if command.value(*DATA_BACKEND) == "ray":
            raise EditError(
                f"--data-parallel-backend ray cannot be used with launcher: {launcher.value}: "
                "leave it out, use launcher: ray"
            )
        if launcher is Launcher.DATA_PARALLEL:
            return _rank_arguments(_local_ranks(command, nodes), is_leader=is_leader)
        return _node_arguments(nodes, is_leader=is_leader)

    def check_launcher(self, command: EngineCommand, launcher: Launcher) -> list[Finding]:
        if launcher is not Launcher.RAY:
            return []
        findings = []
        image, parallelism = command.image, command.parallelism
        moving = image.stock and (image.tag or "").startswith(_MOVING_TAGS)
        if moving or (image.version is not None and image.version >= WITHOUT_RAY):
            message = (
                f"the image vllm/vllm-openai:{image.tag} has no ray "
                f"({version_text(LAST_WITH_RAY)} is the last with it): use launcher: "
                "multiprocessing, or an image that adds ray"
            )
            findings.append(warning(IMAGE_WITHOUT_RAY, ("multinode", "launcher"), message))
        # Documented in docs/serving/data_parallel_deployment.md; read in `launch_core_engines`.
        ray_ranks = command.value(*DATA_BACKEND) == "ray"
        if parallelism is not None and parallelism.data > 1 and not ray_ranks:
            message = (
                "without --data-parallel-backend ray vLLM starts all data parallel ranks on the "
                "leader: add it, or use launcher: multiprocessing"
            )
            findings.append(warning(RANKS_ON_LEADER_ALONE, (), message))
        return findings


def _node_arguments(nodes: int, *, is_leader: bool) -> list[Argument]:
    """Run the same command on every node, with the node's rank.

    Data parallel ranks need no further arguments: vLLM divides them among the nodes by
    `--nnodes` and `--node-rank` (`create_engine_config`, 0.11.1 to 0.33.0).
    """
    index, leader = "LWS_WORKER_INDEX", "LWS_LEADER_ADDRESS"
    rank = Argument(("--node-rank", "-r"), ("0",))
    if not is_leader:
        rank = Argument(rank.names, (f"$({index})",), in_script=f'"${{{index}}}"')
    arguments = [
        # vLLM 0.11.1 chooses the executor `uni` for ranks of one accelerator and then rejects
        # `--nnodes`; later releases choose `mp` or `uni` themselves.
        Argument((EXECUTOR,), ("mp",)),
        Argument(NODES, (str(nodes),)),
        rank,
        Argument(("--master-addr",), (f"$({leader})",), in_script=f'"${{{leader}}}"'),
        Argument(("--master-port",), (str(MASTER_PORT),)),
    ]
    # Only the leader serves HTTP.
    return arguments if is_leader else [*arguments, _HEADLESS]


def _rank_arguments(local: int, *, is_leader: bool) -> list[Argument]:
    """Run the data parallel ranks of a node, as many as `local`.

    As KServe and llm-d launch them, and `docs/serving/data_parallel_deployment.md` of vLLM
    describes: the other nodes run `--headless` from their first rank on, and find the leader by
    its address.
    """
    address = LEADER_ADDRESS_ENV if is_leader else "LWS_LEADER_ADDRESS"
    arguments = [
        Argument(LOCAL, (str(local),)),
        # `$NAME` is expanded by the shell alone; the kubelet would expand $(NAME) too.
        Argument(_ADDRESS, (f"$({address})",), in_script=f'"${address}"'),
    ]
    if is_leader:
        return arguments
    # With one rank a node, the rank is the node's index: no arithmetic is needed.
    values = ("$(LWS_WORKER_INDEX)",) if local == 1 else ()
    first = Argument(_START_RANK, values, in_script=f'"$((LWS_WORKER_INDEX * {local}))"')
    return [*arguments, _HEADLESS, first]


def _local_ranks(command: EngineCommand, nodes: int) -> int:
    """Return data parallel ranks on each node."""
    data, local = integer(command.value(*DATA)), integer(command.value(*LOCAL))
    if data is None:
        raise EditError(
            "launcher: data-parallel divides the ranks of --data-parallel-size among the nodes: "
            "set parallelism.data and dataLocal"
        )
    if local is None and data % nodes == 0:
        return data // nodes
    if local is None or local * nodes != data:
        share = "" if local is None else f" of {local} ranks each ({LOCAL[0]})"
        raise EditError(f"--data-parallel-size {data} cannot be divided among {nodes} nodes{share}")
    return local
