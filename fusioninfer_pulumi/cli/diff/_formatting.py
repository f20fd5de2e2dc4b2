"""The cells and lines of a difference that its forms share: counts, names, groups and values."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fusioninfer_pulumi.cli.diff._records import (
    Action,
    Difference,
    FieldChange,
    ObjectChange,
    Pair,
)
from fusioninfer_pulumi.cli.diff.manifests import LWS_TEMPLATE, to_canonical


def build_replica_table(difference: Difference) -> tuple[list[str], list[list[str]]]:
    """Names of the columns, and the rows, of the table of what happens to replicas.

    Empty columns are left out, and that of the service if there is only one.
    """
    effects = difference.effects
    services = [service_name(effect.namespace, effect.service) for effect in effects]
    columns: dict[str, list[str]] = {
        "service": services if len(set(services)) > 1 else [""] * len(services),
        "role": [effect.role for effect in effects],
        "replicas": [format_pair(effect.replicas) for effect in effects],
        "restarts": [join_names(effect.restarts) for effect in effects],
        "added": [join_names(effect.added) for effect in effects],
        "removed": [join_names(effect.removed) for effect in effects],
        "why": [effect.restart_reason or effect.role_change or "unchanged" for effect in effects],
    }
    columns = {name: cells for name, cells in columns.items() if any(cells)}
    rows = [[cell or "-" for cell in cells] for cells in zip(*columns.values(), strict=True)]
    return list(columns), rows


def total_rows(difference: Difference) -> list[list[str]]:
    """The name, pods and accelerators of each service."""
    return [
        [
            service_name(totals.namespace, totals.service),
            format_pair(totals.pods),
            format_pair(totals.accelerators),
        ]
        for totals in difference.totals
    ]


def summarize(difference: Difference) -> str:
    """Counts objects, and replicas that restart, start and stop."""
    if not difference:
        return "no difference"
    lws = [effect for effect in difference.effects if effect.kind == "LeaderWorkerSet"]
    parts = [count_objects(difference.objects)]
    if lws:
        restarts, starts, stops = (
            sum(len(getattr(effect, field)) for effect in lws)
            for field in ("restarts", "added", "removed")
        )
        before = sum(effect.replicas.before for effect in lws)
        text = f"{restarts} of {before} restart" if restarts else "none restart"
        text += f", {starts} start" if starts else ""
        text += f", {stops} stop" if stops else ""
        parts.append(f"replicas: {text}")
    others = Counter(e.kind for e in difference.effects if e.kind != "LeaderWorkerSet")
    parts += [f"{kind}s: {number} restart" for kind, number in others.items()]
    return "; ".join(parts)


def count(number: int, noun: str) -> str:
    """A number and its noun: `1 object`, `2 objects`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def format_pair(pair: Pair) -> str:
    """Writes a number, or two where it changes."""
    return str(pair.after) if pair.before == pair.after else f"{pair.before} -> {pair.after}"


def service_name(namespace: str, name: str) -> str:
    """Name of a service, with its namespace where it is not the default one."""
    return name if namespace == "default" else f"{namespace}/{name}"


_LEADER, _WORKER = f"{LWS_TEMPLATE}.leaderTemplate.", f"{LWS_TEMPLATE}.workerTemplate."
_BOTH = f"{LWS_TEMPLATE}.{{leader,worker}}Template."


@dataclass(frozen=True)
class Group:
    """Objects with one change.

    Attributes:
        objects: The objects; they differ in their names alone.
        fields: The changed fields, shortened: `decode-*` means a replica and its number,
            `{leader,worker}Template` for the same change in both templates.
    """

    objects: tuple[ObjectChange, ...]
    fields: tuple[FieldChange, ...]

    @property
    def title(self) -> str:
        """Kind and names; the namespace where it is not the default one."""
        first = self.objects[0]
        where = "" if first.namespace == "default" else f"{first.namespace}/"
        names = join_names(where + change.name for change in self.objects)
        number = f" ({len(self.objects)} objects)" if len(self.objects) > 1 else ""
        return f"{first.kind} {names}{number}"


def group_changes(objects: Iterable[ObjectChange]) -> list[Group]:
    """Groups objects by what changes in them, in the order of the first of each."""
    by_change: dict[str, list[ObjectChange]] = {}
    for change in objects:
        about = [change.api_version, change.kind, change.namespace, change.action]
        by_change.setdefault(to_canonical([*about, _masked(change)]), []).append(change)
    return [Group(tuple(same), _fields(same)) for same in by_change.values()]


def count_objects(objects: Iterable[ObjectChange]) -> str:
    """Counts objects by what happens to them: `objects: 2 changed, 1 added`."""
    numbers = Counter(change.action for change in objects)
    actions: tuple[Action, ...] = ("changed", "replaced", "added", "removed")
    parts = [f"{numbers[action]} {action}" for action in actions if action in numbers]
    # Replicas may restart without a changed object, when the partition is lowered.
    return f"objects: {', '.join(parts) or 'none changed'}"


