"""How the pods of a replica start together: the workers' template, the launcher's command lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fusioninfer_pulumi.api.role import Launcher, RestartPolicy
from fusioninfer_pulumi.engines import launch as launchers
from fusioninfer_pulumi.engines.command import serving_port
from fusioninfer_pulumi.engines.launch import RAY_PORT, LaunchError
from fusioninfer_pulumi.findings import LIFT, Finding, Rule, error
from fusioninfer_pulumi.kube.outputs import contains_output, output_paths
from fusioninfer_pulumi.pods.pod import Context, Pod, Pods
from fusioninfer_pulumi.rules.common import COMMAND_NOT_EDITABLE

WORKER_COMMAND_LOST = Rule("worker-command-lost")
OUTPUT_IN_COMMAND = Rule("output-in-command")

#: Fields that the serving container of a worker pod does not get: it serves nothing.
LEADER_ONLY = ("livenessProbe", "readinessProbe", "startupProbe", "lifecycle", "ports")

#: Launchers that write a container's command line.
WRAPPING = (Launcher.RAY, Launcher.MULTIPROCESSING, Launcher.DATA_PARALLEL)


def split(pods: Pods, ctx: Context) -> tuple[Pods, list[Finding]]:
    """Gives the workers a template of their own, where a replica has workers."""
    if ctx.nodes == 1:
        return replace(pods, worker=None), []
    return replace(pods, worker=pods.worker or replace(pods.leader, leads=False)), []


def read_engine(pods: Pods, ctx: Context) -> tuple[Pods, list[Finding]]:
    """Keeps the engine's command line, which a launcher may hide in a script, and its port."""
    command = pods.engine_command
    port = serving_port(pods.leader.container, command, ctx.role.port)
    port = pods.kv.pool_port if pods.kv is not None else port
    return replace(pods, command=command, port=port), []


def launch(pods: Pods, ctx: Context) -> tuple[Pods, list[Finding]]:
    """Lets the launcher write the command lines of a replica of several pods."""
    leader, worker = pods.leader, pods.worker
    findings = list(_outputs(leader, ctx.launcher))
    if ctx.launcher not in WRAPPING or worker is None or findings:
        return pods, findings
    # A worker that exits before the ray head is up would restart its group forever.
    retry = ctx.role.restart_policy is RestartPolicy.RECREATE_GROUP_ON_POD_RESTART
    try:
        edited = launchers.launch(leader.command, ctx.launcher, ctx.nodes, leads=True)
        pods = pods.put(leader.with_command(edited))
        # The arguments that passes added to it are for the engine, which runs on the leader.
        explicit = worker.own.get("command") or worker.own.get("args")
        if ctx.role.worker_template is not None and ctx.launcher is Launcher.RAY and explicit:
            message = (
                "would be lost: launcher ray starts ray on the workers; remove the command, or use "
                "launcher: none and write both commands"
            )
            return pods, [error(WORKER_COMMAND_LOST, worker.command_path, message)]
        edited = launchers.launch(worker.command, ctx.launcher, ctx.nodes, leads=False, retry=retry)
        return pods.put(worker.with_command(edited)), []
    except LaunchError as problem:
        return pods, [error(COMMAND_NOT_EDITABLE, leader.command_path, str(problem))]


def ray_port(pods: Pods, ctx: Context) -> tuple[Pods, list[Finding]]:
    """Declares the port of the leader's ray head."""
    if ctx.launcher is not Launcher.RAY:
        return pods, []
    ports = list(pods.leader.container.get("ports") or ())
    if all(port.get("containerPort") != RAY_PORT for port in ports):
        taken = any(port.get("name") == "ray-head" for port in ports)
        name = {} if taken else {"name": "ray-head"}
        ports.append({**name, "containerPort": RAY_PORT})
    return pods.put(pods.leader.with_container(lambda container: {**container, "ports": ports})), []


def rank_ports(pods: Pods, ctx: Context) -> tuple[Pods, list[Finding]]:
    """Declares the ports of ranks that have their own, as a PodMonitor finds only such ports."""
    if ctx.role.parallelism is None or not ctx.role.parallelism.port_per_rank:
        return pods, []
    ports = list(pods.leader.container.get("ports") or ())
    declared = {port.get("containerPort") for port in ports}
    wanted = range(pods.engine_port, pods.engine_port + pods.rank_ports)
    ports += [{"containerPort": port} for port in wanted if port not in declared]
    return pods.put(pods.leader.with_container(lambda container: {**container, "ports": ports})), []


def worker_trim(pods: Pods, _: Context) -> tuple[Pods, list[Finding]]:
    """Takes from workers of the leader's template what only those need that serve.

    A template of their own is what their user wants of them.
    """
    worker = pods.worker
    if worker is None or worker.path != pods.leader.path:
        return pods, []
    trimmed = worker.with_container(
        lambda container: {key: value for key, value in container.items() if key not in LEADER_ONLY}
    )
    return pods.put(trimmed), []


def _outputs(leader: Pod, launcher: Launcher | None) -> Iterator[Finding]:
    """Refuses Outputs among arguments that must be quoted or checked."""
    if leader.own_command.engine is None and launcher not in WRAPPING:
        return
    for key in ("command", "args"):
        if contains_output(leader.own.get(key)):
            for at in output_paths(leader.own[key], (*leader.container_path, key)):
                yield error(OUTPUT_IN_COMMAND, at, LIFT)
