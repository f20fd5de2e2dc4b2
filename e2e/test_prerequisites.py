"""Missing prerequisites on the real API server."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from e2e import inputs
from e2e.harness import ApiError, Cluster, Object
from e2e.harness.resources import read_objects
from fusioninfer_pulumi.checks.cluster_checks import list_prerequisites
from fusioninfer_pulumi.checks.live_cluster import LiveCluster
from fusioninfer_pulumi.kube.client import KubernetesApi
from fusioninfer_pulumi.plan.service_plan import ServicePlan


@pytest.fixture(scope="module")
def bare() -> Iterator[Cluster]:
    """Start a cluster without components."""
    with Cluster(components=()) as started:
        yield started


CLASS = "gpu.example.com"
GPU = "nvidia.com/gpu"


def plan_gang_of_claims() -> ServicePlan:
    return inputs.build_plan(Path(__file__).with_name("gang_of_claims.yaml"))


Check = Callable[..., list[str]]


@pytest.fixture
def check_prerequisites(bare: Cluster) -> Check:
    def check(service: ServicePlan) -> list[str]:
        api = KubernetesApi(str(bare.kubeconfig), None)
        namespaces = dict.fromkeys(("LeaderWorkerSet", "Volcano"), "default")
        live = LiveCluster(api, [service], product_namespaces=namespaces)
        return [str(finding) for finding in list_prerequisites(live)]

    return check


@pytest.mark.verifies("`plan --cluster` warns of a ResourceQuota that the API server then enforces")
def test_exceeded_quota_is_reported(
    bare: Cluster, tmp_path: Path, check_prerequisites: Check
) -> None:
    namespace = bare.new_namespace()
    bare.apply(read_objects("quota of GPUs"), namespace=namespace)

    def read_used() -> object:
        (stored,) = bare.list("v1/ResourceQuota", namespace)
        return stored.get("status", {}).get("used", {}).get(f"requests.{GPU}")

    def create_pod(service: str, gpus: int) -> None:
        (pod,) = read_objects("pod with GPUs", service=service, gpus=str(gpus))
        bare.create(pod, namespace=namespace)

    bare.wait(lambda: read_used() == "0", 60, "the quota's controller")
    create_pod("other", 4)
    service = inputs.service("svc", inputs.role("serve", "worker", 2, gpus=2))
    service["metadata"]["namespace"] = namespace
    plan = inputs.build_plan(service)
    create_pod(plan.service, 2)
    bare.wait(lambda: read_used() == "6", 60, read_used)
    # One of its two pods exists, so the remaining quota is enough.
    assert not any("ResourceQuota" in text for text in check_prerequisites(plan))

    create_pod("other", 2)
    bare.wait(lambda: read_used() == "8", 60, read_used)
    message = (
        f"ResourceQuota gpus in {namespace} allows 8 {GPU} (6 in use by others), but svc requests "
        "4: pods above the quota are not created"
    )
    (warning,) = (text for text in check_prerequisites(plan) if "ResourceQuota" in text)
    assert message in warning
    with pytest.raises(ApiError, match="exceeded quota: gpus"):
        create_pod(plan.service, 2)

    printed = run_plan(bare, service, tmp_path)
    assert printed.returncode == 0
    assert message in printed.stderr
    (record,) = json.loads(printed.stdout)
    texts = [item["message"] for item in record["findings"] if item["rule"] == "quota-too-small"]
    assert texts == [message]


def run_plan(cluster: Cluster, service: Object, folder: Path) -> subprocess.CompletedProcess[str]:
    path = folder / "service.yaml"
    path.write_text(inputs.dump_yaml(service), encoding="utf-8")
    words = ("plan", path, "--cluster", "--output", "json")
    return inputs.run_command(*words, kubeconfig=cluster.kubeconfig)


@pytest.mark.verifies("`plan --cluster` rejects Kueue where only Volcano is installed")
def test_missing_gang_backend_is_rejected(bare: Cluster, tmp_path: Path) -> None:
    service = inputs.prefill_decode()
    assert run_plan(bare, service, tmp_path).returncode == 0
    strategy = {"queue": "team", "gangPolicy": {"backend": "Kueue"}}
    service["spec"]["schedulingStrategy"] = strategy
    printed = run_plan(bare, service, tmp_path)
    assert printed.returncode == 2
    assert (
        "schedulingStrategy.gangPolicy.backend: the cluster does not have Kueue; install it, "
        "or use backend Volcano [gang-backend-missing]"
    ) in " ".join(printed.stderr.split())


@pytest.mark.verifies("ServingPrerequisites detects missing CRD fields by a strict dry run")
def test_field_of_experimental_channel_is_reported(check_prerequisites: Check) -> None:
    """The cluster has the Gateway API's standard channel."""
    router = {
        "name": "router",
        "componentType": "router",
        "httproute": {"useDefaultGateways": "All"},
    }
    service = inputs.service("svc", router, inputs.role("serve", "worker"))
    texts = [text for text in check_prerequisites(inputs.build_plan(service)) if "no field" in text]
    assert len(texts) == 1
    assert "HTTPRoute has no field spec.useDefaultGateways" in texts[0]
    assert "experimental-install.yaml" in texts[0]


@pytest.mark.verifies(
    "ServingPrerequisites detects missing APIs, DeviceClasses, PriorityClasses and Queues"
)
def test_missing_apis_and_classes_are_reported(bare: Cluster, check_prerequisites: Check) -> None:
    def find_missing() -> list[str]:
        texts = check_prerequisites(plan_gang_of_claims())
        return sorted(text for text in texts if " has no " in text or "is not served" in text)

    no_metrics, no_class, no_priority, no_queue = find_missing()
    assert no_metrics.startswith("claims: Pod metrics: ")
    assert "custom.metrics.k8s.io is not served; install it" in no_metrics
    assert no_class.startswith("claims: ")
    assert f"the cluster has no DeviceClass {CLASS}" in no_class
    assert no_priority.startswith("warning: claims: ")
    assert "the cluster has no PriorityClass high" in no_priority
    assert "the cluster has no Queue team" in no_queue
    bare.apply(read_objects("prerequisites of gang_of_claims.yaml"))
    bare.wait(lambda: not find_missing(), 60, find_missing)


@pytest.mark.verifies(
    "`check --server` reports missing Secrets, claims, ServiceAccounts and storage classes"
)
def test_check_server_reports_missing_objects(bare: Cluster, tmp_path: Path) -> None:
    namespace = bare.new_namespace()
    (service,) = read_objects("service that names missing objects", namespace=namespace)
    path = tmp_path / "service.yaml"
    path.write_text(inputs.dump_yaml(service), encoding="utf-8")

    def run_check(kubeconfig: Path) -> list[str]:
        printed = inputs.run_command("check", path, "--server", kubeconfig=kubeconfig)
        assert printed.returncode == 0
        return printed.stderr.splitlines()

    named = [line for line in run_check(bare.kubeconfig) if "[named-object-missing]" in line]
    wanted = read_objects("missing objects")
    assert len(named) == len(wanted)
    for row in wanted:
        field = f"warning: roles[0].template.spec.{row['field']}: "
        lines = [line for line in named if field in line]
        assert any(f"has no {row['name']}" in line for line in lines), (row, named)
    kubeconfig = bare.kubeconfig_for("system:serviceaccount:default:default")
    unread = [line for line in run_check(kubeconfig) if "[cluster-not-checked]" in line]
    assert len(unread) == 1
    assert f"secrets/pull in {namespace}: 403 Forbidden" in unread[0]
