"""The arguments of a role's `parallelism`, and whether its pods have room for them."""

from __future__ import annotations

from collections.abc import Iterator

from fusioninfer_pulumi.api.parallelism import ParallelismArgs, size_findings
from fusioninfer_pulumi.api.role import Launcher, RoleArgs
from fusioninfer_pulumi.engines.editing import EditError, missing
from fusioninfer_pulumi.engines.engine import Engine, EngineCommand
from fusioninfer_pulumi.engines.launch import LEADER_ADDRESS_ENV
from fusioninfer_pulumi.engines.parallelism import contradictions
from fusioninfer_pulumi.engines.rules import ACCELERATORS_TOO_FEW
from fusioninfer_pulumi.engines.sizes import Sizes
from fusioninfer_pulumi.findings import Finding, Location, Rule, error, info, warning
from fusioninfer_pulumi.kube.containers import with_env
from fusioninfer_pulumi.kube.resources import accelerators, one_rank_each
from fusioninfer_pulumi.pods.pod import Context, Pod, Pods, why_unknown
from fusioninfer_pulumi.pods.rules import COMMAND_NOT_EDITABLE, ENGINE_UNKNOWN
from fusioninfer_pulumi.rules.common import FIELD_WITHOUT_EFFECT

REPLICA_PODS_DERIVED = Rule(
    "replica-pods-derived",
    "info",
    "The number of pods of a replica follows from `parallelism`.",
    remedy="Nothing.",
)
ARGUMENTS_UNREADABLE = Rule(
    "arguments-unreadable",
    "warning",
    "Arguments that may contradict a field can be read.",
    remedy="Write them in plain text.",
)

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
    findings = list(_shortage(at, pods, ctx))
    findings += _unfit(at, args, ctx, command, command.engine)
    explicit = ctx.role.multinode.launcher if ctx.role.multinode is not None else None
    launcher = explicit or ctx.launcher
    sizes = _sizes(args, ctx.nodes, launcher)
    for pod in pods.each():
        if pod.leads or launcher is not Launcher.RAY:
            completed, found = _completed(pod, pods.leader, sizes, args, launcher)
            pods = pods.put(completed)
            findings += found
    counted = ctx.role.multinode is not None and ctx.role.multinode.node_count is not None
    if not counted and ctx.nodes > 1:
        findings.append(info(REPLICA_PODS_DERIVED, at, _pods(args)))
    return _addressed(pods, ctx), findings


def shortage(role: RoleArgs, command: EngineCommand, have: int) -> str | None:
    """Why a pod with so many accelerators cannot hold its share of a model; None when it can.

    A pod that asks for none through resources may have them otherwise.
    """
    args, nodes = role.parallelism, role.nodes
    if args is None or not have:
        return None
    sizes = {"tensor": args.tensor, "pipeline": args.pipeline, "data": args.data}
    need = args.ranks // nodes
    over = f" over {nodes} pods" if nodes > 1 else ""
    if command.engine is not None and command.engine.copies_share_accelerators(command):
        need //= args.data or 1  # its copies share the accelerators of tensor
        del sizes["data"]
    elif args.data_local is not None and nodes > 1:
        del sizes["data"]
        sizes["dataLocal"], over = args.data_local, ""
    if need <= have:
        return None
    explicit = " x ".join(f"{name} {size}" for name, size in sizes.items() if size is not None)
    equals = "=" if over or " x " in explicit else "needs"
    return f"{explicit}{over} {equals} {need} accelerators in each pod, but the pod asks for {have}"


def sizes_refused(role: RoleArgs) -> bool:
    """Whether the sizes of a role do not fit together: what they need is then not to be said."""
    args = role.parallelism
    count = role.multinode.node_count if role.multinode is not None else None
    return args is not None and any(size_findings((), args, count))


def _shortage(at: Location, pods: Pods, ctx: Context) -> Iterator[Finding]:
    if sizes_refused(ctx.role):
        return
    for pod in pods.each():
        if not one_rank_each(pod.template):
            continue
        said = shortage(ctx.role, pods.engine_command, accelerators(pod.template))
        if said is not None:
            yield error(ACCELERATORS_TOO_FEW, at, said)
            return


def _unfit(
    at: Location, args: ParallelismArgs, ctx: Context, command: EngineCommand, engine: Engine
) -> Iterator[Finding]:
    """What the engine has no argument for."""
    explicit = Sizes(
        tensor=args.tensor,
        rpc_port=args.data_rpc_port,
        expert=args.expert,
        port_per_rank=args.port_per_rank,
    )
    refused = engine.check_sizes(explicit)
    yield from (each.under(*at) for each in refused)
    if args.data_rpc_port is not None and ctx.nodes == 1 and not refused:
        message = "has no effect: a replica is a single pod"
        yield warning(FIELD_WITHOUT_EFFECT, (*at, "dataRPCPort"), message)
    if not command.readable:
        yield warning(
            ARGUMENTS_UNREADABLE,
            at,
            "arguments that cannot be read here may contradict it: the engine takes the last of "
            "two",
        )


def _sizes(args: ParallelismArgs, nodes: int, launcher: Launcher | None) -> Sizes:
    local = None
    if nodes > 1 and args.data is not None and launcher is not Launcher.MULTIPROCESSING:
        local = args.data_local or (args.data // nodes if args.data % nodes == 0 else None)
    if args.port_per_rank and local is None:
        local = args.data_local or args.data  # vLLM asks for it
    return Sizes(
        args.tensor,
        args.pipeline,
        args.data,
        local,
        args.data_rpc_port if nodes > 1 else None,
        args.expert,
        args.port_per_rank,
    )


def _completed(
    pod: Pod, leader: Pod, sizes: Sizes, args: ParallelismArgs, launcher: Launcher | None
) -> tuple[Pod, list[Finding]]:
    if not pod.leads and not pod.has_command:
        # It runs what the leader runs, which is complete already.
        run = leader.container
        copied = {key: run[key] for key in ("command", "args") if key in run}
        return pod.with_container(lambda each: {**each, **copied}), []
    command = pod.command
    if command.engine is None:
        return pod, []  # a worker with some other command of its own
    wanted = command.engine.size_arguments(sizes)
    refused = contradictions(command, wanted, expert=args.expert)
    said = [each.at(*pod.command_path) for each in refused]
    if said:
        return pod, said
    in_ray = command.engine.ray_arguments(sizes) if launcher is Launcher.RAY else []
    added = missing(command, [*wanted.values(), *in_ray])
    try:
        return pod.with_arguments(added) if added else pod, []
    except EditError as problem:
        text = " ".join(word for each in added for word in each.words)
        message = f"{text} cannot be added to it: {problem}; write the command as a list"
        return pod, [error(COMMAND_NOT_EDITABLE, pod.command_path, message)]


def _addressed(pods: Pods, ctx: Context) -> Pods:
    """Lets leaders know their own address, where the launcher names it."""
    if ctx.launcher is not Launcher.DATA_PARALLEL:
        return pods
    return pods.put(pods.leader.with_container(lambda each: with_env(each, [_POD_IP])))


def _pods(args: ParallelismArgs) -> str:
    if args.data is not None and args.data_local is not None:
        share = f"data {args.data} / dataLocal {args.data_local}"
    else:
        share = f"one for each of {args.pipeline} pipeline stages"
    return f"a replica has {args.pods} pods: {share}"
