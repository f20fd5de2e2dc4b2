"""Updates over time, from the manifests of both sides: what each replica does, and when."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fusioninfer_pulumi.api.rollout import RolloutStrategy
from fusioninfer_pulumi.cli.diff._cells import in_order
from fusioninfer_pulumi.cli.diff.compare import (
    AcceleratorsOf,
    accelerators_of,
    edits_between,
    size_of,
    with_live_replicas,
)
from fusioninfer_pulumi.cli.diff.manifests import (
    Identity,
    Manifest,
    Objects,
    by_identity,
    count_at,
    hidden_template,
    role_of,
    service_of,
)
from fusioninfer_pulumi.cli.diff.restarts import Edit, keys_of, refusals, released, turns
from fusioninfer_pulumi.kube.outputs import UNKNOWN
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.rollout.order import update_order
from fusioninfer_pulumi.rollout.timeline import (
    LwsChange,
    LwsSize,
    Timeline,
    TimelineRow,
    hours_text,
    timeline,
)

# Each turn looks at every LeaderWorkerSet: for more of them it takes long.
_MOST_LWS = 400
#: Titles of the columns before those of roles.
HEAD = ("TURN", "BEGINS BY", "RESTARTS", "STARTS")
GPUS = "GPUS"
#: What the figures are.
BOUNDS = (
    "The slowest update that succeeds: each replica becomes available when its timeout ends. Times "
    "leave out seconds in each turn: Pulumi's own work, and up to 5 s between two reads."
)


@dataclass(frozen=True)
class ServiceTimeline:
    """The update of a service over time.

    Attributes:
        timeline: None where there is none.
        missing: Why there is none.
    """

    namespace: str
    service: str
    timeline: Timeline | None = None
    missing: str = ""

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
        """What the rows do not say."""
        if self.timeline is None:
            return
        if self.timeline.extra_hours:
            hours = f"{self.timeline.extra_hours:,.1f}"
            yield f"At most {hours} GPU-hours beyond those before and after."
        if self.timeline.not_awaited:
            names = in_order(map(self._short, self.timeline.not_awaited))
            yield f"Not awaited, and not counted as serving: {names}."

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
                hours_text(row.seconds) if number else "",
                in_order(map(self._short, row.restarting)),
                in_order(map(self._short, row.starting)),
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
        return {
            "before": _row(played.before),
            "turns": [_row(row) for row in played.turns],
            "after": _row(played.after),
            "peakGpus": played.peak,
            "longestSeconds": played.after.seconds,
            "extraGpuHours": round(played.extra_hours, 2),
            "notAwaited": list(played.not_awaited),
        }


def _row(row: TimelineRow) -> dict[str, Any]:
    return {
        "seconds": row.seconds,
        "restarting": list(row.restarting),
        "starting": list(row.starting),
        "serving": dict(row.serving),
        "gpus": row.accelerators,
    }


def timelines(
    old: Sequence[Manifest],
    new: Sequence[Manifest],
    plans: tuple[Iterable[ServicePlan], Iterable[ServicePlan]],
    accelerators_of: AcceleratorsOf = accelerators_of,
) -> list[ServiceTimeline]:
    """Plays the update of each service.

    Args:
        old: Manifests before, from any source.
        new: Manifests after.
        plans: Services before and after, as far as they are known.
        accelerators_of: Counts the accelerators that one pod of a template asks for.

    Returns:
        An update for each service after, in their order.
    """
    new_plans = list(plans[1])
    turns_of = turns(plans[0]), turns(new_plans)
    olds = by_identity(old)
    news, _ = with_live_replicas(olds, by_identity(new), turns_of[1])
    edits = list(edits_between(olds, news))
    old_lws, new_lws = (
        {key: manifest for key, manifest in objects.items() if key.is_lws}
        for objects in (olds, news)
    )
    freed = set(released((old_lws, new_lws), turns_of, edits))
    refused = refusals(new_plans, (old_lws, new_lws), edits)
    times = Counter(map(_key, new_plans))
    played = []
    for plan in new_plans:
        keys = tuple(keys_of(plan, _by_name(lws)) for lws in (old_lws, new_lws))
        namespace = next((key.namespace for key in keys[1].values()), str(plan.namespace))
        service = namespace, plan.service
        running = [key for key, manifest in old_lws.items() if _is_of(key, manifest, service)]
        several = times[_key(plan)] > 1 or any(key.ordinal for key in running)
        missing = ""
        if refused.get(service):
            missing = f"`pulumi up` refuses it: {refused[service][0].message}"
        elif several or not keys[1]:
            missing = "it runs no replicas, or stands several times in a source"
        elif len(keys[1]) > _MOST_LWS:
            missing = f"it has more than {_MOST_LWS} LeaderWorkerSets"
        elif not running:
            missing = "no replicas of a service of this name and namespace are in it"
        elif _is_unknown(keys, (old_lws, new_lws)):
            missing = "whether replicas restart is known only after the update"
        if missing:
            played.append(ServiceTimeline(*service, missing=missing))
            continue
        world = _Update(plan, keys, (old_lws, new_lws), edits, freed, accelerators_of)
        played.append(ServiceTimeline(*service, timeline(plan, world.changes(), world.removed())))
    return played


def _key(plan: ServicePlan) -> tuple[str, str]:
    return str(plan.namespace), plan.service


def _by_name(lws: Objects) -> dict[str, list[Identity]]:
    named: dict[str, list[Identity]] = {}
    for key in lws:
        named.setdefault(key.name, []).append(key)
    return named


def _is_of(key: Identity, manifest: Manifest, service: tuple[str, str]) -> bool:
    return (key.namespace, service_of(key, manifest)) == service


def _is_unknown(keys: tuple[Mapping[str, Identity], ...], lws: tuple[Objects, Objects]) -> bool:
    return any(
        hidden_template(key, objects[key]) == UNKNOWN
        for names, objects in zip(keys, lws, strict=True)
        for key in names.values()
    )


class _Update:
    """The update of one service, as its manifests show it."""

    def __init__(
        self,
        plan: ServicePlan,
        keys: tuple[Mapping[str, Identity], ...],
        lws: tuple[Objects, Objects],
        edits: Iterable[Edit],
        freed: Collection[Identity],
        count: AcceleratorsOf,
    ) -> None:
        self._plan, self._keys, self._lws = plan, keys, lws
        self._edits = {edit.key: edit for edit in edits}
        self._freed, self._count = freed, count

    def changes(self) -> dict[str, LwsChange]:
        """What happens to each LeaderWorkerSet, by name."""
        changes = {}
        for lws_step in update_order(self._plan):
            old, new = (names.get(lws_step.name) for names in self._keys)
            assert new is not None, "every LeaderWorkerSet of a plan is rendered"
            after = self._size(self._lws[1][new])
            if old is None:
                changes[lws_step.name] = LwsChange(None, after)
                continue
            edit = self._edits.get(old)
            refused = edit is not None and bool(edit.refused)
            changed = edit is not None and edit.restarts and (refused or not lws_step.frozen)
            strategy = lws_step.rollout.strategy
            changes[lws_step.name] = LwsChange(
                self._size(self._lws[0][old]),
                after,
                restarts=changed or old in self._freed,
                recreated=changed and (refused or strategy is RolloutStrategy.RECREATE),
            )
        return changes

    def removed(self) -> list[tuple[str, LwsSize]]:
        """Roles and sizes of the LeaderWorkerSets that the service has no more."""
        new = next(iter(self._keys[1].values()))
        service = new.namespace, self._plan.service
        gone = [
            (key, manifest)
            for key, manifest in self._lws[0].items()
            if _is_of(key, manifest, service) and key not in self._lws[1]
        ]
        return [(role_of(key, manifest), self._size(manifest)) for key, manifest in gone]

    def _size(self, manifest: Manifest) -> LwsSize:
        replicas = count_at(manifest, "spec", "replicas")
        _, devices = size_of(manifest, self._count)
        return LwsSize(replicas, devices // replicas if replicas else 0)
