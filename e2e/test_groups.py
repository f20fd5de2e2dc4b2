"""Serving groups on the real scheduler, and their pairing by the real picker."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.disaggregated import await_leaders, disaggregated, started
from e2e.harness import Cluster, EndpointPicker, Object
from e2e.harness.ext_proc import DESTINATION
from e2e.harness.pods import leaders
from e2e.routers import generated_picker
from e2e.test_prefill_decode import LLM_D, PREFILLER, pairs, pick, programs

__all__ = ["programs"]

GROUP = "fusioninfer.io/group-index"
ROLE = "fusioninfer.io/role-name"
BEHAVIOUR = "e2e.fusioninfer.io/behaviour"
REQUESTS = 60


def _grouped(namespace: str, **router: Any) -> Object:
    manifest = disaggregated(namespace, **router)
    manifest["spec"]["groups"] = 2
    for role in manifest["spec"]["roles"][1:]:
        role["restartPolicy"] = "None"
    return manifest


def _groups_of(cluster: Cluster, namespace: str) -> dict[str, str]:
    return {
        pod["status"]["podIP"]: pod["metadata"]["labels"][GROUP]
        for pod in leaders(cluster, namespace)
    }


def _groups_used(cluster: Cluster, namespace: str, picker: EndpointPicker) -> set[tuple[str, str]]:
    """Groups of the decode and the prefill pod of many different requests."""
    groups = _groups_of(cluster, namespace)
    found = set()
    for number in range(REQUESTS):
        request = {"model": "m", "prompt": f"Request {number}. " * 40, "max_tokens": 7}
        headers = pick(picker, request)
        chosen = (headers[DESTINATION], headers[PREFILLER])
        decode, prefill = (groups[each.rpartition(":")[0]] for each in chosen)
        found.add((decode, prefill))
    return found


def _end_prefill_of(cluster: Cluster, namespace: str, group: str) -> None:
    """Makes the prefill pods of a group unready, for good."""
    for pod in leaders(cluster, namespace):
        labels = pod["metadata"]["labels"]
        if labels[GROUP] == group and labels[ROLE] == "prefill":
            crash = {"metadata": {"annotations": {BEHAVIOUR: "crashing"}}}
            cluster.patch("v1/Pod", pod["metadata"]["name"], crash, namespace)
    await_leaders(cluster, namespace, 6)


@pytest.mark.parametrize(
    ("pairing", "crossed"),
    [
        pytest.param("Strict", {("1", "1")}, marks=pytest.mark.proves(
            "llm-d's picker never pairs pods of different groups", needs=LLM_D)),
        pytest.param("Preferred", {("0", "1"), ("1", "1")}, marks=pytest.mark.proves(
            "groupPairing Preferred crosses groups only if a group lacks prefill pods",
            needs=LLM_D)),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("programs")
def test_pairs_of_groups(
    cluster: Cluster, namespace: str, pairing: str, crossed: set[tuple[str, str]]
) -> None:
    manifest = _grouped(namespace, endpointPicker={"groupPairing": pairing})
    objects = started(cluster, namespace, manifest, leading=8)
    with generated_picker(cluster, "llm-d", objects, plain=True) as picker:
        picker.wait_serving()
        request = {"model": "m", "prompt": "x" * 400, "max_tokens": 1}
        cluster.wait(lambda: pairs(picker, request), message=picker.program.tail)
        assert _groups_used(cluster, namespace, picker) == {("0", "0"), ("1", "1")}
        _end_prefill_of(cluster, namespace, "0")
        cluster.wait(lambda: _groups_used(cluster, namespace, picker) == crossed)
