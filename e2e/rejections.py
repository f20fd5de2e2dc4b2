"""Helpers for tests of settings that the library rejects because they fail on real components."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from e2e import inputs
from e2e.harness import Object
from fusioninfer_pulumi.findings import InvalidServiceError

Change = Callable[[list[Object]], list[Object]]


def assert_rejected(manifest: Object, message: str) -> None:
    with pytest.raises(InvalidServiceError, match=message):
        inputs.render_objects(inputs.build_plan(manifest))


def merge(value: Any, patch: Any) -> Any:
    """Return a value with a patch merged into its mappings and lists; null removes a field."""
    if isinstance(value, Mapping) and isinstance(patch, Mapping):
        merged = {**value, **{key: merge(value.get(key), item) for key, item in patch.items()}}
        return {key: item for key, item in merged.items() if item is not None or key not in patch}
    if isinstance(value, list) and isinstance(patch, list):
        return [*map(merge, value, patch), *value[len(patch) :]]
    return copy.deepcopy(patch)


def edit_objects(patches: Mapping[str, Object], role: str | None = None) -> Change:
    """Return a function that merges patches into objects, by kind.

    `templates` patches all pod templates. With a role, only its LeaderWorkerSets change.
    """

    def edit(item: Object) -> Object:
        labels = item["metadata"].get("labels") or {}
        if role not in (None, labels.get("fusioninfer.io/role-name")):
            return item
        changed: Object = merge(item, patches.get(item["kind"], {}))
        if "templates" in patches and item["kind"] == "LeaderWorkerSet":
            group = changed["spec"]["leaderWorkerTemplate"]
            for key in group.keys() & {"leaderTemplate", "workerTemplate"}:
                group[key] = merge(group[key], patches["templates"])
        return changed

    return lambda objects: [edit(copy.deepcopy(item)) for item in objects]
