"""Traces: flags and variables of engines and picker.

The variables are OpenTelemetry's own. Pickers of all families read them the same way: they print
spans unless `OTEL_TRACES_EXPORTER` is `otlp`, and know one sampler (`tracing/telemetry.go`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from fusioninfer_pulumi.api.tracing import TracingArgs
from fusioninfer_pulumi.engines.command import read_command
from fusioninfer_pulumi.engines.editing import EditError, edit, with_command
from fusioninfer_pulumi.findings import Finding, error, info, join, parse_path, warning
from fusioninfer_pulumi.pickers import PickerFamily
from fusioninfer_pulumi.pods.kv_transfer import Wired

Variable = Mapping[str, str]

_SAMPLER = "parentbased_traceidratio"


def tracing_env(args: TracingArgs, name: str) -> tuple[Variable, ...]:
    """Variables of a program that traces.

    Args:
        args: What the user asked for.
        name: What it is called in traces (`service.name`).
    """
    plain = "true" if args.endpoint.startswith("http://") else "false"
    values = {
        "OTEL_SERVICE_NAME": name,
        "OTEL_EXPORTER_OTLP_ENDPOINT": args.endpoint,
        "OTEL_EXPORTER_OTLP_TRACES_INSECURE": plain,
        "OTEL_TRACES_EXPORTER": "otlp",
        "OTEL_TRACES_SAMPLER": _SAMPLER,
        "OTEL_TRACES_SAMPLER_ARG": f"{args.sampling:g}",
    }
    return tuple({"name": key, "value": value} for key, value in values.items())


def traced(wire: Wired, args: TracingArgs | None, position: int, at: str) -> tuple[Wired, bool]:
    """Sets an engine's tracing flag.

    Args:
        wire: The role's serving containers, as far as they are edited.
        args: What the user asked for, None for nothing.
        position: Index of the role in the spec.
        at: Field that holds the leaders' command line.

    Returns:
        The containers with the flag, and whether the engine traces.
    """
    if args is None or not args.engines:
        return wire, False
    command = read_command(wire.leader)
    engine = command.engine
    arguments = engine.tracing_arguments(args.endpoint) if engine is not None else None
    if engine is None or arguments is None:
        name = engine.name if engine is not None else "the program"
        note = info(
            join("roles", position),
            f"{name} is not told to trace: the library knows no flags for that; write them into "
            "the arguments, or set tracing.engines to false",
        )
        return replace(wire, findings=[*wire.findings, note]), False
    found = [each.at(*parse_path(at)) for each in engine.check_tracing(command)]
    try:
        leader = edit(command, arguments)
    except EditError as problem:
        return replace(
            wire,
            findings=[
                *wire.findings,
                error(
                    at,
                    f"{arguments[0].names[0]} cannot be set in it: {problem}; write the command as "
                    "a list, or set tracing.engines to false",
                ),
            ],
        ), False
    try:
        worker = edit(read_command(wire.worker), arguments)
    except EditError:
        worker = None  # nothing but ray, maybe
    return replace(
        wire,
        leader=with_command(wire.leader, leader),
        worker=with_command(wire.worker, worker),
        leader_edit=leader or wire.leader_edit,
        worker_edit=worker or wire.worker_edit,
        findings=[*wire.findings, *found],
    ), True


def picker_findings(
    args: TracingArgs | None, family: PickerFamily | None, *, has_roles: bool
) -> Iterator[Finding]:
    """What speaks against tracing the picker.

    Args:
        args: What the user asked for, None for nothing.
        family: The picker's family, None without a picker.
        has_roles: Whether an engine traces.
    """
    if args is None:
        return
    picked = args.picker and family is not None
    secured = args.endpoint.startswith("https://")
    if picked and family is not None and secured and not family.traces_tls:
        yield error(
            "tracing.endpoint",
            f"{family.name} sends traces without TLS, whatever the endpoint says; use http, or "
            "set tracing.picker to false",
        )
    if not picked and not has_roles:
        yield warning("tracing", "has no effect: neither a picker nor an engine traces")
