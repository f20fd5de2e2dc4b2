"""Table cells and lines that the text and markdown outputs of `diff` share."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from fusioninfer_pulumi.cli.diff._records import (
    Action,
    BeforeAfter,
    Difference,
    FieldChange,
    ObjectChange,
)
from fusioninfer_pulumi.cli.diff.manifests import LWS_TEMPLATE, to_canonical


def build_replica_table(difference: Difference) -> tuple[list[str], list[list[str]]]:
    """Return the column names and rows of the table of replicas.

    Columns without any value are left out, as is the service column if there is one service.
    """
    effects = difference.effects
    services = [format_service(effect.namespace, effect.service) for effect in effects]
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


def build_total_rows(difference: Difference) -> list[list[str]]:
    """Return the name, pods and accelerators of each service."""
    return [
        [
            format_service(totals.namespace, totals.service),
            format_pair(totals.pods),
            format_pair(totals.accelerators),
        ]
        for totals in difference.totals
    ]


def summarize(difference: Difference) -> str:
    """Return one line such as `objects: 2 changed; replicas: 2 of 3 restart, 1 start`."""
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
        text = "none restart"
        if restarts:
            text = f"{restarts} of {before} restart"
        elif any(effect.restart_reason for effect in lws):
            text = "those with the old pod template restart"  # only the partition is lowered
        text += f", {starts} start" if starts else ""
        text += f", {stops} stop" if stops else ""
        parts.append(f"replicas: {text}")
    apps_kinds = Counter(e.kind for e in difference.effects if e.kind != "LeaderWorkerSet")
    parts += [f"{kind}s: {number} restart" for kind, number in apps_kinds.items()]
    return "; ".join(parts)


def format_pair(pair: BeforeAfter) -> str:
    """Return `2 -> 3`, or only `2` if both values are 2."""
    return str(pair.after) if pair.before == pair.after else f"{pair.before} -> {pair.after}"


def format_service(namespace: str, name: str) -> str:
    """Return a service's name, with its namespace unless that is `default`."""
    return name if namespace == "default" else f"{namespace}/{name}"


_LEADER, _WORKER = f"{LWS_TEMPLATE}.leaderTemplate.", f"{LWS_TEMPLATE}.workerTemplate."
_BOTH = f"{LWS_TEMPLATE}.{{leader,worker}}Template."


class ChangeGroup(NamedTuple):
    """Objects with the same change.

    Attributes:
        objects: The objects, which differ only in their names.
        fields: The changed fields. `decode-*` stands for the name of each replica,
            `{leader,worker}Template` for the same change in both templates.
    """

    objects: tuple[ObjectChange, ...]
    fields: tuple[FieldChange, ...]

    @property
    def title(self) -> str:
        """Kind and names, with the namespace unless that is `default`."""
        first = self.objects[0]
        prefix = "" if first.namespace == "default" else f"{first.namespace}/"
        names = join_names(prefix + change.name for change in self.objects)
        count = f" ({len(self.objects)} objects)" if len(self.objects) > 1 else ""
        return f"{first.kind} {names}{count}"


def group_changes(objects: Iterable[ObjectChange]) -> list[ChangeGroup]:
    """Group objects with the same change, in the order of their first objects."""
    by_change: dict[str, list[ObjectChange]] = {}
    for change in objects:
        identity = [change.api_version, change.kind, change.namespace, change.action]
        key = to_canonical([*identity, _replace_ordinals(change)])
        by_change.setdefault(key, []).append(change)
    return [ChangeGroup(tuple(group), _merge_fields(group)) for group in by_change.values()]


def count_objects(objects: Iterable[ObjectChange]) -> str:
    """Count objects by action: `objects: 2 changed, 1 added`."""
    numbers = Counter(change.action for change in objects)
    actions: tuple[Action, ...] = ("changed", "replaced", "added", "removed")
    parts = [f"{numbers[action]} {action}" for action in actions if action in numbers]
    # If only `rollout.partition` is lowered, replicas restart although no object changes.
    return f"objects: {', '.join(parts) or 'none changed'}"


def _merge_fields(objects: Sequence[ObjectChange]) -> tuple[FieldChange, ...]:
    """Return the fields of a group; equal changes of the leader and worker template are merged."""
    fields = objects[0].fields
    if len(objects) > 1:  # the objects are equal only after this replacement
        fields = tuple(FieldChange(*parts) for parts in json.loads(_replace_ordinals(objects[0])))
    merged: dict[tuple[str, str], FieldChange] = {}
    for change in fields:
        values = to_canonical([change.old, change.new, change.kind])
        leader_key = (_LEADER + change.path.removeprefix(_WORKER), values)
        if change.path.startswith(_WORKER) and leader_key in merged:
            merged[leader_key] = change._replace(path=_BOTH + change.path.removeprefix(_WORKER))
        else:
            merged[(change.path, values)] = change
    return tuple(
        change._replace(path=change.path.removeprefix(f"{LWS_TEMPLATE}."))
        for change in merged.values()
    )


