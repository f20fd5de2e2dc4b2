"""Has a failed update say why, where the cluster can be read.

The engine calls an error hook when an object failed, before it gives up. The hook reads and writes
a message; it changes nothing, retries nothing and waits for nothing but the cluster's answer.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import time
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import pulumi
from pulumi.runtime import settings

from fusioninfer_pulumi.component.cluster_access import ask, readable
from fusioninfer_pulumi.component.diagnosis.explain import explain_gang, explain_set, is_told
from fusioninfer_pulumi.component.diagnosis.pods import Seen
from fusioninfer_pulumi.component.diagnosis.read import read_service, watch_service
from fusioninfer_pulumi.kube.client import UnreadableError

_FRESH_SECONDS = 5.0
#: How long the pods of a service are watched in all, for what shows a moment only.
_WATCH_SECONDS = 20.0
#: How long one look may take.
_READ_SECONDS = 40.0
#: How long a watch may take beside its own time.
_EXTRA_SECONDS = 10.0
_WAITS = "LeaderWorkerSet", "PodGroup"

_names: WeakKeyDictionary[pulumi.Resource, dict[str, int]] = WeakKeyDictionary()


class Diagnosis:
    """Explains failures of one service's sets."""

    def __init__(
        self,
        component: pulumi.ComponentResource,
        service: str,
        namespace: pulumi.Input[str],
        read: Callable[[str | None, str | None, str, str], Seen] = read_service,
        watch: Callable[..., Seen] = watch_service,
    ) -> None:
        """Nothing is read yet.

        Args:
            component: The service's component, for its provider and for messages.
            service: Name of the service.
            namespace: Its namespace.
            read: Reads the cluster.
            watch: Watches it.
        """
        self._component = component
        self._service = service
        self._namespace = namespace
        self._read = read
        self._watch = watch
        self._patience = _WATCH_SECONDS
        self._lock = asyncio.Lock()
        self._seen: tuple[float, Seen | UnreadableError] | None = None
        self._told: set[str] = set()

    async def failed(self, args: Any) -> bool:
        """Says why an object failed; an error hook of the engine.

        Args:
            args: What the engine tells of the failure.

        Returns:
            False: the engine shall not try again.
        """
        kind = str(args.type).rpartition(":")[2].removesuffix("Patch")
        metadata = (args.new_inputs or {}).get("metadata")
        if kind not in _WAITS or args.failed_operation == "delete":
            return False
        try:
            name = str((await pulumi.Output.from_input(metadata).future() or {}).get("name"))
            seen = await self._telling(name, kind)
            self._tell(explain_set(name, seen) if kind == "LeaderWorkerSet" else [])
            self._tell([*explain_gang(seen), *(f"not read: {each}" for each in seen.unread)])
        except UnreadableError as problem:
            self._tell([f"why is not known: {problem}"])
        # A failure to explain a failure must not hide it.
        except Exception as problem:  # noqa: BLE001
            pulumi.log.debug(f"a failure was not explained: {problem!r}", self._component)
        return False

    def _tell(self, lines: list[str]) -> None:
        new = [line for line in lines if line not in self._told]
        self._told.update(new)
        for line in new:
            pulumi.log.error(line, self._component)

    async def _telling(self, name: str, kind: str) -> Seen:
        """One look for all sets that fail at the same time; where it shows nothing, a watch."""
        # The time of each look is its own: whoever waits here has not been asked yet.
        async with self._lock:
            seen = await self._fresh()
            # Each waits its turn: what the one before has watched may tell all there is.
            if kind != "LeaderWorkerSet" or is_told(name, seen) or self._patience <= 0:
                return seen
            if not seen.pods and seen.unread:
                return seen  # who may not read pods may not watch them
            started = time.monotonic()
            given = (seen, functools.partial(is_told, name), self._patience)
            watched = await self._ask(self._patience + _EXTRA_SECONDS, self._watch, *given)
            self._patience -= time.monotonic() - started
            if isinstance(watched, UnreadableError):
                return seen
            self._seen = time.monotonic(), watched
            return watched

    async def _fresh(self) -> Seen:
        """What was seen a moment ago, else what is to be seen now.

        A cluster that did not answer is not asked again by everyone who has waited for that.
        """
        if self._seen is None or time.monotonic() - self._seen[0] > _FRESH_SECONDS:
            found = await self._ask(_READ_SECONDS, self._read)
            self._seen = time.monotonic(), found
        if isinstance(self._seen[1], UnreadableError):
            raise UnreadableError(str(self._seen[1]))
        return self._seen[1]

    async def _ask(
        self, seconds: float, call: Callable[..., Seen], *more: Any
    ) -> Seen | UnreadableError:
        given = (self._service, *more)
        try:
            return await ask(self._component, self._namespace, call, *given, seconds=seconds)
        except UnreadableError as problem:
            return problem


def diagnosis(
    component: pulumi.ComponentResource, name: str, service: str, namespace: pulumi.Input[str]
) -> pulumi.ResourceHookBinding | None:
    """What the sets of a service and their patches are registered with.

    Args:
        component: The service's component.
        name: Its logical name.
        service: Name of the service.
        namespace: Its namespace.

    Returns:
        Their hooks; None in a preview, without an engine, without the extra `cluster`, and where
        SDK or command line know no error hooks.
    """
    if pulumi.runtime.is_dry_run() or not available():
        return None
    stack = pulumi.runtime.get_root_resource()
    counts = _names.setdefault(stack, {}) if stack is not None else {}
    counts[name] = counts.get(name, 0) + 1
    # The engine notes the name, and wants each once: the same in every run.
    number = "" if counts[name] == 1 else f"-{counts[name]}"
    told = Diagnosis(component, service, namespace)
    hook = pulumi.ErrorHook(f"fusioninfer-why-{name}{number}", told.failed)
    return pulumi.ResourceHookBinding(on_error=[hook])


def available() -> bool:
    """Tells whether failures can be explained in this run."""
    if not readable() or not hasattr(pulumi, "ErrorHook"):
        return False
    try:
        proto: Any = importlib.import_module("pulumi.runtime.proto.resource_pb2")
        feature = proto.RESOURCE_MONITOR_FEATURE_ERROR_HOOKS
        return settings.monitor_supports_feature(feature) is True
    except (AttributeError, ImportError, TypeError):  # another SDK, which has none or hides it
        return False
