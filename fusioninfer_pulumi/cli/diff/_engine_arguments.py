"""What another release of an engine does to the arguments of a service."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fusioninfer_pulumi.cli.diff._cells import service_name
from fusioninfer_pulumi.cli.diff._records import EngineChange
from fusioninfer_pulumi.cli.diff.manifests import LWS_TEMPLATE, Manifest, at, role_of, service_of
from fusioninfer_pulumi.cli.diff.restarts import Edit
from fusioninfer_pulumi.engines.argument_changes import argument_changes
from fusioninfer_pulumi.engines.command import read_command

_MOST_DEFAULTS = 6
_TEMPLATES = ("leaderTemplate", "workerTemplate")


def engine_changes(edits: Sequence[Edit]) -> list[EngineChange]:
    """What the engines of LeaderWorkerSets no longer take, once for each role."""
    found: list[EngineChange] = []
    for edit in edits:
        if not edit.key.is_lws or edit.old is None or edit.new is None:
            continue
        service = service_of(edit.key, edit.new)
        role = role_of(edit.key, edit.new)
        for template in _TEMPLATES:
            olds, news = (_containers(each, template) for each in (edit.old, edit.new))
            for name in (name for name in olds if name in news):
                changes = argument_changes(read_command(olds[name]), read_command(news[name]))
                if changes is None or not (changes.removed or changes.defaults):
                    continue
                change = EngineChange(service, edit.key.namespace, role, changes)
                if change not in found:
                    found.append(change)
    return found


def _containers(manifest: Manifest, template: str) -> dict[str, Mapping[str, Any]]:
    held = at(manifest, *LWS_TEMPLATE.split("."), template, "spec", "containers")
    items = held if isinstance(held, (list, tuple)) else ()
    return {
        each["name"]: each
        for each in items
        if isinstance(each, Mapping) and isinstance(each.get("name"), str)
    }


def engine_notes(changes: Sequence[EngineChange], services: int) -> Iterator[str]:
    """Says in sentences what the engines no longer take; names services where there are several."""
    for change in changes:
        name = f"{service_name(change.namespace, change.service)}: " if services > 1 else ""
        found = change.changes
        prefix = f"{name}role {change.role}, {found.engine} {found.before} -> {found.after}"
        if found.removed:
            listed = [
                f"{each.name} (use {each.instead})" if each.instead else each.name
                for each in found.removed
            ]
            yield f"{prefix}: no longer takes {', '.join(listed)}"
        # What null stands for is the engine's choice, and may be the same.
        stated = [each for each in found.defaults if None not in (each.before, each.after)]
        if stated:
            listed = [
                f"{each.name} {json.dumps(each.before)} -> {json.dumps(each.after)}"
                for each in stated[:_MOST_DEFAULTS]
            ]
            more = len(stated) - len(listed)
            rest = f" and {more} more (--output json lists them)" if more else ""
            yield f"{prefix}: other defaults: {', '.join(listed)}{rest}"
