"""Updates over time, from the manifests of both sides: when each replica restarts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fusioninfer_pulumi.api.rollout import RolloutStrategy
from fusioninfer_pulumi.cli.diff._formatting import join_in_order
from fusioninfer_pulumi.cli.diff.compare import (
    Change,
    Manifests,
    Plans,
    find_mixed_revisions,
)
from fusioninfer_pulumi.cli.diff.manifests import (
    Manifest,
    Service,
    count_pods_and_accelerators,
    get_count,
    label,
    role_of,
    service_of,
)
from fusioninfer_pulumi.cli.diff.restarts import lws_by_name
from fusioninfer_pulumi.findings import Finding
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.rollout.timeline import (
    LwsChange,
    LwsSize,
    Timeline,
    format_duration,
    simulate_update,
)
from fusioninfer_pulumi.rollout.update_order import find_pair_changes, order_update
from fusioninfer_pulumi.topology.gang import read_pod_group_reference

# Each step visits every LeaderWorkerSet: for more of them it takes long.
_MOST_LWS = 400
#: Titles of the columns before those of roles.
HEAD = ("STEP", "BEGINS BY", "RESTARTS", "STARTS")
GPUS = "GPUS"
#: How to read the figures.
BOUNDS = (
    "This is the slowest successful update: each replica becomes available when its timeout ends. "
    "Times exclude some seconds of each step: Pulumi's own work, and up to 5 s between two reads."
)


@dataclass(frozen=True)
class ServiceTimeline:
    """The update of a service over time.

    Attributes:
        timeline: None where there is none.
        missing: Why there is none.
        mixed: What clients see while pods of two revisions run.
    """

    namespace: str
    service: str
    timeline: Timeline | None = None
    missing: str = ""
    mixed: tuple[str, ...] = ()

    @property
    def head(self) -> tuple[str, ...]:
        """Titles of its columns."""
        return (*HEAD, *self._roles, GPUS)

    @property
    def cells(self) -> list[tuple[str, ...]]:
        """Its rows as text, none without a timeline."""
        return [] if self.timeline is None else list(self._cells(self.timeline))

    @property
    def notes(self) -> Iterator[str]:
        """Facts that are not in the rows."""
        if self.timeline is None:
            return
        if self.timeline.not_awaited:
            names = join_in_order(map(self._short, self.timeline.not_awaited))
            yield f"The update does not wait for {names}, and does not count them as ready."
        yield from self.mixed

    @property
    def _roles(self) -> tuple[str, ...]:
        rows = () if self.timeline is None else self.timeline.rows
        return tuple(dict.fromkeys(role for row in rows for role in row.serving))

    def _cells(self, played: Timeline) -> Iterator[tuple[str, ...]]:
        last = len(played.rows) - 1
        for number, row in enumerate(played.rows):
            name = {0: "before", last: "after"}.get(number, str(number))
            yield (
                name,
                format_duration(row.seconds) if number else "",
                join_in_order(map(self._short, row.restarting)),
                join_in_order(map(self._short, row.starting)),
                *(str(row.serving.get(role, 0)) for role in self._roles),
                str(row.accelerators),
            )

    def _short(self, lws: str) -> str:
        return lws.removeprefix(f"{self.service}-")

    def to_json(self) -> dict[str, Any]:
        """The update in the keys of `plan --output json`."""
        played = self.timeline
        if played is None:
            return {"missing": self.missing}
        before, *steps, after = (
            {
                "seconds": row.seconds,
                "restarting": list(row.restarting),
                "starting": list(row.starting),
                "serving": dict(row.serving),
                "gpus": row.accelerators,
            }
            for row in played.rows
        )
        return {
            "before": before,
            "turns": steps,
            "after": after,
            "peakGpus": played.peak,
            "longestSeconds": played.after.seconds,
            "notAwaited": list(played.not_awaited),
            **({"mixedRevisions": list(self.mixed)} if self.mixed else {}),
        }


def timelines(old: Manifests, new: Manifests, plans: Plans) -> list[ServiceTimeline]:
    """Plays the update of each service after, in their order; arguments as of `compare`."""
    change = Change(old, new, plans)
    rejections = change.find_rejections()
    times = Counter((str(plan.namespace), plan.service) for plan in change.plans)
    return [_played(plan, change, rejections, times) for plan in change.plans]


def _played(
    plan: ServicePlan,
    change: Change,
    rejections: Mapping[Service, Sequence[Finding]],
    times: Mapping[tuple[str, str], int],
) -> ServiceTimeline:
    old_keys, new_keys = (lws_by_name(plan, lws) for lws in change.lws)
    namespace = next((key.namespace for key in new_keys.values()), str(plan.namespace))
    service = namespace, plan.service
    running = {key: m for key, m in change.lws[0].items() if service_of(key, m) == service}
    several = times[str(plan.namespace), plan.service] > 1 or any(key.ordinal for key in running)
    missing = ""
    if rejections.get(service):
        missing = f"`pulumi up` rejects it: {rejections[service][0].message}"
    elif several or not new_keys:
        missing = "it has no replicas, or appears several times in a source"
    elif len(new_keys) > _MOST_LWS:
        missing = f"it has more than {_MOST_LWS} LeaderWorkerSets"
    elif not running:
        missing = "the old source has no replicas of this service"
    if missing:
        return ServiceTimeline(*service, missing=missing)
    edits = {edit.key: edit for edit in change.edits}
    olds = {name: change.lws[0][key] for name, key in old_keys.items()}
    pairs = {
        name: (label(manifest, labels.PAIR_REVISION), read_pod_group_reference(manifest))
        for name, manifest in olds.items()
    }
    pair_changes = find_pair_changes(plan, pairs)
    changes = {}
    for step in order_update(plan):
        key, after = old_keys.get(step.name), _size(change.lws[1][new_keys[step.name]])
        if key is None:
            changes[step.name] = LwsChange(None, after)
            continue
        edit = edits.get(key)
        is_replaced = edit is not None and bool(edit.immutable_field)
        restarts = edit is not None and edit.restarts and (is_replaced or not step.frozen)
        recreates = step.rollout.strategy is RolloutStrategy.RECREATE
        changes[step.name] = LwsChange(
            _size(olds[step.name]),
            after,
            restarts=restarts or key in change.freed,
            recreated=restarts and (is_replaced or recreates),
            new_pair=pair_changes.get(step.name, False),
        )
    removed = [
        (role_of(key, manifest), _size(manifest))
        for key, manifest in running.items()
        if key not in change.lws[1]
    ]
    mixed = tuple(find_mixed_revisions(change, service))
    return ServiceTimeline(*service, simulate_update(plan, changes, removed), mixed=mixed)


def _size(manifest: Manifest) -> LwsSize:
    replicas = get_count(manifest, "spec", "replicas")
    _, devices = count_pods_and_accelerators(manifest)
    return LwsSize(replicas, devices // replicas if replicas else 0)
