"""What the program sees of a service's LeaderWorkerSets while an update runs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from fusioninfer_pulumi.component.cluster_access import Cluster
from fusioninfer_pulumi.component.live import Live, LiveReader
from fusioninfer_pulumi.component.state import Version, version_of
from fusioninfer_pulumi.component.status import is_available, is_ready, observed
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.kube.client import UnreadableError
from fusioninfer_pulumi.rollout.order import LwsStep

_READ_SECONDS = 15.0
#: Tries of the first look, after which the cluster counts as unreadable, and the time between them.
_TRIES, _PAUSE_SECONDS = 3, 1.0


class Looks:
    """The latest list of the LeaderWorkerSets.

    Attributes:
        live: The live objects by name; None while nobody has looked.
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
        self.live: Live | None = None
        self.served = dict(served)
        self._cluster, self._service, self._steps = cluster, service, steps
        self._reader = LiveReader()
        self._registered: dict[str, Version] = {}

    async def look(self) -> None:
        """Lists them.

        Raises UnreadableError where the first look fails; where a later one does, the last counts.
        """
        for attempt in range(1, _TRIES + 1):
            try:
                self.live = await self._cluster.read(
                    self._reader.lws, self._service, seconds=_READ_SECONDS
                )
                break
            except UnreadableError:
                if self.live is not None:
                    return
                if attempt == _TRIES:
                    raise
                await asyncio.sleep(_PAUSE_SECONDS)
        for name, live in (self.live or {}).items():
            if name in self._steps and self.is_up(name):
                own = live["metadata"].get("labels") or {}
                self.served[name] = str(own.get(labels.REVISION) or "")

    def registered(self, name: str, version: Version) -> None:
        """Keeps what Pulumi has registered: what was seen before that says nothing."""
        self._registered[name] = version

    def is_up(self, name: str) -> bool:
        """Whether one was available at the last look, in the form that is registered."""
        step, live = self._steps[name], (self.live or {}).get(name)
        uid, generation = version_of((live or {}).get("metadata") or {})
        registered = self._registered.get(name, (uid, 0))
        if uid != registered[0] or generation < registered[1]:
            return False
        if step.partial:
            # The status has no count of ready replicas as long as there is none.
            return bool(observed(live).get("readyReplicas"))
        return is_available(live) if step.whole else is_ready(live)

    def down(self, names: Iterable[str]) -> set[str]:
        """Those that are unavailable; none while nobody has looked."""
        return set() if self.live is None else {name for name in names if not self.is_up(name)}
