"""The memory of a service's roles for people and programs, and what a change does to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fusioninfer_pulumi.fit.memory import Fit

GIB = 2**30

#: Columns of the table for people.
COLUMNS = ("GPU", "USABLE", "WEIGHTS", "OVERHEAD", "KV CACHE", "TOKENS", "REQUESTS")


def memory_row(found: Fit) -> tuple[str, ...]:
    """One role's row; sizes in GiB on each accelerator, tokens and requests of a replica."""
    unknown = "not checked"
    requests = f"{found.requests:.1f} x {found.length}" if found.requests is not None else unknown
    return (
        found.accelerator.name,
        *(f"{size / GIB:.1f}" for size in (found.share, found.weights, found.overhead)),
        f"{max(found.cache, 0) / GIB:.1f}",
        str(found.tokens) if found.tokens is not None else unknown,
        requests,
    )


def memory_json(found: Fit) -> dict[str, Any]:
    """One role's memory in bytes; null is not known."""
    return {
        "accelerator": found.accelerator.name,
        "usable": found.share,
        "weights": found.weights,
        "overhead": found.overhead,
        "kvCache": max(found.cache, 0),
        "tokens": found.tokens,
        "length": found.length,
        "requests": None if found.requests is None else round(found.requests, 2),
        "basis": found.basis,
    }


def changes(old: Mapping[str, Fit], new: Mapping[str, Fit]) -> Iterator[str]:
    """Yields what a change does to the KV caches of roles that are in both."""
    for name, before in old.items():
        after = new.get(name)
        if after is None or before.tokens is None or after.tokens is None:
            continue
        if before.tokens == after.tokens and before.length == after.length:
            continue
        yield (
            f"{name}: KV cache of a replica {before.tokens} -> {after.tokens} tokens, "
            f"{before.requests or 0:.1f} x {before.length} -> "
            f"{after.requests or 0:.1f} x {after.length} requests (estimated)"
        )
