"""Objects of `objects.yaml`, and discovery of the URLs of all kinds of an API server."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any
from urllib.parse import quote

import yaml

Object = dict[str, Any]

ACCEPT = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
"""Aggregated discovery: two requests instead of one for each group and version."""


@dataclass(frozen=True)
class Resource:
    """A kind and its URLs."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool

    def path(self, name: str | None, namespace: str | None, subresource: str | None = None) -> str:
        """Return the URL path of an object, or of the collection without a name."""
        parts = ["/apis" if "/" in self.api_version else "/api", self.api_version]
        if self.namespaced and namespace is not None:
            parts += ["namespaces", quote(namespace)]
        parts.append(self.plural)
        if name is not None:
            if self.namespaced and namespace is None:
                raise ValueError(f"{self.kind} {name} needs a namespace")
            parts.append(quote(name))
        if subresource is not None:
            parts.append(subresource)
        return "/".join(parts)


class Discovery:
    """Kinds of a server, refreshed when an unknown kind is requested."""

    def __init__(self, fetch: Callable[[str, str], Object]) -> None:
        """Discover kinds through `fetch`, a GET of a path with an Accept header."""
        self._fetch = fetch
        self._known: dict[str, Resource] = {}
        self._ambiguous: dict[str, list[str]] = {}

    def find(self, kind: str) -> Resource:
        """Return the resource of a kind.

        Raises:
            LookupError: If no group or several groups of the server have the kind.
        """
        if kind not in self._known and kind not in self._ambiguous:
            self._refresh()
        if kind in self._known:
            return self._known[kind]
        if kind in self._ambiguous:
            raise LookupError(f"{kind} is ambiguous: {', '.join(self._ambiguous[kind])}")
        raise LookupError(f"the API server has no kind {kind}")

    def _refresh(self) -> None:
        known: dict[str, Resource] = {}
        by_kind: dict[str, list[Resource]] = {}
        for root in ("/api", "/apis"):
            for group in self._fetch(root, ACCEPT)["items"]:
                preferred: dict[str, Resource] = {}
                for resource in _read_resources(group):
                    known[f"{resource.api_version}/{resource.kind}"] = resource
                    preferred.setdefault(resource.kind, resource)
                for kind, resource in preferred.items():
                    by_kind.setdefault(kind, []).append(resource)
        self._ambiguous = {}
        for kind, candidates in by_kind.items():
            if len(candidates) == 1 or "/" not in candidates[0].api_version:
                known[kind] = candidates[0]
            else:
                self._ambiguous[kind] = [f"{c.api_version}/{kind}" for c in candidates]
        self._known = known


def _read_resources(group: Object) -> list[Resource]:
    group_name = group.get("metadata", {}).get("name", "")
    return [
        Resource(
            api_version=f"{group_name}/{version['version']}".lstrip("/"),
            kind=entry["responseKind"]["kind"],
            plural=entry["resource"],
            namespaced=entry["scope"] == "Namespaced",
        )
        for version in group["versions"]
        for entry in version.get("resources", ())
    ]


@functools.cache
def _read_documents() -> Object:
    text = Path(__file__).parents[1].joinpath("objects.yaml").read_text(encoding="utf-8")
    documents: Object = yaml.safe_load(text)
    return documents


def read_objects(title: str, **values: object) -> list[Object]:
    """Return the objects with a title in objects.yaml, with these values substituted."""
    objects: list[Object] = _substitute(_read_documents()[title], values)
    return objects


def _substitute(field: Any, values: Mapping[str, object]) -> Any:
    if isinstance(field, dict):
        return {key: _substitute(item, values) for key, item in field.items()}
    if isinstance(field, list):
        return [_substitute(item, values) for item in field]
    if not isinstance(field, str):
        return field
    if field.startswith("$") and field[1:] in values:
        return values[field[1:]]  # A list or a number stays one.
    return Template(field).substitute(values)
