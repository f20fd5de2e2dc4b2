"""What another release of an engine does to the arguments and the KV transfer of a service."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fusioninfer_pulumi.api.role import ComponentType
from fusioninfer_pulumi.checks.pods.prefill_decode import pair_setting
from fusioninfer_pulumi.cli.diff._cells import service_name
from fusioninfer_pulumi.cli.diff._records import EngineChange
from fusioninfer_pulumi.cli.diff.manifests import (
    LWS_TEMPLATE,
    Manifest,
    at,
    label,
    role_of,
    service_of,
)
from fusioninfer_pulumi.cli.diff.restarts import Edit
from fusioninfer_pulumi.engines.argument_changes import argument_changes
from fusioninfer_pulumi.engines.command import read_command
from fusioninfer_pulumi.engines.engine import EngineCommand
from fusioninfer_pulumi.kube.labels import COMPONENT_TYPE

_MOST_DEFAULTS = 6
_TEMPLATES = ("leaderTemplate", "workerTemplate")


def engine_changes(edits: Sequence[Edit]) -> list[EngineChange]:
    """What the engines of LeaderWorkerSets no longer take, once for each role."""
    changed_engines: list[EngineChange] = []
    for edit, old, new in _commands(edits):
        changes = argument_changes(old, new)
        if edit.new is None or changes is None or not (changes.removed or changes.defaults):
            continue
        service, role = service_of(edit.key, edit.new), role_of(edit.key, edit.new)
        change = EngineChange(service, edit.key.namespace, role, changes)
        if change not in changed_engines:
            changed_engines.append(change)
    return changed_engines


def handshake_notes(edits: Sequence[Edit]) -> Iterator[str]:
    """Yields a warning for each decode role whose requests fail while both revisions run.

    The endpoint picker pairs prefill and decode pods of either revision.
    """
    warnings: dict[str, None] = {}
    for edit, old, new in _commands(edits):
        engine = new.engine
        if engine is None or old.engine is not engine or edit.new is None:
            continue
        remedy = engine.missing_recompute(old) or engine.missing_recompute(new)
        if remedy is None or label(edit.new, COMPONENT_TYPE) != ComponentType.DECODER.value:
            continue
        changed = []
        for key in sorted({*engine.must_agree(old, new)} - {"served name"}):
            before, after = pair_setting(old, engine, key), pair_setting(new, engine, key)
            if None not in (before, after) and before != after:
                changed.append(f"{key} {before} -> {after}")
        if changed:
            warning = (
                f"role {role_of(edit.key, edit.new)}: warning: while both revisions run, "
                f"{engine.title} rejects KV caches between them ({', '.join(changed)}) and these "
                f"requests fail with HTTP 500; before this update, add {remedy}"
            )
            warnings[warning] = None
    yield from warnings


def _commands(edits: Sequence[Edit]) -> Iterator[tuple[Edit, EngineCommand, EngineCommand]]:
    """Yields the command lines, before and after, of each container of a LeaderWorkerSet."""
    for edit in edits:
        if not edit.key.is_lws or edit.old is None or edit.new is None:
            continue
        for template in _TEMPLATES:
            olds, news = (_containers(manifest, template) for manifest in (edit.old, edit.new))
            for name in (name for name in olds if name in news):
                yield edit, read_command(olds[name]), read_command(news[name])


def _containers(manifest: Manifest, template: str) -> dict[str, Mapping[str, Any]]:
    containers = at(manifest, *LWS_TEMPLATE.split("."), template, "spec", "containers")
    items = containers if isinstance(containers, (list, tuple)) else ()
    return {
        container["name"]: container
        for container in items
        if isinstance(container, Mapping) and isinstance(container.get("name"), str)
    }


def engine_notes(changes: Sequence[EngineChange], services: int) -> Iterator[str]:
    """Says in sentences what the engines no longer take; names services where there are several."""
    for change in changes:
        name = f"{service_name(change.namespace, change.service)}: " if services > 1 else ""
        arguments = change.changes
        prefix = (
            f"{name}role {change.role}, {arguments.engine} {arguments.before} -> {arguments.after}"
        )
        if arguments.removed:
            listed = [
                f"{argument.name} (use {argument.instead})" if argument.instead else argument.name
                for argument in arguments.removed
            ]
            yield f"{prefix}: no longer takes {', '.join(listed)}"
        # The engine chooses what null stands for: it may be the same in both releases.
        stated = [
            default for default in arguments.defaults if None not in (default.before, default.after)
        ]
        if stated:
            listed = [
                f"{default.name} {json.dumps(default.before)} -> {json.dumps(default.after)}"
                for default in stated[:_MOST_DEFAULTS]
            ]
            more = len(stated) - len(listed)
            rest = f" and {more} more (--output json lists them)" if more else ""
            yield f"{prefix}: other defaults: {', '.join(listed)}{rest}"
