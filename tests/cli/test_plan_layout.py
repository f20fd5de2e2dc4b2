"""`plan` of a service with one LeaderWorkerSet for each role."""

from __future__ import annotations

import json
from typing import Any

from cli.printed import plan_text
from samples import plan_of, prefill_decode, role, service

from fusioninfer_pulumi.cli.plan_output import PlanView, build_plan_json

PER_ROLE = {"layout": "PerRole"}


def text(manifest: Any) -> str:
    return plan_text(plan_of(manifest))


def test_layout_of_one_lws_for_each_role_is_shown() -> None:
    assert "Layout    PerRole\n" in text(service(role(replicas=4), **PER_ROLE))


def test_default_layout_is_not_shown() -> None:
    assert "Layout" not in text(service())
    assert "layout" not in build_plan_json(PlanView(plan_of(service())))


def test_all_or_nothing_gang_is_shown_as_one() -> None:
    printed = text(prefill_decode(**PER_ROLE))
    assert "PodGroup svc, all-or-nothing: 3 of 3 pods" in printed
    assert "Volcano 1.14.1 or later" in printed
    assert "Volcano 1.14.1" not in text(prefill_decode()).partition("Objects")[0]


def test_json_contains_the_layout() -> None:
    actual = json.loads(json.dumps(build_plan_json(PlanView(plan_of(prefill_decode(**PER_ROLE))))))
    assert actual["layout"] == "PerRole"
    assert actual["gang"]["minTaskMember"] is None
    (prefill, _) = actual["gang"]["subGroupPolicy"]
    assert prefill["matchLabelKeys"] == ["leaderworkerset.sigs.k8s.io/group-index"]
