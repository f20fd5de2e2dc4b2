"""Complete workloads of a multi-node prefill/decode service.

tests/manifests/test_goldens.py compares the router document's single-node workloads.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from fusioninfer_pulumi.checks.plan_service import plan_service
from fusioninfer_pulumi.loading import load
from fusioninfer_pulumi.plan.service_objects import render_workloads

HERE = Path(__file__).parent


def test_multi_node_workloads_render_golden_objects(golden: Callable[..., Any]) -> None:
    (args,) = load(HERE / "multinode.yaml")
    golden("pods/multinode", list(render_workloads(plan_service(args))))
