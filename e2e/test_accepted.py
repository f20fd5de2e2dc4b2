"""Dry runs of all objects on the API server with LeaderWorkerSet's webhooks.

The random services use every field and option (`tests/manifests/test_random_services.py`).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
import yaml

from e2e import checks, inputs
from e2e.harness import Cluster, Object
from fusioninfer_pulumi import loads, plan_service, render
from fusioninfer_pulumi.checks.server_dry_run import build_next_request, list_dry_run_objects
from fusioninfer_pulumi.kube.client import KubernetesApi, send_dry_runs
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from importers.tests.documents import DOCUMENTS
from importers.tests.kserve_documents import acceptable, edited
from tests.page_blocks import blocks

Build = Callable[[], list[ServicePlan]]
GOLDEN = inputs.ROOT / "tests" / "fixtures" / "golden" / "random-services.json"
SEEDS = [seed for seed, row in json.loads(GOLDEN.read_text(encoding="utf-8")).items() if not row[1]]
PARTS = 12
MISSING_GROUPS = ("networking.istio.io/", "networking.gke.io/", "llm-d.ai/")
"""API groups that are not installed."""
NATIVE = "scheduling.k8s.io/v1beta1"
"""API of gangs that need a newer Kubernetes (`test_native.py`)."""
EXPERIMENTAL = ("allowedListeners", "defaultScope", "tls", "useDefaultGateways")
"""Spec fields of Gateways and HTTPRoutes in the Gateway API's experimental channel."""


def plan_documents(*documents: Object) -> list[ServicePlan]:
    """Plan manifests of any system in one namespace."""
    namespaced = [
        {**item, "metadata": {**item["metadata"], "namespace": "default"}} for item in documents
    ]
    return [plan_service(args) for args in loads(inputs.dump_yaml(*namespaced), allow_lossy=True)]


def defer(*documents: Object) -> Build:
    return lambda: plan_documents(*documents)


def drop_experimental(item: Object) -> Object:
    if not item["apiVersion"].startswith("gateway.networking.k8s.io/"):
        return item
    return {**item, "spec": {k: v for k, v in item["spec"].items() if k not in EXPERIMENTAL}}


def plan_random_services(part: int) -> Build:
    def build() -> list[ServicePlan]:
        # mypy does not find this module, which pytest adds to the path.
        generate: Any = import_module("random_services").generate_service
        services = [plan_documents(*generate(int(seed)).documents) for seed in SEEDS[part::PARTS]]
        return [plan for plans in services if not any(map(is_native, plans)) for plan in plans]

    return build


def is_native(plan: ServicePlan) -> bool:
    return any(item["apiVersion"] == NATIVE for item in render(plan))


PAGE = inputs.ROOT / "docs" / "operations.md"
STORIES = {
    name: yaml.safe_load(path.read_text(encoding="utf-8"))
    for name, path in inputs.DOCUMENTS.items()
}

CLAIMS: dict[str, dict[str, Build]] = {
    "Every manifest of the FusionInfer documents is accepted unchanged": {
        name: defer(manifest) for name, manifest in STORIES.items()
    },
    "Manifests of the page on operations are accepted unchanged": {
        block.title: defer(yaml.safe_load(block.text))
        for block in blocks(PAGE)
        if block.language == "yaml" and block.title and block.text.startswith("apiVersion")
    },
    "Random services, which use every field and option, are accepted unchanged": {
        f"random {part}": plan_random_services(part) for part in range(PARTS)
    },
    "Kthena's and Modelplane's documented manifests are accepted unchanged": {
        name: defer(document) for name, document in DOCUMENTS.items()
    },
    "KServe's documented manifests are accepted unchanged": {
        name: defer(document)
        for name, document in {**acceptable(), "edited presets": edited()}.items()
    },
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "build",
    [
        pytest.param(build, id=name, marks=pytest.mark.verifies(claim))
        for claim, builds in CLAIMS.items()
        for name, build in builds.items()
    ],
)
def test_objects_are_accepted_unchanged(cluster: Cluster, dry_run_ns: str, build: Build) -> None:
    admin = {"resource.kubernetes.io/admin-access": "true"}
    cluster.patch("v1/Namespace", dry_run_ns, {"metadata": {"labels": admin}})
    plans = [plan.in_namespace(dry_run_ns) for plan in build()]
    # Replicas of a role differ only in names.
    dry_runs = [item for plan in plans for item in list_dry_run_objects(plan)]
    objects = [drop_experimental(item.manifest) for item in dry_runs if not item.template]
    assert_accepted(cluster, dry_run_ns, objects)
    # The server validates pods, but hardly the templates of LeaderWorkerSets.
    api = KubernetesApi(str(cluster.kubeconfig), None)
    pods = [item for item in dry_runs if item.template]
    replies = send_dry_runs(api, [pod.manifest for pod in pods], build_next_request, 120)
    answers = zip((pod.name for pod in pods), replies, strict=True)
    # After a rejection for a missing object, the next attempt omits the reference.
    assert [item for item in answers if not (item[1] and item[1][-1].is_accepted)] == []


@pytest.mark.verifies("Objects of every example program are accepted unchanged")
@pytest.mark.parametrize("name", inputs.EXAMPLES)
def test_objects_of_examples_are_accepted_unchanged(
    cluster: Cluster, dry_run_ns: str, name: str
) -> None:
    assert_accepted(cluster, dry_run_ns, inputs.render_example(name))


def assert_accepted(cluster: Cluster, namespace: str, objects: list[Object]) -> None:
    """Assert by dry run that objects are stored unchanged."""
    for manifest in objects:
        if manifest["apiVersion"].startswith(MISSING_GROUPS):
            continue
        namespaced = manifest
        if "namespace" in manifest["metadata"]:
            (namespaced,) = inputs.with_namespace([manifest], namespace)
        (stored,) = cluster.apply([namespaced], namespace=namespace, dry_run=True)
        checks.assert_stored_unchanged(namespaced, stored)
