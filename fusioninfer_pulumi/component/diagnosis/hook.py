"""An error hook that explains a failed update, if the cluster can be read.

Pulumi calls an error hook when an object failed, before it gives up. The hook reads the cluster and
logs; it changes nothing, retries nothing and waits for nothing but the cluster's answer.
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

from fusioninfer_pulumi.component.cluster_access import can_read_cluster, read_from_cluster
from fusioninfer_pulumi.component.diagnosis.explain import (
    explain_gang,
    explain_lws,
    lws_shows_reason,
)
from fusioninfer_pulumi.component.diagnosis.read import Snapshot, read_service, watch_service
from fusioninfer_pulumi.kube.client import UnreadableError

_FRESH_SECONDS = 5.0
#: How long a service's pods are watched in all: some reasons are visible for a moment only.
_WATCH_SECONDS = 20.0
#: How long one snapshot may take.
_READ_SECONDS = 40.0
#: How long a watch may take beside its own time.
_EXTRA_SECONDS = 10.0
_AWAITED = "LeaderWorkerSet", "PodGroup"

_hook_counts: WeakKeyDictionary[pulumi.Resource, dict[str, int]] = WeakKeyDictionary()


class Diagnosis:
    """Explains failures of one service's LeaderWorkerSets."""

    def __init__(
        self,
        component: pulumi.ComponentResource,
        service: str,
        namespace: pulumi.Input[str],
        read: Callable[[str | None, str | None, str, str], Snapshot] = read_service,
        watch: Callable[..., Snapshot] = watch_service,
    ) -> None:
        """Reads nothing yet; `component` is for its provider and for log lines."""
        self._component = component
        self._service = service
        self._namespace = namespace
        self._read = read
        self._watch = watch
        self._watch_seconds_left = _WATCH_SECONDS
        self._lock = asyncio.Lock()
        self._latest: tuple[float, Snapshot | UnreadableError] | None = None
        self._logged: set[str] = set()

    async def failed(self, args: Any) -> bool:
        """Logs why an object failed, as an error hook; False, so that Pulumi does not try again."""
        kind = str(args.type).rpartition(":")[2].removesuffix("Patch")
        metadata = (args.new_inputs or {}).get("metadata")
        if kind not in _AWAITED or args.failed_operation == "delete":
            return False
        try:
            name = str((await pulumi.Output.from_input(metadata).future() or {}).get("name"))
            snapshot = await self._snapshot_of(name, kind)
            self._log(explain_lws(name, snapshot) if kind == "LeaderWorkerSet" else [])
            self._log([*explain_gang(snapshot), *(f"not read: {each}" for each in snapshot.unread)])
        except UnreadableError as problem:
            self._log([f"why is not known: {problem}"])
        # A failure to explain a failure must not hide it.
        except Exception as problem:  # noqa: BLE001
            pulumi.log.debug(f"a failure was not explained: {problem!r}", self._component)
        return False

    def _log(self, lines: list[str]) -> None:
        new = [line for line in lines if line not in self._logged]
        self._logged.update(new)
        for line in new:
            pulumi.log.error(line, self._component)

    async def _snapshot_of(self, name: str, kind: str) -> Snapshot:
        """One snapshot for all that fail at the same time; where it shows no reason, a watch."""
        # Waiting for the lock does not count against the time of a read.
        async with self._lock:
            snapshot = await self._recent_snapshot()
            # After the lock: the watch before this one may have shown the reason.
            if (
                kind != "LeaderWorkerSet"
                or lws_shows_reason(name, snapshot)
                or self._watch_seconds_left <= 0
            ):
                return snapshot
            if not snapshot.pods and snapshot.unread:
                return snapshot  # without rights to read pods there are none to watch them
            started = time.monotonic()
            seconds, enough = self._watch_seconds_left, functools.partial(lws_shows_reason, name)
            watched = await self._read_cluster(
                seconds + _EXTRA_SECONDS, self._watch, snapshot, enough, seconds
            )
            self._watch_seconds_left -= time.monotonic() - started
            if isinstance(watched, UnreadableError):
                return snapshot
            self._latest = time.monotonic(), watched
            return watched

    async def _recent_snapshot(self) -> Snapshot:
        """The latest snapshot if it is fresh, else a new one.

        A cluster that did not answer is not asked again by everyone who has waited for that.
        """
        if self._latest is None or time.monotonic() - self._latest[0] > _FRESH_SECONDS:
            found = await self._read_cluster(_READ_SECONDS, self._read)
            self._latest = time.monotonic(), found
        if isinstance(self._latest[1], UnreadableError):
            raise UnreadableError(str(self._latest[1]))
        return self._latest[1]

    async def _read_cluster(
        self, seconds: float, call: Callable[..., Snapshot], *more: Any
    ) -> Snapshot | UnreadableError:
        arguments = (self._service, *more)
        try:
            return await read_from_cluster(
                self._component, self._namespace, call, *arguments, seconds=seconds
            )
        except UnreadableError as problem:
            return problem


def error_hooks(
    component: pulumi.ComponentResource, name: str, service: str, namespace: pulumi.Input[str]
) -> pulumi.ResourceHookBinding | None:
    """Hooks that a service's objects are registered with.

    None in a preview, under mocks, without the extra `cluster`, and where the SDK or Pulumi has no
    error hooks.
    """
    if pulumi.runtime.is_dry_run() or not error_hooks_supported():
        return None
    stack = pulumi.runtime.get_root_resource()
    counts = _hook_counts.setdefault(stack, {}) if stack is not None else {}
    counts[name] = counts.get(name, 0) + 1
    # Pulumi keeps the name, which must be unique and the same in every run.
    number = "" if counts[name] == 1 else f"-{counts[name]}"
    explainer = Diagnosis(component, service, namespace)
    hook = pulumi.ErrorHook(f"fusioninfer-why-{name}{number}", explainer.failed)
    return pulumi.ResourceHookBinding(on_error=[hook])


def error_hooks_supported() -> bool:
    """Whether failures can be explained in this run."""
    if not can_read_cluster() or not hasattr(pulumi, "ErrorHook"):
        return False
    try:
        proto: Any = importlib.import_module("pulumi.runtime.proto.resource_pb2")
        feature = proto.RESOURCE_MONITOR_FEATURE_ERROR_HOOKS
        return settings.monitor_supports_feature(feature) is True
    except (AttributeError, ImportError, TypeError):  # another SDK, which has none or hides it
        return False