def _fields(objects: Sequence[ObjectChange]) -> tuple[FieldChange, ...]:
    fields = objects[0].fields
    if len(objects) > 1:
        fields = tuple(FieldChange(*parts) for parts in json.loads(_masked(objects[0])))
    shown: dict[tuple[str, str], FieldChange] = {}
    for change in fields:
        values = to_canonical([change.old, change.new, change.kind])
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
    """Writes the fields with `*` in place of the replica's number."""
    text = json.dumps(
        [[field.path, field.kind, field.old, field.new] for field in change.fields],
        ensure_ascii=False,
    )
    head, _, number = change.name.rpartition("-")
    # Every name that ends as the object's does is the replica's: `decode-0` in `qwen-decode-0`.
    while head and number.isdecimal() and text != "[]":
        text = text.replace(f"{head}-{number}", f"{head}-*")
        head = head.partition("-")[2]
    return text


#: Two names are as short as a range, and easier to read.
_SHORTEST_RUN = 3
# Longer numbers are not indexes, and converting huge ones takes long.
_LONGEST_NUMBER = 9


def join_names(names: Iterable[str], step: int = 1) -> str:
    """Joins names with commas, those that count up (or down) as a range: `decode-0..decode-19`."""
    runs: list[list[str]] = []
    for name in names:
        if runs and _follows(runs[-1][-1], name, step):
            runs[-1].append(name)
        else:
            runs.append([name])
    shown = (run if len(run) < _SHORTEST_RUN else [f"{run[0]}..{run[-1]}"] for run in runs)
    return ", ".join(name for run in shown for name in run)


def join_in_order(names: Iterable[str]) -> str:
    """Joins names in the order in which they restart, the highest number first."""
    return join_names(names, -1)


def _follows(one: str, other: str, step: int) -> bool:
    prefix, _, number = one.rpartition("-")
    if not number.isdecimal() or len(number) > _LONGEST_NUMBER:
        return False
    return other == f"{prefix}-{int(number) + step}"


_MOST_LINES = 60
_CONTEXT = 2
# Characters that stay before the first difference of two long values.
_LEAD = 24


def one_line(change: FieldChange, limit: int) -> str | None:
    """A field's values in one line; None where they need several."""
    if any(isinstance(value, str) and "\n" in value for value in (change.old, change.new)):
        return None
    if change.kind == "changed":
        return " -> ".join(_pair(change, limit))
    sign, value = _only(change)
    return f"{sign} {_window(_text(value), 0, limit)}"


def format_lines(change: FieldChange, limit: int) -> list[str]:
    """A field's values as the lines of a diff, each with its sign.

    Of texts of several lines only the lines that differ, and not more than a screenful.
    """
    lines = list(_lines(change, limit))
    if len(lines) > _MOST_LINES:
        lines[_MOST_LINES:] = [f"  … {len(lines) - _MOST_LINES} more lines"]
    return lines


def printable(text: str) -> str:
    """Escapes what would move the cursor or hide text."""
    return "".join(letter if letter.isprintable() else json.dumps(letter)[1:-1] for letter in text)


def _lines(change: FieldChange, limit: int) -> Iterator[str]:
    old, new = change.old, change.new
    if change.kind != "changed":
        sign, value = _only(change)
        for line in _block(value, limit):
            yield f"{sign} {_window(printable(line), 0, limit)}".rstrip()
    elif isinstance(old, str) and isinstance(new, str) and "\n" in old + new:
        import difflib  # most changes are of one line

        olds, news = old.splitlines(), new.splitlines()
        for line in list(difflib.unified_diff(olds, news, lineterm="", n=_CONTEXT))[2:]:
            text = f"{line[0]} {_window(printable(line[1:]), 0, limit)}"
            yield line if line.startswith("@@") else text.rstrip()
        if olds == news:
            yield "  only the ends of lines differ"
    else:
        yield from (f"{sign} {text}" for sign, text in zip("-+", _pair(change, limit), strict=True))


def _only(change: FieldChange) -> tuple[str, Any]:
    """The sign and the value of an added or removed field."""
    return ("+", change.new) if change.kind == "added" else ("-", change.old)


def _block(value: Any, limit: int) -> list[str]:
    """Lines of an added or removed value: a structure that one line cannot hold is YAML."""
    if isinstance(value, str):
        return value.splitlines() or ['""']
    text = _text(value)
    if len(text) <= limit or not isinstance(value, (dict, list)):
        return [text]
    import yaml

    dumped: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=limit)
    return dumped.splitlines()


def _pair(change: FieldChange, limit: int) -> tuple[str, str]:
    """Both values of a changed field, of long ones only what is around their first difference."""
    old, new = _text(change.old), _text(change.new)
    if old == new and change.old != change.new:  # "1" and 1; masks of two secrets are equal
        old, new = _as_json(change.old), _as_json(change.new)
    start = 0
    if max(len(old), len(new)) > limit:
        common = next((n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), limit)
        start = max(0, common - min(_LEAD, limit // 3))
    return _window(old, start, limit), _window(new, start, limit)


def _text(value: Any) -> str:
    return printable(value) if isinstance(value, str) and value else _as_json(value)


def _as_json(value: Any) -> str:
    return printable(json.dumps(value, ensure_ascii=False))


def _window(text: str, start: int, limit: int) -> str:
    """Cuts a text down to some characters from a place on."""
    shown = f"…{text[start:]}" if start and len(text) > limit else text
    return shown if len(shown) <= limit else f"{shown[: limit - 1]}…"
