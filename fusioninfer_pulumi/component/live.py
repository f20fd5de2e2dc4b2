"""The live objects of one service, as the program reads them while an update runs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from fusioninfer_pulumi.component.cluster_access import Cluster
from fusioninfer_pulumi.component.state import Version, version_of
from fusioninfer_pulumi.component.status import is_available, is_ready, observed
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.kube.client import KubernetesApi, UnreadableError
from fusioninfer_pulumi.rollout.order import LwsStep

Live = dict[str, dict[str, Any]]

_PLURALS = {
    "LeaderWorkerSet": "leaderworkersets",
    "PodGroup": "podgroups",
    "Gateway": "gateways",
    "HTTPRoute": "httproutes",
    "InferencePool": "inferencepools",
}
_LWS = {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet"}
_READ_SECONDS = 15.0
#: Tries of the first read, after which the cluster counts as unreadable, and the time between them.
_TRIES, _PAUSE_SECONDS = 3, 1.0


class LiveState:
    """Reads a service again and again over one connection, and keeps its LeaderWorkerSets.

    Attributes:
        lws: The latest LeaderWorkerSets by name; None while they were not read.
        served: Revisions that were available, by name.
    """

    def __init__(
        self,
        cluster: Cluster,
        service: str,
        steps: Mapping[str, LwsStep],
        served: Mapping[str, str],
    ) -> None:
        """Reads nothing yet; `served` is what earlier updates have seen."""
        self.lws: Live | None = None
        self.served = dict(served)
        self._cluster, self._service, self._steps = cluster, service, steps
        self._api: KubernetesApi | None = None
        self._registered: dict[str, Version] = {}

    async def read(self, manifests: Iterable[Mapping[str, Any]]) -> Live:
        """Returns the service's objects of these kinds by name.

        Raises UnreadableError where they cannot be read.
        """
        kinds = dict.fromkeys((each["apiVersion"], each["kind"]) for each in manifests)
        return await self._cluster.read(self.listed, self._service, kinds, seconds=_READ_SECONDS)

    async def read_lws(self) -> None:
        """Reads the LeaderWorkerSets.

        Raises UnreadableError where the first read fails; where a later one does, the last counts.
        """
        for attempt in range(1, _TRIES + 1):
            try:
                self.lws = await self.read([_LWS])
                break
            except UnreadableError:
                if self.lws is not None:
                    return
                if attempt == _TRIES:
                    raise
                await asyncio.sleep(_PAUSE_SECONDS)
        for name, live in (self.lws or {}).items():
            if name in self._steps and self.is_up(name):
                own = live["metadata"].get("labels") or {}
                self.served[name] = str(own.get(labels.REVISION) or "")

    def registered(self, name: str, version: Version) -> None:
        """Keeps what Pulumi has registered: what was read before that says nothing."""
        self._registered[name] = version

    def is_up(self, name: str) -> bool:
        """Whether one was available when it was read, in the form that is registered."""
        step, live = self._steps[name], (self.lws or {}).get(name)
        uid, generation = version_of((live or {}).get("metadata") or {})
        registered = self._registered.get(name, (uid, 0))
        if uid != registered[0] or generation < registered[1]:
            return False
        if step.partial:
            # The status has no count of ready replicas as long as there is none.
            return bool(observed(live).get("readyReplicas"))
        return is_available(live) if step.whole else is_ready(live)

    def down(self, names: Iterable[str]) -> set[str]:
        """Those that are unavailable; none while nothing was read."""
        return set() if self.lws is None else {name for name in names if not self.is_up(name)}

    def listed(
        self,
        kubeconfig: str | None,
        context: str | None,
        namespace: str,
        service: str,
        kinds: Iterable[tuple[str, str]],
    ) -> Live:
        """Lists objects in a thread: one request for 500 of each kind."""
        # Where this one fails, credentials may have expired: the next one connects again.
        api, self._api = self._api or KubernetesApi(kubeconfig, context), None
        listing = api.client.CustomObjectsApi(api.connection).list_namespaced_custom_object
        found: Live = {}
        for api_version, kind in kinds:
            group, _, version = api_version.partition("/")
            where = group, version, namespace, _PLURALS[kind]
            what, selector = f"{_PLURALS[kind]} in {namespace}", f"{labels.SERVICE}={service}"
            for each in api.each(what, listing, *where, label_selector=selector):
                found[each["metadata"]["name"]] = each
        if api.unread:
            raise UnreadableError(", ".join(api.unread))
        self._api = api
        return found


def trimmed(live: Live) -> Live:
    """What of live objects is kept for the status: identity, version and status."""
    kept = ("generation", "resourceVersion")
    return {
        name: {
            "metadata": {key: each["metadata"][key] for key in kept if key in each["metadata"]},
            "status": each.get("status"),
        }
        for name, each in live.items()
    }
