"""Replicas that a partition held back and holds back no longer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from fusioninfer_pulumi.cli.diff.edits import Edit
from fusioninfer_pulumi.cli.diff.identity import Identity, Manifest
from fusioninfer_pulumi.cli.diff.order import Turns, turn_of
from fusioninfer_pulumi.cli.diff.spans import compressed
from fusioninfer_pulumi.cli.diff.workloads import partition

Sets = Mapping[Identity, Manifest]


def released(
    sets: tuple[Sets, Sets], turns: tuple[Turns, Turns], edits: Iterable[Edit]
) -> Iterator[Identity]:
    """Finds sets whose template looks the same before and after, but may not be the one they have.

    Args:
        sets: LeaderWorkerSets before and after.
        turns: When they change, as the plans before and after say.
        edits: All changes.

    Yields:
        Those that were below the partition and are not, or of which fewer replicas are.
    """
    restarting = {edit.key for edit in edits if edit.restarts}
    old, new = sets
    for key in old.keys() & new.keys() - restarting:
        before, after = (turn_of(known, key) for known in turns)
        freed = before is not None and after is not None and before.held and not after.held
        if freed or partition(old[key]) > partition(new[key]):
            yield key


def released_notes(keys: Iterable[Identity]) -> Iterator[str]:
    """Says what may happen to them; nothing where there are none."""
    names = sorted((key.name for key in keys), key=_by_number)
    if names:
        yield (
            f"the partition holds {compressed(names)} back no longer: what was held back of it "
            "takes the pod template, and restarts"
        )


def _by_number(name: str) -> tuple[str, int, str]:
    head, _, number = name.rpartition("-")
    return (head, int(number), "") if number.isdecimal() else (name, -1, "")
