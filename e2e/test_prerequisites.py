"""Prerequisites read from the real API server, with the kinds and without them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from e2e import inputs
from e2e.harness import ApiError, Cluster, Object
from fusioninfer_pulumi import findings, load, loads, plan_service
from fusioninfer_pulumi.component.prerequisites import _table as table
from fusioninfer_pulumi.component.prerequisites._check import check, named_objects, needs
from fusioninfer_pulumi.component.prerequisites._read import ClusterFacts, read_cluster
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.kube.client import UnreadableError
from fusioninfer_pulumi.plan.service_plan import ServicePlan

ROOT = Path(__file__).parent.parent
STORIES = ROOT / "tests" / "fixtures" / "inputs"
CONFIG = """\
apiVersion: config.lws.x-k8s.io/v1alpha1
kind: Configuration
{}
"""
PROVIDER = "gangSchedulingManagement: {schedulerProvider: volcano}"


@pytest.fixture(scope="module")
def bare() -> Iterator[Cluster]:
    """An API server with all kinds and nobody who acts on them."""
    with Cluster(components=()) as started:
        yield started


@pytest.fixture(scope="module")
def plans() -> list[ServicePlan]:
    """The design documents' services with a router, and with a gang."""
    paths = sorted(STORIES.glob("fusioninfer-story-*.yaml"))
    found = [plan_service(args) for path in paths for args in load(path)]
    found += [
        plan_service(args)
        for args in load(ROOT / "examples/qwen-monolithic/inference-service.yaml")
    ]
    assert any(plan.router for plan in found)
    assert any(plan.gang for plan in found)
    return found


CLASS = "gpu.example.com"
GPU = "nvidia.com/gpu"


def claiming() -> ServicePlan:
    """A service that is scaled by a metric, with claims, a model in an image and a pod monitor."""
    (args,) = loads(
        """
        apiVersion: fusioninfer.io/v1alpha1
        kind: InferenceService
        metadata: {name: claims}
        spec:
          layout: PerRole
          schedulingStrategy: {schedulerName: volcano, queue: team, priorityClassName: high}
          model: {uri: "oci://registry.example.com/model:1"}
          roles:
            - name: serve
              componentType: worker
              resourceClaims: [{name: gpus, deviceClassName: gpu.example.com, count: 8}]
              autoscaling: {maxReplicas: 3, metrics: [{name: waiting, target: 5}]}
              template:
                spec:
                  containers: [{name: vllm, image: "vllm/vllm-openai:v0.12.0"}]
        """
    )
    return plan_service(args)


@pytest.fixture
def read(bare: Cluster, plans: list[ServicePlan]) -> Callable[..., ClusterFacts]:
    """Reads the cluster as the component does."""

    def reading(kubeconfig: str | Path = bare.kubeconfig, system: str = "default") -> ClusterFacts:
        return read_cluster(
            str(kubeconfig),
            None,
            [row.definition for row in needs(plans)],
            lws_namespace=system,
            volcano_namespace=system,
            named=list(named_objects([claiming()])),
        )

    return reading


def told(plans: list[ServicePlan], facts: ClusterFacts) -> list[str]:
    """What the check says of a cluster."""
    return [str(finding) for finding in check(plans, facts)]


def deployment(image: str) -> dict[str, object]:
    """A program whose image tells its release."""
    name = image.rpartition("/")[2].partition(":")[0]
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": labels},
            "replicas": 0,
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "image": image}]},
            },
        },
    }


