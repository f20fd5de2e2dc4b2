"""Check edits of a running service with the component and with `diff`."""

from __future__ import annotations

from typing import Any

import pytest
from samples import of_kind, plan_of, rendered
from state_entries import LWS, urn

from fusioninfer_pulumi import render
from fusioninfer_pulumi.checks.update_checks import check_update
from fusioninfer_pulumi.cli.diff import compare
from fusioninfer_pulumi.component.stack_state import find_stack_lws
from fusioninfer_pulumi.findings import Finding, format_with_rule

Manifest = dict[str, Any]


def state_of(manifest: Manifest, component: str = "svc") -> dict[str, Any]:
    """Return the stack's state after an update that created a service."""
    name = manifest["metadata"]["name"]
    state: dict[str, Any] = {}
    for item in of_kind(rendered(manifest), "LeaderWorkerSet"):
        logical = component + item["metadata"]["name"][len(name) :]
        outputs = {"metadata": item["metadata"], "spec": item["spec"]}
        state[urn(logical)] = {"type": LWS, "outputs": outputs}
    return state


def check_edit(engine: Any, old: Manifest, new: Manifest) -> list[str]:
    """Return the errors of an edit; assert that the component and `diff` report the same."""
    engine.state = state_of(old)
    expected: list[Finding] = []
    plans = plan_of(old), plan_of(new)
    before, after = map(render, plans)

    def program() -> None:
        expected.extend(check_update(plans[1], after, find_stack_lws("svc", plans[1])))

    engine.run(program)
    notes = compare(before, after, plans=([plans[0]], [plans[1]])).notes
    assert [note for note in notes if note.startswith("error: ")] == [
        f"error: {format_with_rule(finding)}" for finding in expected
    ]
    return list(map(str, expected))


def assert_edit_errors(engine: Any, old: Manifest, new: Manifest, *starts: str) -> None:
    """Assert that these are the starts of all errors of an edit."""
    findings = check_edit(engine, old, new)
    assert len(findings) == len(starts), findings
    for item, start in zip(findings, starts, strict=True):
        if not item.startswith(start):
            pytest.fail(item)
