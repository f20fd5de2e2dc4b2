"""Serving groups that come or go as a whole: each has a PodGroup of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from fusioninfer_pulumi.cli.diff.edits import Edit
from fusioninfer_pulumi.cli.diff.plain import text_at
from fusioninfer_pulumi.cli.diff.records import Action
from fusioninfer_pulumi.cli.diff.spans import compressed
from fusioninfer_pulumi.cli.diff.workloads import is_pod_group, is_set
from fusioninfer_pulumi.kube import labels

_WHOLE: tuple[Action, ...] = ("added", "removed")


def whole_groups(edits: Iterable[Edit]) -> dict[Action, frozenset[str]]:
    """Reads which groups are added, and which removed, with their PodGroups."""
    found: dict[Action, set[str]] = {action: set() for action in _WHOLE}
    for edit in edits:
        if is_pod_group(edit.key) and edit.change.action in found and group_of(edit):
            found[edit.change.action].add(group_of(edit))
    return {action: frozenset(groups) for action, groups in found.items() if groups}


def group_of(edit: Edit) -> str:
    """Number of an object's serving group, empty where it has none."""
    return text_at(edit.new or edit.old or {}, "metadata", "labels", labels.GROUP_INDEX) or ""


def group_notes(edits: Sequence[Edit], *, quiet: bool) -> Iterator[str]:
    """Says which groups come or go.

    Args:
        edits: All changes of a service.
        quiet: Whether none of them restarts anything.

    Yields:
        One sentence for those that come, one for those that go.
    """
    for action, groups in whole_groups(edits).items():
        own = [
            edit
            for edit in edits
            if is_set(edit.key) and edit.change.action == action and group_of(edit) in groups
        ]
        names = [f"group-{number}" for number in sorted(groups, key=int)]
        past = "added" if action == "added" else "deleted"
        told = compressed(names).replace("group-", "")
        sets = "one LeaderWorkerSet" if len(own) == 1 else f"{len(own)} LeaderWorkerSets"
        plural = "" if len(groups) == 1 else "s"
        rest = ", nothing restarts" if quiet else ""
        yield f"serving group{plural} {told} {past}: {sets}, PodGroup{plural}{rest}"
