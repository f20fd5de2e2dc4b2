"""Traces: flags and variables of engines and endpoint picker.

The variables are OpenTelemetry's own. Pickers of all families read them the same way: they print
spans unless `OTEL_TRACES_EXPORTER` is `otlp`, and know one sampler (`tracing/telemetry.go`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from fusioninfer_pulumi.api.tracing import TracingArgs
from fusioninfer_pulumi.engines.editing import EditError
from fusioninfer_pulumi.engines.engine import UNSUPPORTED_BY_ENGINE, Argument
from fusioninfer_pulumi.findings import Finding, error, info
from fusioninfer_pulumi.kube.containers import with_env
from fusioninfer_pulumi.pods.pod import Context, Pods
from fusioninfer_pulumi.rules.common import COMMAND_NOT_EDITABLE

Variable = Mapping[str, str]

_SAMPLER = "parentbased_traceidratio"


def tracing_env(args: TracingArgs, name: str) -> tuple[Variable, ...]:
    """Variables of a program that traces under a name (`service.name`)."""
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


def tracing(pods: Pods, ctx: Context) -> tuple[Pods, list[Finding]]:
    """Sets an engine's tracing flag and variables."""
    args = ctx.tracing
    if args is None or not args.engines:
        return pods, []
    leader, command = pods.leader, pods.engine_command
    engine = command.engine
    flag = engine.tracing_flag if engine is not None else None
    if flag is None:
        name = engine.name if engine is not None else "the program"
        note = info(
            UNSUPPORTED_BY_ENGINE,
            ctx.at(),
            f"{name} is not told to trace: the library knows no flags for that; write them into "
            "the arguments, or set tracing.engines to false",
        )
        return pods, [note]
    variables = tracing_env(args, f"{ctx.meta.service}-{ctx.role.name}")
    for pod in pods.each():
        traced = pod
        try:
            traced = pod.with_arguments([Argument((flag,), (args.endpoint,), replaces=True)])
        except EditError as problem:
            if pod.leads:
                message = (
                    f"{flag} cannot be set in it: {problem}; write the command as "
                    "a list, or set tracing.engines to false"
                )
                return pods, [error(COMMAND_NOT_EDITABLE, leader.command_path, message)]
            # A worker may run nothing but ray.
        pods = pods.put(traced.with_container(lambda container: with_env(container, variables)))
    return replace(pods, traced=True), []
