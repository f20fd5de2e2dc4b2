"""Simulated updates between the manifests of two sources, for `plan --update`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fusioninfer_pulumi.api.rollout import RolloutStrategy
from fusioninfer_pulumi.cli.diff._formatting import join_names
from fusioninfer_pulumi.cli.diff.compare import Comparison, Manifests, Plans, find_mixed_revisions
from fusioninfer_pulumi.cli.diff.manifests import (
    ParsedManifest,
    ServiceIdentity,
    count_pods_and_accelerators,
    get_count,
    get_label,
    get_role,
    get_service,
)
from fusioninfer_pulumi.cli.diff.restarts import index_lws_by_name
from fusioninfer_pulumi.findings import format_with_rule
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.kube.durations import format_duration
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.rollout.timeline import LwsChange, LwsSize, Timeline, simulate_update
from fusioninfer_pulumi.rollout.update_order import compare_pair_revisions, order_update
from fusioninfer_pulumi.topology.gang import get_lws_gang_reference

# Each step of the simulation visits all LeaderWorkerSets, so it is slow for larger services.
_MAX_LWS = 400
#: Titles of the columns to the left of the roles' columns.
LEFT_TITLES = ("STEP", "BEGINS BY", "RESTARTS", "STARTS")
TABLE_NOTE = (
    "The columns of roles count available replicas. BEGINS BY assumes the slowest update: each "
    "replica becomes available just before its timeout. Each step takes a few seconds more, "
    "because the status is read every 0.25 to 5 s."
)


@dataclass(frozen=True)
class ServiceTimeline:
    """The simulated update of a service.

    Attributes:
        timeline: None if the update cannot be simulated.
        obstacle: Why the update cannot be simulated, or empty if it can.
        mixed: Effects on clients while pods of two revisions run.
    """

    service: str
    timeline: Timeline | None = None
    obstacle: str = ""
    mixed: tuple[str, ...] = ()

    @property
    def titles(self) -> tuple[str, ...]:
        """Titles of the columns."""
        return (*LEFT_TITLES, *self._roles, "GPUS")

    @property
    def cells(self) -> list[tuple[str, ...]]:
        """The rows as text, or empty if there is no timeline."""
        rows = () if self.timeline is None else self.timeline.rows
        names = {0: "before", len(rows) - 1: "after"}
        return [
            (
                names.get(number, str(number)),
                format_duration(row.seconds) if number else "",
                self._join_names(row.restarting),
                self._join_names(row.starting),
                *(str(row.serving.get(role, 0)) for role in self._roles),
                str(row.accelerators),
            )
            for number, row in enumerate(rows)
        ]

    @property
    def notes(self) -> Iterator[str]:
        """Sentences below the table."""
        if self.timeline is None:
            return
        if self.timeline.not_awaited:
            names = self._join_names(self.timeline.not_awaited)
            yield f"The update does not wait for {names}. The table never counts them as available."
        yield from self.mixed

    @property
    def _roles(self) -> tuple[str, ...]:
        rows = () if self.timeline is None else self.timeline.rows
        return tuple(dict.fromkeys(role for row in rows for role in row.serving))

    def _join_names(self, lws: Sequence[str]) -> str:
        # An update restarts the highest ordinal first.
        return join_names((name.removeprefix(f"{self.service}-") for name in lws), step=-1)

    def to_json(self) -> dict[str, Any]:
        """Return the update as `plan --output json` prints it."""
        timeline = self.timeline
        if timeline is None:
            return {"missing": self.obstacle}
        before, *steps, after = (
            {
                "seconds": row.seconds,
                "restarting": list(row.restarting),
                "starting": list(row.starting),
                "serving": dict(row.serving),
                "gpus": row.accelerators,
            }
            for row in timeline.rows
        )
        return {
            "before": before,
            "turns": steps,
            "after": after,
            "peakGpus": timeline.peak,
            "longestSeconds": timeline.after.seconds,
            "notAwaited": list(timeline.not_awaited),
            **({"mixedRevisions": list(self.mixed)} if self.mixed else {}),
        }


def simulate_updates(old: Manifests, new: Manifests, plans: Plans) -> list[ServiceTimeline]:
    """Simulate the update of each service in `new`; the parameters are those of `compare`."""
    comparison = Comparison(old, new, plans)
    return [_simulate(plan, comparison) for plan in comparison.new_plans]


def _simulate(plan: ServicePlan, comparison: Comparison) -> ServiceTimeline:
    old_lws, new_lws = comparison.lws
    old_keys, new_keys = index_lws_by_name(plan, old_lws), index_lws_by_name(plan, new_lws)
    namespace = next((key.namespace for key in new_keys.values()), str(plan.namespace))
    service = ServiceIdentity(namespace, plan.service)
    running = {
        key: manifest for key, manifest in old_lws.items() if get_service(key, manifest) == service
    }
    rejections = comparison.rejections.get(service)
    obstacle = ""
    if rejections:
        obstacle = f"`pulumi up` rejects it: {format_with_rule(rejections[0])}"
    # `find_rejections` skips services without LeaderWorkerSets, or with several plans.
    elif rejections is None or any(key.occurrence > 0 for key in running):
        obstacle = "the service has no replicas, or a source contains it several times"
    elif len(new_keys) > _MAX_LWS:
        obstacle = f"the service has more than {_MAX_LWS} LeaderWorkerSets"
    elif not running:
        obstacle = "the old source has no replicas of this service"
    if obstacle:
        return ServiceTimeline(plan.service, obstacle=obstacle)
    edits = {edit.key: edit for edit in comparison.edits}
    revisions_and_gangs = {
        name: (get_label(old_lws[key], labels.PAIR_REVISION), get_lws_gang_reference(old_lws[key]))
        for name, key in old_keys.items()
    }
    pair_changes = compare_pair_revisions(plan, revisions_and_gangs)
    changes = {}
    for step in order_update(plan):
        new_size = _read_size(new_lws[new_keys[step.name]])
        key = old_keys.get(step.name)
        if key is None:
            changes[step.name] = LwsChange(before=None, after=new_size)
            continue
        edit = edits.get(key)
        is_replaced = edit is not None and bool(edit.immutable_field)
        edit_restarts = edit is not None and edit.restarts and (is_replaced or not step.is_frozen)
        has_recreate_strategy = step.rollout.strategy is RolloutStrategy.RECREATE
        changes[step.name] = LwsChange(
            before=_read_size(old_lws[key]),
            after=new_size,
            # `unfrozen_lws` restart because the partition is lowered.
            restarts=edit_restarts or key in comparison.unfrozen_lws,
            is_recreated=edit_restarts and (is_replaced or has_recreate_strategy),
            changes_pair_revision=pair_changes.get(step.name, False),
        )
    removed = [
        (get_role(key, manifest), _read_size(manifest))
        for key, manifest in running.items()
        if key not in new_lws
    ]
    mixed = tuple(find_mixed_revisions(comparison, service))
    timeline = simulate_update(plan, changes, removed)
    return ServiceTimeline(plan.service, timeline, mixed=mixed)


def _read_size(manifest: ParsedManifest) -> LwsSize:
    replicas = get_count(manifest, "spec", "replicas")
    _, accelerators = count_pods_and_accelerators(manifest)
    return LwsSize(replicas, accelerators // replicas if replicas else 0)
