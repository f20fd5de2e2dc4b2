"""Passes for multi-node replicas: parallel sizes, the workers' template, launchers' commands."""

from __future__ import annotations

from dataclasses import replace

from fusioninfer_pulumi.api.engine import ParallelismArgs
from fusioninfer_pulumi.api.role import Launcher, RestartPolicy
from fusioninfer_pulumi.engines import launchers
from fusioninfer_pulumi.engines.command_editing import EditError, select_new_arguments
from fusioninfer_pulumi.engines.engine_commands import find_serving_port
from fusioninfer_pulumi.engines.launchers import (
    COMMAND_EDITING_LAUNCHERS,
    OWN_ADDRESS_ENV,
    RAY_PORT,
)
from fusioninfer_pulumi.engines.model_arguments import check_size_arguments
from fusioninfer_pulumi.findings import OUTPUT_HINT, Finding, Rule, error
from fusioninfer_pulumi.kube.containers import add_env, build_field_variable
from fusioninfer_pulumi.kube.pulumi_outputs import has_output, output_paths
from fusioninfer_pulumi.pods.pod import Context, Pod, RolePods, make_unknown_engine_error
from fusioninfer_pulumi.rules.common import COMMAND_NOT_EDITABLE

WORKER_COMMAND_LOST = Rule("worker-command-lost")
OUTPUT_IN_COMMAND = Rule("output-in-command")

#: Fields removed from a worker's serving container. `add_graceful_shutdown` may add a `lifecycle`
#: afterwards.
LEADER_ONLY = ("livenessProbe", "readinessProbe", "startupProbe", "lifecycle", "ports")


def add_parallelism(pods: RolePods, ctx: Context) -> tuple[RolePods, list[Finding]]:
    """Set the arguments of `parallelism`, and the leader's address if the launcher needs it."""
    if ctx.launcher is Launcher.DATA_PARALLEL:
        # The leader's arguments name the address of its own pod.
        address = build_field_variable(OWN_ADDRESS_ENV, "status.podIP")
        leader = pods.leader.with_container(lambda container: add_env(container, [address]))
        pods = pods.with_pod(leader)
    if ctx.role.parallelism is None:
        return pods, []
    args, command = ctx.role.parallelism, pods.command
    if command.engine is None:
        remedy = "write the arguments yourself, and set multinode.nodeCount for several nodes"
        return pods, [make_unknown_engine_error(ctx.locate("parallelism"), command, remedy)]
    findings: list[Finding] = []
    # Launcher ray also affects the arguments of single pods, for which `ctx.launcher` is None.
    user_launcher = ctx.role.multinode.launcher if ctx.role.multinode is not None else None
    launcher = user_launcher or ctx.launcher
    sizes = _complete_sizes(args, ctx.role.nodes, launcher)
    for pod in pods.all:
        if pod.is_leader or launcher is not Launcher.RAY:
            changed, problems = _add_sizes(pod, pods.leader, sizes, launcher)
            pods = pods.with_pod(changed)
            findings += problems
    return pods, findings


