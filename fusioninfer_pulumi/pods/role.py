"""Plans one role: its replicas, accelerators, serving container and launch commands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fusioninfer_pulumi.api.role import Launcher, RestartPolicy, RoleArgs
from fusioninfer_pulumi.api.rollout import Layout
from fusioninfer_pulumi.api.topology import nodes_per_replica
from fusioninfer_pulumi.api.tracing import TracingArgs
from fusioninfer_pulumi.engines.command import read_command, serving_container, serving_port
from fusioninfer_pulumi.engines.engine import EngineCommand
from fusioninfer_pulumi.engines.launch import LaunchError, default_launcher, launch
from fusioninfer_pulumi.engines.parallelism import check_accelerators
from fusioninfer_pulumi.findings import (
    LIFT,
    Finding,
    error,
    info,
    join,
    parse_path,
    path_text,
    warning,
)
from fusioninfer_pulumi.kube import names
from fusioninfer_pulumi.kube.outputs import contains_output, output_paths
from fusioninfer_pulumi.kube.resources import accelerators, one_rank_each
from fusioninfer_pulumi.pods.checks import port_findings, unit_findings
from fusioninfer_pulumi.pods.kv_transfer import wired
from fusioninfer_pulumi.pods.parallelism import shortage, sizes_refused
from fusioninfer_pulumi.pods.records import Disaggregation
from fusioninfer_pulumi.pods.tracing import traced, tracing_env
from fusioninfer_pulumi.topology.role import ReplicaPlan, RolePlan, ServingContainer, SetPlan

#: What a worker pod's serving container does not get: it serves nothing.
LEADER_ONLY = ("livenessProbe", "readinessProbe", "startupProbe", "lifecycle", "ports")

#: Launchers that write a container's words.
WRAPPING = (Launcher.RAY, Launcher.MULTIPROCESSING, Launcher.DATA_PARALLEL)


def role_plan(
    service: str,
    position: int,
    args: RoleArgs,
    disaggregation: Disaggregation | None = None,
    layout: Layout = Layout.PER_REPLICA,
    groups: int | None = None,
    tracing: TracingArgs | None = None,
) -> tuple[RolePlan, list[Finding]]:
    """Plans a role that runs pods.

    Args:
        service: Name of the service.
        position: Index of the role in the spec.
        args: The role, valid by the spec's rules.
        disaggregation: The service's pairing of prefill with decode, None without.
        layout: Which LeaderWorkerSets run the replicas.
        groups: Serving groups of the service, None without.
        tracing: The service's traces, None without.

    Returns:
        The plan, and what is to be said about the role by itself.
    """
    leader_field = "template" if args.template is not None else "leaderTemplate"
    worker_field = "template" if args.template is not None else "workerTemplate"
    leader_template = args.template or args.leader_template or {}
    worker_template = args.template or args.worker_template or {}
    container = serving_container(leader_template, args.container)
    worker = serving_container(worker_template or leader_template, _worker_name(args, container))
    nodes = nodes_per_replica(args)
    launcher = _launcher(args, read_command(container)) if nodes > 1 else None
    at = _container_path(position, leader_field, leader_template, container)
    worker_at = _container_path(position, worker_field, worker_template, worker)
    command_at = f"{at}.{_command_field(container)}"

    findings = list(_output_findings(at, container, read_command(container), launcher))
    written = container
    wire = wired(position, args, leader_template, (container, worker), command_at, disaggregation)
    wire, traces = traced(wire, tracing, position, command_at)
    container, worker = wire.leader, wire.worker
    command = read_command(container)
    leader_launch, worker_launch = wire.leader_edit, wire.worker_edit
    if launcher in WRAPPING and not findings:
        own = args.worker_template is not None
        try:
            leader_launch = launch(command, launcher.value, nodes, leads=True)
            if own and launcher is Launcher.RAY and _has_command(worker):
                findings.append(
                    error(
                        f"{worker_at}.{_command_field(worker)}",
                        "would be lost: launcher ray starts ray on the workers; remove the "
                        "command, or use launcher: none and write both commands",
                    )
                )
            else:
                worker_launch = launch(
                    read_command(worker),
                    launcher.value,
                    nodes,
                    leads=False,
                    retry=_recreates_early(args),
                )
        except LaunchError as problem:
            findings.append(error(command_at, str(problem)))
    plan = RolePlan(
        position=position,
        args=args,
        serving=ServingContainer(
            container["name"],
            wire.wiring.pool_port if wire.wiring else serving_port(container, command, args.port),
            command,
        ),
        sets=_sets(service, args, layout, groups),
        nodes=nodes,
        leader_accelerators=accelerators(leader_template),
        worker_accelerators=accelerators(worker_template) if nodes > 1 else 0,
        launcher=launcher,
        leader_launch=leader_launch,
        worker_launch=worker_launch,
        wiring=wire.wiring,
        scaled_externally=args.autoscaling is not None,
        env=tracing_env(tracing, f"{service}-{args.name}") if tracing and traces else (),
    )
    findings += wire.findings
    findings += unit_findings(("roles", position, leader_field), leader_template)
    if worker_field != leader_field:
        findings += unit_findings(("roles", position, worker_field), worker_template)
    if wire.wiring is None or wire.wiring.sidecar is None:
        findings += port_findings(plan, leader_template, written, command_at)
    findings += _engine_findings(plan, command_at)
    findings += _advice(plan, worker, worker_at)
    return plan, findings


def _sets(service: str, args: RoleArgs, layout: Layout, groups: int | None) -> tuple[SetPlan, ...]:
    indexes = [None] if groups is None else range(groups)
    return tuple(each for group in indexes for each in _group_sets(service, args, layout, group))


def _group_sets(
    service: str, args: RoleArgs, layout: Layout, group: int | None
) -> tuple[SetPlan, ...]:
    replicas = tuple(
        ReplicaPlan(
            index,
            names.leader_worker_set(service, args.name, index, group),
            names.task(args.name, index),
            group,
        )
        for index in range(args.replicas)
    )
    if layout is Layout.PER_REPLICA or not replicas:
        return tuple(SetPlan(each.name, each.task, (each,), each.index, group) for each in replicas)
    return (SetPlan(names.role_set(service, args.name, group), args.name, replicas, None, group),)


def _launcher(args: RoleArgs, command: EngineCommand) -> Launcher:
    stated = args.multinode.launcher if args.multinode else None
    if stated is not None:
        return stated
    # Whoever writes two templates has written two commands.
    if args.worker_template is not None:
        return Launcher.NONE
    return Launcher(default_launcher(command.engine, args.nodes))


def _recreates_early(args: RoleArgs) -> bool:
    """Whether a worker that gives up before the ray head is up would restart its group for ever."""
    return args.restart_policy is RestartPolicy.RECREATE_GROUP_ON_POD_RESTART


def _worker_name(args: RoleArgs, leader: Mapping[str, Any]) -> str | None:
    return args.container or str(leader["name"])


def _container_path(
    position: int, field: str, template: Mapping[str, Any], container: Mapping[str, Any]
) -> str:
    listed = template["spec"]["containers"] if template else [container]
    return join("roles", position, field, "spec", "containers", listed.index(container))


def _has_command(container: Mapping[str, Any]) -> bool:
    return bool(container.get("command") or container.get("args"))


def _command_field(container: Mapping[str, Any]) -> str:
    return "args" if container.get("args") or not container.get("command") else "command"


def _output_findings(
    at: str,
    container: Mapping[str, Any],
    command: EngineCommand,
    launcher: Launcher | None,
) -> Iterator[Finding]:
    """Refuses Outputs among arguments that must be quoted or checked."""
    wrapped = launcher in WRAPPING
    if command.engine is None and not wrapped:
        return
    for key in ("command", "args"):
        if contains_output(container.get(key)):
            for path in output_paths(container[key], (key,)):
                yield error(f"{at}.{path_text(path)}", LIFT)


def _engine_findings(plan: RolePlan, at: str) -> Iterator[Finding]:
    command = plan.serving.command
    engine, written = command.engine, parse_path(at)
    found: list[Finding] = []
    sizes = set(plan.pod_sizes)
    # Asked for through DRA claims, or not at all: there is nothing to count. A device that holds
    # several ranks, such as a Neuron device, says nothing about how many there are.
    if len(sizes) == 1 and plan.leader_accelerators and one_rank_each(plan.leader_template):
        have = plan.leader_accelerators
        # What `parallelism` cannot hold was said there, in its own words.
        if not sizes_refused(plan.args) and shortage(plan.args, command, have) is None:
            found += check_accelerators(command, have, plan.nodes)
    if plan.launcher is not None and engine is not None:
        for each in engine.check_launch(command, plan.launcher.value, plan.nodes):
            # Without a flag, a finding is about the launcher that the image does not fit.
            launcher = ("roles", plan.position, "multinode", "launcher")
            yield each.at(*(written if each.location else launcher))
    if engine is not None:
        found += engine.check_connector(command)
    if plan.leader_launch is None and command.program_in_args:
        yield warning(
            at,
            "vLLM's image starts the engine by itself and gets these words as its arguments: move "
            f'"{" ".join(command.program)}" to command',
        )
    yield from (each.at(*written) for each in found)


def _advice(plan: RolePlan, worker: Mapping[str, Any], worker_at: str) -> Iterator[Finding]:
    role = join("roles", plan.position)
    if not plan.args.replicas:
        yield info(f"{role}.replicas", "is 0: the role is parked, no pods of it are made")
    stated = plan.args.multinode.launcher if plan.args.multinode else None
    if plan.nodes == 1 and stated and plan.args.counted:
        yield warning(f"{role}.multinode.launcher", "has no effect: a replica is a single pod")
    if plan.nodes > 1:
        lost = [key for key in LEADER_ONLY if worker.get(key)]
        if lost:
            yield info(
                worker_at,
                f"worker pods do not get {', '.join(lost)}: only the leader of a replica serves",
            )
