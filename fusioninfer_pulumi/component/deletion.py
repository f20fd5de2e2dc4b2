"""How long a deletion may take: pods end in their own time, and the provider waits for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

#: What the provider gives a deletion, which it makes in the foreground.
_DEFAULT_SECONDS = 600
#: Beside the time that pods have to end: kubelets, finalizers and garbage collection.
_MARGIN_SECONDS = 300


def deletion_timeout(manifest: Mapping[str, Any]) -> str | None:
    """Tells how long the deletion of an object with pods may take.

    Args:
        manifest: The object.

    Returns:
        The longest `terminationGracePeriodSeconds` of its pods and a margin, as a duration; None
        where the provider's default of 10 minutes is enough.
    """
    graces = [_grace(each) for each in _templates(manifest.get("spec") or {})]
    seconds = max(graces, default=0) + _MARGIN_SECONDS
    return f"{seconds}s" if seconds > _DEFAULT_SECONDS else None


def _templates(spec: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    inside = spec.get("leaderWorkerTemplate") or {}
    for holder, key in (
        (spec, "template"),
        (inside, "leaderTemplate"),
        (inside, "workerTemplate"),
    ):
        yield holder.get(key) or {}


def _grace(template: Mapping[str, Any]) -> int:
    seconds = (template.get("spec") or {}).get("terminationGracePeriodSeconds")
    return seconds if isinstance(seconds, int) else 0
