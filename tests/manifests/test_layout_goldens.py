"""Complete objects of services with layout PerRole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fusioninfer_pulumi.checks.plan_service import plan_service
from fusioninfer_pulumi.loading import load
from fusioninfer_pulumi.plan.service_objects import render

INPUTS = Path(__file__).parents[1] / "fixtures" / "inputs"
STORY_4 = "fusioninfer-story-4-disaggregated-multinode"
MINIMUM = {"gangPolicy": {"minRoleReplicas": {"prefill": 1, "decode": 1}}}
#: Golden file: the document's input, and changes of its spec.
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "monolithic": (
        "fusioninfer-story-1-monolithic",
        {"rollout": {"maxUnavailable": "50%", "maxSurge": 1, "partition": 1}},
    ),
    "gang": (STORY_4, {}),
    "partial-gang": (STORY_4, {"schedulingStrategy": MINIMUM}),
    "router": ("router-story-3-pd-disaggregation", {"rollout": {"strategy": "AllAtOnce"}}),
}


@pytest.mark.parametrize("case", CASES)
def test_layout_per_role_renders_golden_objects(
    case: str, golden: Callable[[str, Any], None]
) -> None:
    name, changes = CASES[case]
    (args,) = load(INPUTS / f"{name}.yaml")
    raw = args.model_dump(by_alias=True, exclude_unset=True, mode="json")
    if case == "monolithic":
        raw["roles"][0]["replicas"] = 4
    changed = type(args).model_validate({**raw, "layout": "PerRole", **changes})
    golden(f"layout/{case}", render(plan_service(changed)))
