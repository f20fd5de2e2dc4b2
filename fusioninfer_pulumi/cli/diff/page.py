"""A difference as one HTML page: topology, order of restarts, GPUs, findings, fields."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from fusioninfer_pulumi.cli.diff._cells import (
    before_after,
    grouped,
    lines,
    printable,
    service_name,
    summary,
)
from fusioninfer_pulumi.cli.diff._records import Difference, RoleEffect
from fusioninfer_pulumi.cli.diff.timelines import BOUNDS, ServiceTimeline
from fusioninfer_pulumi.cli.report import placed_text, rule_mark
from fusioninfer_pulumi.findings import Finding, Origin
from fusioninfer_pulumi.plan.service_plan import ServicePlan

_LONGEST_LINE = 400
# More replicas than these are counted, not drawn.
_DRAWN = 24
_STYLE = """
:root { color-scheme: light dark; --line: #8885; --kept: #8883; --restart: #f5a62366;
  --added: #2da44e66; --removed: #cf222e66; --bar: #0969da; --peak: #cf222e; }
body { font: 15px/1.45 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto;
  padding: 0 1rem }
h1 { font-size: 1.3rem } h2 { font-size: 1.05rem; margin-top: 2rem }
table { border-collapse: collapse; margin-bottom: 1rem }
td, th { padding: .2rem .8rem .2rem 0; text-align: left;
  vertical-align: top } th { font-weight: 600; border-bottom: 1px solid var(--line) }
.box { display: inline-block; padding: 0 .4rem; margin: .1rem;
  border-radius: .2rem; background: var(--kept); font-size: .85em }
.restart { background: var(--restart) } .added { background: var(--added) }
.removed { background: var(--removed) } .error, .peak { color: var(--peak); font-weight: 600 }
.warning { color: #bf8700 } pre { overflow-x: auto; font-size: 13px } .rule { opacity: .6 }
.bar { display: inline-block; height: .8em; background: var(--bar); opacity: .7 }
.peak .bar { background: var(--peak) }
"""


def to_html(
    difference: Difference,
    plans: tuple[Iterable[ServicePlan], Iterable[ServicePlan]] = ((), ()),
    findings: Sequence[tuple[Origin, Finding]] = (),
    timelines: Sequence[ServiceTimeline] = (),
) -> str:
    """Writes a difference as a page of one file, without scripts.

    Args:
        difference: What `compare` found.
        plans: Services before and after, as far as they are known: they have the GPUs of a replica.
        findings: Errors and warnings, each after the origin of its document.
        timelines: Updates of its services over time.
    """
    before, after = (_sizes(side) for side in plans)
    body = [
        f"<h1>{_html(summary(difference))}</h1>",
        *_notes(difference),
        *_findings(findings),
        *_topology(difference.effects, before, after),
        *_totals(difference),
        *_timeline(difference.effects),
        *_accelerators(difference, before, after),
        *_slowest(timelines),
        *_objects(difference),
    ]
    return "\n".join([
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width">',
        f"<title>fusioninfer-pulumi diff</title><style>{_STYLE}</style></head><body>",
        *body,
        "</body></html>\n",
    ])  # fmt: skip


_Key = tuple[str, str, str]


@dataclass(frozen=True)
class _Size:
    """Pods and accelerators of one replica."""

    nodes: int
    accelerators: int


def _sizes(plans: Iterable[ServicePlan]) -> dict[_Key, _Size]:
    return {
        (str(plan.namespace), plan.service, role.name): _Size(role.nodes, role.replica_accelerators)
        for plan in plans
        for role in plan.roles
    }


def _key(effect: RoleEffect) -> _Key:
    return (effect.namespace, effect.service, effect.role)


def _name(effect: RoleEffect) -> str:
    return f"{service_name(effect.namespace, effect.service)} / {effect.role}"


def _notes(difference: Difference) -> Iterator[str]:
    if difference.notes:
        yield "<ul>"
        yield from (f"<li>{_html(note)}</li>" for note in difference.notes)
        yield "</ul>"


def _findings(findings: Sequence[tuple[Origin, Finding]]) -> Iterator[str]:
    if not findings:
        return
    yield "<h2>Findings</h2><ul>"
    for origin, finding in findings:
        level = finding.severity.value
        text = f"{_html(origin)}: {_html(placed_text(finding))}"
        mark = rule_mark(finding).strip()
        rule = f' <span class="rule">{_html(mark)}</span>' if mark else ""
        yield f'<li><span class="{level}">{level}</span> {text}{rule}</li>'
    yield "</ul>"


def _topology(
    effects: Sequence[RoleEffect], before: Mapping[_Key, _Size], after: Mapping[_Key, _Size]
) -> Iterator[str]:
    if not effects:
        return
    yield (
        '<h2>Topology</h2><p><span class="box">runs on</span><span class="box restart">restarts'
        '</span><span class="box added">starts</span><span class="box removed">stops</span></p>'
    )
    rows = []
    for effect in effects:
        kept = _boxes(effect.kept, "")
        restarts = _boxes(effect.restarts, "restart")
        old = kept + restarts + _boxes(effect.removed, "removed")
        new = kept + restarts + _boxes(effect.added, "added")
        sizes = [sizes.get(_key(effect)) for sizes in (before, after)]
        reason = effect.restart_reason or effect.role_change or "untouched"
        rows.append([
            _html(_name(effect)), old or "-", _each(sizes[0]), new or "-", _each(sizes[1]),
            _html(reason),
        ])  # fmt: skip
    yield from _table(["Role", "Before", "each", "After", "each", "Why"], rows)


def _each(size: _Size | None) -> str:
    if size is None:
        return ""
    pods = f"{size.nodes} nodes, " if size.nodes > 1 else ""
    return f"{pods}{size.accelerators} GPUs"


def _boxes(names: Sequence[str], kind: str) -> str:
    if len(names) > _DRAWN:
        names = [f"{len(names)} replicas"]
    return "".join(f'<span class="box {kind}">{_html(name)}</span>' for name in names)


def _totals(difference: Difference) -> Iterator[str]:
    rows = [
        [
            _html(service_name(totals.namespace, totals.service)),
            _html(before_after(totals.pods_before, totals.pods_after)),
            _html(before_after(totals.accelerators_before, totals.accelerators_after)),
        ]
        for totals in difference.totals
    ]
    if rows:
        yield from _table(["Service", "Pods", "GPUs"], rows)


@dataclass(frozen=True)
class _Step:
    """Replicas of one role that restart side by side."""

    effect: RoleEffect
    replicas: tuple[str, ...]


def _steps(effects: Sequence[RoleEffect]) -> list[list[_Step]]:
    """The restarts in their order: those of one entry may happen at the same time.

    A role begins when the roles before it are done; where no order is known, a role is one step.
    """
    ends: dict[_Key, int] = {}
    steps: dict[int, list[_Step]] = {}
    waiting = [effect for effect in effects if effect.restarts]
    names = {_key(effect) for effect in waiting}
    while waiting:
        ready = [restart for restart in waiting if not _before(restart, names) - ends.keys()]
        for effect in ready or waiting[:1]:
            at = max((ends[key] for key in _before(effect, names) if key in ends), default=0)
            for replicas in _batches(effect):
                steps.setdefault(at, []).append(_Step(effect, replicas))
                at += 1
            ends[_key(effect)] = at
            waiting.remove(effect)
    return [steps[at] for at in sorted(steps)]


def _before(effect: RoleEffect, known: Collection[_Key]) -> set[_Key]:
    keys = {(effect.namespace, effect.service, role) for role in effect.after}
    return keys & set(known)


def _batches(effect: RoleEffect) -> Iterator[tuple[str, ...]]:
    if not effect.order:
        yield effect.restarts
    for stage in effect.order:
        width = max(1, stage.at_a_time)
        for start in range(0, len(stage.replicas), width):
            yield stage.replicas[start : start + width]


def _timeline(effects: Sequence[RoleEffect]) -> Iterator[str]:
    steps = _steps(effects)
    if not steps:
        return
    yield "<h2>Restarts in their order</h2>"
    shown = steps[:_DRAWN]
    cells: dict[str, list[str]] = {}
    for number, step in enumerate(shown):
        for part in step:
            row = cells.setdefault(_html(_name(part.effect)), [""] * len(shown))
            row[number] = _boxes(part.replicas, "restart")
    head = ["Role", *(f"step {number}" for number in range(1, len(shown) + 1))]
    yield from _table(head, ([name, *row] for name, row in cells.items()))
    if len(steps) > _DRAWN:
        yield f"<p>… and {len(steps) - _DRAWN} more steps</p>"


def _accelerators(
    difference: Difference, before: Mapping[_Key, _Size], after: Mapping[_Key, _Size]
) -> Iterator[str]:
    """GPUs that pods ask for: new replicas are created first, removed ones are deleted last."""
    effects = difference.effects
    known = all(
        (not effect.replicas_before or _key(effect) in before)
        and (not effect.replicas_after or _key(effect) in after)
        for effect in effects
    )
    if not known or not effects:
        return

    def gpus(sizes: Mapping[_Key, _Size], effect: RoleEffect, replicas: int) -> int:
        return sizes[_key(effect)].accelerators * replicas if replicas else 0

    asked = sum(gpus(before, effect, effect.replicas_before) for effect in effects)
    moments = [("before", asked)]
    starts = sum(gpus(after, effect, len(effect.added)) for effect in effects)
    if starts:
        moments.append(("new replicas are created", asked := asked + starts))
    for number, step in enumerate(_steps(effects), 1):
        for part in step:
            count = len(part.replicas)
            asked += gpus(after, part.effect, count) - gpus(before, part.effect, count)
        moments.append((f"step {number}", asked))
    stops = sum(gpus(before, effect, len(effect.removed)) for effect in effects)
    if stops:
        moments.append(("removed replicas are deleted", asked - stops))
    highest = max(value for _, value in moments)
    if not highest or len({value for _, value in moments}) == 1:
        return
    yield "<h2>GPUs during the update</h2><table>"
    peaked = False
    for name, value in moments:
        peak = value == highest and not peaked
        peaked = peaked or peak
        mark = ' class="peak"' if peak else ""
        bar = f'<span class="bar" style="width:{round(30 * value / highest, 1)}rem"></span>'
        label = f"{value}{' (peak)' if peak else ''}"
        yield f"<tr{mark}><td>{name}</td><td>{bar}</td><td>{label}</td></tr>"
    yield "</table>"


def _slowest(updates: Sequence[ServiceTimeline]) -> Iterator[str]:
    """The updates in which a replica changes, one row for each turn."""
    shown = [update for update in updates if update.timeline is not None and update.timeline.turns]
    if shown:
        yield f"<h2>The update at its slowest</h2><p>{_html(BOUNDS)}</p>"
    for update in shown:
        cells = update.cells
        turns, more = cells[1:-1], max(0, len(cells) - 2 - _DRAWN)
        rows = [cells[0], *turns[:_DRAWN], cells[-1]]
        highest = max(int(row[-1]) for row in cells) or 1
        yield f"<h3>{_html(service_name(update.namespace, update.service))}</h3>"
        yield from _table(
            [_html(title.lower()) for title in update.head],
            ([*map(_html, row[:-1]), _bar(int(row[-1]), highest)] for row in rows),
        )
        if more:
            yield f"<p>… and {more} more turns before the last row</p>"
        yield from (f"<p>{_html(note)}</p>" for note in update.notes)


def _bar(value: int, highest: int) -> str:
    width = round(10 * value / highest, 1)
    return f'<span class="bar" style="width:{width}rem"></span> {value}'


def _objects(difference: Difference) -> Iterator[str]:
    if difference.objects:
        yield "<h2>Objects and fields</h2>"
    for group in grouped(difference.objects):
        action = group.objects[0].action
        yield f"<details><summary>{action}: {_html(group.title)}</summary>"
        for change in group.fields:
            values = "\n".join(lines(change, _LONGEST_LINE))
            yield f"<p><code>{_html(change.path)}</code></p><pre>{_html(values, keep=True)}</pre>"
        yield "</details>"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"<table><tr>{''.join(f'<th>{name}</th>' for name in head)}</tr>"
    for row in rows:
        yield f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>"
    yield "</table>"


def _html(value: Any, *, keep: bool = False) -> str:
    """Text of the input, which a page shows and never reads as HTML."""
    return escape(str(value) if keep else printable(str(value)))
