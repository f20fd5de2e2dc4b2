"""The status of live objects that were recorded on the real components (`e2e/test_status.py`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml_files

from fusioninfer_pulumi.checks.plan_service import plan_service
from fusioninfer_pulumi.component.status import compute_status
from fusioninfer_pulumi.loading import load

FOLDER = Path(__file__).parent.parent / "fixtures" / "status"
STAGES: dict[str, dict[str, Any]] = {
    f"{path.stem}: {stage['stage']}": stage
    for path in sorted(FOLDER.glob("*.yaml"))
    for stage in yaml_files.read(path)
}


@pytest.mark.parametrize("stage", STAGES.values(), ids=STAGES)
def test_status_of_recorded_objects(stage: dict[str, Any]) -> None:
    (args,) = load(stage["service"])
    plan = plan_service(args)
    live = {**stage["sets"], plan.service: stage["podGroup"], **(stage.get("routing") or {})}
    messages = compute_status(plan, live, stage.get("failures"))
    assert messages == stage["status"]


def test_every_phase_was_recorded() -> None:
    phases = {
        component["phase"]
        for stage in STAGES.values()
        for component in stage["status"]["components"].values()
    }
    assert phases == {"Pending", "Deploying", "Running", "Failed", "Unknown"}
