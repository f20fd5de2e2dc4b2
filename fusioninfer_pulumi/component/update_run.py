"""Runs an update: registers LeaderWorkerSets in order, and waits until the service is up.

`rollout/state_machine.py` decides what to do next, and defines the terms. This module carries out
its actions, and passes it the results of registrations and polls. The program registers a
LeaderWorkerSet only when it is allowed to change, because the Pulumi engine works on a limited
number of registrations at a time.
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
from fusioninfer_pulumi.component.route_shares import LWS_API, explain_unavailable_service
from fusioninfer_pulumi.component.stack_state import (
    Observed,
    get_object_version,
    is_adopting_objects,
    read_observed,
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
from fusioninfer_pulumi.topology.gang import get_min_member

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
        resolve_render_only: Callable[[], Awaitable[bool | None]],
    ) -> None:
        """Prepare the update; `start` runs it.

        `name` is the component's logical name. `existing` are the LeaderWorkerSets in the stack's
        state by their planned names, or None if the state cannot be read. `resolve_render_only`
        returns whether the Kubernetes provider only renders YAML files.
        """
        self.plan, self._manifests, self._resolve_render_only = plan, manifests, resolve_render_only
        self._observed_before = read_observed(name)
        self._state = build_initial_state(plan, manifests, existing, self._observed_before)
        # Older versions of this library recorded nothing either, but then the state has
        # LeaderWorkerSets.
        self._is_new = self._observed_before.last_available is None and existing == {}
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
        """Start the update once all resources are added; `result` is known at its end."""
        self._task = asyncio.ensure_future(self._run())

    def create_registration_gate(self, name: str) -> pulumi.Output[list[pulumi.Resource]]:
        """Return an Output that resolves, to an unused value, when a LeaderWorkerSet may change."""
        gate = self._gates[name] = asyncio.get_event_loop().create_future()
        return pulumi.Output.from_input(gate)

    def add_resource(self, kind: str, name: str, resource: KubernetesObject) -> None:
        """Add the resource that registers an object."""
        self._resources[kind, name] = resource

    async def _run(self) -> None:
        try:
            if await self._resolve_render_only():
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
            futures: list[asyncio.Future[Any]] = [*self._gates.values(), self.replicas_available]
            for future in futures:
                if not future.done():
                    future.set_exception(exc)
                    # asyncio logs exceptions that nobody has retrieved.
                    future.exception()
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
                    await self._fail(action.message, diagnosed_lws=action.names)
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
            live = self._live_lws = await self._cluster.read_objects(self.plan.service, LWS_API)
        except UnreadableError as exc:
            return PollCompleted(time.monotonic(), None, str(exc))
        snapshots = {
            name: _build_snapshot(lws.step, live[name])
            for name, lws in self._state.lws.items()
            if name in live
        }
        return PollCompleted(time.monotonic(), snapshots)

    async def _wait_for_registration_or_poll(self) -> RegistrationsCompleted:
        """Wait until any registration is complete or a poll is due; return the complete ones."""
        poll_due_at = self._state.poll_due_at
        timeout = None if poll_due_at is None else max(0.0, poll_due_at - time.monotonic())
        if self._registrations:
            tasks = self._registrations.values()
            await asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        else:
            assert timeout is not None, "an update that waits for nothing is over"
            await asyncio.sleep(timeout)
        names = [name for name, task in self._registrations.items() if task.done()]
        metadata_by_name = {name: self._registrations.pop(name).result() for name in names}
        versions = {
            name: get_object_version(metadata or {}) for name, metadata in metadata_by_name.items()
        }
        return RegistrationsCompleted(time.monotonic(), versions)

    async def wait_for_services(self, service_names: Sequence[str]) -> None:
        """Wait until services of the namespace are available."""
        if await self._resolve_render_only():
            return
        for service_name in service_names:
            await self._wait_for_service(service_name)
        # Time in which this service only waits for others does not count against its deadline. If
        # it is not available yet itself, `_available_at` and `deadline` are infinite.
        self.deadline += max(0.0, time.monotonic() - self._available_at)

    async def _wait_for_service(self, service_name: str) -> None:
        """Wait for a service's update, if this program has one, and then until it is available."""
        timeout = self.plan.wait.timeout
        for update in self._program_updates:
            if (
                update.plan.service == service_name
                and is_known_equal(update.plan.namespace, self.plan.namespace)
                and get_kubernetes_provider(update.component)
                is get_kubernetes_provider(self.component)
            ):
                await asyncio.shield(update.replicas_available)
        begin = time.monotonic()
        while True:
            try:
                reason = await explain_unavailable_service(self._cluster, service_name)
            except UnreadableError as exc:
                self._progress.log_once(f"service {service_name} was not checked: {exc}")
                return
            if reason is None:
                return
            if self.replicas_available.done():
                self.replicas_available.result()  # raises if this update has failed
            waited = time.monotonic() - begin
            if waited > float(durations.parse_duration(timeout) or 0):
                message = (
                    f"the route cannot send requests to service {service_name}, because {reason} "
                    f"after {timeout} (wait.timeout)"
                )
                await self._fail(message, diagnosed_lws=None)
            self._progress.show_line(f"the route waits for service {service_name}: {reason}")
            await asyncio.sleep(compute_poll_interval(waited))

    async def _wait_for_objects(self) -> tuple[Objects, dict[str, str]]:
        """Wait until the gang is scheduled, or until gateways have accepted the route.

        Return the live objects of the awaited kinds, and the minimum number of pods of each
        scheduled PodGroup.
        """
        level = self.plan.wait.level
        live: Objects = {}
        # With `wait.level: Scheduled`, await the PodGroups whose minimum differs from the recorded
        # one. A new service awaits all. Without a record of an existing service, which an older
        # version of this library updated, await none.
        recorded = {} if self._is_new else self._observed_before.last_available
        manifests = [
            manifest
            for manifest in list_awaited_manifests(self.plan, self._manifests)
            if level is WaitLevel.SERVING
            or (recorded is not None and _get_minimum_entry(manifest) not in recorded.items())
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
            reason = find_unaccepted(self.plan, manifests, live)
            if reason is None:
                break
            now = time.monotonic()
            if now > self.deadline:
                await self._fail(
                    f"{reason} after {self.plan.wait.timeout} (wait.timeout)", diagnosed_lws=()
                )
            self._progress.show_line(reason)
            await asyncio.sleep(compute_poll_interval(now - begin))
        if level is not WaitLevel.SCHEDULED:
            return live, {}
        return live, dict(map(_get_minimum_entry, manifests))

    async def _build_observed(self, accepted: Objects, scheduled: Mapping[str, str]) -> Observed:
        """Build the record of this update from the results of `_wait_for_objects`."""
        live: Mapping[str, Any] = {**self._observed_before.objects, **accepted}
        # An update that has not polled must still record which LeaderWorkerSets are available.
        if self._live_lws is None and not all(is_available(live.get(n)) for n in self._state.lws):
            self._state, _ = advance(self._state, await self._poll())
        live = {**live, **(self._live_lws or {})}
        last_available = {
            **(self._observed_before.last_available or {}),
            **self._state.last_available_revisions,
            **scheduled,
        }
        names = {manifest["metadata"]["name"] for manifest in self._manifests}
        return Observed(
            {name: _keep_observed_fields(state) for name, state in live.items() if name in names},
            {name: value for name, value in last_available.items() if name in names},
        )

    async def _fail(self, message: str, *, diagnosed_lws: Sequence[str] | None) -> None:
        """Raise an error.

        Unless `diagnosed_lws` is None, the error also explains why these LeaderWorkerSets and the
        gang are not available.
        """
        lines = [f"{self.plan.service}: {message}"]
        if diagnosed_lws is not None:
            lines += await explain_failure(self._cluster, self.plan.service, diagnosed_lws)
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
    # An unknown old gang counts as unchanged.
    pair_revisions_and_gangs = {
        name: (before.pair_revision, gang if before.spec is None else before.spec.gang)
        for name, before in lws_before.items()
    }
    for lws_step in order_update(plan, compare_pair_revisions(plan, pair_revisions_and_gangs)):
        before = lws_before.get(lws_step.name)
        revision = revisions[lws_step.name]
        last_available = (observed.last_available or {}).get(lws_step.name)
        lws[lws_step.name] = LwsState(
            lws_step,
            revision,
            version_before=None if before is None else before.version,
            revision_before="" if before is None else before.revision,
            # Older versions of this library recorded no revisions, but their updates ended only
            # when all replicas were available. New LeaderWorkerSets have no record either, but the
            # update waits for them, because they change.
            can_skip_wait=(
                lws_step.is_frozen or observed.last_available is None or last_available == revision
            ),
            last_available_revision=last_available,
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
    return LwsSnapshot(get_object_version(live["metadata"]), is_lws_available, str(revision or ""))


def _get_minimum_entry(pod_group: Mapping[str, Any]) -> tuple[str, str]:
    return pod_group["metadata"]["name"], str(get_min_member(pod_group))


def _keep_observed_fields(live: Mapping[str, Any]) -> dict[str, Any]:
    metadata = live["metadata"]
    kept = {key: metadata[key] for key in ("generation", "resourceVersion") if key in metadata}
    return {"metadata": kept, "status": live.get("status")}
