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

from pulumi.output import UNKNOWN

from fusioninfer_pulumi.cli.program._failures import failing_exits
from fusioninfer_pulumi.cli.program._secrets import SecretWatch

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
    """A callback reads a value that is unknown yet; not for its own `except Exception`."""


class _FailedHereError(Exception):
    """Holds the traceback of a callback that failed."""


def watched(apply: Callable[..., Any], watch: SecretWatch) -> Callable[..., Any]:
    """`Output.apply` whose callbacks return an unknown value if they read what the server sets.

    One that calls `sys.exit` fails: the SDK would let it end the process. Secret values that they
    get or return are kept.
    """

    def watching(self: Any, func: _Applied, *args: Any, **options: Any) -> Any:
        def call(value: Any) -> Any:
            watch.watch(self, value)
            return watch.watch(self, _call(func, value))

        return apply(self, call, *args, **options)

    return watching


def _call(func: _Applied, value: Any) -> Any:
    try:
        with _failing():
            result = func(_view(value))
    except _ReadsUnknownError:
        return UNKNOWN
    except KeyError as problem:
        untyped = type(value) is dict and isinstance(value.get("name"), str)
        if untyped and problem.args[0] in _KEYS.difference(value):
            return UNKNOWN
        raise
    return _awaited(result) if inspect.isawaitable(result) else result


@contextlib.contextmanager
def _failing() -> Iterator[None]:
    """Keeps where a callback failed: a future that is asked twice forgets it."""
    try:
        with failing_exits():
            yield
    except Exception as problem:
        if problem.__cause__ is None:
            problem.__cause__ = _FailedHereError().with_traceback(problem.__traceback__)
        raise


async def _awaited(result: Awaitable[Any]) -> Any:
    try:
        with _failing():
            return await result
    except _ReadsUnknownError:
        return UNKNOWN


def _view(value: Any) -> Any:
    """A value as a callback shall see it: one that raises when an unknown field is read."""
    kind: Any = type(value)
    if not kind.__module__.startswith(_PACKAGE) or kind.__name__ not in _FIELDS:
        return value
    if value.get("type") == "ExternalName":  # a Service without addresses
        return value
    view = _viewing(kind)()
    dict.update(view, value)
    return view


@functools.cache
def _viewing(kind: type[Any]) -> Any:
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