def _complete_sizes(
    args: ParallelismArgs, nodes: int, launcher: Launcher | None
) -> ParallelismArgs:
    """Return the sizes with `data_local` if needed, and the RPC port only for multiple nodes."""
    data_local = None
    # With launcher multiprocessing, vLLM computes the ranks of each node from the number of nodes.
    if nodes > 1 and args.data is not None and launcher is not Launcher.MULTIPROCESSING:
        data_local = args.data_local or (args.data // nodes if args.data % nodes == 0 else None)
    if args.port_per_rank and data_local is None:
        data_local = args.data_local or args.data  # vLLM requires it with a port for each rank
    rpc_port = args.data_rpc_port if nodes > 1 else None
    return args.model_copy(update={"data_local": data_local, "data_rpc_port": rpc_port})


def _add_sizes(
    pod: Pod, leader: Pod, sizes: ParallelismArgs, launcher: Launcher | None
) -> tuple[Pod, list[Finding]]:
    if not pod.is_leader and not pod.has_command:
        # The worker runs the leader's command line, which already has the sizes.
        source = leader.container
        fields = {key: source[key] for key in ("command", "args") if key in source}
        return pod.with_fields(**fields), []
    command = pod.command
    if command.engine is None:
        return pod, []  # a worker that does not run an engine
    arguments = command.engine.sizes.build_arguments(sizes)
    problems = list(check_size_arguments(command, arguments, pod.command_path))
    if problems:
        return pod, problems
    backend = command.engine.multi_node.ray_data_backend
    if launcher is Launcher.RAY and (sizes.data or 1) > 1 and backend is not None:
        arguments["ray"] = backend
    added = select_new_arguments(command, list(arguments.values()))
    if not added:
        return pod, []
    text = " ".join(word for argument in added for word in argument.words)
    return pod.with_arguments(added, f"cannot add {text}")


def split_worker_template(pods: RolePods, ctx: Context) -> tuple[RolePods, list[Finding]]:
    """Set the workers' template to the user's or a copy of the leader's; remove it on one node."""
    if ctx.role.nodes == 1:
        return replace(pods, worker=None), []
    return replace(pods, worker=pods.worker or replace(pods.leader, is_leader=False)), []


def record_engine_command(pods: RolePods, ctx: Context) -> tuple[RolePods, list[Finding]]:
    """Record the serving port, and the engine's command line before the launcher changes it.

    The port is the pool's; without KV transfer it is the engine's.
    """
    command = pods.command
    serving_port = find_serving_port(pods.leader.container, command, ctx.role.port)
    port = pods.kv.pool_port if pods.kv is not None else serving_port
    return replace(pods, engine_command=command, port=port), []


def apply_launcher(pods: RolePods, ctx: Context) -> tuple[RolePods, list[Finding]]:
    """Write the launcher's command lines into the pods of a multi-node replica."""
    leader, worker = pods.leader, pods.worker
    findings = []
    if leader.initial_command.engine is not None or ctx.launcher in COMMAND_EDITING_LAUNCHERS:
        # Launchers quote the words of all pods, and checks read the leader's; both need plain text.
        findings = [
            error(OUTPUT_IN_COMMAND, location, OUTPUT_HINT)
            for pod in (pods.user_pods if ctx.launcher in COMMAND_EDITING_LAUNCHERS else [leader])
            for key in ("command", "args")
            if has_output(pod.initial_container.get(key))
            for location in output_paths(pod.initial_container[key], (*pod.container_path, key))
        ]
    if ctx.launcher not in COMMAND_EDITING_LAUNCHERS or worker is None or findings:
        return pods, findings
    # A worker that exits before the Ray head is up would restart its replica forever.
    waits = ctx.role.restart_policy is RestartPolicy.RECREATE_GROUP_ON_POD_RESTART
    try:
        edited = launchers.build_command(
            leader.command, ctx.launcher, ctx.role.nodes, is_leader=True
        )
        pods = pods.with_pod(leader.with_command(edited))
        # Only a command that was set before the passes is an error, because passes also add
        # arguments to workers.
        initial = worker.initial_container
        is_explicit = initial.get("command") or initial.get("args")
        if ctx.role.worker_template is not None and ctx.launcher is Launcher.RAY and is_explicit:
            message = (
                "is replaced by launcher ray, which starts Ray on the workers; remove it, or use "
                "launcher: none and write both commands"
            )
            return pods, [error(WORKER_COMMAND_LOST, worker.command_path, message)]
        edited = launchers.build_command(
            worker.command, ctx.launcher, ctx.role.nodes, is_leader=False, waits=waits
        )
        return pods.with_pod(worker.with_command(edited)), []
    except EditError as exc:
        remedy = "or set launcher: none and write the leader's and the workers' commands yourself"
        message = f"{exc}, {remedy}"
        # The leader is edited first: if that failed, `pods` still has the unedited leader.
        pod = leader if pods.leader is leader else worker
        return pods, [error(COMMAND_NOT_EDITABLE, pod.command_path, message)]


def declare_ports(pods: RolePods, ctx: Context) -> tuple[RolePods, list[Finding]]:
    """Declare the ports of ranks, which PodMonitors need, and of the Ray head."""
    existing = pods.leader.container.get("ports") or ()
    declared, ports = {port.get("containerPort") for port in existing}, list(existing)
    if ctx.launcher is Launcher.RAY and RAY_PORT not in declared:
        is_name_taken = any(port.get("name") == "ray-head" for port in existing)
        ports.append({**({} if is_name_taken else {"name": "ray-head"}), "containerPort": RAY_PORT})
    if ctx.role.parallelism is not None and ctx.role.parallelism.port_per_rank:
        rank_ports = range(pods.engine_port, pods.engine_port + pods.command.port_count)
        ports += [{"containerPort": port} for port in rank_ports if port not in declared]
    return pods.with_pod(pods.leader.with_fields(ports=ports)) if ports else pods, []


def trim_workers(pods: RolePods, _: Context) -> tuple[RolePods, list[Finding]]:
    """Remove probes, hooks and ports from workers, unless the user has a template for them."""
    worker = pods.worker
    if worker is None or worker.path != pods.leader.path:
        return pods, []
    kept = {key: value for key, value in worker.container.items() if key not in LEADER_ONLY}
    return pods.with_pod(worker.with_container(lambda _: kept)), []
