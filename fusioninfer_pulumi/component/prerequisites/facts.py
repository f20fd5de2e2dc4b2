"""What is known of a cluster, as far as the check needs it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fusioninfer_pulumi.component.prerequisites.table import Release

_BUNDLE = re.compile(r"(networking\.k8s\.io/bundle-version|operator\.prometheus\.io/version)$")
_RELEASE = re.compile(r"v?(\d+)\.(\d+)\.(\d+)(?:[-+].*)?")


@dataclass(frozen=True)
class Definition:
    """A CustomResourceDefinition that is installed.

    Attributes:
        schemas: Schema of each API version that it serves.
        release: Release that is written on it, None where none is.
    """

    schemas: Mapping[str, Mapping[str, Any]]
    release: Release | None = None

    def has(self, version: str, path: str) -> bool:
        """Tells whether objects of a version have a field; lists on the way are passed through."""
        schema: Any = self.schemas.get(version)
        for name in path.split("."):
            while isinstance(schema, Mapping) and "items" in schema:
                schema = schema["items"]
            if not isinstance(schema, Mapping):
                return False
            schema = (schema.get("properties") or {}).get(name)
        return schema is not None


@dataclass(frozen=True)
class ClusterFacts:
    """What could be read of a cluster.

    Attributes:
        definitions: CustomResourceDefinitions by name, None for one that is not installed; a name
            that is missing could not be read.
        releases: Releases of products by the tags of their images, as far as they are known.
        lws_provider: Gang provider of LeaderWorkerSet's own, empty when it is off, None when its
            configuration could not be found.
        kubernetes: Release of the API server, None where it is not known.
        apis: Versions of each API group that is served, None where that is not known.
        named: Objects that were looked for by kind and name, and whether each is there; one that
            is missing could not be read.
        unread: What could not be read, and why.
    """

    definitions: Mapping[str, Definition | None] = field(default_factory=dict)
    releases: Mapping[str, Release] = field(default_factory=dict)
    lws_provider: str | None = None
    kubernetes: Release | None = None
    apis: Mapping[str, frozenset[str]] | None = None
    named: Mapping[tuple[str, str], bool] = field(default_factory=dict)
    unread: tuple[str, ...] = ()


def definition(stored: Mapping[str, Any]) -> Definition:
    """A definition as the API server returns it.

    Args:
        stored: The CustomResourceDefinition.

    Returns:
        What the check needs of it.
    """
    annotations = stored["metadata"].get("annotations") or {}
    bundles = [release(text) for key, text in annotations.items() if _BUNDLE.search(key)]
    schemas = {
        each["name"]: (each.get("schema") or {}).get("openAPIV3Schema") or {}
        for each in stored["spec"]["versions"]
        if each.get("served")
    }
    return Definition(schemas, next(iter(bundles), None))


def release(text: str) -> Release | None:
    """A release as a tag or an annotation writes it, None for other words such as `latest`."""
    found = _RELEASE.fullmatch(text)
    return (int(found[1]), int(found[2]), int(found[3])) if found else None
