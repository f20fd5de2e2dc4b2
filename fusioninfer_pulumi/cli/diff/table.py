"""The facts of a difference as cells and lines, for text and markdown."""

from __future__ import annotations

from fusioninfer_pulumi.cli.diff.effects import scaling
from fusioninfer_pulumi.cli.diff.records import Difference, RoleEffect, ServiceTotals
from fusioninfer_pulumi.cli.diff.spans import compressed, in_order, size


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
        sum(size(names) for names in each)
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
        count = size(stage.replicas)
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
    return told if size(effect.restarts) > 1 else ""


def _why(effect: RoleEffect) -> str:
    """What else than their number changes the replicas, which has a column of its own."""
    scaled = scaling(effect.replicas_before, effect.replicas_after)
    return effect.reason.removesuffix(f", {scaled}") or "untouched"


def _services(difference: Difference) -> list[str]:
    names = [service_name(effect) for effect in difference.effects]
    return names if len(set(names)) > 1 else [""] * len(names)


def _replicas(effect: RoleEffect) -> str:
    return before_after(effect.replicas_before, effect.replicas_after)
