"""The documents' inputs are read, planned and rendered; what contradicts itself is refused."""

from __future__ import annotations

import copy

import pytest
from importers.documents import DOCUMENTS
from importers.reads import problems, source

from fusioninfer_pulumi.objects import render

#: Pods, and the LeaderWorkerSets that make them.
SIZES = {
    "kthena-model-serving-sample": 8,
    "kthena-gang-policy": 8,
    "kthena-rollout-strategy": 32,
    "modelplane-model-deployment-disaggregated": 3,
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_documents_inputs_are_read_planned_and_rendered(name: str) -> None:
    assert problems(DOCUMENTS[name]) == []
    (plan,) = source(DOCUMENTS[name]).plans
    assert plan.total_pods == SIZES[name]
    sets = [each for each in render(plan) if each["kind"] == "LeaderWorkerSet"]
    assert len(sets) == SIZES[name]


def test_the_gang_of_the_articles_sample_is_that_of_its_formula() -> None:
    """Two prefill and two decode replicas of one pod each (`1 + workerReplicas`)."""
    (plan,) = source(DOCUMENTS["kthena-model-serving-sample"]).plans
    (gang,) = (each for each in render(plan) if each["kind"] == "PodGroup")
    assert gang["metadata"]["name"] == "sample-0"
    assert gang["spec"]["minMember"] == 4


def test_a_deployment_that_leaves_the_ratio_to_a_guess_is_refused() -> None:
    guess = copy.deepcopy(DOCUMENTS["modelplane-model-deployment-disaggregated"])
    del guess["spec"]["prefill"]["workers"]["count"], guess["spec"]["routing"]
    assert [each.split(": ")[1] for each in problems(guess, lossy=True)] == [
        "prefill.workers.count",
        "routing",
    ]
