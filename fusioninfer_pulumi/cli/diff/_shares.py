"""The shares of requests that models and pools get, before a change and after it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fusioninfer_pulumi.cli.diff.manifests import Manifest, at, label
from fusioninfer_pulumi.findings import listed
from fusioninfer_pulumi.kube.labels import SERVICE
from fusioninfer_pulumi.kube.names import POOL_KIND, REWRITE_KIND, inference_pool

Shares = Mapping[str, float]
"""Percent by what gets them."""


def share_notes(kind: str, old: Manifest | None, new: Manifest | None) -> Iterator[str]:
    """Yields what changes in the shares of an InferenceModelRewrite or an HTTPRoute."""
    of_kind = {REWRITE_KIND: _rewrites, "HTTPRoute": _routes}.get(kind)
    if of_kind is None:
        return
    before, after = of_kind(old), of_kind(new)
    own_pool = inference_pool(label(new, SERVICE))
    moves: dict[str, list[str]] = {}  # names that requests ask for, by the same change
    for asked in dict.fromkeys([*before, *after]):
        was, is_ = before.get(asked, {}), after.get(asked, {})
        if was != is_ and max(len(was), len(is_)) > 1:
            waits = "" if kind == REWRITE_KIND else _waits(own_pool, was, is_)
            moves.setdefault(f"{_moved(was, is_)}{waits}", []).append(asked)
    for moved, names in moves.items():
        yield f"requests{_listed(names)}: {moved}"


def _waits(own_pool: str, before: Shares, after: Shares) -> str:
    """When `up` writes the larger shares of `split`; empty if none grows."""
    if next(iter(after), None) != own_pool:
        return ""  # users wrote these backends
    before = before or {own_pool: 100}
    growing = [name for name, share in after.items() if share > before.get(name, 0)]
    return f", when {listed(growing)} can serve" if growing else ""


def _moved(before: Shares, after: Shares) -> str:
    """`next 5 % -> 50 %, base 95 % -> 50 %`."""
    return ", ".join(
        f"{name} {before.get(name, 0):.3g} % -> {after.get(name, 0):.3g} %"
        for name in dict.fromkeys([*before, *after])
        if before.get(name, 0) != after.get(name, 0)
    )


def _listed(asked: list[str]) -> str:
    names = [name for name in asked if name]
    return f" for {', '.join(names)}" if names else ""


def _rewrites(manifest: Manifest | None) -> dict[str, Shares]:
    """Shares of models by the name that requests ask for; empty for all other names."""
    by_route: dict[str, Shares] = {}
    for rule in _items(at(manifest, "spec", "rules")):
        models = [at(match, "model", "value") for match in _items(rule.get("matches"))]
        shares = _shares(rule.get("targets"), "modelRewrite")
        for name in models or [""]:
            by_route.setdefault(str(name), shares)
    return by_route


def _routes(manifest: Manifest | None) -> dict[str, Shares]:
    """Shares of pools by the rule; empty for a rule of all requests."""
    by_route: dict[str, Shares] = {}
    for index, rule in enumerate(_items(at(manifest, "spec", "rules"))):
        backends = _items(rule.get("backendRefs"))
        if all(backend.get("kind") == POOL_KIND for backend in backends):
            name = f"rule {rule.get('name') or index + 1}" if rule.get("matches") else ""
            by_route[name] = _shares(backends, "name")
    return by_route


def _shares(listed: Any, key: str) -> Shares:
    weights = {str(item.get(key)): item.get("weight", 1) for item in _items(listed)}
    numbers = {name: weight for name, weight in weights.items() if isinstance(weight, int)}
    total = sum(numbers.values())
    return {name: 100 * number / total for name, number in numbers.items()} if total else {}


def _items(listed: Any) -> list[Mapping[str, Any]]:
    items = listed if isinstance(listed, list) else []
    return [item for item in items if isinstance(item, Mapping)]
