"""`plan`: the complete JSON contract, and the text for users."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cli.printed import plan_text
from printed_findings import without_rules
from rows import each_row

from fusioninfer_pulumi import load, plan_service
from fusioninfer_pulumi.cli.main import main
from fusioninfer_pulumi.findings import Finding, Severity

INPUTS = Path(__file__).parent.parent / "fixtures" / "inputs"
STORY_1 = str(INPUTS / "fusioninfer-story-1-monolithic.yaml")
STORY_4 = str(INPUTS / "fusioninfer-story-4-disaggregated-multinode.yaml")
DOCUMENTS = "80,64,48,32,16"
NO_ROUTER = {
    "severity": "warning",
    "path": "roles",
    "message": "no router: nothing pairs prefill with decode, and clients reach only the decoders; "
    "add a role of componentType router",
}


def output(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["plan", *arguments]) == 0
    return capsys.readouterr().out


def loaded(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    """Return the JSON, whose findings have their rule."""
    actual = json.loads(output(capsys, *arguments, "--output", "json"))
    for finding in (entry for service in actual for entry in service["findings"]):
        assert re.fullmatch(r"[a-z0-9-]*", finding.pop("rule"))
    return actual


def test_json_of_a_gang_is_complete(capsys: pytest.CaptureFixture[str], partial: str) -> None:
    labels = {"fusioninfer.io/service": "deepseek"}
    assert loaded(capsys, partial, "--gpus", DOCUMENTS) == [
        {
            "service": "deepseek",
            "namespace": "models",
            "roles": [
                {
                    "name": "prefill",
                    "componentType": "prefiller",
                    "replicas": 1,
                    "nodesPerReplica": 2,
                    "totalPods": 2,
                    "gpusPerPod": 8,
                    "totalGpus": 16,
                },
                {
                    "name": "decode",
                    "componentType": "decoder",
                    "replicas": 2,
                    "nodesPerReplica": 4,
                    "totalPods": 8,
                    "gpusPerPod": 8,
                    "totalGpus": 64,
                },
            ],
            "totalPods": 10,
            "totalGpus": 80,
            "gang": {
                "podGroup": "deepseek",
                "minMember": 6,
                "minTaskMember": None,
                "subGroupPolicy": [
                    {
                        "name": role,
                        "labelSelector": {
                            "matchLabels": {**labels, "fusioninfer.io/role-name": role}
                        },
                        "matchLabelKeys": ["fusioninfer.io/replica-index"],
                        "subGroupSize": size,
                        "minSubGroups": 1,
                    }
                    for role, size in (("prefill", 2), ("decode", 4))
                ],
                "minimumGpus": 48,
            },
            "capacity": [
                {
                    "gpus": gpus,
                    "running": {"prefill": prefill, "decode": decode},
                    "status": status,
                    "exact": True,
                }
                for gpus, prefill, decode, status in (
                    (80, 1, 2, "Full"),
                    (64, 1, 1, "Partial"),
                    (48, 1, 1, "Partial"),
                    (32, 0, 0, "Blocked"),
                    (16, 0, 0, "Blocked"),
                )
            ],
            "objects": [
                {
                    "apiVersion": "scheduling.volcano.sh/v1beta1",
                    "kind": "PodGroup",
                    "namespace": "models",
                    "name": "deepseek",
                },
                *(
                    {
                        "apiVersion": "leaderworkerset.x-k8s.io/v1",
                        "kind": "LeaderWorkerSet",
                        "namespace": "models",
                        "name": f"deepseek-{task}",
                    }
                    for task in ("prefill-0", "decode-0", "decode-1")
                ),
                {"apiVersion": "v1", "kind": "Service", "namespace": "models", "name": "deepseek"},
            ],
            "findings": [NO_ROUTER],
        }
    ]


def test_topology_equals_that_of_the_documents(capsys: pytest.CaptureFixture[str]) -> None:
    (actual,) = loaded(capsys, STORY_4, "--gpus", DOCUMENTS)
    assert actual["gang"] == {
        "podGroup": "deepseek-r1-disagg",
        "minMember": 10,
        "minTaskMember": {"prefill-0": 2, "decode-0": 4, "decode-1": 4},
        "subGroupPolicy": None,
        "minimumGpus": 80,
    }
    assert [row["status"] for row in actual["capacity"]] == ["Full", *["Blocked"] * 4]
    assert {row["severity"] for row in actual["findings"]} == {"warning"}


def test_json_without_gang_has_null_gang(capsys: pytest.CaptureFixture[str]) -> None:
    (actual,) = loaded(capsys, STORY_1)
    assert actual["gang"] is None
    assert actual["capacity"] == []
    assert actual["namespace"] == "default"
    assert [item["kind"] for item in actual["objects"]] == ["LeaderWorkerSet", "Service"]


def test_nodes_option_sets_exact_capacity(capsys: pytest.CaptureFixture[str], partial: str) -> None:
    (actual,) = loaded(capsys, partial, "--nodes", "5x8,2x4")
    assert [(row["gpus"], row["running"]) for row in actual["capacity"]] == [
        (48, {"prefill": 0, "decode": 0})
    ]


def test_json_is_a_list_of_services(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = Path(STORY_1).read_text(encoding="utf-8")
    both = f"{text}\n---\n{text.replace('name: qwen-inference', 'name: second')}"
    (tmp_path / "both.yaml").write_text(both, encoding="utf-8")
    actual = loaded(capsys, str(tmp_path / "both.yaml"))
    assert [entry["service"] for entry in actual] == ["qwen-inference", "second"]
    text = output(capsys, str(tmp_path / "both.yaml"))
    assert [line for line in text.splitlines() if "namespace" in line] == [
        "qwen-inference  namespace default",
        "second  namespace default",
    ]


def test_capacity_table_notes_that_it_counts_one_service(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    text = Path(STORY_1).read_text(encoding="utf-8")
    both = tmp_path / "both.yaml"
    both.write_text(f"{text}\n---\n{text.replace('name: qwen-inference', 'name: second')}")
    note = "only this service is counted; --inventory places all services together"
    for room in (("--gpus", "32"), ("--nodes", "4x8")):
        assert output(capsys, str(both), *room).count(note) == 2
        assert note not in output(capsys, STORY_1, *room)
    assert note not in output(capsys, str(both))


def test_plan_in_a_pipe_has_no_colors(capsys: pytest.CaptureFixture[str], partial: str) -> None:
    assert (
        without_rules(output(capsys, partial, "--gpus", "80,64,16"))
        == """\
