"""What the API server sets in an object is unknown here, not None.

The outputs of an object are its inputs here, so the SDK takes these fields for None: programs
would write null, or fail where they put one into a text. The SDK takes a structure with an unknown
field for unknown as a whole, so reading one of them from an Output answers that it is unknown.
A callback of the whole structure sees None, as it may in a preview.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pulumi import Output
from pulumi.output import UNKNOWN, Unknown

#: Fields of metadata, Services and claims, as the SDK and as YAML names them.
_FIELDS = frozenset(
    {"cluster_ip", "cluster_ips", "ip_families", "ip_family_policy", "volume_name",
     "creation_timestamp", "generation", "resource_version", "uid",
     "creationTimestamp", "resourceVersion"}
)  # fmt: skip


def with_server_set(read: Callable[[Any, Any], Output[Any]]) -> Callable[[Any, Any], Output[Any]]:
    """`Output.__getattr__` or `Output.__getitem__`, with unknown values for these fields."""

    def reading(output: Output[Any], name: Any) -> Output[Any]:
        if name not in _FIELDS:
            return read(output, name)
        return output.apply(lambda structure: _field(structure, name), run_with_unknowns=True)

    return reading


def _field(structure: Any, name: str) -> Any:
    if isinstance(structure, Unknown):
        return UNKNOWN
    value = structure.get(name) if isinstance(structure, Mapping) else getattr(structure, name)
    return UNKNOWN if value is None else value
