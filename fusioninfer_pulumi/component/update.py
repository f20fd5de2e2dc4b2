"""Runs an update: registers LeaderWorkerSets in turn, and waits until the service is up.

The order is that of `rollout/order.py`. A LeaderWorkerSet is registered when its turn comes, so
what waits holds no worker of the Pulumi engine. Meanwhile the program lists the service's
LeaderWorkerSets, several times a second while replicas take turns.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

import pulumi

from fusioninfer_pulumi.api.rollout import WaitLevel
from fusioninfer_pulumi.component.acceptance import awaited_manifests, not_accepted
from fusioninfer_pulumi.component.cluster_access import Cluster
from fusioninfer_pulumi.component.diagnosis.explain import explain_failure
from fusioninfer_pulumi.component.live import Live, LiveState, trimmed
from fusioninfer_pulumi.component.progress import Progress
from fusioninfer_pulumi.component.resources import KubernetesObject
from fusioninfer_pulumi.component.state import (
    Observed,
    observed_of,
    stack_lws_of,
    takes_over,
    version_of,
)
from fusioninfer_pulumi.component.status import is_available
from fusioninfer_pulumi.findings import listed
from fusioninfer_pulumi.kube import durations, labels
from fusioninfer_pulumi.kube.client import UnreadableError
from fusioninfer_pulumi.rollout.order import next_lws, update_order
from fusioninfer_pulumi.service_plan import ServicePlan

#: Between two reads: while replicas take turns; else; at most; a part of the time without a change.
_TURN_SECONDS, _PAUSE_SECONDS, _LONG_PAUSE_SECONDS, _PAUSE_PART = 0.25, 1.0, 5.0, 0.1
#: What is late within that time of the first that is, is late together with it.
_MARGIN_SECONDS = 5.0


class Update:
    """The update of one service."""

    def __init__(
        self,
        component: pulumi.Resource,
        name: str,
        plan: ServicePlan,
        manifests: Sequence[Mapping[str, Any]],
        yaml_only: Callable[[], Awaitable[bool | None]],
    ) -> None:
        """Begins when the program has registered everything; `name` is the component's."""
        self._component, self._plan, self._yaml_only = component, plan, yaml_only
        self._order = update_order(plan)
        self._steps = {step.name: step for step in self._order}
        self._manifests = manifests
        self._revisions = {
            each["metadata"]["name"]: str(each["metadata"]["labels"][labels.REVISION])
            for each in manifests
            if each["kind"] == "LeaderWorkerSet"
        }
        known = stack_lws_of(name, plan)
        # What exists is asked of the cluster where the state does not tell.
        self._asks_cluster = known is None or takes_over()
        self._before = known or {}
        self._existing = {*self._before} & {*self._steps}
        self._observed = observed_of(name)
        self._resources: dict[tuple[str, str], KubernetesObject] = {}
        self._gates: dict[str, asyncio.Future[list[pulumi.Resource]]] = {}
        # Existing ones whose turn has not come, and new optional ones, which come last.
        self._waiting: set[str] = set()
        self._optional: set[str] = set()
        # Those of which Pulumi has not answered yet.
        self._registering: dict[str, asyncio.Task[Any]] = {}
        # Those that have changed and that others wait for.
        self._changing: set[str] = set()
        # When each one that is awaited must be available, and the setting that says so.
        self._awaited: dict[str, tuple[float, str]] = {}
        self._blocked_since: float | None = None
        self._changed = self._next_read = time.monotonic()
        self._objects: Live = {}
        self._cluster = Cluster(component, plan.namespace)
        served = self._observed.served or {}
        self._live = LiveState(self._cluster, plan.service, self._steps, served)
        self._progress = Progress(component, plan, self._cluster)
        self.result: pulumi.Output[Observed] = pulumi.Output.from_input(self._run())

    def turn(self, name: str) -> pulumi.Output[list[pulumi.Resource]]:
        """What a LeaderWorkerSet depends on: nothing, but it is known only when its turn comes."""
        gate = self._gates[name] = asyncio.get_event_loop().create_future()
        return pulumi.Output.from_input(gate)

    def registered(self, kind: str, name: str, resource: KubernetesObject) -> None:
        """Keeps the resource of an object."""
        self._resources[kind, name] = resource

    async def _run(self) -> Observed:
        try:
            if await self._yaml_only():
                self._open(self._gates)
                return self._observed
            await self._begin()
            while self._waiting or self._optional or self._registering or self._awaited:
                await self._go_on()
            await self._wait_for_objects()
            return await self._seen()
        except Exception as problem:
            # What waits fails with it: a registration that never begins would never end.
            for gate in self._gates.values():
                if not gate.done():
                    gate.set_exception(problem)
                    gate.exception()
            raise

    async def _begin(self) -> None:
        """Registers what is new and required; what exists waits for its turn."""
        if self._asks_cluster:
            await self._read_first(needed=True)
            self._existing |= (self._live.lws or {}).keys() & self._steps.keys()
        self._waiting = {*self._existing}
        for step in self._order:
            if step.name in self._existing:
                continue
            if step.required:
                self._register([step.name])
            else:
                # After the required ones: a gang that counts any replica might start with it.
                self._optional.add(step.name)
        changing = {
            name
            for name in self._waiting & self._before.keys()
            if not self._steps[name].frozen and self._before[name].revision != self._revisions[name]
        }
        if changing:
            in_turn = changing - {*next_lws(self._order, changing, (), ())}
            await self._read_first(needed=bool(in_turn))
        # Pods that restart may need those that are new to be a complete gang.
        new = [task for name, task in self._registering.items() if self._steps[name].required]
        if new:
            await asyncio.wait(new)

    async def _read_first(self, *, needed: bool) -> None:
        """Reads before anything changes; fails where the update cannot do without that."""
        try:
            await self._live.read_lws()
        except UnreadableError as problem:
            if needed:
                raise self._refusal(problem) from None

    async def _go_on(self) -> None:
        """Registers what may change now, waits for an answer or a second, and reads."""
        now = next_lws(self._order, self._waiting, self._changing, self._live.down(self._existing))
        if not self._waiting and not self._changing:
            now += self._optional
        self._register(now)
        blocked = not (self._registering or self._awaited or self._changing)
        reads = blocked or bool(self._awaited)
        pause = max(0.0, self._next_read - time.monotonic())
        if self._registering:
            await asyncio.wait(
                self._registering.values(),
                timeout=pause if reads else None,
                return_when=asyncio.FIRST_COMPLETED,
            )
            self._answers()
        elif reads:
            await asyncio.sleep(pause)
        if reads and time.monotonic() >= self._next_read:
            await self._read_again(blocked=blocked)

    def _register(self, names: Iterable[str]) -> None:
        for name in names:
            self._waiting.discard(name)
            self._optional.discard(name)
            if name in self._existing and self._steps[name].in_turn:
                self._changing.add(name)
            self._open([name])
            metadata = self._resources["LeaderWorkerSet", name].metadata.future()
            self._registering[name] = asyncio.ensure_future(metadata)
            self._changed = time.monotonic()

    def _open(self, names: Iterable[str]) -> None:
        for name in names:
            if name in self._gates and not self._gates[name].done():
                self._gates[name].set_result([])

    def _answers(self) -> None:
        """Notes which LeaderWorkerSets have changed, and which of them are awaited."""
        for name, task in [*self._registering.items()]:
            if not task.done():
                continue
            del self._registering[name]
            step, before = self._steps[name], self._before.get(name)
            version = version_of(task.result() or {})
            self._live.registered(name, version)
            # Without a uid it was not made: an update of other targets.
            changed = bool(version[0]) and (before is None or before.version != version)
            settled = step.frozen or self._is_settled(name, self._revisions[name])
            # One that is created again, as after a rename, may need others to be a complete gang.
            if before is not None and before.version[0] not in ("", version[0]):
                self._existing.discard(name)
            in_turn = changed and name in self._changing & self._existing
            wanted = step.required and self._plan.wait.level.awaits_replicas
            if in_turn or (wanted and version[0] and (changed or not settled)):
                new = before is None or (not changed and name not in self._live.served)
                text = self._plan.wait.timeout if new else step.timeout
                setting = "wait.timeout" if new else "rollout.timeout"
                end = time.monotonic() + _seconds(text)
                self._awaited[name] = end, f"after {text} ({setting})"
            if not in_turn:
                self._changing.discard(name)

    def _is_settled(self, name: str, value: str) -> bool:
        """Whether an update has seen this form of an object up: it is not awaited again."""
        return self._observed.served is None or self._observed.served.get(name) == value

    async def _read_again(self, *, blocked: bool) -> None:
        try:
            await self._live.read_lws()
        except UnreadableError as problem:
            if self._waiting and self._changing & self._awaited.keys():
                raise self._refusal(problem) from None
            self._next_read = time.monotonic() + self._pause()
            self._progress.say_once(f"whether replicas are available was not checked: {problem}")
            self._changing -= self._awaited.keys()
            self._awaited.clear()
            return
        for name in [name for name in self._awaited if self._live.is_up(name)]:
            del self._awaited[name]
            self._changing.discard(name)
            self._changed = time.monotonic()
        now = time.monotonic()
        self._next_read = now + self._pause()
        self._blocked_since = (self._blocked_since or now) if blocked else None
        await self._check_time(now)
        waiting = self._awaited or self._live.down(self._existing)
        first = next((step.name for step in self._order if step.name in waiting), None)
        await self._progress.show(self._live.lws or {}, first)

    def _pause(self) -> float:
        """Seconds until the next read: more, the longer nothing has changed."""
        least = _TURN_SECONDS if self._waiting else _PAUSE_SECONDS
        quiet = time.monotonic() - self._changed
        return min(_LONG_PAUSE_SECONDS, max(least, quiet * _PAUSE_PART))

    async def _check_time(self, now: float) -> None:
        """Fails where something did not come in time, with the reason."""
        late = [name for name, (end, _) in self._awaited.items() if now + _MARGIN_SECONDS > end]
        if late and any(now > end for end, _ in self._awaited.values()):
            verb = "is" if len(late) == 1 else "are"
            _, limit = self._awaited[late[0]]
            await self._fail(f"{listed(late)} {verb} not available {limit}", late)
        if self._blocked_since is None:
            return
        step = next(step for step in self._order if step.name in self._waiting)
        if now - self._blocked_since > _seconds(step.timeout):
            down = self._live.down(self._existing)
            names = [each.name for each in self._order if each.name in down]
            await self._fail(
                f"no replica of role {step.role} may change: {listed(names)} not available, and "
                f"rollout.maxUnavailable is {step.limit}, after {step.timeout} (rollout.timeout)",
                names,
            )

    async def _wait_for_objects(self) -> None:
        """Waits until the gang is placed, or until gateways have accepted the route."""
        level = self._plan.wait.level
        manifests = [
            each
            for each in awaited_manifests(self._plan, self._manifests)
            if level is WaitLevel.SERVING or not self._is_settled(*_minimum(each))
        ]
        end = time.monotonic() + _seconds(self._plan.wait.timeout)
        for each in manifests:
            await self._resources[each["kind"], each["metadata"]["name"]].metadata.future()
        while manifests:
            try:
                self._objects = await self._live.read(manifests)
            except UnreadableError as problem:
                if not self._objects:
                    names = [f"{each['kind']} {each['metadata']['name']}" for each in manifests]
                    self._progress.say_once(f"{', '.join(names)} not checked: {problem}")
                    return
            missing = not_accepted(self._plan, manifests, self._objects)
            if missing is None:
                break
            if time.monotonic() > end:
                await self._fail(f"{missing} (wait.timeout {self._plan.wait.timeout})", ())
            self._progress.say(missing)
            await asyncio.sleep(self._pause())
        if level is WaitLevel.SCHEDULED:
            self._live.served.update(map(_minimum, manifests))

    async def _seen(self) -> Observed:
        """What is noted in the state; reads once more where something may be down."""
        known = {**self._observed.objects, **trimmed({**(self._live.lws or {}), **self._objects})}
        up = [name for name in self._steps if is_available(known.get(name))]
        if self._live.lws is None and len(up) < len(self._steps):
            with contextlib.suppress(UnreadableError):
                await self._live.read_lws()
            known |= trimmed(self._live.lws or {})
        names = {each["metadata"]["name"] for each in self._manifests}
        return Observed(
            {name: each for name, each in known.items() if name in names},
            {name: value for name, value in self._live.served.items() if name in names},
        )

    def _refusal(self, problem: Exception) -> pulumi.RunError:
        return pulumi.RunError(
            f"{self._plan.service}: replicas cannot change one after the other, because the "
            f"cluster cannot be read: {problem}. Let the program list LeaderWorkerSets, or use "
            "rollout.strategy AllAtOnce for this update (docs/rollout.md)"
        )

    async def _fail(self, what: str, names: Sequence[str]) -> None:
        lines = await explain_failure(self._cluster, self._plan.service, names)
        raise pulumi.RunError("\n".join([f"{self._plan.service}: {what}", *lines]))


def _minimum(pod_group: Mapping[str, Any]) -> tuple[str, str]:
    return pod_group["metadata"]["name"], str(pod_group["spec"]["minMember"])


def _seconds(text: str) -> float:
    return float(durations.seconds(text) or 0)
