"""Helpers for tests that rejected settings break on real components."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from e2e import inputs
from e2e.harness import Object
from fusioninfer_pulumi.findings import InvalidServiceError

Change = Callable[[list[Object]], list[Object]]


def assert_rejected(manifest: Object, message: str) -> None:
    with pytest.raises(InvalidServiceError, match=message):
        inputs.objects_of(inputs.plan_of(manifest))


def edit_lws(edit: Callable[[Object], object]) -> Change:
    return _edited("LeaderWorkerSet", edit)


def edit_pod_group(edit: Callable[[Object], object]) -> Change:
    return _edited("PodGroup", edit)


def edit_templates(edit: Callable[[Object], object], role: str | None = None) -> Change:
    """Return a change of all pod templates of one role or of all roles."""

    def edit_all(leader_worker_set: Object) -> None:
        if role in (None, leader_worker_set["metadata"]["labels"]["fusioninfer.io/role-name"]):
            group = leader_worker_set["spec"]["leaderWorkerTemplate"]
            for key in ("leaderTemplate", "workerTemplate"):
                if key in group:
                    edit(group[key])

    return edit_lws(edit_all)


def _edited(kind: str, edit: Callable[[Object], object]) -> Change:
    def change(objects: list[Object]) -> list[Object]:
        # Manifests of a role share dicts, which must not be edited twice.
        changed: list[Object] = json.loads(json.dumps(objects))
        for manifest in changed:
            if manifest["kind"] == kind:
                edit(manifest)
        return changed

    return change
