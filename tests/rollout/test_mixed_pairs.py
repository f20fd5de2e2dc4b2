"""Updates that pair old with new prefill and decode pods, and the verdicts on these pairs."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from routed import pair

from fusioninfer_pulumi import load, plan_service, render
from fusioninfer_pulumi.cli.diff import compare, to_markdown
from fusioninfer_pulumi.cli.diff.timelines import timelines
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.plan.service_plan import ServicePlan

Manifest = dict[str, Any]
OLD_PICKER = {"image": "ghcr.io/llm-d/llm-d-router-endpoint-picker:v0.9.0"}
DEGRADED = (
    "mixed revisions, degraded: old prefill with new decode pods (release 0.31.0 -> 0.32.0), new "
    "prefill with old decode pods (release 0.32.0 -> 0.31.0): decode computes these prompts itself"
)
SOURCE = (
    " [vLLM 0.11.0 to 0.33.0, compute_nixl_compatibility_hash and KVTransferConfig; measured with "
    "0.17.0, 0.31.0 and 0.32.0]"
)


def planned(
    release: str, *args: str, counts: tuple[int, int] = (2, 2), **more: Any
) -> tuple[ServicePlan, list[Manifest]]:
    manifest = pair(**more.pop("router", {}))
    manifest["spec"] |= more
    for role, replicas in zip(manifest["spec"]["roles"][1:], counts, strict=True):
        role["replicas"] = replicas
        role["template"] = copy.deepcopy(role["template"])
        (container,) = role["template"]["spec"]["containers"]
        image = release if "/" in release else f"vllm/vllm-openai:v{release}"
        container |= {"image": image, "args": [*container["args"], *args]}
    (service,) = load(manifest)
    plan = plan_service(service)
    return plan, list(render(plan))


def mixed(old: tuple[ServicePlan, Any], new: tuple[ServicePlan, Any]) -> list[str]:
    """Return the lines of `diff`, which `plan --update` shows as well."""
    plans = [old[0]], [new[0]]
    difference = compare(old[1], new[1], plans=plans)
    lines = [note for note in difference.notes if note.startswith("mixed revisions")]
    (update,) = timelines(old[1], new[1], plans)
    assert [note for note in update.notes if note.startswith("mixed")] == lines
    assert update.to_json().get("mixedRevisions", []) == lines
    assert ("mixed revisions" in to_markdown(difference)) is bool(lines)
    return lines


@pytest.mark.parametrize(
    ("more", "advice"),
    [
        ({}, None),
        ({"counts": (2, 1)}, None),
        ({"rollout": {"roleOrder": "Sequential"}}, None),
        ({"groups": 2, "rollout": {"level": "Group"}}, None),
        ({"groups": 2}, "rollout.level: Group avoids it"),
        ({"counts": (1, 2)},
         "layout PerReplica with two prefill replicas and strategy Rolling avoids it"),
        ({"layout": "PerRole"},
         "layout PerReplica with two prefill replicas and strategy Rolling avoids it"),
        ({"rollout": {"strategy": "AllAtOnce"}},
         "layout PerReplica with two prefill replicas and strategy Rolling avoids it"),
        ({"router": {"endpointPicker": OLD_PICKER}},
         "the endpoint picker of llm-d 0.10 or later avoids it"),
    ],
)  # fmt: skip
def test_release_change_reports_consequence_for_clients_and_remedy(
    more: Manifest, advice: str | None
) -> None:
    expected = [] if advice is None else [f"{DEGRADED}; {advice}{SOURCE}"]
    assert mixed(planned("0.31.0", **more), planned("0.32.0", **more)) == expected


def test_scaling_in_the_same_update_pairs_old_with_new_pods() -> None:
    advice = "an update that adds or removes no replicas avoids it"
    lines = mixed(planned("0.31.0"), planned("0.32.0", counts=(3, 2)))
    assert lines == [f"{DEGRADED}; {advice}{SOURCE}"]


def test_old_pods_without_pair_revision_are_mixed() -> None:
    old = planned("0.31.0")
    for manifest in old[1]:
        manifest["metadata"]["labels"].pop(labels.PAIR_REVISION, None)
    (line,) = mixed(old, planned("0.32.0"))
    assert "pods of the old revision have no pair revision yet" in line


@pytest.mark.parametrize("counts", [(1, 1), (2, 2)])
def test_update_without_effect_on_the_handshake_reports_nothing(counts: tuple[int, int]) -> None:
    old = planned("0.32.0", counts=counts)
    assert mixed(old, planned("0.32.0", "--max-num-seqs=7", counts=counts)) == []


def test_unknown_compatibility_is_reported_without_evidence() -> None:
    old, new = (planned(f"example.com/vllm/vllm-openai:{tag}", counts=(1, 1)) for tag in "ab")
    (line,) = mixed(old, new)
    assert line.startswith("mixed revisions, unknown: old prefill with new decode pods")
    assert "it is unknown whether decode can use these KV caches" in line
    assert "[" not in line, "no evidence"
