"""Why pods restart, in a few words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from fusioninfer_pulumi.cli.diff.records import FieldChange
from fusioninfer_pulumi.cli.diff.workloads import LWS_NETWORK, LWS_TEMPLATE
from fusioninfer_pulumi.kube import labels

GANG_ON = "gang scheduling switched on"
GANG_OFF = "gang scheduling switched off"

_REVISION = f"[{labels.REVISION}]"
_GANG_KEYS = labels.GANG_ANNOTATIONS | {labels.QUEUE_NAME}
_GANG_FIELDS = (*(f".annotations[{key}]" for key in sorted(_GANG_KEYS)), ".schedulerName")
_SHOWN = 3

_LIST = r"\.(containers|initContainers)"
_CONTAINER = rf"{_LIST}\[[^\]]*\]"
# The first pattern that a path matches names what changed.
_WORDS = tuple(
    (re.compile(pattern), word)
    for pattern, word in (
        (r"\.volumeClaimTemplates\b", "volume claim templates"),
        (r"\.subGroupPolicy\b", "subgroup policy"),
        (r"\.restartPolicy$", "restart policy"),
        (rf"^{re.escape(LWS_NETWORK)}\b", "network configuration"),
        (rf"{_CONTAINER}\.image$", "image"),
        (rf"{_CONTAINER}\.(args|command)\b", "arguments"),
        (rf"{_CONTAINER}\.env(From)?\b", "environment"),
        (rf"{_CONTAINER}\.resources\b", "resources"),
        (rf"{_CONTAINER}\.(\w+Probe|lifecycle)\b", "probes"),
        (rf"{_CONTAINER}\.ports\b", "ports"),
        (r"\.volume(s|Mounts|Devices)\b", "volumes"),
        (rf"{_LIST}(\[[^\]]*\](\.name)?)?$", "containers"),
        (r"\.metadata\.labels\b", "pod labels"),
        (r"\.metadata\.annotations\b", "pod annotations"),
        (r"\.spec\.(nodeSelector|tolerations|affinity|topologySpreadC\w+)\b", "scheduling"),
        (r"\.spec\.(schedulerName|priorityClassName)$", "scheduling"),
        (r"", "pod template"),
    )
)


def is_revision(path: str) -> bool:
    """Tells whether a path is that of the revision label, on an object or its pods."""
    return path.endswith(_REVISION)


def without_revision(
    fields: Sequence[FieldChange], templates: Sequence[str]
) -> tuple[FieldChange, ...]:
    """Leaves out the revision where another field of a template changed, which is why it did."""
    told = any(below(change.path, templates) and not is_revision(change.path) for change in fields)
    return tuple(change for change in fields if not (told and is_revision(change.path)))


def below(path: str, roots: Iterable[str]) -> bool:
    """Tells whether a path is one of the roots, below one, or holds one."""
    return any(
        path == root or path.startswith((f"{root}.", f"{root}[")) or root.startswith(f"{path}.")
        for root in roots
    )


def restart_reason(changes: Iterable[FieldChange], *, gang: str = "") -> str:
    """Says why pods restart.

    Args:
        changes: What changed in the pods' templates, of one or of several workloads.
        gang: `GANG_ON` or `GANG_OFF` where that is part of it.

    Returns:
        Text such as `image and arguments changed`.
    """
    parts: dict[str, None] = {gang: None} if gang else {}
    words: dict[str, None] = {}
    for change in changes:
        if change.path == f"{LWS_TEMPLATE}.size":
            parts[f"nodes per replica {change.old or 1} -> {change.new or 1}"] = None
        elif not (gang and _is_gang(change)):
            words[_word(change.path)] = None
    if len(words) > 1:
        words.pop("pod template", None)
    shown = list(words)
    if len(shown) > _SHOWN:
        shown = [*shown[: _SHOWN - 1], f"{len(shown) - _SHOWN + 1} more"]
    if shown:
        parts[f"{joined(shown)} changed"] = None
    return ", ".join(parts)


def joined(words: Sequence[str]) -> str:
    """Joins words as people do: `a, b and c`."""
    return " and ".join(part for part in (", ".join(words[:-1]), words[-1]) if part)


def _word(path: str) -> str:
    if is_revision(path):
        return "revision"
    return next(word for pattern, word in _WORDS if pattern.search(path))


def _is_gang(change: FieldChange) -> bool:
    if change.path.endswith(_GANG_FIELDS):
        return True
    whole = change.new if change.kind == "added" else change.old
    return (
        change.path.endswith(".metadata.annotations")
        and isinstance(whole, Mapping)
        and _GANG_KEYS.issuperset(whole)
    )
