"""Runs an update: registers LeaderWorkerSets in order, and waits until the service is up.

`rollout/state_machine.py` decides what to do next, and defines the terms. This module carries out
its actions, and passes it the results of registrations and polls. A LeaderWorkerSet is registered
only when it may change, so that waiting ones occupy no worker of the Pulumi engine.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import pulumi

from fusioninfer_pulumi.api.rollout import WaitLevel
from fusioninfer_pulumi.component.cluster_access import Cluster, Objects
from fusioninfer_pulumi.component.diagnosis import Progress, explain_failure
from fusioninfer_pulumi.component.kubernetes_objects import KubernetesObject
from fusioninfer_pulumi.component.pulumi_sdk import get_kubernetes_provider, get_running_stack
from fusioninfer_pulumi.component.route_shares import LWS, explain_unavailable_service
from fusioninfer_pulumi.component.stack_state import (
    Observed,
    is_adopting_objects,
    read_observed,
    read_version,
)
from fusioninfer_pulumi.component.status import (
    find_unaccepted,
    get_current_status,
    is_available,
    is_ready,
    list_awaited_manifests,
)
from fusioninfer_pulumi.kube import durations, labels
from fusioninfer_pulumi.kube.client import UnreadableError
from fusioninfer_pulumi.kube.pulumi_outputs import is_known_equal
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.rollout.stack_lws import StackLws
from fusioninfer_pulumi.rollout.state_machine import (
    Fail,
    LwsSnapshot,
    LwsState,
    Observation,
    PollCompleted,
    Register,
    RegistrationsCompleted,
    ReportProgress,
    UpdatePhase,
    UpdateStarted,
    UpdateState,
    Warn,
    advance,
    compute_poll_interval,
)
from fusioninfer_pulumi.rollout.update_order import LwsStep, compare_pair_revisions, order_update
from fusioninfer_pulumi.topology.gang import read_gang_minimum

# Keyed by the stack, so that entries are dropped with it.
_updates: WeakKeyDictionary[Any, list[Update]] = WeakKeyDictionary()


class Update:
    """The update of one service.

    Attributes:
        deadline: Time (`time.monotonic`) by which PodGroups, gateways and the endpoint must be
            ready; infinite until the replicas are available.
        replicas_available: Completes when the replicas that the update waits for are available.
    """

    def __init__(
        self,
        component: pulumi.Resource,
        name: str,
        plan: ServicePlan,
        manifests: Sequence[Mapping[str, Any]],
        existing: Mapping[str, StackLws] | None,
        resolve_yaml_only: Callable[[], Awaitable[bool | None]],
    ) -> None:
        """Prepare the update; `start` runs it.

        `name` is the component's logical name. `existing` are the LeaderWorkerSets in the stack's
        state, by their planned names; None if the state cannot be read.
        """
        self.plan, self._manifests, self._resolve_yaml_only = plan, manifests, resolve_yaml_only
        self._observed_before = read_observed(name)
        self._state = build_initial_state(plan, manifests, existing, self._observed_before)
        # `served`: the revision or minimum, by name, that was available last. It is None for a new
        # component, and if an older version of this library wrote the state.
        self._is_new = self._observed_before.served is None and existing == {}
        self._resources: dict[tuple[str, str], KubernetesObject] = {}
        self._gates: dict[str, asyncio.Future[list[pulumi.Resource]]] = {}
        self._registrations: dict[str, asyncio.Task[Any]] = {}
        self._cluster = Cluster(component, plan.namespace)
        self._live_lws: Objects | None = None
        self._progress = Progress(component, plan, self._cluster)
        self.component = component
        self.deadline = self._available_at = math.inf
        self.replicas_available: asyncio.Future[None] = asyncio.get_event_loop().create_future()
        self._program_updates = _updates.setdefault(get_running_stack(), [])
        self._program_updates.append(self)
        self._done: asyncio.Future[Observed] = asyncio.get_event_loop().create_future()
        self.result: pulumi.Output[Observed] = pulumi.Output.from_input(self._done)

    def start(self) -> None:
        """Run the update, after all resources were added; `result` is known at its end."""
        self._task = asyncio.ensure_future(self._run())

    def create_registration_gate(self, name: str) -> pulumi.Output[list[pulumi.Resource]]:
        """Return an Output that resolves when a LeaderWorkerSet may be registered."""
        gate = self._gates[name] = asyncio.get_event_loop().create_future()
        return pulumi.Output.from_input(gate)

    def add_resource(self, kind: str, name: str, resource: KubernetesObject) -> None:
        """Add the resource that registers an object."""
        self._resources[kind, name] = resource

    async def _run(self) -> None:
        try:
            if await self._resolve_yaml_only():
                for gate in self._gates.values():
                    gate.set_result([])
                self.replicas_available.set_result(None)
                self._done.set_result(self._observed_before)
                return
            await self._run_steps()
            self._available_at = time.monotonic()
            self.deadline = self._state.compute_wait_deadline(self._available_at)
            self.replicas_available.set_result(None)
            accepted, scheduled = await self._wait_for_objects()
            self._done.set_result(await self._build_observed(accepted, scheduled))
        except Exception as exc:  # noqa: BLE001  # awaiting the result raises it
            # Everything that waits for the update must fail too, or it would wait forever.
            awaited: list[asyncio.Future[Any]] = [*self._gates.values(), self.replicas_available]
            for future in awaited:
                if not future.done():
                    future.set_exception(exc)
                    future.exception()  # otherwise asyncio logs that nobody has read it
            self._done.set_exception(exc)

    async def _run_steps(self) -> None:
        observation: Observation = UpdateStarted(time.monotonic())
        while True:
            self._state, actions = advance(self._state, observation)
            for action in actions:
                if isinstance(action, Register):
                    self._register(action.names)
                elif isinstance(action, Warn):
                    self._progress.log_once(action.line)
                elif isinstance(action, ReportProgress):
                    await self._progress.show(self._live_lws or {}, action.name)
                elif isinstance(action, Fail):
                    await self._fail(action.message, action.names)
            if self._state.is_over:
                return
            wait = self._poll if self._state.is_polling else self._wait_for_registration_or_poll
            observation = await wait()

    def _register(self, names: Iterable[str]) -> None:
        for name in names:
            self._gates[name].set_result([])
            metadata = self._resources["LeaderWorkerSet", name].metadata.future()
            self._registrations[name] = asyncio.ensure_future(metadata)

    async def _poll(self) -> PollCompleted:
        try:
            live = self._live_lws = await self._cluster.read_objects(self.plan.service, LWS)
        except UnreadableError as exc:
            return PollCompleted(time.monotonic(), None, str(exc))
        snapshots = {
            name: _build_snapshot(lws.step, live[name])
            for name, lws in self._state.lws.items()
            if name in live
        }
        return PollCompleted(time.monotonic(), snapshots)

    async def _wait_for_registration_or_poll(self) -> RegistrationsCompleted:
        """Wait until a registration is complete, or until the next poll is due."""
        poll_due_at = self._state.poll_due_at
        timeout = None if poll_due_at is None else max(0.0, poll_due_at - time.monotonic())
        if self._registrations:
            first = asyncio.FIRST_COMPLETED
            await asyncio.wait(self._registrations.values(), timeout=timeout, return_when=first)
        else:
            assert timeout is not None, "an update that waits for nothing is over"
            await asyncio.sleep(timeout)
        names = [name for name, task in self._registrations.items() if task.done()]
        metadata_by_name = {name: self._registrations.pop(name).result() for name in names}
        versions = {
            name: read_version(metadata or {}) for name, metadata in metadata_by_name.items()
        }
        return RegistrationsCompleted(time.monotonic(), versions)

    async def wait_for_services(self, services: Sequence[str]) -> None:
        """Wait until services of the namespace are available."""
        if await self._resolve_yaml_only():
            return
        for service in services:
            await self._wait_for_service(service)
        # Time spent waiting for other services does not count against this service's deadline.
        self.deadline += max(0.0, time.monotonic() - self._available_at)

    async def _wait_for_service(self, service: str) -> None:
        """Wait for the service's update, if it is in this program, then until it is available."""
        timeout = self.plan.wait.timeout
        for update in self._program_updates:
            if (
                update.plan.service == service
                and is_known_equal(update.plan.namespace, self.plan.namespace)
                and get_kubernetes_provider(update.component)
                is get_kubernetes_provider(self.component)
            ):
                await asyncio.shield(update.replicas_available)
        begin = time.monotonic()
        while True:
            try:
                missing = await explain_unavailable_service(self._cluster, service)
            except UnreadableError as exc:
                self._progress.log_once(f"service {service} was not checked: {exc}")
                return
            if missing is None:
                return
            if self.replicas_available.done():
                self.replicas_available.result()  # raises if this update has failed
            waited = time.monotonic() - begin
            if waited > float(durations.parse_duration(timeout) or 0):
                message = (
                    f"the route cannot send requests to service {service}, because {missing} "
                    f"after {timeout} (wait.timeout)"
                )
                await self._fail(message, None)
            self._progress.show_line(f"the route waits for service {service}: {missing}")
            await asyncio.sleep(compute_poll_interval(waited))

    async def _wait_for_objects(self) -> tuple[Objects, dict[str, str]]:
        """Wait until the gang is scheduled, or until gateways have accepted the route.

        Return the live objects, and the minimum number of pods of each scheduled PodGroup.
        """
        level = self.plan.wait.level
        live: Objects = {}
        served = {} if self._is_new else self._observed_before.served
        # A PodGroup that was scheduled with the same minimum before is not awaited again. Without
        # recorded minima (the state of an older version of this library) none is awaited.
        manifests = [
            manifest
            for manifest in list_awaited_manifests(self.plan, self._manifests)
            if level is WaitLevel.SERVING
            or (served is not None and _read_name_and_minimum(manifest) not in served.items())
        ]
        for manifest in manifests:
            name = manifest["metadata"]["name"]
            await self._resources[manifest["kind"], name].metadata.future()
        begin = time.monotonic()
        kinds = dict.fromkeys((manifest["apiVersion"], manifest["kind"]) for manifest in manifests)
        while manifests:
            try:
                live = await self._cluster.read_objects(self.plan.service, *kinds)
            except UnreadableError as exc:
                if not live:
                    names = ", ".join(f"{m['kind']} {m['metadata']['name']}" for m in manifests)
                    self._progress.log_once(f"not checked: {names}: {exc}")
                    return live, {}
                # Otherwise the objects read last are used until the next read succeeds.
            missing = find_unaccepted(self.plan, manifests, live)
            if missing is None:
                break
            now = time.monotonic()
            if now > self.deadline:
                await self._fail(f"{missing} after {self.plan.wait.timeout} (wait.timeout)", ())
            self._progress.show_line(missing)
            await asyncio.sleep(compute_poll_interval(now - begin))
        if level is not WaitLevel.SCHEDULED:
            return live, {}
        return live, dict(map(_read_name_and_minimum, manifests))

    async def _build_observed(self, accepted: Objects, scheduled: Mapping[str, str]) -> Observed:
        live: Mapping[str, Any] = {**self._observed_before.objects, **accepted}
        # If the update has not polled and a LeaderWorkerSet may be unavailable, poll now.
        if self._live_lws is None and not all(is_available(live.get(n)) for n in self._state.lws):
            self._state, _ = advance(self._state, await self._poll())
        live = {**live, **(self._live_lws or {})}
        served_before = self._observed_before.served or {}
        served = {**served_before, **self._state.last_available_revisions, **scheduled}
        names = {manifest["metadata"]["name"] for manifest in self._manifests}
        return Observed(
            {name: _keep_observed_fields(state) for name, state in live.items() if name in names},
            {name: value for name, value in served.items() if name in names},
        )

    async def _fail(self, message: str, names: Sequence[str] | None) -> None:
        """Raise an error; unless `names` is None, with reasons from these LeaderWorkerSets."""
        lines = [f"{self.plan.service}: {message}"]
        if names is not None:
            lines += await explain_failure(self._cluster, self.plan.service, names)
        raise pulumi.RunError("\n".join(lines))


