"""Checks of the engine's arguments against its release, pods, launcher and image."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fusioninfer_pulumi.checks.pods.parallelism import shortage, sizes_refused
from fusioninfer_pulumi.engines.argument_checks import check_added, check_arguments, check_value
from fusioninfer_pulumi.engines.arguments import argument_table, release_numbers
from fusioninfer_pulumi.engines.parallelism import check_accelerators
from fusioninfer_pulumi.engines.variables import plain_variables
from fusioninfer_pulumi.findings import Finding, Location, Rule, error, warning
from fusioninfer_pulumi.kube.resources import accelerators, one_rank_each
from fusioninfer_pulumi.pods.pod import PAIRED, Context, Pod, RolePods
from fusioninfer_pulumi.rules.common import FIELD_WITHOUT_EFFECT

PROGRAM_IN_ARGS = Rule(
    "program-in-args",
    "warning",
    "The words in `args` are arguments, not the program itself.",
    remedy="Move the program to `command`.",
)


ENGINE_RELEASE_UNSUPPORTED = Rule(
    "engine-release-unsupported",
    "error",
    "The image has an engine release that is older than the oldest supported one.",
    remedy="Use a newer image.",
)


def release_findings(pods: RolePods, _: Context) -> Iterator[Finding]:
    """Rejects images of engine releases that are older than the supported ones."""
    for pod in pods.written:
        engine, image = pod.own_command.engine, pod.own_command.image
        if engine is None or not image.stock or image.engine != engine.name:
            continue
        oldest = argument_table(engine.name).releases[0]
        if image.version is not None and image.version < release_numbers(oldest):
            yield error(
                ENGINE_RELEASE_UNSUPPORTED,
                (*pod.container_path, "image"),
                f"{engine.title} {image.tag} is older than v{oldest}, the oldest supported "
                "release; use a newer image",
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
    if pods.leader.command.program_in_args:
        yield warning(
            PROGRAM_IN_ARGS,
            at,
            "vLLM's image starts the engine by itself and gets these words as its arguments: move "
            f'"{" ".join(command.program)}" to command',
        )
    yield from (finding.at(*at) for finding in findings)


def launcher_findings(_: RolePods, ctx: Context) -> Iterator[Finding]:
    """Warns of a launcher that has no effect."""
    explicit = ctx.role.multinode.launcher if ctx.role.multinode else None
    if ctx.nodes == 1 and explicit and ctx.role.counted:
        message = "has no effect: a replica is a single pod"
        yield warning(FIELD_WITHOUT_EFFECT, ctx.at("multinode", "launcher"), message)


#: Fields of `model.lora` by what the engine calls them.
_LORA_FIELDS = {
    "modules": "adapters",
    "max_rank": "maxRank",
    "max_adapters": "maxAdapters",
    "max_cpu_adapters": "maxCpuAdapters",
}


def argument_findings(roles: Sequence[tuple[Context, RolePods]]) -> list[Finding]:
    """What the engines of a service do not take; each once, where roles share a field."""
    findings = [
        finding
        for ctx, pods in roles
        for finding in (*_written(pods, ctx), *_added(pods, ctx), *_lora(pods, ctx))
    ]
    return list(dict.fromkeys(findings))


def _written(pods: RolePods, ctx: Context) -> Iterator[Finding]:
    """Checks the user's command line against the image's release."""
    for pod in pods.written:
        command, variables = pod.own_command, plain_variables(pod.own)
        # `pods.kv_transfer` reports an unreadable transfer of a prefiller or decoder.
        paired = ctx.role.component_type in PAIRED and isinstance(command.connector, str)
        flag = command.engine.transfer_flag if paired and command.engine else None
        for finding in check_arguments(command, variables, leave_out=flag):
            yield finding.at(*_place(pod, finding.location))


def _added(pods: RolePods, ctx: Context) -> Iterator[Finding]:
    """Checks what fields of the role ask for against the release."""
    for finding in check_added(pods.command, pods.leader.own_command):
        yield finding.at(*ctx.at())


def _place(pod: Pod, location: Location) -> Location:
    return (*pod.container_path, *location) if location else pod.command_path


def _lora(pods: RolePods, ctx: Context) -> Iterator[Finding]:
    command, engine = pods.command, pods.command.engine
    if engine is None:
        return
    written = pods.leader.own_command
    fields = {engine.lora_flags[key]: field for key, field in _LORA_FIELDS.items()}
    explicit = ctx.model is not None and ctx.model.lora is not None
    rank = engine.lora_flags["max_rank"]
    # Arguments beside `model.lora` are refused as contradictions.
    modules = engine.lora_flags["modules"]
    findings = [] if explicit and written.has(modules) else engine.check_lora(command)
    if explicit and not written.has(rank):  # what is an argument of the user's was checked as such
        findings = [*findings, *check_value(command, rank)]
    for finding in findings:
        flag = str(finding.location[0])
        if explicit and not written.has(flag) and flag in fields:
            yield finding.at("model", "lora", fields[flag])
        else:
            yield finding.at(*pods.leader.command_path)
