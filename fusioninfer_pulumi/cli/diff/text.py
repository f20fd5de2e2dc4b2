"""A difference for people at a terminal, and the cells and lines that other forms share with it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from fusioninfer_pulumi.cli.diff.manifests import LWS_TEMPLATE, canonical
from fusioninfer_pulumi.cli.diff.records import (
    Action,
    Difference,
    FieldChange,
    ObjectChange,
    RoleEffect,
    ServiceTotals,
)
from fusioninfer_pulumi.cli.diff.restarts import replica_count, scaling
from fusioninfer_pulumi.cli.output import styled

_Paint = Callable[[str, str], str]
_MOST_FIELDS = 100
# Most characters of a value.
_LIMIT = 400

_SIGNS: dict[Action, tuple[str, str]] = {
    "added": ("+", "green"),
    "removed": ("-", "red"),
    "changed": ("~", "yellow"),
    "replaced": ("!", "magenta"),
}
_LINE_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def to_text(difference: Difference, *, color: bool) -> str:
    """Writes a difference as text that ends with a newline.

    Args:
        difference: What `compare` found.
        color: Whether to write terminal colours.
    """
    paint = partial(styled, color=color)
    return "".join(f"{line.rstrip()}\n" for line in _text(difference, paint))


def _text(difference: Difference, paint: _Paint) -> Iterator[str]:
    told = restarting(difference)
    what = counts(difference.objects) if difference.objects or not difference else NO_OBJECT
    yield f"{what}; {told}" if told else what
    yield from (f"  {totals_line(totals)}" for totals in difference.totals)
    if difference.notes:
        yield ""
        for note in difference.notes:
            yield f"  * {paint(printable(note), 'bold')}"
    if difference.effects:
        yield ""
        yield from _table(difference, paint)
    apart = True
    for group in grouped(difference.objects):
        if apart or group.fields:
            yield ""
        yield from _group(group, paint)
        apart = bool(group.fields)


def _table(difference: Difference, paint: _Paint) -> Iterator[str]:
    head, rows = effect_rows(difference)
    above = ""
    cells = [[name.upper() for name in head]]
    for row in rows:
        # The name of a service stands where its rows begin.
        first = row[0] if head[0] != "service" or row[0] != above else ""
        above = row[0]
        cells.append([printable(cell) for cell in (first, *row[1:])])
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for number, row in enumerate(cells):
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield f"  {paint(line.rstrip(), '' if number else 'dim')}"


def _group(group: Group, paint: _Paint) -> Iterator[str]:
    action = group.objects[0].action
    sign, style = _SIGNS[action]
    title = printable(group.title)
    if action == "replaced":
        title += ", deleted and created anew"
    yield f"{sign} {paint(title, style)}"
    for change in group.fields[:_MOST_FIELDS]:
        yield from _field(change, paint)
    if len(group.fields) > _MOST_FIELDS:
        yield f"    … {len(group.fields) - _MOST_FIELDS} more fields; the JSON form has all"


def _field(change: FieldChange, paint: _Paint) -> Iterator[str]:
    path = printable(change.path)
    if is_block(change):
        yield f"    {path}:"
        for line in lines(change, _LIMIT):
            yield f"      {paint(line, _LINE_STYLES.get(line[:1], ''))}"
    elif change.kind == "changed":
        old, new = shown_pair(change, _LIMIT)
        yield f"    {path}: {old} -> {new}"
    else:
        sign, value = ("+", change.new) if change.kind == "added" else ("-", change.old)
        yield f"    {path}: {sign} {shown(value, _LIMIT)}"


def effect_rows(difference: Difference) -> tuple[list[str], list[list[str]]]:
    """Builds the table of what happens to replicas.

    Returns:
        The names of the columns and the rows. A column that says nothing is left out: that of the
        service where there is one, or of added replicas where none is added. Replicas that restart
        stand in their order where it is known.
    """
    effects = difference.effects
    columns: dict[str, list[str]] = {
        "service": _services(difference),
        "role": [effect.role for effect in effects],
        "replicas": [_replicas(effect) for effect in effects],
        "restarts": [_order(effect) or compressed(effect.restarts) for effect in effects],
        "added": [compressed(effect.added) for effect in effects],
        "removed": [compressed(effect.removed) for effect in effects],
        "why": [_why(effect) for effect in effects],
    }
    columns = {name: cells for name, cells in columns.items() if any(cells)}
    rows = [[cell or "-" for cell in cells] for cells in zip(*columns.values(), strict=True)]
    return list(columns), rows


def restarting(difference: Difference) -> str:
    """Counts what restarts, starts and stops; empty where no replica is concerned."""
    sets = [effect for effect in difference.effects if effect.kind == "LeaderWorkerSet"]
    before = sum(effect.replicas_before for effect in sets)
    restarts, starts, stops = (
        sum(replica_count(names) for names in each)
        for each in (
            [effect.restarts for effect in sets],
            [effect.added for effect in sets],
            [effect.removed for effect in sets],
        )
    )
    parts = ["no replica restarts"] if sets else []
    if restarts:
        noun = "replica" if before == 1 else "replicas"
        parts = [f"{restarts} of {before} {noun} {_verb('restart', restarts)}"]
    parts += [
        f"{number} {_verb(verb, number)}"
        for verb, number in (("start", starts), ("stop", stops))
        if number
    ]
    others: dict[str, int] = {}
    for effect in difference.effects:
        if effect.kind != "LeaderWorkerSet":
            others[effect.kind] = others.get(effect.kind, 0) + 1
    for kind, number in others.items():
        plural = "" if number == 1 else "s"
        parts.append(f"{number} {kind}{plural} {_verb('restart', number)}")
    return ", ".join(parts)


def _verb(verb: str, number: int) -> str:
    return f"{verb}s" if number == 1 else verb


def before_after(before: int, after: int) -> str:
    """Writes a number, or two where it changes."""
    return str(after) if before == after else f"{before} -> {after}"


def totals_line(totals: ServiceTotals) -> str:
    """Says how many pods and accelerators a service has, before and after."""
    pods = before_after(totals.pods_before, totals.pods_after)
    devices = before_after(totals.accelerators_before, totals.accelerators_after)
    return f"{service_name(totals)}: pods {pods}, accelerators {devices}"


def service_name(of: ServiceTotals | RoleEffect) -> str:
    """Name of a service, with its namespace where it is not the default one."""
    return of.service if of.namespace == "default" else f"{of.namespace}/{of.service}"


def _order(effect: RoleEffect) -> str:
    """Says in which order replicas restart; empty where it is one, or nobody knows."""
    parts = []
    for stage in effect.order:
        count = replica_count(stage.replicas)
        if count == 1:
            parts.append(in_order(stage.replicas))
        elif stage.groups is not None:
            groups = "group" if stage.groups == 1 else "groups"
            parts.append(f"{in_order(stage.replicas)}, {stage.groups} {groups} at a time")
        elif stage.at_a_time >= count and not stage.at_most:
            parts.append(f"{in_order(stage.replicas)} together")
        else:
            most = "up to " if stage.at_most else ""
            parts.append(f"{in_order(stage.replicas)}, {most}{stage.at_a_time} at a time")
    told = ", then ".join(parts)
    if effect.after:
        return f"after {', '.join(effect.after)}: {told}"
    return told if replica_count(effect.restarts) > 1 else ""


def _why(effect: RoleEffect) -> str:
    """What else than their number changes the replicas, which has a column of its own."""
    scaled = scaling(effect.replicas_before, effect.replicas_after)
    return effect.reason.removesuffix(f", {scaled}") or "untouched"


def _services(difference: Difference) -> list[str]:
    names = [service_name(effect) for effect in difference.effects]
    return names if len(set(names)) > 1 else [""] * len(names)


def _replicas(effect: RoleEffect) -> str:
    return before_after(effect.replicas_before, effect.replicas_after)


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


#: Two names are as short as a range, and plainer.
_SHORTEST_RUN = 3
# Longer ones count nothing, and reading huge ones takes long.
_LONGEST_NUMBER = 9


def compressed(names: Iterable[str]) -> str:
    """Joins names with commas, consecutive ones as a range."""
    return ", ".join(_ranges(names))


def in_order(names: Sequence[str]) -> str:
    """Joins names in the order given, a whole run that counts down as `decode-19..decode-0`."""
    upwards = compressed(reversed(names))
    first, dots, last = upwards.partition("..")
    return f"{last}..{first}" if dots and "," not in upwards else ", ".join(names)


def _ranges(names: Iterable[str]) -> Iterator[str]:
    run: list[str] = []
    for name in names:
        if run and _follows(run[-1], name):
            run.append(name)
        else:
            yield from _short(run)
            run = [name]
    yield from _short(run)


def _follows(one: str, other: str) -> bool:
    prefix, _, number = one.rpartition("-")
    if not number.isdecimal() or len(number) > _LONGEST_NUMBER:
        return False
    return other == f"{prefix}-{int(number) + 1}"


def _short(run: list[str]) -> list[str]:
    return run if len(run) < _SHORTEST_RUN else [f"{run[0]}..{run[-1]}"]


_MOST_LINES = 60
_CONTEXT = 2
# Characters that stay before the first difference of two long values.
_LEAD = 24


def shown_pair(change: FieldChange, limit: int) -> tuple[str, str]:
    """Writes both values of a changed field in one line each.

    Args:
        change: The field.
        limit: Most characters of a value.

    Returns:
        The values; of long ones, what is around their first difference.
    """
    old, new = _written(change.old), _written(change.new)
    if old == new and change.old != change.new:  # "1" and 1; masks of two secrets are equal
        old, new = _as_json(change.old), _as_json(change.new)
    if max(len(old), len(new)) <= limit:
        return old, new
    common = next(
        (place for place, (one, other) in enumerate(zip(old, new, strict=False)) if one != other),
        min(len(old), len(new)),
    )
    start = max(0, common - min(_LEAD, limit // 3))
    return _window(old, start, limit), _window(new, start, limit)


def shown(value: Any, limit: int) -> str:
    """Writes one value in one line."""
    return _window(_written(value), 0, limit)


def lines(change: FieldChange, limit: int) -> Iterator[str]:
    """Writes a field's values as the lines of a diff, each with its sign.

    Args:
        change: The field.
        limit: Most characters of a line.

    Yields:
        Lines that start with `-`, `+`, `@@` or a space; only the lines that differ of texts of
        several lines, and not more than a screenful.
    """
    found = list(_lines(change, limit))
    yield from found[:_MOST_LINES]
    if len(found) > _MOST_LINES:
        yield f"  … {len(found) - _MOST_LINES} more lines"


def is_block(change: FieldChange) -> bool:
    """Tells whether a field's values need several lines."""
    return any(isinstance(value, str) and "\n" in value for value in (change.old, change.new))


