"""Checks of the engines' arguments: what the image takes, and adapters that contradict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fusioninfer_pulumi.engines.argument_checks import check_added, check_arguments, check_value
from fusioninfer_pulumi.engines.variables import plain_variables
from fusioninfer_pulumi.findings import Finding, Location
from fusioninfer_pulumi.pods.build import RolePods
from fusioninfer_pulumi.pods.pod import PAIRED, Context, Pod

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
