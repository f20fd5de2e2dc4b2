"""Replica counts that an autoscaler sets: an update leaves those of what exists as they are."""

from __future__ import annotations

from fusioninfer_pulumi.cli.diff.manifests import Objects, count_at, refused_field, role_of
from fusioninfer_pulumi.cli.diff.restarts import Turns


def as_updated(olds: Objects, news: Objects, turns: Turns) -> tuple[Objects, list[str]]:
    """Returns the objects after an update, and a note for each role whose count stays."""
    updated, kept = dict(news), dict[str, None]()
    for key, new in news.items():
        old, turn = olds.get(key), turns.of(key)
        if old is None or turn is None or not (key.is_lws and turn.step.scaled_externally):
            continue
        before, after = (count_at(each, "spec", "replicas") for each in (old, new))
        if before == after or turn.recreated or refused_field(key, old, new):
            continue  # nothing to keep, or made anew with the count of the manifest
        updated[key] = {**new, "spec": {**new["spec"], "replicas": before}}
        kept[
            f"role {role_of(key, new)} is autoscaled: `pulumi up` keeps its live replicas, and "
            f"{before} -> {after} holds for a LeaderWorkerSet that is created"
        ] = None
    return updated, list(kept)
