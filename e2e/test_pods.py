"""Pods that LeaderWorkerSet creates, compared with the plan."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from e2e import checks, inputs
from e2e.harness import Cluster, Object
from fusioninfer_pulumi.plan.service_plan import ServicePlan

STORY_4 = "fusioninfer-story-4-disaggregated-multinode"
STORIES = {
    "fusioninfer-story-1-monolithic": ["qwen-inference-inference-0-0"],
    "fusioninfer-story-2-disaggregated": [
        f"qwen-inference-service-decode-{replica}-0" for replica in range(4)
    ],
    "fusioninfer-story-3-multinode": [
        f"deepseek-r1-inference-inference-{replica}-0" for replica in range(2)
    ],
    "fusioninfer-story-4-disaggregated-multinode": [
        f"deepseek-r1-disagg-decode-{replica}-0" for replica in range(2)
    ],
}
"""Pods that serve requests in each story of the FusionInfer documents."""

VARIANTS: dict[str, Object] = yaml.safe_load(
    Path(__file__).with_name("role_variants.yaml").read_text(encoding="utf-8")
)


def make_varied_role(name: str, component_type: str, variant: str) -> Object:
    role = {**inputs.role(name, component_type, 2, 4), **VARIANTS[variant]}
    return {key: field for key, field in role.items() if field is not None}


def wait_for_pods(cluster: Cluster, plan: ServicePlan, namespace: str) -> list[Object]:
    selector = f"fusioninfer.io/service={plan.service}"

    def find_pods() -> list[Object]:
        pods = cluster.pods(namespace, selector)
        return pods if len(pods) >= plan.total_pods else []

    return cluster.wait(
        find_pods, 90, lambda: [p["metadata"]["name"] for p in cluster.pods(namespace)]
    )


def assert_pods(cluster: Cluster, plan: ServicePlan, namespace: str) -> None:
    pods = wait_for_pods(cluster, plan, namespace)
    checks.assert_pods_match_plan(plan, namespace, pods)
    for replica in (item.name for role in plan.roles for item in role.replicas):
        # LWS_LEADER_ADDRESS resolves only if this headless Service exists.
        (address,) = {
            container["env"][0]["value"]
            for pod in pods
            if checks.get_replica(pod) == replica
            for container in pod["spec"]["containers"]
        }
        headless = cluster.get("v1/Service", address.split(".")[1], namespace)
        assert headless["spec"]["clusterIP"] == "None"
        assert headless["spec"]["publishNotReadyAddresses"] is True


@pytest.fixture(scope="module")
def stories(cluster: Cluster) -> Iterator[dict[str, ServicePlan]]:
    """Deploy all stories into one namespace, so that wrong selectors would match other pods."""
    cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "stories"}})
    cluster.wait(lambda: cluster.exists("v1/ServiceAccount", "default", "stories"))
    plans = {name: inputs.build_plan(inputs.DOCUMENTS[name]) for name in STORIES}
    for plan in plans.values():
        cluster.apply(inputs.with_namespace(inputs.render_objects(plan), "stories"))
    yield plans
    cluster.delete_namespace("stories")


@pytest.mark.verifies("LeaderWorkerSet creates exactly the planned pods of each story")
@pytest.mark.parametrize("story", STORIES)
def test_pods_of_story_match_plan(
    cluster: Cluster, stories: dict[str, ServicePlan], story: str
) -> None:
    assert_pods(cluster, stories[story], "stories")


@pytest.mark.verifies("The Service selects exactly the serving leaders of its service")
@pytest.mark.parametrize(("story", "serving"), STORIES.items())
def test_service_selects_serving_leaders(
    cluster: Cluster, stories: dict[str, ServicePlan], story: str, serving: list[str]
) -> None:
    for plan in stories.values():
        wait_for_pods(cluster, plan, "stories")
    service = cluster.get("v1/Service", stories[story].service, "stories")
    checks.assert_service_selects(service, cluster.pods("stories"), serving)


@pytest.mark.verifies("Pods match the plan with two templates, subdomains and subgroups")
@pytest.mark.parametrize("variant", VARIANTS)
def test_role_variants_match_plan(cluster: Cluster, namespace: str, variant: str) -> None:
    role = make_varied_role("inference", "worker", variant)
    plan = inputs.build_plan(inputs.service("svc", role))
    stored = cluster.apply(inputs.with_namespace(inputs.render_objects(plan), namespace))
    assert_pods(cluster, plan, namespace)
    leaders = ["svc-inference-0-0", "svc-inference-1-0"]
    checks.assert_service_selects(stored[-1], cluster.pods(namespace), leaders)


@pytest.mark.verifies("With PerRole, LeaderWorkerSet creates the planned pods and can be scaled")
@pytest.mark.parametrize("variant", [None, "unique-subdomain", "two-templates"])
def test_per_role_lws_gets_planned_pods(
    cluster: Cluster, namespace: str, variant: str | None
) -> None:
    story = yaml.safe_load(inputs.DOCUMENTS[STORY_4].read_text(encoding="utf-8"))
    if variant is not None:
        story["spec"]["roles"][1] = make_varied_role("decode", "decoder", variant)
    story["spec"]["layout"] = "PerRole"
    plan = inputs.build_plan(story)
    stored = cluster.apply(inputs.with_namespace(inputs.render_objects(plan), namespace))
    assert_pods(cluster, plan, namespace)
    name = f"{plan.service}-decode"
    checks.assert_service_selects(stored[-1], cluster.pods(namespace), [f"{name}-0", f"{name}-1"])
    kind = "leaderworkerset.x-k8s.io/v1/LeaderWorkerSet"
    cluster.patch(kind, name, {"spec": {"replicas": 3}}, namespace, subresource="scale")
    story["spec"]["roles"][1]["replicas"] = 3
    assert_pods(cluster, inputs.build_plan(story), namespace)
    live = cluster.get(kind, name, namespace)
    # Autoscalers read the number of replicas and the selector of pods with metrics.
    assert live["status"]["replicas"] == 3
    wanted = dict(part.split("=") for part in live["status"]["hpaPodSelector"].split(","))
    leaders = [
        pod["metadata"]["name"]
        for pod in cluster.pods(namespace)
        if wanted.items() <= pod["metadata"]["labels"].items()
    ]
    assert leaders == [f"{name}-{group}" for group in range(3)]


NAMES = ("ENTRY_ADDRESS", "WORKER_INDEX", "GROUP_SIZE", "OWN")


def _expand(container: Object) -> dict[str, str]:
    """Expand references to earlier variables, as the kubelet does."""
    variables: dict[str, str] = {}
    for variable in container["env"]:
        value = str(variable.get("value", ""))
        for name in re.findall(r"\$\(([A-Z_]+)\)", value):
            if name in variables:
                value = value.replace(f"$({name})", variables[name])
        variables[variable["name"]] = value
    return variables


@pytest.mark.verifies("environment: Kthena sets entry, index and size in every pod")
def test_kthena_variables_resolve(cluster: Cluster, namespace: str) -> None:
    roles = [
        inputs.role(name, "worker", nodes=nodes, gpus=0, environment="Kthena")
        for name, nodes in (("wide", 3), ("alone", 1))
    ]
    for role in roles:
        spec = role["template"]["spec"]
        custom = {"name": "OWN", "value": "tcp://$(ENTRY_ADDRESS):29500"}
        spec["containers"][0]["env"] = [custom]
        spec["initContainers"] = [{"name": "first", "image": "example.com/init:1"}]
    plan = inputs.build_plan(inputs.service("svc", *roles, gangPolicy={"mode": "Off"}))
    cluster.add_nodes(1)
    cluster.apply(inputs.with_namespace(inputs.render_objects(plan), namespace))
    cluster.wait(lambda: len(cluster.pods(namespace)) == 4, 60, lambda: cluster.pods(namespace))
    for lws_name, size in (("svc-wide-0", 3), ("svc-alone-0", 1)):
        entry = f"{lws_name}-0.{lws_name}.{namespace}"
        pods = cluster.pods(namespace, f"leaderworkerset.sigs.k8s.io/name={lws_name}")
        rows = []
        for pod in pods:
            spec = pod["spec"]
            for container in (*spec["initContainers"], *spec["containers"]):
                known = _expand(container)
                rows.append(tuple(known.get(name, "") for name in NAMES))
        assert sorted(rows) == sorted(
            (entry, str(index), str(size), custom)
            for index in range(size)
            for custom in ("", f"tcp://{entry}:29500")
        )
