"""What the layout of a service means for a change: what is refused, and who paces restarts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fusioninfer_pulumi.cli.diff.edits import Edit
from fusioninfer_pulumi.cli.diff.identity import Manifest
from fusioninfer_pulumi.cli.diff.order import Turns, turn_of
from fusioninfer_pulumi.cli.diff.plain import at
from fusioninfer_pulumi.cli.diff.workloads import is_set, pace, role_of
from fusioninfer_pulumi.kube import labels


def layout_notes(edits: Sequence[Edit]) -> Iterator[str]:
    """Finds roles whose sets ran one replica each and now run all of them, or the other way round.

    Args:
        edits: The changes of one service.

    Yields:
        What the component will say to that, with the severity of a finding.
    """
    before, after = (set(_roles(edits, action)) for action in ("removed", "added"))
    for per_replica in (False, True):
        roles = sorted(
            role for role, each in before if each is per_replica and (role, not each) in after
        )
        if roles:
            old, new = ("PerReplica", "PerRole") if per_replica else ("PerRole", "PerReplica")
            yield (
                f"error: layout {old} -> {new} ({', '.join(roles)}): pulumi up refuses it while "
                "the service runs; it would need room for all replicas twice, and then every old "
                "one would end at once"
            )


def pace_notes(edits: Sequence[Edit], turns: Turns) -> Iterator[str]:
    """Says how the replicas of one set restart.

    Args:
        edits: The changes of one service.
        turns: When sets change, as far as plans tell.
    """
    for edit in edits:
        told = pace(edit.new or {}) if edit.restarts and not edit.refused else ""
        if not told or not is_set(edit.key):
            continue
        turn = turn_of(turns, edit.key)
        if turn is not None and turn.anew:
            yield (
                f"LeaderWorkerSet {edit.key.name} is deleted with all its replicas and created "
                "anew: strategy Recreate"
            )
        else:
            yield f"LeaderWorkerSet {edit.key.name} restarts its replicas by itself: {told}"


def _roles(edits: Sequence[Edit], action: str) -> Iterator[tuple[str, bool]]:
    """Roles of the sets that are added or removed, and whether each runs one replica."""
    for edit in edits:
        manifest: Manifest = edit.new or edit.old or {}
        own = _labels(manifest)
        if is_set(edit.key) and edit.change.action == action and labels.ROLE_NAME in own:
            yield role_of(edit.key, manifest), labels.REPLICA_INDEX in own


def _labels(manifest: Manifest) -> Mapping[str, Any]:
    found = at(manifest, "metadata", "labels")
    return found if isinstance(found, Mapping) else {}
