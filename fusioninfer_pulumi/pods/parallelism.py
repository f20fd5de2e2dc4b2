"""The arguments of a role's `parallelism`, and whether its pods have room for them."""

from __future__ import annotations

from fusioninfer_pulumi.api.parallelism import ParallelismArgs
from fusioninfer_pulumi.api.role import Launcher
from fusioninfer_pulumi.engines.editing import EditError, missing
from fusioninfer_pulumi.engines.launch import LEADER_ADDRESS_ENV
from fusioninfer_pulumi.engines.parallelism import contradictions
from fusioninfer_pulumi.findings import Finding, error
from fusioninfer_pulumi.kube.containers import with_env
from fusioninfer_pulumi.pods.pod import Context, Pod, Pods, why_unknown
from fusioninfer_pulumi.rules.common import COMMAND_NOT_EDITABLE, ENGINE_UNKNOWN

_POD_IP = {"name": LEADER_ADDRESS_ENV, "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}


def parallelism(pods: Pods, ctx: Context) -> tuple[Pods, list[Finding]]:
    """Adds the arguments of the sizes, and the leader's address where a launcher needs it."""
    if ctx.role.parallelism is None:
        return _addressed(pods, ctx), []
    at = ctx.at("parallelism")
    args, command = ctx.role.parallelism, pods.engine_command
    if command.engine is None:
        message = f"sets arguments of vLLM or SGLang, but {why_unknown(command)}"
        message = f"{message}; write the arguments yourself, with multinode"
        return pods, [error(ENGINE_UNKNOWN, at, message)]
    findings: list[Finding] = []
    explicit = ctx.role.multinode.launcher if ctx.role.multinode is not None else None
    launcher = explicit or ctx.launcher
    sizes = _sizes(args, ctx.nodes, launcher)
    for pod in pods.each():
        if pod.leads or launcher is not Launcher.RAY:
            completed, problems = _completed(pod, pods.leader, sizes, launcher)
            pods = pods.put(completed)
            findings += problems
    return _addressed(pods, ctx), findings


def _sizes(args: ParallelismArgs, nodes: int, launcher: Launcher | None) -> ParallelismArgs:
    local = None
    if nodes > 1 and args.data is not None and launcher is not Launcher.MULTIPROCESSING:
        local = args.data_local or (args.data // nodes if args.data % nodes == 0 else None)
    if args.port_per_rank and local is None:
        local = args.data_local or args.data  # vLLM asks for it
    port = args.data_rpc_port if nodes > 1 else None
    return args.model_copy(update={"data_local": local, "data_rpc_port": port})


def _completed(
    pod: Pod, leader: Pod, sizes: ParallelismArgs, launcher: Launcher | None
) -> tuple[Pod, list[Finding]]:
    if not pod.leads and not pod.has_command:
        # It runs the leader's command line, which is complete already.
        run = leader.container
        copied = {key: run[key] for key in ("command", "args") if key in run}
        return pod.with_container(lambda container: {**container, **copied}), []
    command = pod.command
    if command.engine is None:
        return pod, []  # a worker with some other command of its own
    wanted = command.engine.size_arguments(sizes)
    refused = contradictions(command, wanted, expert=sizes.expert)
    problems = [finding.at(*pod.command_path) for finding in refused]
    if problems:
        return pod, problems
    in_ray = command.engine.ray_arguments(sizes) if launcher is Launcher.RAY else []
    added = missing(command, [*wanted.values(), *in_ray])
    try:
        return pod.with_arguments(added) if added else pod, []
    except EditError as problem:
        text = " ".join(word for argument in added for word in argument.words)
        message = f"{text} cannot be added to it: {problem}; write the command as a list"
        return pod, [error(COMMAND_NOT_EDITABLE, pod.command_path, message)]


def _addressed(pods: Pods, ctx: Context) -> Pods:
    """Lets leaders know their own address, where the launcher names it."""
    if ctx.launcher is not Launcher.DATA_PARALLEL:
        return pods
    return pods.put(pods.leader.with_container(lambda container: with_env(container, [_POD_IP])))
