"""Paths of a route that its engines do not serve."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fusioninfer_pulumi.findings import Finding, Rule, shown, warning
from fusioninfer_pulumi.routing.router import RouterParts

ROUTE_PREFIX_NOT_SERVED = Rule(
    "route-prefix-not-served",
    "warning",
    "A path that a route matches is one of the engine's, or is rewritten.",
    remedy="Add a filter URLRewrite with ReplacePrefixMatch, or the argument --root-path.",
    source="https://gateway-api.sigs.k8s.io/guides/http-redirect-rewrite/",
)

#: First parts of the paths that vLLM and SGLang serve (their OpenAI and own API servers).
_SERVED = frozenset(
    (
        "v1", "v2", "health", "health_generate", "metrics", "ping", "version", "tokenize",
        "detokenize", "pooling", "classify", "score", "rerank", "invocations", "generate", "encode",
        "embeddings", "models", "docs", "openapi.json", "inference", "load", "get_model_info",
        "get_server_info", "server_info", "model_info", "flush_cache", "api",
    )
)  # fmt: skip
_ROOT_PATH = "--root-path"


def route_path_findings(parts: RouterParts) -> Iterator[Finding]:
    """Warns of prefixes that reach the engines as they are: each request gets 404."""
    commands = [role.pods.command for role in parts.served]
    known = commands and all(command.engine and command.readable for command in commands)
    if parts.route is None or not known or any(command.has(_ROOT_PATH) for command in commands):
        return
    for index, rule in enumerate(parts.route.rules):
        if not rule.defaulted and not rule.corrected:
            continue
        if any(_replaces(route_filter) for route_filter in rule.written.get("filters") or ()):
            continue
        for position, match in enumerate(rule.written.get("matches") or ()):
            path = match.get("path") if isinstance(match, Mapping) else None
            value = path.get("value") if isinstance(path, Mapping) else None
            if not isinstance(value, str) or (path or {}).get("type") == "RegularExpression":
                continue
            first = value.strip("/").partition("/")[0]
            if first and first not in _SERVED:
                at = ("roles", parts.position, "httproute", "rules", index)
                yield warning(
                    ROUTE_PREFIX_NOT_SERVED,
                    (*at, "matches", position, "path", "value"),
                    f"the engine serves nothing below {shown(value)} and answers 404; add a "
                    f"URLRewrite with ReplacePrefixMatch, or {_ROOT_PATH}",
                )


def _replaces(written: Any) -> bool:
    """Whether a filter changes the path, or may."""
    kind = written.get("type") if isinstance(written, Mapping) else None
    return kind in ("URLRewrite", "RequestRedirect", "ExtensionRef")