def build_initial_state(
    plan: ServicePlan,
    manifests: Iterable[Mapping[str, Any]],
    existing: Mapping[str, StackLws] | None,
    observed: Observed,
) -> UpdateState:
    """Return the state before the update of a component, from the stack's state."""
    lws_before = existing or {}
    revisions = {
        manifest["metadata"]["name"]: str(manifest["metadata"]["labels"][labels.REVISION])
        for manifest in manifests
        if manifest["kind"] == "LeaderWorkerSet"
    }
    lws = {}
    gang = "" if plan.gang is None else plan.gang.reference
    pairs = {
        planned: (old.pair_revision, gang if old.spec is None else old.spec.gang)
        for planned, old in lws_before.items()
    }
    for lws_step in order_update(plan, compare_pair_revisions(plan, pairs)):
        before = lws_before.get(lws_step.name)
        revision = revisions[lws_step.name]
        served = (observed.served or {}).get(lws_step.name)
        lws[lws_step.name] = LwsState(
            lws_step,
            revision,
            version_before=None if before is None else before.version,
            revision_before="" if before is None else before.revision,
            # Older versions of this library recorded no served revisions, but their updates ended
            # only when all replicas were available.
            can_skip_wait=lws_step.is_frozen or observed.served is None or served == revision,
            last_available_revision=served,
            existed_before=before is not None,
        )
    needs_discovery = existing is None or is_adopting_objects()
    return UpdateState(
        lws,
        plan.wait.timeout,
        plan.wait.level.awaits_replicas,
        UpdatePhase.DISCOVERING if needs_discovery else UpdatePhase.RUNNING,
        needs_first_poll=needs_discovery,
    )


def _build_snapshot(lws_step: LwsStep, live: Mapping[str, Any]) -> LwsSnapshot:
    if lws_step.has_optional_replicas:
        # The field is missing while no replica is ready.
        is_lws_available = bool(get_current_status(live).get("readyReplicas"))
    else:
        is_lws_available = is_available(live) if lws_step.is_per_role else is_ready(live)
    revision = (live["metadata"].get("labels") or {}).get(labels.REVISION)
    return LwsSnapshot(read_version(live["metadata"]), is_lws_available, str(revision or ""))


def _read_name_and_minimum(pod_group: Mapping[str, Any]) -> tuple[str, str]:
    return pod_group["metadata"]["name"], str(read_gang_minimum(pod_group))


def _keep_observed_fields(live: Mapping[str, Any]) -> dict[str, Any]:
    metadata = live["metadata"]
    kept = {key: metadata[key] for key in ("generation", "resourceVersion") if key in metadata}
    return {"metadata": kept, "status": live.get("status")}
