"""Rolling update order by live state: at most `maxUnavailable` replicas are down at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi

from fusioninfer_pulumi.api.rollout import Layout, RolloutLevel, RolloutStrategy
from fusioninfer_pulumi.component.cluster_access import (
    can_read_cluster,
    read_error_text,
    read_from_cluster,
)
from fusioninfer_pulumi.component.diagnosis.explain import explain_lws
from fusioninfer_pulumi.component.diagnosis.read import read_service
from fusioninfer_pulumi.component.resources import KubernetesObject
from fusioninfer_pulumi.component.state import existing_lws, stack_lws_of
from fusioninfer_pulumi.component.status import is_ready
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.kube.client import KubernetesApi, UnreadableError
from fusioninfer_pulumi.rollout.order import Down, Rollout, rollout_plan
from fusioninfer_pulumi.rollout.steps import LwsStep
from fusioninfer_pulumi.service_plan import ServicePlan

_LWS = ("leaderworkerset.x-k8s.io", "v1")
#: How long an update may be held up by reading the cluster.
_READ_SECONDS = 10.0
#: Replicas that a message names; the others are counted.
_NAMED = 3


def parallel_operations() -> int | None:
    """Operations that Pulumi runs at a time (`--parallel`), None where that is not known."""
    return pulumi.runtime.settings.SETTINGS.parallel or None


def changing_roles(name: str, plan: ServicePlan, lws: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """Roles whose replicas this update will change one after the other, as far as known.

    None in a preview, and where the cluster cannot be read. A value that is known only during the
    update may change a replica too; that is not noticed here.
    """
    by_role = plan.layout is Layout.PER_REPLICA and plan.rollout.level is not RolloutLevel.GROUP
    if pulumi.runtime.is_dry_run() or not by_role or not can_read_cluster():
        return set()
    if existing_lws(name, plan) is None:
        return set()
    existing = stack_lws_of(name, plan) or {}
    return {
        step.role
        for step in rollout_plan(plan).steps
        if step.paced
        and not step.frozen
        and step.rollout.strategy is RolloutStrategy.ROLLING
        and step.name in existing
        and existing[step.name].revision != lws[step.name]["metadata"]["labels"][labels.REVISION]
    }


class RollingUpdateOrder:
    """The rolling update order of a service, computed when its live state has been read."""

    def __init__(
        self,
        component: pulumi.Resource,
        name: str,
        plan: ServicePlan,
        roles: set[str],
        yaml_only: pulumi.Output[bool],
    ) -> None:
        """Starts to read the live state; `roles` are those whose replicas will change."""
        self._component, self._plan, self._roles = component, plan, roles
        self._existing = existing_lws(name, plan) or frozenset()
        self._yaml_only = yaml_only
        self._resources: dict[str, KubernetesObject] = {}
        self._again: dict[str, pulumi.Output[Rollout]] = {}
        self._first: dict[str, list[str]] = {}
        self.order: pulumi.Output[Rollout] = pulumi.Output.from_input(self._read_first())

    def after(self, name: str) -> pulumi.Output[list[pulumi.Resource]]:
        """What a LeaderWorkerSet depends on in its role; fails where no replica may go down."""

        def dependencies(order: Rollout) -> Any:
            step = order.by_name[name]
            first = self._first.get(step.role, [])
            if name in first or not first or name not in self._existing or not step.required:
                return self._named(step)
            if step.role not in self._again:
                again = self._read_again(step.role)
                self._again[step.role] = pulumi.Output.from_input(again)
            return self._again[step.role].apply(lambda later: self._named(later.by_name[name]))

        return self.order.apply(dependencies)

    def made(self, name: str, resource: KubernetesObject) -> None:
        """Keeps the resource of a LeaderWorkerSet."""
        self._resources[name] = resource

    def _named(self, step: LwsStep) -> list[KubernetesObject]:
        return [self._resources[each] for each in step.after]

    async def _read_first(self) -> Rollout:
        down: set[str] = set()
        if not await self._yaml_only.future():
            down = await self._unavailable() or down
        order = rollout_plan(self._plan, parallel_operations(), self._existing)
        for step in order.steps:
            counts = step.required and step.name in self._existing and step.role in self._roles
            if counts and step.name in down:
                self._first.setdefault(step.role, []).append(step.name)
        return self._planned({})

    async def _read_again(self, role: str) -> Rollout:
        for name in self._first[role]:
            await self._resources[name].urn.future()
        down = await self._unavailable()
        if down is None:
            return self._planned({})
        steps = [step for step in self._planned({}).steps if step.role == role and step.required]
        lasting = [step.name for step in steps if step.name in self._existing and step.name in down]
        limit = steps[0].rollout.max_unavailable
        if len(lasting) >= limit:
            raise pulumi.RunError(await self._refusal(role, sorted(lasting), limit))
        return self._planned({role: len(lasting)})

    def _planned(self, lasting: Mapping[str, int]) -> Rollout:
        first = frozenset(name for names in self._first.values() for name in names)
        return rollout_plan(self._plan, parallel_operations(), self._existing, Down(first, lasting))

    async def _unavailable(self) -> set[str] | None:
        """LeaderWorkerSets that are not ready; None, with a log line, where they cannot be read."""
        try:
            down: set[str] = await self._read(read_unavailable)
        # Whatever it is: the update goes on as if the cluster could not be read.
        except Exception as problem:  # noqa: BLE001
            message = f"replicas that are down were not counted: {read_error_text(problem)}"
            pulumi.log.info(message, self._component)
            return None
        return down

    async def _refusal(self, role: str, down: list[str], limit: int) -> str:
        named = ", ".join(down[:_NAMED])
        if len(down) > _NAMED:
            named += f" and {len(down) - _NAMED} more"
        try:
            reasons = await self._read(explain_unavailable, down)
        except Exception as problem:  # noqa: BLE001  # the reason must not hide the refusal
            reasons = [f"why is not known: {read_error_text(problem)}"]
        message = (
            f"{self._plan.service}: {named} of role {role} is down, and with "
            f"rollout.maxUnavailable {limit} no other replica may go down for this update"
        )
        remedies = (
            "repair or delete what is down; or lower rollout.partition, if that holds it back; or "
            "raise rollout.maxUnavailable (docs/rollout.md)"
        )
        return "\n".join([message, *reasons, remedies])

    async def _read(self, read: Any, *more: Any) -> Any:
        arguments = (self._plan.service, *more)
        return await read_from_cluster(
            self._component, self._plan.namespace, read, *arguments, seconds=_READ_SECONDS
        )


def read_unavailable(
    kubeconfig: str | None, context: str | None, namespace: str, service: str
) -> set[str]:
    """Names of a service's LeaderWorkerSets that are not ready.

    Raises UnreadableError where they cannot be read.
    """
    api = KubernetesApi(kubeconfig, context)
    custom = api.client.CustomObjectsApi(api.connection)
    listed = api.each(
        f"LeaderWorkerSets in {namespace}",
        custom.list_namespaced_custom_object,
        *(*_LWS, namespace, "leaderworkersets"),
        label_selector=f"{labels.SERVICE}={service}",
    )
    found = {each["metadata"]["name"] for each in listed if not is_ready(each)}
    if api.unread:
        raise UnreadableError(", ".join(api.unread))
    return found


def explain_unavailable(
    kubeconfig: str | None, context: str | None, namespace: str, service: str, lws: Sequence[str]
) -> list[str]:
    """Why LeaderWorkerSets are not ready, one line for each reason.

    Raises UnreadableError where nothing can be read.
    """
    snapshot = read_service(kubeconfig, context, namespace, service)
    return [line for name in lws for line in explain_lws(name, snapshot)]