def _replace_ordinals(change: ObjectChange) -> str:
    """Return the fields as JSON, with `*` instead of the ordinal in names such as `decode-0`."""
    text = json.dumps(change.fields, ensure_ascii=False)
    prefix, _, ordinal = change.name.rpartition("-")
    # Fields may contain a part of the object's name, such as `decode-0` of `qwen-decode-0`.
    while prefix and ordinal.isdecimal():
        text = text.replace(f"{prefix}-{ordinal}", f"{prefix}-*")
        prefix = prefix.partition("-")[2]
    return text


#: Two names are joined with a comma, because a range would not be shorter.
_MIN_RANGE = 3
# Longer numbers are not ordinals, and converting huge numbers is slow.
_MAX_DIGITS = 9


def join_names(names: Iterable[str], step: int = 1) -> str:
    """Join names with commas, and consecutive names as ranges: `decode-0..decode-19`.

    `step` is 1 for ascending ranges, -1 for descending ranges.
    """
    runs: list[list[str]] = []
    for name in names:
        if runs and _is_next_name(runs[-1][-1], name, step):
            runs[-1].append(name)
        else:
            runs.append([name])
    return ", ".join(
        ", ".join(run) if len(run) < _MIN_RANGE else f"{run[0]}..{run[-1]}" for run in runs
    )


def _is_next_name(previous: str, name: str, step: int) -> bool:
    prefix, _, number = previous.rpartition("-")
    if not number.isdecimal() or len(number) > _MAX_DIGITS:
        return False
    return name == f"{prefix}-{int(number) + step}"


_MAX_LINES = 60
_CONTEXT_LINES = 2
# Maximum number of characters that are shown before the first difference of two long values.
_CONTEXT_CHARACTERS = 24


def format_one_line(change: FieldChange, limit: int) -> str | None:
    """Return a change such as `1 -> 2`, or None if a value has several lines.

    Each value is cut to `limit` characters.
    """
    if any(isinstance(value, str) and "\n" in value for value in (change.old, change.new)):
        return None
    if change.kind == "changed":
        return " -> ".join(_format_both(change, limit))
    sign, value = _get_sign_and_value(change)
    return f"{sign} {cut(_format_value(value), limit)}"


def format_lines(change: FieldChange, limit: int) -> list[str]:
    """Return a field's values as lines of a diff with signs, at most `_MAX_LINES`.

    Changed texts of several lines are shortened to a unified diff.
    """
    lines = list(_format_all_lines(change, limit))
    if len(lines) > _MAX_LINES:
        lines[_MAX_LINES:] = [f"  … {len(lines) - _MAX_LINES} more lines"]
    return lines


def escape_unprintable(text: str) -> str:
    """Escape characters that would move the cursor or hide text."""
    return "".join(letter if letter.isprintable() else json.dumps(letter)[1:-1] for letter in text)


def _format_all_lines(change: FieldChange, limit: int) -> Iterator[str]:
    old, new = change.old, change.new
    if change.kind != "changed":
        sign, value = _get_sign_and_value(change)
        for line in _split_lines(value, limit):
            yield f"{sign} {cut(escape_unprintable(line), limit)}".rstrip()
    elif isinstance(old, str) and isinstance(new, str) and "\n" in old + new:
        import difflib  # imported here, because most values have one line

        before, after = old.splitlines(), new.splitlines()
        for line in list(difflib.unified_diff(before, after, lineterm="", n=_CONTEXT_LINES))[2:]:
            text = f"{line[0]} {cut(escape_unprintable(line[1:]), limit)}"
            yield line if line.startswith("@@") else text.rstrip()
        if before == after:
            yield "  only line endings differ"
    else:
        values = _format_both(change, limit)
        yield from (f"{sign} {text}" for sign, text in zip("-+", values, strict=True))


def _get_sign_and_value(change: FieldChange) -> tuple[str, Any]:
    return ("+", change.new) if change.kind == "added" else ("-", change.old)


def _split_lines(value: Any, limit: int) -> list[str]:
    """Return the lines of a text; a value of another type is one line of JSON, or YAML if long."""
    if isinstance(value, str):
        return value.splitlines() or ['""']
    text = _format_value(value)
    if len(text) <= limit or not isinstance(value, (dict, list)):
        return [text]
    import yaml

    dumped: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=limit)
    return dumped.splitlines()


def _format_both(change: FieldChange, limit: int) -> tuple[str, str]:
    """Return both values of a changed field; long values are cut around the first difference."""
    old, new = _format_value(change.old), _format_value(change.new)
    if old == new and change.old != change.new:  # such as the text "1" and the number 1
        old, new = _format_json(change.old), _format_json(change.new)
    start = 0
    if max(len(old), len(new)) > limit:
        pairs = enumerate(zip(old, new, strict=False))
        first_difference = next((index for index, (a, b) in pairs if a != b), limit)
        start = max(0, first_difference - min(_CONTEXT_CHARACTERS, limit // 3))
    return cut(old, limit, start), cut(new, limit, start)


def _format_value(value: Any) -> str:
    is_text = isinstance(value, str) and value != ""
    return escape_unprintable(value) if is_text else _format_json(value)


def _format_json(value: Any) -> str:
    return escape_unprintable(json.dumps(value, ensure_ascii=False))


def cut(text: str, limit: int, start: int = 0) -> str:
    """Return the text; if it is longer than `limit`, only `limit` characters from `start` on."""
    if start and len(text) > limit:
        text = f"…{text[start:]}"
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
