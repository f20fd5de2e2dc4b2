"""The live objects of one service, as the program reads them while an update runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fusioninfer_pulumi.component.cluster_access import Cluster
from fusioninfer_pulumi.component.state import version_of
from fusioninfer_pulumi.component.status import is_available, is_ready, observed
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.kube.client import KubernetesApi, UnreadableError
from fusioninfer_pulumi.rollout.order import LwsStep
from fusioninfer_pulumi.rollout.state_machine import Snapshot

Live = dict[str, dict[str, Any]]

_LWS = {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet"}
_READ_SECONDS = 15.0


class LiveState:
    """Reads a service again and again over one connection, and keeps its LeaderWorkerSets.

    Attributes:
        lws: The latest LeaderWorkerSets by name; None while they were not read.
    """

    def __init__(self, cluster: Cluster, service: str, steps: Iterable[LwsStep]) -> None:
        """Reads nothing yet."""
        self.lws: Live | None = None
        self._cluster, self._service = cluster, service
        self._steps = {step.name: step for step in steps}
        self._api: KubernetesApi | None = None

    async def read(self, manifests: Iterable[Mapping[str, Any]]) -> Live:
        """Returns the service's objects of these kinds by name.

        Raises UnreadableError where they cannot be read.
        """
        kinds = dict.fromkeys((manifest["apiVersion"], manifest["kind"]) for manifest in manifests)
        return await self._cluster.read(self.listed, self._service, kinds, seconds=_READ_SECONDS)

    async def read_lws(self) -> dict[str, Snapshot]:
        """Reads the LeaderWorkerSets of the update, by name.

        Raises UnreadableError where they cannot be read.
        """
        self.lws = await self.read([_LWS])
        return {
            name: _snapshot(step, self.lws[name])
            for name, step in self._steps.items()
            if name in self.lws
        }

    def listed(
        self,
        kubeconfig: str | None,
        context: str | None,
        namespace: str,
        service: str,
        kinds: Iterable[tuple[str, str]],
    ) -> Live:
        """Lists objects in a thread: one request for 500 of each kind."""
        # After a failure, such as expired credentials, the next read connects again.
        api, self._api = self._api or KubernetesApi(kubeconfig, context), None
        selector = f"{labels.SERVICE}={service}"
        objects: Live = {}
        for api_version, kind in kinds:
            for live in api.objects(api_version, kind, namespace, labelSelector=selector) or ():
                objects[live["metadata"]["name"]] = live
        if api.unread:
            raise UnreadableError(", ".join(api.unread))
        self._api = api
        return objects


def trimmed(objects: Live) -> Live:
    """What of live objects is kept for the status: version and status."""
    keys = ("generation", "resourceVersion")
    return {
        name: {
            "metadata": {key: live["metadata"][key] for key in keys if key in live["metadata"]},
            "status": live.get("status"),
        }
        for name, live in objects.items()
    }


def _snapshot(step: LwsStep, live: Mapping[str, Any]) -> Snapshot:
    if step.partial:
        # A status without the field has no ready replica.
        is_up = bool(observed(live).get("readyReplicas"))
    else:
        is_up = is_available(live) if step.whole else is_ready(live)
    revision = (live["metadata"].get("labels") or {}).get(labels.REVISION)
    return Snapshot(version_of(live["metadata"]), is_up, str(revision or ""))
