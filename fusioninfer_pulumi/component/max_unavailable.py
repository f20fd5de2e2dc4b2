"""How many replicas an update may take down now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi

from fusioninfer_pulumi.api.rollout import Layout, RolloutLevel, RolloutStrategy
from fusioninfer_pulumi.component.cluster_access import ask, readable, why_unread
from fusioninfer_pulumi.component.diagnosis.explain import explain_set
from fusioninfer_pulumi.component.diagnosis.read import read_service
from fusioninfer_pulumi.component.resources import KubernetesObject
from fusioninfer_pulumi.component.state import existing_sets, recorded_of
from fusioninfer_pulumi.component.status import is_ready
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.kube.client import KubernetesApi, UnreadableError
from fusioninfer_pulumi.kube.labels import REVISION
from fusioninfer_pulumi.rollout.order import Down, Rollout, rollout_plan
from fusioninfer_pulumi.rollout.steps import SetStep
from fusioninfer_pulumi.service_plan import ServicePlan

_SETS = ("leaderworkerset.x-k8s.io", "v1")


def read_down(
    kubeconfig: str | None, context: str | None, namespace: str, service: str
) -> set[str]:
    """Reads the sets of a service.

    Args:
        kubeconfig: Path or text of a kubeconfig, None for the one that kubectl would use.
        context: Its context, None for the current one.
        namespace: The service's namespace.
        service: Its name.

    Returns:
        Names of the sets that are not available.

    Raises:
        UnreadableError: They cannot be read.
    """
    api = KubernetesApi(kubeconfig, context)
    custom = api.client.CustomObjectsApi(api.connection)
    listed = api.each(
        f"LeaderWorkerSets in {namespace}",
        custom.list_namespaced_custom_object,
        *(*_SETS, namespace, "leaderworkersets"),
        label_selector=f"{labels.SERVICE}={service}",
    )
    found = {each["metadata"]["name"] for each in listed if not is_ready(each)}
    if api.unread:
        raise UnreadableError(", ".join(api.unread))
    return found


def explain_down(
    kubeconfig: str | None, context: str | None, namespace: str, service: str, sets: Sequence[str]
) -> list[str]:
    """Reads why sets of a service are not available; arguments and errors are those of `read_down`.

    Returns:
        One line for each reason.
    """
    seen = read_service(kubeconfig, context, namespace, service)
    return [line for name in sets for line in explain_set(name, seen)]


#: How long an update may be held up by looking.
_SECONDS = 10.0
#: Replicas that a message names; the others are counted.
_NAMED = 3


def workers() -> int | None:
    """Operations that the engine runs at a time, None where nobody knows."""
    return pulumi.runtime.settings.SETTINGS.parallel or None


def changing_roles(name: str, plan: ServicePlan, sets: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """Roles of which replicas will change one after the other, as far as it is known before.

    A value that only the engine knows may change a replica too; that is not noticed here.

    Args:
        name: Logical name of the component.
        plan: The service.
        sets: Manifests of its sets by name.

    Returns:
        Their names; none in a preview, and where nobody can look.
    """
    by_role = plan.layout is Layout.PER_REPLICA and plan.rollout.level is not RolloutLevel.GROUP
    if pulumi.runtime.is_dry_run() or not by_role or not readable():
        return set()
    if existing_sets(name, plan) is None:
        return set()
    recorded = recorded_of(name, plan) or {}
    return {
        step.role
        for step in rollout_plan(plan).steps
        if step.paced
        and not step.frozen
        and step.rollout.strategy is RolloutStrategy.ROLLING
        and step.name in recorded
        and recorded[step.name].revision != sets[step.name]["metadata"]["labels"][REVISION]
    }


class Pace:
    """The order of a service whose replicas are about to change, drawn when it has been looked."""

    def __init__(
        self,
        component: pulumi.Resource,
        name: str,
        plan: ServicePlan,
        roles: set[str],
        files: pulumi.Output[bool],
    ) -> None:
        """Begins to look.

        Args:
            component: The service's component.
            name: Its logical name.
            plan: The service.
            roles: Roles whose replicas will change.
            files: Whether objects are only written to files.
        """
        self._component, self._plan, self._roles = component, plan, roles
        self._existing = existing_sets(name, plan) or frozenset()
        self._files = files
        self._resources: dict[str, KubernetesObject] = {}
        self._again: dict[str, pulumi.Output[Rollout]] = {}
        self._first: dict[str, list[str]] = {}
        self.order: pulumi.Output[Rollout] = pulumi.Output.from_input(self._look())

    def after(self, name: str) -> pulumi.Output[list[pulumi.Resource]]:
        """What a set depends on in its role; fails where no more replicas may go down."""

        def drawn(order: Rollout) -> Any:
            step = order.by_name[name]
            first = self._first.get(step.role, [])
            if name in first or not first or name not in self._existing or not step.required:
                return self._named(step)
            if step.role not in self._again:
                again = self._look_again(step.role)
                self._again[step.role] = pulumi.Output.from_input(again)
            return self._again[step.role].apply(lambda later: self._named(later.by_name[name]))

        return self.order.apply(drawn)

    def made(self, name: str, resource: KubernetesObject) -> None:
        """Notes the resource of a set."""
        self._resources[name] = resource

    def _named(self, step: SetStep) -> list[KubernetesObject]:
        return [self._resources[each] for each in step.after]

    async def _look(self) -> Rollout:
        down: set[str] = set()
        if not await self._files.future():
            down = await self._down() or down
        order = rollout_plan(self._plan, workers(), self._existing)
        for step in order.steps:
            counts = step.required and step.name in self._existing and step.role in self._roles
            if counts and step.name in down:
                self._first.setdefault(step.role, []).append(step.name)
        return self._drawn({})

    async def _look_again(self, role: str) -> Rollout:
        for name in self._first[role]:
            await self._resources[name].urn.future()
        down = await self._down()
        if down is None:
            return self._drawn({})
        steps = [step for step in self._drawn({}).steps if step.role == role and step.required]
        lasting = [step.name for step in steps if step.name in self._existing and step.name in down]
        limit = steps[0].rollout.max_unavailable
        if len(lasting) >= limit:
            raise pulumi.RunError(await self._refusal(role, sorted(lasting), limit))
        return self._drawn({role: len(lasting)})

    def _drawn(self, lasting: Mapping[str, int]) -> Rollout:
        first = frozenset(name for names in self._first.values() for name in names)
        return rollout_plan(self._plan, workers(), self._existing, Down(first, lasting))

    async def _down(self) -> set[str] | None:
        """Sets that are not available; None where they cannot be read, which is told."""
        try:
            down: set[str] = await self._read(read_down)
        # Whatever it is: an update goes on as without a look.
        except Exception as problem:  # noqa: BLE001
            told = f"replicas that are down were not counted: {why_unread(problem)}"
            pulumi.log.info(told, self._component)
            return None
        return down

    async def _refusal(self, role: str, down: list[str], limit: int) -> str:
        named = ", ".join(down[:_NAMED])
        if len(down) > _NAMED:
            named += f" and {len(down) - _NAMED} more"
        try:
            why = await self._read(explain_down, down)
        except Exception as problem:  # noqa: BLE001  # the reason must not hide the refusal
            why = [f"why is not known: {why_unread(problem)}"]
        told = (
            f"{self._plan.service}: {named} of role {role} is down, and with "
            f"rollout.maxUnavailable {limit} no other replica may go down for this update"
        )
        ways = (
            "repair or delete what is down; or lower rollout.partition, if that holds it back; or "
            "raise rollout.maxUnavailable (docs/rollout.md)"
        )
        return "\n".join([told, *why, ways])

    async def _read(self, read: Any, *more: Any) -> Any:
        given = (self._plan.service, *more)
        return await ask(self._component, self._plan.namespace, read, *given, seconds=_SECONDS)
