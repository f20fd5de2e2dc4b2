"""What the API server sets in an object is unknown here, not absent.

A preview against a cluster reads these fields from a dry run (pulumi-kubernetes 4.29: all but the
resource version, which is None there, too). Without one the outputs of an object are its inputs, so
that the SDK takes them for known to be None: programs would write null, or fail where they put them
into a text. Nothing can be sent in their place: the SDK takes a structure with
an unknown field for unknown as a whole, and would not call `metadata.apply(lambda m: m.name)`.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

import pulumi
from pulumi.output import UNKNOWN

_PACKAGE = "pulumi_kubernetes."
#: Fields by the SDK's type; in the names of its properties, which are its keys, too.
_FIELDS: Mapping[str, frozenset[str]] = {
    "ObjectMeta": frozenset({"creation_timestamp", "generation", "resource_version", "uid"}),
    "PersistentVolumeClaimSpec": frozenset({"volume_name"}),
    "ServiceSpec": frozenset({"cluster_ip", "cluster_ips", "ip_families", "ip_family_policy"}),
}
#: Keys of the metadata of objects that the SDK has no type for.
_KEYS = frozenset({"creationTimestamp", "generation", "resourceVersion", "uid"})
_Applied = Callable[[Any], Any]


class _ReadsUnknownError(BaseException):
    """A callback reads what nobody knows yet; not for its own `except Exception`."""


@contextlib.contextmanager
def server_set_unknown() -> Iterator[None]:
    """Makes Outputs unknown that read what the API server sets, while the body runs."""
    original = pulumi.Output.apply

    def apply(self: Any, func: _Applied, *args: Any, **options: Any) -> Any:
        return original(self, _guarded(func), *args, **options)

    pulumi.Output.apply = apply  # type: ignore[method-assign]  # put back below
    try:
        yield
    finally:
        pulumi.Output.apply = original  # type: ignore[method-assign]  # as it was


def _guarded(func: _Applied) -> _Applied:
    def call(value: Any) -> Any:
        try:
            result = func(_seen(value))
        except _ReadsUnknownError:
            return UNKNOWN
        except KeyError as problem:
            if not _is_metadata(value) or problem.args[0] not in _KEYS.difference(value):
                raise
            return UNKNOWN
        return _awaited(result) if inspect.isawaitable(result) else result

    return call


async def _awaited(result: Awaitable[Any]) -> Any:
    try:
        return await result
    except _ReadsUnknownError:
        return UNKNOWN


def _is_metadata(value: Any) -> bool:
    """Tells whether a value looks like the metadata of an object without a type of the SDK."""
    return type(value) is dict and isinstance(value.get("name"), str)


def _seen(value: Any) -> Any:
    """A value as a callback shall see it."""
    if not _fields(value):
        return value
    kind: Any = type(value)
    view = _view(kind)()
    dict.update(view, value)
    return view


def _fields(value: Any) -> frozenset[str]:
    """What the API server sets in a part of an object that is not there."""
    if not isinstance(value, dict) or not type(value).__module__.startswith(_PACKAGE):
        return frozenset()
    if value.get("type") == "ExternalName":
        return frozenset()  # a Service without addresses
    return _FIELDS.get(type(value).__name__, frozenset())


@functools.cache
def _view(kind: type[Any]) -> Any:
    """A type whose values refuse to say what the API server sets."""
    fields = _FIELDS[kind.__name__]

    def check(self: Any, key: str) -> None:
        if key in fields and not dict.__contains__(self, key):
            raise _ReadsUnknownError

    class View(kind):  # type: ignore[misc]  # a type of the SDK
        def __init__(self) -> None:
            """Without the arguments of the type: filled as the dict that it is."""

        def __getattribute__(self, name: str) -> Any:
            check(self, name)
            return super().__getattribute__(name)

        def __getitem__(self, key: str) -> Any:
            check(self, key)
            return super().__getitem__(key)

        def get(self, key: str, default: Any = None) -> Any:
            check(self, key)
            return super().get(key, default)

    View.__name__ = kind.__name__
    return View