def printable(text: str) -> str:
    """Escapes what would move the cursor or hide text."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else json.dumps(letter)[1:-1] for letter in text)


def _lines(change: FieldChange, limit: int) -> Iterator[str]:
    texts = isinstance(change.old, str) and isinstance(change.new, str)
    if change.kind == "changed" and texts and is_block(change):
        old, new = change.old.splitlines(), change.new.splitlines()
        import difflib  # most changes are of one line

        unified = difflib.unified_diff(old, new, lineterm="", n=_CONTEXT)
        for number, line in enumerate(unified):
            if number > 1 and line.startswith("@@"):
                yield line
            elif number > 1:
                yield f"{line[0]} {_window(printable(line[1:]), 0, limit)}".rstrip()
        if old == new:
            yield "  only the ends of lines differ"
    elif change.kind == "changed":
        old_text, new_text = shown_pair(change, limit)
        yield f"- {old_text}"
        yield f"+ {new_text}"
    else:
        sign, value = ("+", change.new) if change.kind == "added" else ("-", change.old)
        for line in _block(value, limit):
            yield f"{sign} {_window(line, 0, limit)}".rstrip()


def _block(value: Any, limit: int) -> list[str]:
    """Lines of an added or removed value: a structure that one line cannot hold is YAML."""
    if isinstance(value, str):
        return [printable(line) for line in value.splitlines()] or ['""']
    text = _written(value)
    if len(text) <= limit or not isinstance(value, (dict, list)):
        return [text]
    import yaml

    dumped = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=limit)
    return [printable(line) for line in dumped.splitlines()]


def _written(value: Any) -> str:
    if isinstance(value, str) and value:
        return printable(value)
    return _as_json(value)


def _as_json(value: Any) -> str:
    return printable(json.dumps(value, ensure_ascii=False))


def _window(text: str, start: int, limit: int) -> str:
    """Cuts a text down to some characters from a place on."""
    # A cut of one character would save nothing.
    start = 0 if start <= 1 or len(text) <= limit else start
    head = "…" if start else ""
    rest = text[start:]
    room = limit - len(head)
    return head + (rest if len(rest) <= room else rest[: room - 1] + "…")
