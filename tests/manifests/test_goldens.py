"""Complete objects of every manifest in the design documents.

`pytest --regenerate` writes the golden files. `docs/deviations.md` lists their differences from the
documents' examples, and `test_documents.py` checks them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fusioninfer_pulumi.checks.plan_service import plan_service
from fusioninfer_pulumi.loading import load
from fusioninfer_pulumi.plan.service_objects import render, render_workloads

FIXTURES = Path(__file__).parents[1] / "fixtures"
INPUTS = sorted(path.stem for path in (FIXTURES / "inputs").glob("*.yaml"))


def test_every_manifest_of_the_documents_has_an_input() -> None:
    assert INPUTS == [
        "fusioninfer-story-1-monolithic",
        "fusioninfer-story-2-disaggregated",
        "fusioninfer-story-3-multinode",
        "fusioninfer-story-4-disaggregated-multinode",
        "router-example-1-simple-strategy",
        "router-example-2-custom-epp-config",
        "router-example-3-pd",
        "router-story-1-prefix-cache",
        "router-story-2-kv-cache-utilization",
        "router-story-3-pd-disaggregation",
    ]
    assert {path.stem for path in (FIXTURES / "golden").glob("*.yaml")} == {*INPUTS, "partial-gang"}


@pytest.mark.parametrize("name", INPUTS)
def test_manifest_renders_golden_objects(name: str, golden: Callable[[str, Any], None]) -> None:
    (args,) = load(FIXTURES / "inputs" / f"{name}.yaml")
    plan = plan_service(args)
    objects = list(render_workloads(plan))
    whole = list(render(plan))
    # Router objects have separate golden files; routers do not change workloads.
    assert [item for item in whole if item in objects] == objects
    golden(name, objects if plan.shape.router else whole)


def test_partial_gang_renders_golden_objects(golden: Callable[[str, Any], None]) -> None:
    (args,) = load(FIXTURES / "inputs" / "fusioninfer-story-4-disaggregated-multinode.yaml")
    policy = {"minRoleReplicas": {"prefill": 1, "decode": 1}, "minResources": True}
    changed = args.model_dump(by_alias=True, exclude_unset=True, mode="json")
    changed["schedulingStrategy"] = {
        "queue": "research",
        "priorityClassName": "high",
        "gangPolicy": policy,
    }
    partial = type(args).model_validate(changed)
    golden("partial-gang", render(plan_service(partial)))
