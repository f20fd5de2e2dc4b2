"""Traces: flags and variables of engines and picker.

The variables are OpenTelemetry's own. Pickers of all families read them the same way: they print
spans unless `OTEL_TRACES_EXPORTER` is `otlp`, and know one sampler (`tracing/telemetry.go`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from fusioninfer_pulumi.api.tracing import TracingArgs
from fusioninfer_pulumi.engines import observability
from fusioninfer_pulumi.engines.kv_settings import SettingError, with_settings
from fusioninfer_pulumi.engines.launch_types import Launch, with_words
from fusioninfer_pulumi.findings import Finding, Severity, error, info, warning
from fusioninfer_pulumi.kube.containers import with_env
from fusioninfer_pulumi.pickers import PickerFamily
from fusioninfer_pulumi.pods.pod import Context, Pod, Pods

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
    leader, command = pods.leader, pods.engine
    settings = observability.tracing_settings(command, args.endpoint)
    if settings is None:
        name = command.engine or "the program"
        note = info(
            "engine-not-traced",
            ctx.at(),
            f"{name} is not told to trace: the library knows no flags for that; write them into "
            "the arguments, or set tracing.engines to false",
        )
        return pods, [note]
    found = [
        Finding("", Severity(note.severity), leader.command_path, note.message)
        for note in observability.tracing_notes(command)
    ]
    variables = tracing_env(args, f"{ctx.meta.service}-{ctx.role.name}")
    for pod in pods.each():
        edit = None
        try:
            edit = with_settings(pod.container, settings)
        except SettingError as problem:
            if pod.leads:
                message = f"{settings[0].flag} cannot be set in it: {problem}; write the command as"
                message = f"{message} a list, or set tracing.engines to false"
                return pods, [error("command-not-editable", leader.command_path, message)]
            # Nothing but ray, maybe.
        pods = pods.put(_traced(pod, edit, variables))
    return replace(pods, traced=True), found


def _traced(pod: Pod, edit: Launch | None, variables: Sequence[Variable]) -> Pod:
    return pod.with_container(lambda each: with_env(with_words(each, edit), variables))


def picker_findings(
    args: TracingArgs | None, family: PickerFamily | None, *, has_roles: bool
) -> Iterator[Finding]:
    """What speaks against tracing the picker, whose family is None without one."""
    if args is None:
        return
    picked = args.picker and family is not None
    secured = args.endpoint.startswith("https://")
    if picked and family is not None and secured and not family.traces_tls:
        yield error(
            "picker-traces-without-tls",
            ("tracing", "endpoint"),
            f"{family.name} sends traces without TLS, whatever the endpoint says; use http, or "
            "set tracing.picker to false",
        )
    if not picked and not has_roles:
        message = "has no effect: neither a picker nor an engine traces"
        yield warning("without-effect", ("tracing",), message)
