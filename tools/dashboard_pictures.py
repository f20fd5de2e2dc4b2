"""Draws the dashboards for the docs: `docs/pictures/dashboard-NAME.svg`.

They are drawn from the definition of each dashboard (`generated/dashboards`) and from what a real
Prometheus answered to its queries under load (`e2e/serve/recorded_dashboards.json`, which
`e2e/serve/test_dashboards.py --write-dashboards` writes). They are no screenshots of Grafana.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DASHBOARDS = ROOT / "fusioninfer_pulumi" / "generated" / "dashboards"
RECORDED = ROOT / "e2e" / "serve" / "recorded_dashboards.json"

#: Pixels of one of Grafana's 24 columns, of one of its rows, and of the head.
COLUMN, LINE, HEAD = 42, 26, 58
COLORS = ("#2f7d32", "#c28800", "#2563a8", "#c2410c", "#7b3fa0", "#0f766e", "#a3195b", "#555555")
NOTE = (
    "Drawn from the dashboard's definition and from what a real Prometheus recorded in {seconds} s "
    "of load (two vLLM replicas on processors). Not a screenshot of Grafana."
)
#: Factor and unit of values from a limit on, the largest first.
UNITS: Mapping[str, Sequence[tuple[float, float, str]]] = {
    "s": ((1, 1, " s"), (1e-3, 1e3, " ms"), (0, 1e6, " µs")),
    "ms": ((1e3, 1e-3, " s"), (0, 1, " ms")),
    "percentunit": ((0, 100, " %"),),
    "bytes": ((2**30, 2**-30, " GiB"), (2**20, 2**-20, " MiB"), (0, 2**-10, " KiB")),
    "Bps": ((1e6, 1e-6, " MB/s"), (1e3, 1e-3, " kB/s"), (0, 1, " B/s")),
    "reqps": ((0, 1, " req/s"),),
    "short": ((1e3, 1e-3, " K"), (0, 1, "")),
}

Object = dict[str, Any]


@dataclass(frozen=True)
class Curve:
    """A series of a panel: its legend, and its points as seconds and value."""

    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Box:
    """Return the position of a panel, in pixels."""

    left: float
    top: float
    width: float
    height: float


def picture(name: str, recorded: Object) -> str:
    """One dashboard as SVG."""
    board = json.loads((DASHBOARDS / f"{name}.json").read_text(encoding="utf-8"))
    # Processors have no GPUs: the library leaves such panels out, too.
    panels = [panel for panel in board["panels"] if "$gpus" not in json.dumps(panel)]
    lines = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in panels)
    width, height = 24 * COLUMN, HEAD + lines * LINE
    note = NOTE.format(seconds=recorded["seconds"])
    size = f'viewBox="0 0 {width} {height}"'
    about = escape(f"Dashboard {name}: {board['description']}")
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="Helvetica, Arial, sans-serif"'
        f' role="img" aria-label="{about}">\n<rect width="{width}" height="{height}" '
        'fill="#f4f5f5"/>\n' + _text(12, 24, f"Dashboard: {name}", size=17, weight="bold"),
        _text(12, 44, note, color="#555"),
    ]
    values = recorded["panels"][name]
    for panel in panels:
        place = panel["gridPos"]
        box = Box(
            place["x"] * COLUMN + 4,
            HEAD + place["y"] * LINE + 3,
            place["w"] * COLUMN - 8,
            place["h"] * LINE - 6,
        )
        curves = list(_curves(panel, values.get(str(panel["id"]), {})))
        parts += _panel(panel, curves, box, recorded["seconds"])
    return "\n".join([*parts, "</svg>"]) + "\n"


def pictures() -> dict[str, str]:
    """The text of each picture by its name below `docs/pictures`."""
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))
    return {f"dashboard-{name}.svg": picture(name, recorded) for name in recorded["panels"]}


def _curves(panel: Object, recorded: Object) -> Iterator[Curve]:
    for number, target in enumerate(panel.get("targets", ())):
        for series in recorded.get(str(number), ()):
            labels = series["labels"]
            name = re.sub(
                r"{{(\w+)}}",
                lambda match: labels.get(match[1], ""),  # noqa: B023  # called at once
                target["legendFormat"],
            )
            yield Curve(name.strip(), [(at, value) for at, value in series["points"]])


def _panel(panel: Object, curves: Sequence[Curve], box: Box, seconds: float) -> Iterator[str]:
    title = panel["title"]
    if panel["type"] == "row":
        yield _text(box.left + 6, box.top + box.height / 2 + 5, title, size=13, weight="bold")
        return
    yield (
        f'<rect x="{box.left}" y="{box.top}" width="{box.width}" height="{box.height}" '
        'fill="white" stroke="#d8dadd" rx="2"/>'
    )
    yield _text(box.left + 8, box.top + 17, title, size=12, weight="bold")
    defaults = panel["fieldConfig"]["defaults"]
    unit = defaults.get("unit", "short")
    values = [value for curve in curves for _, value in curve.points]
    if panel["type"] == "stat":
        (curve,) = curves
        text = _value(curve.points[-1][1], unit)
        middle = box.left + box.width / 2
        yield _text(middle, box.top + 68, text, size=30, color=COLORS[0], anchor="middle")
        return
    steps = defaults.get("thresholds", {}).get("steps", ())
    limits = [step["value"] for step in steps if step["value"] is not None]
    highest = max([*values, *limits], default=0)
    # Memory is counted in powers of 1024.
    scale = 1024 ** int(math.log(max(highest, 1), 1024)) if unit == "bytes" else 1
    yield from _chart(curves, box, unit, seconds, scale * _top(highest / scale), limits)


def _chart(
    curves: Sequence[Curve],
    box: Box,
    unit: str,
    seconds: float,
    top: float,
    limits: Sequence[float],
) -> Iterator[str]:
    plot = Box(box.left + 66, box.top + 28, box.width - 80, box.height - 72)

    def at(second: float, value: float) -> str:
        across = plot.left + plot.width * second / seconds
        return f"{across:.1f},{plot.top + plot.height * (1 - value / top):.1f}"

    for part in range(5):
        value = top * part / 4
        left, height = at(0, value).split(",")
        right = at(seconds, value).split(",")[0]
        yield f'<path d="M{left},{height}H{right}" stroke="#e6e7e8"/>'
        yield _text(plot.left - 6, float(height) + 4, _value(value, unit, top), anchor="end")
    for part in range(5):
        second = seconds * part / 4
        left = float(at(second, 0).split(",")[0])
        text = f"{int(second // 60)}:{int(second % 60):02d}"
        yield _text(left, plot.top + plot.height + 15, text, color="#777", anchor="middle")
    for limit in limits:
        left, height = at(0, limit).split(",")
        right = at(seconds, limit).split(",")[0]
        yield f'<path d="M{left},{height}H{right}" stroke="#d44a3a" stroke-dasharray="6 4"/>'
    for number, curve in enumerate(curves):
        color = COLORS[number % len(COLORS)]
        path = " ".join(at(*point) for point in curve.points)
        yield f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="1.6"/>'
    across = box.left + 12
    for number, curve in enumerate(curves):
        width = 22 + 6.2 * len(curve.name)
        if across + width > box.left + box.width:
            yield _text(across, box.top + box.height - 9, "…")
            break
        color = COLORS[number % len(COLORS)]
        line = box.top + box.height - 13
        yield f'<path d="M{across:.1f},{line}h12" stroke="{color}" stroke-width="3"/>'
        yield _text(across + 16, line + 4, curve.name)
        across += width + 6


def _top(highest: float) -> float:
    """The end of an axis: one, two, four or five of a power of ten."""
    if highest <= 0:
        return 1
    power = 10 ** math.floor(math.log10(highest))
    return next(power * step for step in (1, 2, 4, 5, 10) if power * step >= highest * 0.999)


def _value(value: float, unit: str, size: float | None = None) -> str:
    """A value with its unit; all values of an axis have that of its end, `size`."""
    scale = abs(value if size is None else size)
    factor, name = next(
        (factor, name) for least, factor, name in UNITS[unit] if scale >= least or least == 0
    )
    return f"{value * factor:.3g}{name}"


def _text(
    left: float,
    top: float,
    text: str,
    *,
    size: int = 11,
    weight: str = "normal",
    color: str = "#222",
    anchor: str = "start",
) -> str:
    more = "" if weight == "normal" else f' font-weight="{weight}"'
    more += "" if anchor == "start" else f' text-anchor="{anchor}"'
    return (
        f'<text x="{left:.1f}" y="{top:.1f}" font-size="{size}" fill="{color}"{more}>'
        f"{escape(text)}</text>"
    )


def main() -> None:
    """Writes all pictures."""
    for name, text in pictures().items():
        (ROOT / "docs" / "pictures" / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
