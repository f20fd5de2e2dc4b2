"""Serving groups on the real scheduler, and their pairing by the real picker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from e2e.disaggregated import await_leaders, disaggregated, started
from e2e.harness import Cluster, EndpointPicker, Object
from e2e.harness.ext_proc import DESTINATION, ExternalProcessor
from e2e.harness.pods import leaders
from e2e.harness.processes import LOOPBACK
from e2e.test_prefill_decode import LLM_D, PREFILLER, _picker, programs

__all__ = ["programs"]

GROUP = "fusioninfer.io/group-index"
ROLE = "fusioninfer.io/role-name"
BEHAVIOUR = "e2e.fusioninfer.io/behaviour"
REQUESTS = 60


def _grouped(namespace: str, **router: Any) -> Object:
    """Two groups of two prefill and two decode pods."""
    manifest = disaggregated(namespace, **router)
    manifest["spec"]["groups"] = 2
    for role in manifest["spec"]["roles"][1:]:
        role["restartPolicy"] = "None"
    return manifest


def _groups_of(cluster: Cluster, namespace: str) -> dict[str, str]:
    """Group of each pod by address."""
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
        headers = _ask(picker, request)
        chosen = (headers[DESTINATION], headers[PREFILLER])
        decode, prefill = (groups[each.rpartition(":")[0]] for each in chosen)
        found.add((decode, prefill))
    return found


def _ask(picker: EndpointPicker, request: dict[str, Any]) -> Mapping[str, str]:
    with ExternalProcessor(f"{LOOPBACK}:{picker.grpc_port}") as processor:
        return processor.ask(request).headers


def _answers(picker: EndpointPicker) -> bool:
    try:
        return PREFILLER in _ask(picker, {"model": "m", "prompt": "x" * 400, "max_tokens": 1})
    except Exception:  # noqa: BLE001 - it does not know its pods yet
        return False


def _end_prefill_of(cluster: Cluster, namespace: str, group: str) -> None:
    """Makes the prefill pods of a group unready, for good."""
    for pod in leaders(cluster, namespace):
        labels = pod["metadata"]["labels"]
        if labels[GROUP] == group and labels[ROLE] == "prefill":
            crash = {"metadata": {"annotations": {BEHAVIOUR: "crashing"}}}
            cluster.patch("v1/Pod", pod["metadata"]["name"], crash, namespace)
    await_leaders(cluster, namespace, 6)


@pytest.mark.proves("llm-d's picker never pairs pods of different groups", needs=LLM_D)
def test_pairs_stay_in_a_group(cluster: Cluster, namespace: str, programs: dict[str, Any]) -> None:
    objects = started(cluster, namespace, _grouped(namespace), leading=8)
    with _picker(cluster, objects, programs["llm-d-epp"]) as picker:
        picker.wait_serving()
        cluster.wait(lambda: _answers(picker), message=picker.program.tail)
        assert _groups_used(cluster, namespace, picker) == {("0", "0"), ("1", "1")}
        _end_prefill_of(cluster, namespace, "0")
        cluster.wait(lambda: _groups_used(cluster, namespace, picker) == {("1", "1")}, 30)


@pytest.mark.proves("groupPairing Preferred crosses groups only if a group lacks prefill pods",
                    needs=LLM_D)  # fmt: skip
def test_preferred_pairs_leave_a_group_without_prefill_pods(
    cluster: Cluster,
    namespace: str,
    programs: dict[str, Any],
) -> None:
    preferred = _grouped(namespace, endpointPicker={"groupPairing": "Preferred"})
    objects = started(cluster, namespace, preferred, leading=8)
    with _picker(cluster, objects, programs["llm-d-epp"]) as picker:
        picker.wait_serving()
        cluster.wait(lambda: _answers(picker), message=picker.program.tail)
        assert _groups_used(cluster, namespace, picker) == {("0", "0"), ("1", "1")}
        _end_prefill_of(cluster, namespace, "0")
        cluster.wait(
            lambda: _groups_used(cluster, namespace, picker) == {("0", "1"), ("1", "1")}, 30
        )
