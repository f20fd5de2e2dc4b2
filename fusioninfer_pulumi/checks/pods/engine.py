"""What an engine needs of its pods, launcher and image."""

from __future__ import annotations

from collections.abc import Iterator

from fusioninfer_pulumi.checks.pods.parallelism import shortage, sizes_refused
from fusioninfer_pulumi.checks.rules import ROLE_PARKED
from fusioninfer_pulumi.engines.parallelism import check_accelerators
from fusioninfer_pulumi.findings import Finding, Rule, info, warning
from fusioninfer_pulumi.kube.resources import accelerators, one_rank_each
from fusioninfer_pulumi.pods.build import RolePods
from fusioninfer_pulumi.pods.launch import LEADER_ONLY
from fusioninfer_pulumi.pods.pod import Context
from fusioninfer_pulumi.pods.rules import PODS_DERIVED
from fusioninfer_pulumi.rules.common import FIELD_WITHOUT_EFFECT

PROGRAM_IN_ARGS = Rule(
    "program-in-args",
    "warning",
    "The words in `args` are arguments, not the program itself.",
    remedy="Move the program to `command`.",
)


def engine_findings(pods: RolePods, ctx: Context) -> Iterator[Finding]:
    """Yields what the engine's arguments need, and pods, launcher and image do not have."""
    command, at, engine = pods.command, pods.leader.command_path, pods.command.engine
    findings: list[Finding] = []
    have, *others = {accelerators(pod.template) for pod in pods.each}
    # Nothing is counted of pods that claim devices (DRA) or ask for none, nor of devices that hold
    # several ranks, such as Neuron devices.
    counted = have and not others and one_rank_each(pods.leader.template)
    # Accelerators that do not fit `parallelism` are an error of that field.
    if counted and not sizes_refused(ctx.role) and shortage(ctx.role, command, have) is None:
        findings += check_accelerators(command, have, ctx.nodes)
    if ctx.launcher is not None and engine is not None:
        for finding in engine.check_image(command, ctx.launcher):
            yield finding.at(*ctx.at("multinode", "launcher"))
        for finding in engine.check_launch(command, ctx.launcher, ctx.nodes):
            yield finding.at(*at)
    if engine is not None:
        findings += engine.check_connector(command)
        findings += engine.check_tracing(command) if pods.traced else []
    if pods.leader.command.program_in_args:
        yield warning(
            PROGRAM_IN_ARGS,
            at,
            "vLLM's image starts the engine by itself and gets these words as its arguments: move "
            f'"{" ".join(command.program)}" to command',
        )
    yield from (finding.at(*at) for finding in findings)


def worker_findings(pods: RolePods, _: Context) -> Iterator[Finding]:
    """Says what workers do not get of the template that they share with their leader."""
    worker = pods.worker
    if worker is None or worker.path != pods.leader.path:
        return
    trimmed = [key for key in LEADER_ONLY if worker.own.get(key)]
    if trimmed:
        keys = ", ".join(trimmed)
        message = f"worker pods do not get {keys}: only the leader of a replica serves"
        yield info(PODS_DERIVED, worker.container_path, message)


def role_advice(_: RolePods, ctx: Context) -> Iterator[Finding]:
    """Says that a role is parked, or that its launcher has no effect."""
    if not ctx.role.replicas:
        message = "is 0: the role is parked, no pods of it are made"
        yield info(ROLE_PARKED, ctx.at("replicas"), message)
    explicit = ctx.role.multinode.launcher if ctx.role.multinode else None
    if ctx.nodes == 1 and explicit and ctx.role.counted:
        message = "has no effect: a replica is a single pod"
        yield warning(FIELD_WITHOUT_EFFECT, ctx.at("multinode", "launcher"), message)
