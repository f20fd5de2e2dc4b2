"""Loads the schema of a kind, and finds the schemas of parts of its objects."""

from __future__ import annotations

import functools
import gzip
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from fusioninfer_pulumi.findings import Location
from fusioninfer_pulumi.generated import DIRECTORY

Schema = Mapping[str, Any]


class Part(NamedTuple):
    """A part of the objects of a kind, such as the worker template of LeaderWorkerSets."""

    api_version: str
    kind: str
    path: Location = ()

    def below(self, *path: str | int) -> Part:
        """Return the part at a path below this one; 0 stands for any item of a list."""
        return self._replace(path=(*self.path, *path))


_LWS = ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet")
_GATEWAY_API = "gateway.networking.k8s.io/v1"

POD_TEMPLATE = Part(*_LWS, ("spec", "leaderWorkerTemplate", "workerTemplate"))
CONTAINER = POD_TEMPLATE.below("spec", "containers", 0)
TOLERATIONS = POD_TEMPLATE.below("spec", "tolerations")
VOLUME_CLAIM = POD_TEMPLATE.below("spec", "volumes", 0, "ephemeral", "volumeClaimTemplate", "spec")
RESOURCES = CONTAINER.below("resources")
SIZE_LIMIT = POD_TEMPLATE.below("spec", "volumes", 0, "emptyDir", "sizeLimit")
HTTP_ROUTE = Part(_GATEWAY_API, "HTTPRoute", ("spec",))
GATEWAY = Part(_GATEWAY_API, "Gateway", ("spec",))
NETWORK_PEERS = Part("networking.k8s.io/v1", "NetworkPolicy", ("spec", "ingress", 0, "from"))
HPA_BEHAVIOR = Part("autoscaling/v2", "HorizontalPodAutoscaler", ("spec", "behavior"))
DEVICE_CLAIM = Part("resource.k8s.io/v1", "ResourceClaimTemplate", ("spec", "spec"))


class KindSchema:
    """The schema of a kind, as a tree and compiled."""

    def __init__(self, text: str) -> None:
        self._text = text

    @functools.cached_property
    def tree(self) -> Schema:
        """The schema of the whole object."""
        loaded: Schema = json.loads(self._text)
        return loaded

    @functools.cached_property
    def validator(self) -> Any:
        """The compiled schema, a `jsonschema_rs.Draft4Validator`, which rejects 1.0 as integer."""
        import jsonschema_rs  # noqa: PLC0415  # slow, and not every program validates

        return jsonschema_rs.Draft4Validator(self._text)

    def find(self, location: Location) -> Schema:
        """Return the schema at a location in the object, or an empty one if there is none."""
        schema = self.tree
        for key in location:
            schema = self.get_child(schema, key)
        return schema

    def get_child(self, schema: Schema, key: str | int) -> Schema:
        """Return the schema of a field, or of a list's items if `key` is an index; may be empty."""
        if isinstance(key, int):
            subschema = schema.get("items")
        else:
            subschema = schema.get("properties", {}).get(key)
            if subschema is None:
                # Labels and annotations have one pattern for their keys.
                patterns = list(schema.get("patternProperties", {}).values())
                subschema = patterns[0] if patterns else schema.get("additionalProperties")
        # `additionalProperties` may be false.
        return self.resolve(subschema) if isinstance(subschema, dict) else {}

    def resolve(self, schema: Schema) -> Schema:
        """Return the schema that a `$ref` refers to, or the schema itself."""
        name = schema.get("$ref")
        if name is None:
            return schema
        definition: Schema = self.tree["definitions"][name.rpartition("/")[2]]
        return definition

    def walk(
        self, schema: Schema, value: Any, location: Location = ()
    ) -> Iterator[tuple[Location, Schema, Any]]:
        """Yield every mapping and list in a value, with its location and schema."""
        if isinstance(value, Mapping):
            yield location, schema, value
            for key, item in value.items():
                if isinstance(item, (Mapping, list, tuple)):
                    yield from self.walk(
                        self.get_child(schema, str(key)), item, (*location, str(key))
                    )
        elif isinstance(value, (list, tuple)):
            yield location, schema, value
            items = self.get_child(schema, 0)
            for index, item in enumerate(value):
                if isinstance(item, (Mapping, list, tuple)):
                    yield from self.walk(items, item, (*location, index))


@functools.cache
def pod_template_rules() -> KindSchema:
    """Return the schema with the API server's requirements for single fields of pod templates."""
    file = Path(__file__).with_name("pod_template.json")
    return KindSchema(file.read_text(encoding="utf-8"))


@functools.cache
def kind_schema(api_version: str, kind: str) -> KindSchema | None:
    """Return the schema of a kind, or None if there is none."""
    file = DIRECTORY / "kubernetes" / f"{api_version.replace('/', '_')}_{kind}.json.gz"
    if not file.is_file():
        return None
    return KindSchema(gzip.decompress(file.read_bytes()).decode())


def part_schema(part: Part) -> KindSchema:
    """Return the schema of the kind that a part belongs to; it must exist."""
    schema = kind_schema(part.api_version, part.kind)
    assert schema is not None, f"no schema of {part.kind}"
    return schema
