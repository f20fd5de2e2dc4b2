"""Rules of the Gateway API between fields, as far as people get them wrong.

Its definitions (1.4.1) say 56 of them in CEL. No CEL library for Python is light enough to evaluate
them at every start (docs/architecture.md), and the API server knows them all: `checks.server`.
All values have the right types: their schemas are checked before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fusioninfer_pulumi.api.rules import LISTENER_WITHOUT_CERTIFICATE
from fusioninfer_pulumi.api.types import label_key_finding
from fusioninfer_pulumi.findings import Finding, Location, error, shown
from fusioninfer_pulumi.kube import durations
from fusioninfer_pulumi.kube.outputs import is_output
from fusioninfer_pulumi.rules.common import (
    DUPLICATE_NAME,
    FIELD_REQUIRED,
    INVALID_FORMAT,
    OUT_OF_RANGE,
)

Manifest = Mapping[str, Any]

_PATH = re.compile(r"(?:[-A-Za-z0-9/._~!$&'()*+,;=:@]|[%][0-9a-fA-F]{2})+")
_NOT_IN_PATHS = re.compile(r"//|/\./|/\.\./|%2f|%2F|#|/\.\.?$")


def route_rule_findings(at: Location, route: Manifest) -> Iterator[Finding]:
    """Checks the spec of an HTTPRoute."""
    for index, rule in enumerate(route.get("rules") or ()):
        yield from _rule((*at, "rules", index), rule)


def _rule(at: Location, rule: Manifest) -> Iterator[Finding]:
    for index, match in enumerate(rule.get("matches") or ()):
        if match.get("path"):
            yield from _path((*at, "matches", index, "path"), match["path"])
    yield from _mirrors((*at, "filters"), rule.get("filters"))
    for index, backend in enumerate(rule.get("backendRefs") or ()):
        yield from _mirrors((*at, "backendRefs", index, "filters"), backend.get("filters"))
    timeouts = rule.get("timeouts") or {}
    whole = durations.seconds(timeouts.get("request") or "")
    part = durations.seconds(timeouts.get("backendRequest") or "")
    if whole and part is not None and part > whole:
        yield error(
            OUT_OF_RANGE,
            (*at, "timeouts", "backendRequest"),
            f"must be at most timeouts.request ({timeouts['request']}), got "
            f"{timeouts['backendRequest']}",
        )


def _path(at: Location, path: Manifest) -> Iterator[Finding]:
    value = path.get("value")
    if value is None or path.get("type") == "RegularExpression":
        return
    if not value.startswith("/") or _NOT_IN_PATHS.search(value) or not _PATH.fullmatch(value):
        yield error(
            INVALID_FORMAT,
            (*at, "value"),
            "must be an absolute path such as /v1/models, without //, /./ or #, got "
            f"{shown(value)}",
        )


def backend_findings(at: Location, backend: Manifest) -> Iterator[Finding]:
    """Checks a backend of a route or mirror, once it is known that it is not the pool."""
    service = not backend.get("group") and backend.get("kind") in (None, "Service")
    if service and backend.get("port") is None:
        yield error(FIELD_REQUIRED, (*at, "port"), "is required for a Service")


def _mirrors(at: Location, filters: Sequence[Manifest] | None) -> Iterator[Finding]:
    for index, written in enumerate(filters or ()):
        mirror = written.get("requestMirror")
        if mirror is not None:
            backend = mirror.get("backendRef") or {}
            yield from backend_findings((*at, index, "requestMirror", "backendRef"), backend)


def gateway_rule_findings(at: Location, gateway: Manifest) -> Iterator[Finding]:
    """Checks the spec of a Gateway."""
    yield from listener_rule_findings((*at, "listeners"), gateway.get("listeners") or ())
    infrastructure = gateway.get("infrastructure") or {}
    for field in ("labels", "annotations"):
        for key in infrastructure.get(field) or ():
            problem = label_key_finding((*at, "infrastructure", field, key), key)
            if problem is not None:
                yield problem


def listener_rule_findings(at: Location, listeners: Sequence[Manifest]) -> Iterator[Finding]:
    """Checks the listeners of a Gateway."""
    seen: set[tuple[Any, ...]] = set()
    for index, listener in enumerate(listeners):
        here, tls = (*at, index), listener.get("tls")
        if tls is not None and listener["protocol"] in ("HTTPS", "TLS"):
            yield from _certificate((*here, "tls"), tls)
        host = listener.get("hostname")
        if is_output(host):
            continue
        port, protocol = listener["port"], listener["protocol"]
        key = (port, protocol, host)
        if key in seen:
            message = f"port {port}, {protocol} and host name are those of another"
            yield error(DUPLICATE_NAME, here, message)
        seen.add(key)


def _certificate(at: Location, tls: Manifest) -> Iterator[Finding]:
    terminates = (tls.get("mode") or "Terminate") == "Terminate"
    if terminates and not tls.get("certificateRefs") and not tls.get("options"):
        message = "must name a Secret with the certificate that TLS is terminated with"
        yield error(LISTENER_WITHOUT_CERTIFICATE, (*at, "certificateRefs"), message)
