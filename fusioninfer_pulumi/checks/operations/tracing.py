"""Checks of the service's tracing; `checks/pods` has those of engines."""

from __future__ import annotations

from collections.abc import Iterator

from fusioninfer_pulumi.findings import Finding, Rule, error, warning
from fusioninfer_pulumi.plan.build import BuiltService
from fusioninfer_pulumi.rules.common import FIELD_WITHOUT_EFFECT

PICKER_TRACES_WITHOUT_TLS = Rule(
    "picker-traces-without-tls",
    "error",
    "The picker sends traces as its endpoint says.",
    remedy="Use `http`, or set `tracing.picker: false`.",
)


def tracing_findings(built: BuiltService) -> Iterator[Finding]:
    """Checks that something traces, and that the endpoint picker can reach the endpoint."""
    args, router = built.args.tracing, built.plan.router
    if args is None:
        return
    family = router.epp.family if router is not None and args.picker else None
    if family is not None and args.endpoint.startswith("https://") and not family.traces_tls:
        yield error(
            PICKER_TRACES_WITHOUT_TLS,
            ("tracing", "endpoint"),
            f"{family.name} sends traces without TLS, whatever the endpoint says; use http, or "
            "set tracing.picker to false",
        )
    if family is None and not any(role.pods.traced for role in built.plan.roles):
        message = "has no effect: neither a picker nor an engine traces"
        yield warning(FIELD_WITHOUT_EFFECT, ("tracing",), message)
