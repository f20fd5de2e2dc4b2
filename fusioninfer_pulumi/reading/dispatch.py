"""Gives each document to whom it belongs: our spec, or the dialect of its kind."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from fusioninfer_pulumi.dialects import DIALECTS, Dialect, dialect_of, platform_of
from fusioninfer_pulumi.dialects.given import Given
from fusioninfer_pulumi.findings import Finding, error, shown, warning
from fusioninfer_pulumi.reading.reading import Located, Reading
from fusioninfer_pulumi.spec.document import Document, examine
from fusioninfer_pulumi.spec.service import KIND


def read_all(
    given: Sequence[tuple[str, Any]],
    *,
    allow_lossy: bool = False,
    beside: Collection[str] = frozenset(),
) -> list[Reading]:
    """Reads the documents of one input, which may refer to each other.

    Args:
        given: Label and parsed content of each document.
        allow_lossy: Whether what cannot be carried over is a warning in place of an error.
        beside: Labels of documents that nobody named one by one: other objects among them are
            left out, with a warning.

    Returns:
        The services in the order of their documents, and what no service was made of.
    """
    dialects = _with_named(given, [dialect_of(raw) for _, raw in given])
    order = {label: position for position, (label, _) in enumerate(given)}
    some = any(dialects) or any(_is_ours(raw) for _, raw in given)
    read = [
        _ours(label, raw, lossy=some and allow_lossy, found=label in beside)
        for (label, raw), dialect in zip(given, dialects, strict=True)
        if dialect is None
    ]
    for dialect in DIALECTS:
        mine = [Given(*each) for each, its in zip(given, dialects, strict=True) if its is dialect]
        if mine:
            read += _converted(dialect, mine, allow_lossy=allow_lossy)
    return sorted(read, key=lambda each: order[each.label])


def _with_named(
    given: Sequence[tuple[str, Any]], dialects: Sequence[Dialect | None]
) -> list[Dialect | None]:
    """Gives objects that a dialect's documents name, such as a ConfigMap, to that dialect."""
    owners: dict[Any, Dialect] = {}
    for dialect in DIALECTS:
        mine = [Given(*each) for each, its in zip(given, dialects, strict=True) if its is dialect]
        if mine:
            owners.update(dict.fromkeys(dialect.named(mine), dialect))
    return [
        owners.get(_key(*each)) if its is None and owners and _is_other_object(each[1]) else its
        for each, its in zip(given, dialects, strict=True)
    ]


def _key(label: str, raw: Any) -> tuple[Any, ...]:
    document = Given(label, raw)
    return (raw["apiVersion"], raw["kind"], document.namespace, document.name)


def is_read(raw: Any) -> bool:
    """Tells whether a document is of a kind that this room reads, not any other object."""
    return _is_ours(raw) or dialect_of(raw) is not None


def _converted(dialect: Dialect, mine: Sequence[Given], *, allow_lossy: bool) -> list[Reading]:
    conversion = dialect.convert(mine, allow_lossy=allow_lossy)
    left: list[Located] = list(conversion.findings)
    read = []
    for service in conversion.services:
        labels = service.origins.labels
        read.append(
            Reading(
                service.main.label,
                examine(service.manifest, service.main.label),
                service.manifest,
                tuple(each for each in left if each[0] in labels),
                service.origins.locate,
            )
        )
        left = [each for each in left if each[0] not in labels]
    for document in mine:
        own = tuple(each for each in left if each[0] == document.label)
        if own:
            read.append(Reading(document.label, remarks=own))
    return read


def _ours(label: str, raw: Any, *, lossy: bool, found: bool) -> Reading:
    hint = _near(raw)
    platform = platform_of(raw)
    if _is_other_object(raw) and (lossy or (found and (hint is None or platform))):
        why = "is no service: left out; apply it beside the others"
        if platform is not None:
            why = f"is of {platform.name}'s platform, and says nothing about a service: left out"
        told = warning("kind", f"{raw['kind']} {why}")
        return Reading(label, remarks=((label, told),))
    if hint is not None:
        return Reading(label, Document(label, None, (hint,)))
    return Reading(label, examine(raw, label), raw)


def _is_ours(raw: Any) -> bool:
    return isinstance(raw, Mapping) and raw.get("kind") == KIND


def _is_other_object(raw: Any) -> bool:
    return (
        isinstance(raw, Mapping)
        and not _is_ours(raw)
        and all(isinstance(raw.get(key), str) for key in ("apiVersion", "kind"))
        and isinstance(raw.get("metadata"), Mapping)
    )


def _near(raw: Any) -> Finding | None:
    """Says what is wrong with the envelope of a document that is nearly one of a dialect."""
    if not isinstance(raw, Mapping) or _is_ours(raw):
        return None
    kind, version = raw.get("kind"), raw.get("apiVersion")
    for dialect in DIALECTS:
        if isinstance(kind, str) and kind in dialect.kinds:
            wanted = " or ".join(dialect.kinds[kind])
            if version is None:
                return error("apiVersion", f"is required, must be {wanted}")
            return error("apiVersion", f"must be {wanted}, got {shown(version)}")
        if isinstance(version, str) and any(version in each for each in dialect.kinds.values()):
            known = ", ".join(sorted(each for each, its in dialect.kinds.items() if version in its))
            if kind is None:
                return error("kind", f"is required, must be one of {known}")
            return error(
                "kind", f"must be one of {known} for {dialect.name}'s {version}, got {shown(kind)}"
            )
    return None
