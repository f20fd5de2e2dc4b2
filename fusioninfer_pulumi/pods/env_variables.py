"""Passes for environment variables: tracing, and the variables that Kthena sets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fusioninfer_pulumi.api.monitoring import TracingArgs
from fusioninfer_pulumi.engines.engine import Argument
from fusioninfer_pulumi.findings import Finding, info
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.kube.containers import add_env
from fusioninfer_pulumi.pods.pod import Context, RolePods
from fusioninfer_pulumi.rules.common import UNSUPPORTED_BY_ENGINE


def add_kthena_variables(pods: RolePods, ctx: Context) -> tuple[RolePods, list[Finding]]:
    """Add Kthena's variables to every container of the pods, if the role sets `environment`.

    They come before the container's own variables, which may refer to Kthena's. LeaderWorkerSet's
    webhook later puts its own variables before all of these.
    """
    if ctx.role.environment is None:
        return pods, []
    for pod in pods.all:
        fields = {
            key: [_with_kthena_variables(container) for container in pod.spec[key]]
            for key in ("initContainers", "containers")
            if pod.spec.get(key)
        }
        pods = pods.with_pod(pod.with_spec(**fields))
    return pods, []


def _with_kthena_variables(container: Mapping[str, Any]) -> dict[str, Any]:
    variables = container.get("env") or ()
    added = dict(labels.KTHENA_ENVIRONMENT)
    for variable in variables:
        added.pop(variable.get("name"), None)
    generated = [{"name": name, "value": value} for name, value in added.items()]
    return {**container, "env": [*generated, *variables]}


def build_tracing_env(args: TracingArgs, name: str) -> tuple[Mapping[str, str], ...]:
    """Return OpenTelemetry's variables for a program; `name` is its `service.name`.

    All endpoint pickers print spans unless `OTEL_TRACES_EXPORTER` is `otlp`, and support only the
    sampler `parentbased_traceidratio` (`tracing/telemetry.go`).
    """
    insecure = "true" if args.endpoint.startswith("http://") else "false"
    values = {
        "OTEL_SERVICE_NAME": name,
        "OTEL_EXPORTER_OTLP_ENDPOINT": args.endpoint,
        "OTEL_EXPORTER_OTLP_TRACES_INSECURE": insecure,
        "OTEL_TRACES_EXPORTER": "otlp",
        "OTEL_TRACES_SAMPLER": "parentbased_traceidratio",
        "OTEL_TRACES_SAMPLER_ARG": f"{args.sampling:g}",
    }
    return tuple({"name": key, "value": value} for key, value in values.items())


def add_tracing(pods: RolePods, ctx: Context) -> tuple[RolePods, list[Finding]]:
    """Set the engine's tracing flag and variables."""
    args = ctx.args.tracing
    if args is None or not args.engines:
        return pods, []
    engine = pods.command.engine
    flag = engine.telemetry.tracing_flag if engine is not None else None
    if flag is None:
        name = engine.name if engine is not None else "the program"
        note = info(
            UNSUPPORTED_BY_ENGINE,
            ctx.locate(),
            f"tracing is off: the library does not know the tracing flags of {name}; add them to "
            "the arguments, or set tracing.engines to false",
        )
        return pods, [note]
    variables = build_tracing_env(args, f"{ctx.meta.service}-{ctx.role.name}")
    for pod in pods.all:
        traced, problems = pod.with_arguments(
            [Argument((flag,), (args.endpoint,), replaces=True)],
            f"cannot set {flag}",
            alternative=", or set tracing.engines to false",
        )
        if problems and pod.is_leader:
            return pods, problems
        # A worker may run only Ray, so it is no error if its command line cannot be edited.
        pods = pods.with_pod(traced.with_container(lambda container: add_env(container, variables)))
    return pods, []