deepseek  namespace models

ROLE     TYPE       REPLICAS  NODES  PODS  GPUS/POD  GPUS
prefill  prefiller         1      2     2         8    16
decode   decoder           2      4     8         8    64
total                                  10              80

Gang      PodGroup deepseek, starts with 1 prefill + 1 decode: 6 of 10 pods, 48 GPUs \
(scheduler volcano, Volcano 1.14.1 or later)
Objects   1 PodGroup, 3 LeaderWorkerSets, 1 Service
Endpoint  http://deepseek.models.svc:8000

GPUS FREE  prefill  decode  STATUS
       80      1/1     2/2  Full
       64      1/1     1/2  Partial
       16      0/1     0/2  Blocked

warning  roles: no router: nothing pairs prefill with decode, and clients reach only the decoders; \
add a role of componentType router
"""
    )


def test_role_scaled_to_zero_is_shown(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = Path(STORY_1).read_text(encoding="utf-8").replace("replicas: 1", "replicas: 0")
    (tmp_path / "parked.yaml").write_text(text, encoding="utf-8")
    text = output(capsys, str(tmp_path / "parked.yaml"))
    head, row = text.splitlines()[2:4]
    assert "worker (scaled to zero)" in row
    # Numbers are right-aligned with their headers.
    assert row[: head.index("REPLICAS") + len("REPLICAS")].endswith(" 0")
    (actual,) = loaded(capsys, str(tmp_path / "parked.yaml"))
    assert actual["roles"][0]["replicas"] == 0
    assert actual["totalPods"] == 0


def test_markup_in_user_text_is_printed_verbatim() -> None:
    # Rich would read [red] as a color and :bomb: as a picture.
    (args,) = load(STORY_1)
    at = ("metadata", "annotations", "[red]")
    finding = Finding("", Severity.WARNING, at, "[/a] :bomb: [bold]x")
    plan = replace(
        plan_service(args), findings=(finding, Finding("a-rule", Severity.WARNING, (), "no place"))
    )
    assert plan_text(plan).endswith(
        "warning  metadata.annotations[[red]]: [/a] :bomb: [bold]x\nwarning  no place [a-rule]\n"
    )


@each_row(
    ("kind", "several"),
    [("Service", "Services"), ("NetworkPolicy", "NetworkPolicies"), ("Gateway", "Gateways"),
     ("Ingress", "Ingresses")],
)  # fmt: skip
def test_object_kinds_are_pluralized(kind: str, several: str) -> None:
    (plan,) = (plan_service(args) for args in load(STORY_1))
    shown = plan_text(plan, [{"kind": kind}, {"kind": kind}, {"kind": "Pod"}])
    assert f"Objects   2 {several}, 1 Pod\n" in shown
