"""Objects that change in the same way, told once: the replicas of a role usually do."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from fusioninfer_pulumi.cli.diff.plain import canonical
from fusioninfer_pulumi.cli.diff.records import FieldChange, ObjectChange
from fusioninfer_pulumi.cli.diff.spans import compressed
from fusioninfer_pulumi.cli.diff.workloads import LWS_TEMPLATE

#: What is said of a change that no object shows: of what a partition held back.
NO_OBJECT = "no object changes"
_LEADER, _WORKER = f"{LWS_TEMPLATE}.leaderTemplate.", f"{LWS_TEMPLATE}.workerTemplate."
_BOTH = f"{LWS_TEMPLATE}.{{leader,worker}}Template."


@dataclass(frozen=True)
class Group:
    """Objects with one change.

    Attributes:
        objects: The objects; they differ in their names alone.
        fields: What differs, shortened for people: `decode-*` stands for each replica's own
            number, and `{leader,worker}Template` for a change in both templates.
    """

    objects: tuple[ObjectChange, ...]
    fields: tuple[FieldChange, ...]

    @property
    def title(self) -> str:
        """Kind and names; the namespace where it is not the default one."""
        first = self.objects[0]
        where = "" if first.namespace == "default" else f"{first.namespace}/"
        names = compressed(where + each.name for each in self.objects)
        number = f" ({len(self.objects)} objects)" if len(self.objects) > 1 else ""
        return f"{first.kind} {names}{number}"


def grouped(objects: Iterable[ObjectChange]) -> list[Group]:
    """Groups objects by what changes in them, in the order of the first of each."""
    found: dict[str, list[ObjectChange]] = {}
    for change in objects:
        about = [change.api_version, change.kind, change.namespace, change.action]
        found.setdefault(canonical([*about, _masked(change)]), []).append(change)
    return [Group(tuple(same), _fields(same)) for same in found.values()]


def counts(objects: Iterable[ObjectChange]) -> str:
    """Counts objects by what happens to them: `2 objects changed, 1 added`."""
    numbers: dict[str, int] = {}
    for change in objects:
        numbers[change.action] = numbers.get(change.action, 0) + 1
    parts = [
        f"{numbers[action]} {action}"
        for action in ("changed", "replaced", "added", "removed")
        if action in numbers
    ]
    if not parts:
        return "no difference"
    number, _, rest = parts[0].partition(" ")
    parts[0] = f"{number} object{'' if number == '1' else 's'} {rest}"
    return ", ".join(parts)


def _fields(objects: Sequence[ObjectChange]) -> tuple[FieldChange, ...]:
    first = objects[0]
    fields = first.fields
    if len(objects) > 1:
        masked = json.loads(_masked(first))
        fields = tuple(FieldChange(*parts) for parts in masked)
    shown: dict[tuple[str, str], FieldChange] = {}
    for change in fields:
        values = canonical([change.old, change.new, change.kind])
        in_leader = (_LEADER + change.path.removeprefix(_WORKER), values)
        if change.path.startswith(_WORKER) and in_leader in shown:
            shown[in_leader] = replace(change, path=_BOTH + change.path.removeprefix(_WORKER))
        else:
            shown[(change.path, values)] = change
    return tuple(
        replace(change, path=change.path.removeprefix(f"{LWS_TEMPLATE}."))
        for change in shown.values()
    )


def _masked(change: ObjectChange) -> str:
    """Writes the fields with the replica's own number out of the way."""
    text = json.dumps(
        [[field.path, field.old, field.new, field.kind] for field in change.fields],
        ensure_ascii=False,
    )
    head, _, number = change.name.rpartition("-")
    # Every name that ends as the object's does is the replica's: `decode-0` in `qwen-decode-0`.
    while head and number.isdecimal() and text != "[]":
        text = text.replace(f"{head}-{number}", f"{head}-*")
        head = head.partition("-")[2]
    return text
