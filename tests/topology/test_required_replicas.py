"""Which replicas make up the minimum of a gang that may run in part."""

from __future__ import annotations

from typing import Any

import pytest
from cli.printed import plan_text
from samples import plan_of, prefill_decode, rendered

LOWEST = {"requiredReplicas": "LowestOrdinals"}
INDEX = "fusioninfer.io/replica-index"


def gang(minima: dict[str, int], **policy: Any) -> dict[str, Any]:
    return {"schedulingStrategy": {"gangPolicy": {"minRoleReplicas": minima, **policy}}}


def pod_group(manifest: dict[str, Any]) -> dict[str, Any]:
    (item,) = [entry for entry in rendered(manifest) if entry["kind"] == "PodGroup"]
    return item


def policies(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    result: list[dict[str, Any]] = pod_group(manifest)["spec"]["subGroupPolicy"]
    return result


def test_lowest_ordinals_start_before_the_rest() -> None:
    manifest = prefill_decode({"replicas": 2}, {"replicas": 5}, **gang({"decode": 2}, **LOWEST))
    usual = prefill_decode({"replicas": 2}, {"replicas": 5}, **gang({"decode": 2}))
    prefill, decode = policies(usual)
    selector = {
        **decode["labelSelector"],
        "matchExpressions": [{"key": INDEX, "operator": "In", "values": ["0", "1"]}],
    }
    assert policies(manifest) == [
        prefill,
        {**decode, "name": "decode.required", "labelSelector": selector},
        {**decode, "minSubGroups": 0},
    ]
    minimum = pod_group(manifest)["spec"]["minMember"]
    assert minimum == pod_group(usual)["spec"]["minMember"] == 4


@pytest.mark.parametrize("replicas", [2, 3])
def test_additional_replica_changes_no_pod_group(replicas: int) -> None:
    def pod_group_of(count: int) -> dict[str, Any]:
        return pod_group(prefill_decode({}, {"replicas": count}, **gang({"decode": 2}, **LOWEST)))

    assert pod_group_of(replicas) == pod_group_of(replicas + 1)


def test_role_with_only_optional_replicas_has_no_required_ordinals() -> None:
    manifest = prefill_decode({}, {"replicas": 2}, **gang({"decode": 0}, **LOWEST))
    assert policies(manifest) == policies(
        prefill_decode({}, {"replicas": 2}, **gang({"decode": 0}))
    )


def test_plan_lists_required_replicas() -> None:
    plan = plan_of(prefill_decode({}, {"replicas": 2}, **gang({"decode": 1}, **LOWEST)))
    assert "starts with 1 prefill + 1 decode (lowest ordinals)" in plan_text(plan)
