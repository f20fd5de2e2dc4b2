"""`plan --output mermaid`: the way of a request through a service, as a chart for Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fusioninfer_pulumi.cli.chart import Chart, Label, RoleBox, charts
from fusioninfer_pulumi.findings import one_line
from fusioninfer_pulumi.kube.outputs import UNKNOWN
from fusioninfer_pulumi.plan.service_plan import ServicePlan

_ARROWS = {"prompt": "-. prompt .->", "KV cache": "== KV cache ==>"}


def mermaid(*plans: ServicePlan, providers: Sequence[str] = ()) -> str:
    """One Mermaid flowchart of services, without the Markdown fence; see `charts`."""
    # Boxes of one name are one box in Mermaid, wherever they stand.
    drawn = charts(plans, providers)
    marks = [f"s{number}_" for number in range(len(drawn))] if len(drawn) > 1 else [""]
    lines = [line for chart, mark in zip(drawn, marks, strict=True) for line in _lines(chart, mark)]
    return "".join(f"{line}\n" for line in ("flowchart LR", *(f"  {line}" for line in lines)))


def _lines(chart: Chart, mark: str) -> Iterator[str]:
    *hops, last = chart.stations
    stations = {f"{mark}hop{number}": label for number, label in enumerate(hops)}
    entry = f"{mark}entry"
    yield f'subgraph {mark}service["{_text(chart.title)}"]'
    yield "direction LR"
    for box, label in stations.items():
        yield _box(box, label)
    yield _box(entry, last)
    if chart.picker is not None:
        yield f'{entry} -. which pod? .-> {mark}picker("{_label(chart.picker)}")'
    if chart.gang is not None:
        yield f'subgraph {mark}gang["{_text(chart.gang)}"]'
        yield "direction LR"
    boxes = [f"{mark}role{number}" for number in range(len(chart.roles))]
    for box, role in zip(boxes, chart.roles, strict=True):
        yield from _role(box, role)
    if chart.gang is not None:
        yield "end"
    yield from (f"{entry} --> {boxes[at]}" for at in chart.entries)
    yield from (f"{boxes[one]} {_ARROWS[what]} {boxes[other]}" for one, what, other in chart.ways)
    yield "end"
    # Drawn outside: a box belongs to the first subgraph that names it.
    yield f'client(["clients"]) --> {" --> ".join([*stations, entry])}'


def _role(box: str, role: RoleBox) -> Iterator[str]:
    yield f'subgraph {box}["{_text(role.title)}"]'
    yield "direction TB"
    # One box for all replicas has no number.
    all_of_them = len(role.replicas) == 1 and "…" in role.replicas[0][0]
    for number, label in enumerate(role.replicas):
        yield _box(f"{box}_{'all' if all_of_them else number}", label)
    yield "end"


def _box(box: str, label: Label) -> str:
    return f'{box}["{_label(label)}"]'


def _label(label: Label) -> str:
    return "<br/>".join(map(_text, label))


def _text(text: str) -> str:
    """Text inside of a Mermaid label."""
    # A browser would take `<unknown>` for a tag, and drop it.
    escaped = one_line(text).replace(UNKNOWN, UNKNOWN.strip("<>")).replace("#", "#35;")
    return escaped.replace('"', "#quot;").replace("<", "#lt;").replace(">", "#gt;")