def configuration(text: str) -> dict[str, object]:
    """Configuration of LeaderWorkerSet's manager."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "lws-manager-config"},
        "data": {"controller_manager_config.yaml": CONFIG.format(text)},
    }


def test_a_cluster_with_everything_passes(
    bare: Cluster, plans: list[ServicePlan], read: Callable[..., ClusterFacts]
) -> None:
    namespace = bare.new_namespace()
    images = ("registry.k8s.io/lws/lws:v0.9.0", "docker.io/volcanosh/vc-scheduler:v1.14.1")
    bare.apply([*map(deployment, images), configuration("")], namespace=namespace)
    facts = read(system=namespace)
    assert facts.releases == {"LeaderWorkerSet": (0, 9, 0), "Volcano": (1, 14, 1)}
    assert facts.lws_provider == ""
    assert not facts.unread
    assert told(plans, facts) == []


@pytest.mark.proves(
    "`plan --cluster` and ServingPrerequisites warn of a ResourceQuota beyond which the API server "
    "then refuses pods, beside what others use"
)
def test_quotas_are_read(bare: Cluster, tmp_path: Path) -> None:
    namespace = bare.new_namespace()
    hard = {f"requests.{GPU}": "8"}
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "gpus"},
        "spec": {"hard": hard},
    }
    bare.apply([quota], namespace=namespace)

    def used() -> object:
        (stored,) = bare.list("v1/ResourceQuota", namespace)
        return stored.get("status", {}).get("used", {}).get(f"requests.{GPU}")

    bare.wait(lambda: used() == "0", 60, "the quota's controller")
    bare.create(gpu_pod("other", 4), namespace=namespace)
    service = inputs.service("svc", inputs.role("serve", "worker", 2, gpus=2))
    service["metadata"]["namespace"] = namespace
    plan = inputs.plan_of(service)
    bare.create(gpu_pod(plan.service, 2), namespace=namespace)
    bare.wait(lambda: used() == "6", 60, used)
    # One of its two pods exists, so it needs no more than is left.
    assert said_of_quotas(bare, plan) == []

    bare.create(gpu_pod("other", 2), namespace=namespace)
    bare.wait(lambda: used() == "8", 60, used)
    message = (
        f"ResourceQuota gpus in {namespace} allows 8 {GPU} beside 6 in use by others, and svc asks "
        "for 4: pods beyond it are not created"
    )
    (found,) = said_of_quotas(bare, plan)
    assert message in found
    with pytest.raises(ApiError, match="exceeded quota: gpus"):
        bare.create(gpu_pod(plan.service, 2), namespace=namespace)

    printed = planned(bare, service, tmp_path)
    assert printed.returncode == 0
    assert message in printed.stderr
    (record,) = json.loads(printed.stdout)
    texts = [item["message"] for item in record["findings"] if item["rule"] == "quota-too-small"]
    assert texts == [message]


def planned(cluster: Cluster, service: Object, folder: Path) -> subprocess.CompletedProcess[str]:
    """What `plan --cluster` prints."""
    path = folder / "service.yaml"
    path.write_text(inputs.text(service), encoding="utf-8")
    command = [sys.executable, "-m", "fusioninfer_pulumi.cli.main", "plan", str(path), "--cluster"]
    return subprocess.run(
        [*command, "--output", "json"],
        env=os.environ | {"KUBECONFIG": str(cluster.kubeconfig)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.proves(
    "`plan --cluster` refuses a service for Kueue in a cluster that has Volcano alone, and "
    "proposes that"
)
def test_a_backend_that_is_not_there_is_refused(bare: Cluster, tmp_path: Path) -> None:
    service = inputs.prefill_decode()
    assert planned(bare, service, tmp_path).returncode == 0
    strategy = {"queue": "team", "gangPolicy": {"backend": "Kueue"}}
    service["spec"]["schedulingStrategy"] = strategy
    printed = planned(bare, service, tmp_path)
    assert printed.returncode == 2
    assert (
        "schedulingStrategy.gangPolicy.backend: the cluster does not have Kueue, but another one: "
        "gangPolicy.backend: Volcano [gang-backend-missing]"
    ) in " ".join(printed.stderr.split())


def gpu_pod(service: str, gpus: int) -> dict[str, object]:
    """A pod of a service as it counts for quotas."""
    resources = {"limits": {GPU: str(gpus)}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": f"{service}-", "labels": {labels.SERVICE: service}},
        "spec": {"containers": [{"name": "main", "image": "engine:1", "resources": resources}]},
    }


def said_of_quotas(cluster: Cluster, plan: ServicePlan) -> list[str]:
    """What ServingPrerequisites says of quotas."""
    facts = read_cluster(
        str(cluster.kubeconfig),
        None,
        [],
        lws_namespace="default",
        volcano_namespace="default",
        plans=[plan],
    )
    assert not facts.unread
    return [text for text in told([plan], facts) if "ResourceQuota" in text]


def test_every_row_of_the_table_is_met_by_the_pinned_definitions(bare: Cluster) -> None:
    names = [row.definition for row in table.ROWS]
    facts = read_cluster(
        bare.kubeconfig.read_text(encoding="utf-8"),
        None,
        names,
        lws_namespace="default",
        volcano_namespace="default",
    )
    unmet = []
    for row in table.ROWS:
        stored = facts.definitions[row.definition]
        if row in (*table.GATEWAY_EXTRAS.values(), table.LLM_D_MODEL_REWRITE, table.KUEUE):
            # Istio's, GKE's and llm-d's own, which no tool here brings; Kueue's are e2e/test_kueue.
            assert stored is None
            continue
        assert stored is not None
        assert row.served is not None
        assert row.served in stored.schemas
        if row.field is not None and not stored.has(row.served, row.field):
            unmet.append(row)
    # The standard channel is installed here.
    assert unmet == [table.DEFAULT_GATEWAYS]


@pytest.mark.proves(
    "ServingPrerequisites finds APIs, DeviceClasses, PriorityClasses, Queues and releases of "
    "Kubernetes itself that services need"
)
def test_what_kubernetes_itself_lacks_is_found(
    bare: Cluster, read: Callable[..., ClusterFacts]
) -> None:
    facts = read()
    assert facts.kubernetes is not None
    assert facts.kubernetes >= (1, 35, 0)
    assert facts.apis is not None
    assert "v1" in facts.apis["resource.k8s.io"]

    def errors() -> list[str]:
        found = check([claiming()], read())
        return [str(each) for each in findings.errors(found)]

    def absent() -> list[str]:
        found = [str(each) for each in check([claiming()], read())]
        return [each for each in found if "there is no" in each]

    assert sorted(each.partition(";")[0] for each in absent()) == [
        f"{table.CLAIMS.product}: there is no DeviceClass {CLASS}",
        "warning: Priority: there is no PriorityClass high",
        "warning: Volcano: there is no Queue team",
    ]
    no_class, no_metrics = sorted(errors(), key=lambda text: "DeviceClass" not in text)
    assert f"there is no DeviceClass {CLASS}; claims needs it" in no_class
    assert "custom.metrics.k8s.io/v1beta2 or v1beta1 is not served" in no_metrics
    bare.apply(
        [
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "DeviceClass",
                "metadata": {"name": CLASS},
                "spec": {},
            },
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": "high"},
                "value": 1000,
            },
            {
                "apiVersion": "scheduling.volcano.sh/v1beta1",
                "kind": "Queue",
                "metadata": {"name": "team"},
                "spec": {"weight": 1},
            },
            {
                "apiVersion": "apiregistration.k8s.io/v1",
                "kind": "APIService",
                "metadata": {"name": "v1beta2.custom.metrics.k8s.io"},
                "spec": {
                    "group": "custom.metrics.k8s.io",
                    "version": "v1beta2",
                    "groupPriorityMinimum": 100,
                    "versionPriority": 100,
                    "insecureSkipTLSVerify": True,
                    "service": {"namespace": "default", "name": "adapter"},
                },
            },
        ]
    )
    bare.wait(lambda: not errors(), 60, errors)
    assert absent() == []


def test_the_gang_provider_is_found(
    bare: Cluster, plans: list[ServicePlan], read: Callable[..., ClusterFacts]
) -> None:
    namespace = bare.new_namespace()
    bare.apply([configuration(PROVIDER)], namespace=namespace)
    facts = read(system=namespace)
    assert facts.lws_provider == "volcano"
    errors = [text for text in told(plans, facts) if not text.startswith("warning")]
    assert len(errors) == 1
    assert "remove gangSchedulingManagement" in errors[0]


def test_without_programs_their_releases_are_only_warnings(
    plans: list[ServicePlan], read: Callable[..., ClusterFacts]
) -> None:
    found = told(plans, read())
    assert len(found) == 2
    assert all(text.startswith("warning: ") for text in found)


def test_without_rights_it_says_what_it_did_not_check(
    bare: Cluster, plans: list[ServicePlan], read: Callable[..., ClusterFacts]
) -> None:
    nobody = bare.kubeconfig_for("system:serviceaccount:default:default")
    facts = read(nobody)
    assert not facts.definitions
    # Beside the definitions: Deployments, ConfigMaps, a DeviceClass, a PriorityClass and a Queue;
    # releases and APIs are open.
    assert len(facts.unread) == len(needs(plans)) + 5
    assert facts.kubernetes is not None
    assert all("403 Forbidden" in text for text in facts.unread)
    assert all(text.startswith("warning: ") for text in told(plans, facts))


def test_wrong_credentials_are_said(bare: Cluster, read: Callable[..., ClusterFacts]) -> None:
    text = bare.kubeconfig.read_text(encoding="utf-8")
    token = text.partition('"token": "')[2].partition('"')[0]
    with pytest.raises(UnreadableError, match="does not accept the credentials"):
        read(text.replace(token, "wrong"))


def test_without_the_kinds_it_fails_with_all_of_them(
    bare: Cluster, plans: list[ServicePlan], read: Callable[..., ClusterFacts]
) -> None:
    # The last test of this cluster: the kinds do not come back.
    for row in needs(plans):
        bare.delete("CustomResourceDefinition", row.definition)
    bare.wait(
        lambda: not any(read().definitions.values()), 60, lambda: str(read().definitions.keys())
    )
    errors = [text for text in told(plans, read()) if not text.startswith("warning")]
    assert len(errors) == len(needs(plans))
    assert all("is not installed" in text and "kubectl apply" in text for text in errors)
