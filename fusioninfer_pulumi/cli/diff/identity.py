"""Which object of the new manifests is which of the old ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from fusioninfer_pulumi.cli.diff.plain import at, text_at

Manifest = Mapping[str, Any]


class Identity(NamedTuple):
    """What makes two manifests the same object.

    The version of the API is no part of it: `v1beta1` and `v1` are views of one object. The
    ordinal keeps apart what one list holds twice, so that nothing is dropped.
    """

    group: str
    kind: str
    namespace: str
    name: str
    ordinal: int = 0


def identity(manifest: Manifest) -> Identity:
    """Reads a manifest's identity; whatever is missing is empty."""
    group, slash, _ = text_at(manifest, "apiVersion").partition("/")
    return Identity(
        group=group if slash else "",
        kind=text_at(manifest, "kind"),
        namespace=text_at(manifest, "metadata", "namespace") or "default",
        name=text_at(manifest, "metadata", "name") or text_at(manifest, "metadata", "generateName"),
    )


def by_identity(manifests: Iterable[Manifest]) -> dict[Identity, Manifest]:
    """Indexes manifests, in their order; the items of a `kind: List` count as given one by one."""
    found: dict[Identity, Manifest] = {}
    for manifest in _flat(manifests):
        key = identity(manifest)
        while key in found:
            key = key._replace(ordinal=key.ordinal + 1)
        found[key] = manifest
    return found


def _flat(manifests: Iterable[Manifest]) -> Iterator[Manifest]:
    for manifest in manifests:
        items = at(manifest, "items")
        if isinstance(items, (list, tuple)) and at(manifest, "kind") == "List":
            yield from _flat(items)
        elif isinstance(manifest, Mapping):
            yield manifest
