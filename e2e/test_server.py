"""`check --server` on a real API server."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from e2e import inputs
from e2e.harness import Cluster, Object
from e2e.harness.resources import read_objects
from fusioninfer_pulumi.checks.live_cluster import LiveCluster
from fusioninfer_pulumi.checks.server_dry_run import check_dry_runs, list_dry_run_objects
from fusioninfer_pulumi.findings import Finding, Severity
from fusioninfer_pulumi.kube.client import KubernetesApi

RECORDED = Path(__file__).parents[1] / "tests" / "fixtures" / "server_answers.json"


def collect_answers(cluster: Cluster) -> dict[str, Object]:
    """Return the API server's answers to the dry runs in objects.yaml, by their names."""
    account = cluster.kubeconfig_for("system:serviceaccount:default:default")
    clients = {
        user: KubernetesApi(str(kubeconfig), None)
        for user, kubeconfig in (("admin", cluster.kubeconfig), ("nobody", account))
    }
    query = {"dryRun": "All", "fieldValidation": "Strict"}
    return {
        row["name"]: clients[row["user"]].request(
            row["method"], row["path"], {**query, **row["query"]}, row["object"]
        )[1]
        for row in read_objects("dry runs")
    }


@pytest.mark.verifies("Dry runs answer as the unit tests of `check --server` expect")
def test_recorded_answers_match_server(cluster: Cluster, request: pytest.FixtureRequest) -> None:
    received = collect_answers(cluster)
    if request.config.getoption("--write-transcripts"):
        RECORDED.write_text(json.dumps(received, indent=1) + "\n", encoding="utf-8")
    assert received == json.loads(RECORDED.read_text(encoding="utf-8"))


def find_errors(cluster: Cluster, manifest: Object) -> list[Finding]:
    api = KubernetesApi(str(cluster.kubeconfig), None)
    return [
        finding for _, finding in check_dry_runs(LiveCluster(api, [inputs.build_plan(manifest)]))
    ]


def _make_service(
    namespace: str,
    nodes: int = 1,
    container: Mapping[str, Any] | None = None,
    spec: Mapping[str, Any] | None = None,
    **more: Any,
) -> Object:
    role = inputs.role("worker", "worker", nodes=nodes, **more)
    pod = role["template"]["spec"]
    pod |= spec or {}
    pod["containers"][0] |= container or {}
    manifest = inputs.service("svc", role)
    return {**manifest, "metadata": {**manifest["metadata"], "namespace": namespace}}


@pytest.mark.verifies("`check --server` tries the pods that LeaderWorkerSet creates")
@pytest.mark.parametrize("policy", ["Shared", "UniquePerReplica"])
def test_check_server_tries_created_pods(cluster: Cluster, namespace: str, policy: str) -> None:
    manifest = _make_service(namespace, nodes=2, networkConfig={"subdomainPolicy": policy})
    plan = inputs.build_plan(manifest)
    cluster.apply(inputs.render_objects(plan), namespace=namespace)
    generated_pods = {
        pod.manifest["metadata"]["name"]: pod.manifest
        for pod in list_dry_run_objects(plan)
        if pod.manifest["kind"] == "Pod"
    }
    cluster.wait(lambda: len(cluster.pods(namespace)) == len(generated_pods), 60)
    for live in cluster.pods(namespace):
        generated = generated_pods[live["metadata"]["name"]]
        assert generated["spec"]["hostname"] == live["spec"]["hostname"]
        if policy == "Shared":
            assert generated["spec"]["subdomain"] == live["spec"]["subdomain"]
        for field in ("labels", "annotations"):
            for key, value in generated["metadata"][field].items():
                hashed = key.endswith(("hash", "/group-key"))
                assert hashed or live["metadata"][field][key] == value, key
        (owner,), (live_owner,) = (pod["metadata"]["ownerReferences"] for pod in (generated, live))
        assert (owner["kind"], owner["name"]) == (live_owner["kind"], live_owner["name"])


@pytest.mark.verifies("`check --server` checks existing objects as Pulumi's update would")
def test_check_server_removes_fields_like_an_update(cluster: Cluster, namespace: str) -> None:
    before = _make_service(namespace, container={"env": [{"name": "A", "value": "x"}]})
    field = {"fieldRef": {"fieldPath": "status.podIP"}}
    after = _make_service(namespace, container={"env": [{"name": "A", "valueFrom": field}]})
    cluster.apply(inputs.render_objects(inputs.build_plan(before)), namespace=namespace)
    assert find_errors(cluster, after) == []


@pytest.mark.verifies("`check --server` maps API server errors to manifest fields")
def test_server_error_names_user_field(cluster: Cluster, namespace: str) -> None:
    spec = {"priority": 10, "priorityClassName": "system-node-critical"}
    rejected = find_errors(cluster, _make_service(namespace, spec=spec))
    assert [(item.path, item.severity) for item in rejected] == [
        ("roles[0].template", Severity.ERROR)
    ]
    assert "the integer value of priority (10) must not be provided" in rejected[0].message
