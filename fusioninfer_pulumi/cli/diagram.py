"""`plan --output svg`: a drawing of services, one file without scripts and fonts of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from fusioninfer_pulumi.cli.chart import Chart, Label, RoleBox, charts
from fusioninfer_pulumi.findings import one_line
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.topology.capacity import Capacity

# Pixels: of a character (generous, because system fonts differ), a line, and between boxes.
_CHARACTER, _LINE, _GAP, _PADDING = 7.2, 18, 46, 12
# Distance of arrows that go around roles: their labels fit between them.
_LANE = 64
# GPUs are squares. Of large pods and replicas only some are drawn: the text has the number.
_SQUARE, _MOST_SQUARES, _MOST_PODS = 9, 16, 8
_LIGHT, _DARK = (
    {"page": "#fff", "text": "#1f2328", "line": "#8c959f", "box": "#f6f8fa", "gpu": "#0969da",
     "gang": "#9a6700", "cache": "#8250df"},
    {"page": "#0d1117", "text": "#e6edf3", "line": "#6e7681", "box": "#161b22", "gpu": "#58a6ff",
     "gang": "#d29922", "cache": "#bc8cff"},
)  # fmt: skip
# Not every program that shows SVG knows variables of CSS.
_COLOURS = """\
.page { fill: %(page)s } text { fill: %(text)s } .box { fill: %(box)s; stroke: %(line)s }
.role, .way { stroke: %(line)s } .end { fill: %(line)s } .gang { stroke: %(gang)s }
.gpu { fill: %(gpu)s } .cache { stroke: %(cache)s }"""
_STYLE = f"""\
text {{ font: 12px system-ui, sans-serif }} .title {{ font-weight: 600 }}
.small {{ font-size: 11px }} .role, .gang, .way {{ fill: none }}
.gang {{ stroke-dasharray: 5 3 }} .way {{ stroke-width: 1.5 }}
.prompt {{ stroke-dasharray: 4 3 }} .way.cache {{ stroke-width: 2.5 }}
{_COLOURS % _LIGHT}
@media (prefers-color-scheme: dark) {{ {_COLOURS % _DARK} }}"""


def diagram(
    plans: Sequence[ServicePlan],
    captions: Sequence[Sequence[str]] = (),
    providers: Sequence[str] = (),
) -> str:
    """The services below each other.

    Args:
        plans: The services.
        captions: Lines below each of them.
        providers: See `charts`.
    """
    parts: list[str] = []
    width, top = 0.0, 0.0
    drawn = charts(plans, providers)
    for number, chart in enumerate(drawn):
        drawing = _Drawing(chart, captions[number] if number < len(captions) else ())
        parts.append(f'<g transform="translate(0 {top:g})">{"".join(drawing.parts)}</g>')
        width, top = max(width, drawing.width), top + drawing.height
    label = "; ".join(_text(chart.title) for chart in drawn)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {top:g}" '
        f'width="{width:g}" height="{top:g}" role="img" aria-label="{label}">\n'
        f'<style>{_STYLE}</style>\n{_MARKER}\n<rect class="page" width="100%" height="100%"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


_MARKER = (
    '<defs><marker id="end" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="9" markerHeight="9" '
    'markerUnits="userSpaceOnUse" '
    'orient="auto-start-reverse"><path d="M0 0 8 4 0 8z" class="end"/></marker></defs>'
)


@dataclass(frozen=True)
class _Box:
    """A rectangle and where it stands."""

    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> float:
        return self.y + self.height / 2


class _Drawing:
    """One service: stations in a row, roles below each other to their right.

    Attributes:
        parts: SVG elements.
        width: Pixels.
        height: Pixels.
    """

    def __init__(self, chart: Chart, captions: Sequence[str]) -> None:
        self.parts: list[str] = []
        left = _stations_width(chart)
        gang = _LINE + _PADDING if chart.gang is not None else 0
        top = 2 * _LINE + _PADDING + gang
        boxes = list(_role_boxes(chart.roles, left + (_PADDING if gang else 0), top))
        bottom = max((box.y + box.height for box in boxes), default=top) + (_PADDING if gang else 0)
        right = max((box.x + box.width for box in boxes), default=left)
        self._write(_PADDING, _LINE + 4, chart.title, "title")
        if chart.gang is not None:
            # The frame is at least as wide as its words.
            right = max(right, left + _width((chart.gang,)))
            self._frame(
                _Box(left, top - gang, right + _PADDING - left, bottom - top + gang), "gang"
            )
            self._write(left + _PADDING, top - gang + _LINE, chart.gang, "small")
        for box, role in zip(boxes, chart.roles, strict=True):
            self._role(box, role)
        tallest = max(len(label) for label in chart.stations) * _LINE + _PADDING
        middle = max((top + bottom) / 2, 2 * _LINE + tallest / 2)
        entry, lowest = self._stations(chart, middle)
        height = max(bottom, lowest) + _LINE
        for at in chart.entries:
            self._way(entry.x + entry.width, entry.middle, boxes[at].x, boxes[at].middle, "")
        lanes = right + 2 * _PADDING
        for number, (one, what, other) in enumerate(chart.ways):
            self._between(boxes[one], boxes[other], lanes + number * _LANE, what)
        lanes += _LANE * len(chart.ways)
        for text in captions:
            height += _LINE
            self._write(_PADDING, height, text, "small")
        widest = _width((chart.title, *captions))
        self.width, self.height = max(lanes, widest) + _PADDING, height + _LINE

    def _stations(self, chart: Chart, middle: float) -> tuple[_Box, float]:
        """Draws the way to the roles; returns its last box, and how far down all of it reaches."""
        x = float(_PADDING)
        before: _Box | None = None
        for label in (("clients",), *chart.stations):
            height = len(label) * _LINE + _PADDING
            box = _Box(x, middle - height / 2, _width(label), height)
            self._frame(box, "box", round_=before is None)
            self._label(box, label)
            if before is not None:
                self._way(before.x + before.width, middle, box.x, middle, "")
            x, before = x + box.width + _GAP, box
        assert before is not None, "clients"
        lowest = before.y + before.height
        if chart.picker is not None:
            height = len(chart.picker) * _LINE + _PADDING
            width = _width(chart.picker)
            at = before.x + before.width / 2
            picker = _Box(at - width / 2, before.y + before.height + _GAP, width, height)
            self._frame(picker, "box", round_=True)
            self._label(picker, chart.picker)
            self._way(at, before.y + before.height, at, picker.y, "prompt")
            self._write(at + 6, picker.y - _GAP / 2 + 4, "which pod?", "small")
            lowest = picker.y + picker.height
        return before, lowest

    def _role(self, box: _Box, role: RoleBox) -> None:
        self._frame(box, "role")
        self._write(box.x + _PADDING, box.y + _LINE, role.title, "title small")
        x = box.x + _PADDING
        for label in role.replicas:
            inner = _Box(x, box.y + _LINE + 8, _replica_width(role, label), _replica_height(role))
            self._frame(inner, "box")
            for number, text in enumerate(label):
                self._write(x + 8, inner.y + 15 + number * 15, text, "small")
            for pod in range(min(role.pods, _MOST_PODS)):
                for gpu in range(min(role.accelerators, _MOST_SQUARES)):
                    self.parts.append(
                        f'<rect class="gpu" x="{x + 8 + gpu * (_SQUARE + 2):g}" '
                        f'y="{inner.y + 38 + pod * (_SQUARE + 3):g}" width="{_SQUARE}" '
                        f'height="{_SQUARE}" rx="1"/>'
                    )
            x += inner.width + _PADDING

    def _between(self, one: _Box, other: _Box, lane: float, what: str) -> None:
        """An arrow around the right of two roles."""
        start, end = one.x + one.width, other.x + other.width
        shift = 8 if what == "prompt" else -8
        kind = "prompt" if what == "prompt" else "cache"
        path = f"M{start:g} {one.middle + shift:g}H{lane:g}V{other.middle + shift:g}H{end:g}"
        self.parts.append(f'<path class="way {kind}" marker-end="url(#end)" d="{path}"/>')
        y = (one.middle + other.middle) / 2 + (0 if what == "prompt" else _LINE)
        self._write(lane + 5, y, what, "small")

    def _way(self, x: float, y: float, to_x: float, to_y: float, kind: str) -> None:
        self.parts.append(
            f'<path class="way {kind}" marker-end="url(#end)" d="M{x:g} {y:g}L{to_x:g} {to_y:g}"/>'
        )

    def _frame(self, box: _Box, kind: str, *, round_: bool = False) -> None:
        self.parts.append(
            f'<rect class="{kind}" x="{box.x:g}" y="{box.y:g}" width="{box.width:g}" '
            f'height="{box.height:g}" rx="{box.height / 2 if round_ else 4:g}"/>'
        )

    def _label(self, box: _Box, label: Label) -> None:
        for number, text in enumerate(label):
            self._write(box.x + _PADDING, box.y + _LINE + number * _LINE, text, "")

    def _write(self, x: float, y: float, text: str, kind: str) -> None:
        self.parts.append(f'<text class="{kind}" x="{x:g}" y="{y:g}">{_text(text)}</text>')


def capacity_captions(rows: Sequence[Capacity]) -> list[str]:
    """What runs with fewer accelerators."""
    return [
        f"with {row.gpus} GPUs free: {row.status}"
        + "".join(f", {number} {name}" for name, number in row.running.items())
        for row in rows
    ]


def _stations_width(chart: Chart) -> float:
    labels = (("clients",), *chart.stations)
    picker = 0.0 if chart.picker is None else _width(chart.picker) - _width(chart.stations[-1])
    return _PADDING + sum(_width(label) + _GAP for label in labels) + max(0.0, picker / 2)


def _role_boxes(roles: Sequence[RoleBox], x: float, y: float) -> Iterator[_Box]:
    for role in roles:
        replicas = sum(_replica_width(role, label) + _PADDING for label in role.replicas)
        height = _LINE + 8 + (_replica_height(role) + _PADDING if role.replicas else 0)
        yield _Box(x, y, max(replicas, _width((role.title,))) + _PADDING, height)
        y += height + _PADDING


def _replica_width(role: RoleBox, label: Label) -> float:
    squares = min(role.accelerators, _MOST_SQUARES) * (_SQUARE + 2)
    return max(_width(label) - _PADDING, squares + 16)


def _replica_height(role: RoleBox) -> float:
    rows = min(role.pods, _MOST_PODS) if role.accelerators else 0
    return 40 + rows * (_SQUARE + 3)


def _width(label: Label) -> float:
    return max(len(one_line(line)) for line in label) * _CHARACTER + 2 * _PADDING


def _text(text: str) -> str:
    return escape(one_line(text))
