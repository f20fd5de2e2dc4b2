"""Examples from the systems' documentation are converted and rendered."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from rows import each_row

from fusioninfer_pulumi.plan.service_objects import render
from importers.tests.documents import DOCUMENTS
from importers.tests.kserve_documents import PAGE, acceptable, complete, edited
from importers.tests.kserve_samples import Manifest
from importers.tests.reads import read_source, reject, to_spec

#: Number of pods, which is also the number of LeaderWorkerSets.
SIZES = {
    "kthena-model-serving-sample": 8,
    "kthena-gang-policy": 8,
    "kthena-rollout-strategy": 32,
    "modelplane-model-deployment-disaggregated": 3,
}


@each_row("name", DOCUMENTS)
def test_design_document_manifests_are_rendered(name: str) -> None:
    assert reject(DOCUMENTS[name]) == []
    (plan,) = read_source(DOCUMENTS[name]).plans
    assert plan.total_pods == SIZES[name]
    lws = [item for item in render(plan) if item["kind"] == "LeaderWorkerSet"]
    assert len(lws) == SIZES[name]


def test_gang_of_article_sample_has_its_required_pods() -> None:
    """Two prefill and two decode replicas of one pod each (`1 + workerReplicas`)."""
    (plan,) = read_source(DOCUMENTS["kthena-model-serving-sample"]).plans
    (gang,) = (item for item in render(plan) if item["kind"] == "PodGroup")
    assert gang["metadata"]["name"] == "sample-0"
    assert gang["spec"]["minMember"] == 4


def test_missing_prefill_decode_ratio_is_rejected() -> None:
    guess = copy.deepcopy(DOCUMENTS["modelplane-model-deployment-disaggregated"])
    del guess["spec"]["prefill"]["workers"]["count"], guess["spec"]["routing"]
    assert [problem.split(": ")[1] for problem in reject(guess, lossy=True)] == [
        "prefill.workers.count",
        "routing",
    ]


def objects(document: Manifest) -> dict[str, dict[str, Any]]:
    (plan,) = read_source(document).plans
    return {item["kind"]: item for item in render(plan)}


@pytest.mark.parametrize("name", ["managed gateway", "managed route", "referenced gateway"])
def test_gateways_and_routes_are_rendered(name: str) -> None:
    result = objects(complete(PAGE[name]))
    # Without a scheduler, KServe's routes lead to a Service.
    assert result["Service"]["spec"]["ports"][0]["port"] == 8000
    assert "InferencePool" not in result
    if name == "managed gateway":
        # The page shows a Gateway of class eg; KServe's controller creates none.
        assert "Gateway" not in result
        assert result["HTTPRoute"]["spec"]["parentRefs"] == [
            {"name": "kserve-ingress-gateway", "namespace": "kserve"}
        ]
    if name == "referenced gateway":
        (parent,) = result["HTTPRoute"]["spec"]["parentRefs"]
        assert (parent["name"], parent["namespace"]) == ("my-custom-gateway", "istio-system")
    if name == "managed route":
        (backend,) = result["HTTPRoute"]["spec"]["rules"][0]["backendRefs"]
        assert (backend["kind"], backend["name"]) == ("Service", "llama-3-8b")


def test_kv_transfer_config_becomes_an_argument() -> None:
    (role,) = to_spec(complete(PAGE["transfer"]))["roles"]
    assert role["template"]["spec"]["containers"][0]["args"][3:] == [
        "--kv_transfer_config",
        '{"kv_connector":"NixlConnector","kv_role":"kv_both"}',
    ]


def test_undefined_variable_in_event_topic_is_rejected() -> None:
    document = complete(PAGE["events"])
    (finding,) = reject(document)
    assert finding.startswith(
        "f: template.containers[0].env[0].value: refers to POD_IP, which the "
    )
    (role,) = to_spec(acceptable()["events"])["roles"]
    flag, value = role["template"]["spec"]["containers"][0]["args"][3:]
    assert (flag, "kv@$(POD_IP)@model" in value) == ("--kv-events-config", True)


def test_multi_node_example_with_too_few_accelerators_is_rejected() -> None:
    messages = [
        message.rpartition("needs ")[2] for message in reject(complete(PAGE["several nodes"]))
    ]
    fix = "request {} per pod, or use smaller sizes"
    assert messages == [
        f"64 accelerators, but a replica has 2 nodes x 8 = 16; {fix.format(32)}",
        f"32 accelerators, but a replica has 2 nodes x 4 = 8; {fix.format(16)}",
    ]


def test_edited_kserve_samples_are_rendered() -> None:
    document = edited()
    assert reject(document) == []
    (rule,) = objects(document)["HTTPRoute"]["spec"]["rules"]
    assert [ref["name"] for ref in rule["backendRefs"]] == ["llama-3-8b-pool"]


@each_row("name", acceptable())
def test_completed_page_samples_are_accepted(name: str) -> None:
    assert reject(acceptable()[name]) == []
