"""The manifests of `docs/operations.md` on the real API server, and what their selectors find."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from e2e import inputs
from e2e.catalog import program
from e2e.harness import Cluster, Object
from e2e.inputs import ROOT
from fusioninfer_pulumi.checks.prerequisite_checks import Prerequisites, find_product_needs
from fusioninfer_pulumi.kube.client import KubernetesApi
from fusioninfer_pulumi.plan.service_plan import ServicePlan

TEXT = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
MANIFESTS: list[Object] = [
    yaml.safe_load(each)
    for each in re.findall(
        r"^```yaml title=[^\n]*\n(apiVersion.*?)^```", TEXT, re.DOTALL | re.MULTILINE
    )
]
TAGS = {"epp-1.2": "v1.2.1", "epp-1.5": "v1.5.0"}
PORT = {"name": "http", "containerPort": 8000}


def everything() -> Object:
    """One service with all of day two, on several nodes."""
    autoscaling = {"maxReplicas": 4, "metrics": [{"name": "waiting", "target": 5}]}
    container = {
        "name": "vllm",
        "image": "vllm/vllm-openai:v0.17.1",
        "args": ["--model", "m", "--tensor-parallel-size", "8", "--pipeline-parallel-size", "2"],
        "ports": [PORT],
        "resources": {"limits": {"nvidia.com/gpu": "8"}},
    }
    return {
        "apiVersion": "fusioninfer.io/v1alpha1",
        "kind": "InferenceService",
        "metadata": {"name": "svc"},
        "spec": {
            "layout": "PerRole",
            "disruptionBudget": {"maxUnavailable": 1},
            "monitoring": {
                "interval": "15s",
                "scrapeTimeout": "10s",
                "labels": {"release": "prometheus"},
                "pickerToken": {"name": "reader"},
            },
            "tracing": {"endpoint": "http://otel:4317"},
            "schedulingStrategy": {"gangPolicy": {"minRoleReplicas": {"inference": 1}}},
            "roles": [
                {
                    "name": "router",
                    "componentType": "router",
                    "httproute": {"parentRefs": [{"name": "gateway"}]},
                    "endpointPicker": {"metrics": "Authenticated"},
                },
                {
                    "name": "inference",
                    "componentType": "worker",
                    "replicas": 2,
                    "multinode": {"nodeCount": 2, "launcher": "multiprocessing"},
                    "autoscaling": autoscaling,
                    "startup": {"modelSize": "140Gi"},
                    "topologySpread": [{"topologyKey": "topology.kubernetes.io/zone"}],
                    "template": {"spec": {"containers": [container]}},
                },
            ],
        },
    }


@pytest.mark.proves("Monitors select leaders and the picker's Service")
def test_monitors_select_leaders_and_picker(cluster: Cluster, namespace: str) -> None:
    plan = inputs.plan_of(everything())
    objects = inputs.with_namespace(inputs.objects_of(plan), namespace)
    kept = ("LeaderWorkerSet", "PodGroup", "PodMonitor", "ServiceMonitor", "Service")
    cluster.add_nodes(4)
    stored = cluster.apply([manifest for manifest in objects if manifest["kind"] in kept])
    cluster.wait(lambda: len(cluster.bound(namespace)) == 4, 60, lambda: cluster.pods(namespace))
    by_kind = {each["kind"]: each for each in stored}

    wanted = by_kind["PodMonitor"]["spec"]
    found = cluster.pods(namespace, selector(wanted["selector"]["matchLabels"]))
    assert sorted(pod["metadata"]["name"] for pod in found) == [
        "svc-inference-0",
        "svc-inference-1",
    ]
    (endpoint,) = wanted["podMetricsEndpoints"]
    for pod in found:
        ports = [
            port for container in pod["spec"]["containers"] for port in container.get("ports", ())
        ]
        assert endpoint["port"] in [port.get("name") for port in ports]
        assert set(wanted["podTargetLabels"]) <= set(pod["metadata"]["labels"])

    wanted = by_kind["ServiceMonitor"]["spec"]
    labels = selector(wanted["selector"]["matchLabels"])
    (service,) = cluster.list("v1/Service", namespace, labels)
    assert service["metadata"]["name"] == "svc-epp"
    assert wanted["endpoints"][0]["port"] in [port["name"] for port in service["spec"]["ports"]]


def selector(labels: Object) -> str:
    return ",".join(f"{key}={value}" for key, value in labels.items())


@pytest.fixture
def plans() -> list[ServicePlan]:
    keda = everything()
    keda["spec"]["roles"][1]["autoscaling"] = {
        "engine": "KEDA",
        "maxReplicas": 4,
        "prometheus": "http://prometheus:9090",
        "metrics": [{"query": "up", "target": "1"}],
    }
    return [inputs.plan_of(keda)]


@pytest.mark.proves("Prerequisites detect the Prometheus operator and KEDA")
def test_prerequisites_detect_operators(cluster: Cluster, plans: list[ServicePlan]) -> None:
    kinds = {kind for _, kind in find_product_needs(plans)}
    assert {"PodMonitor", "ServiceMonitor", "ScaledObject"} <= kinds
    checked = Prerequisites(KubernetesApi(str(cluster.kubeconfig), None), plans)
    found = [str(each) for each in checked.findings()]
    assert checked.releases["Prometheus operator"] == (0, 85, 0)
    assert not any("Prometheus" in each or "KEDA" in each for each in found), found


@pytest.mark.proves("Pickers accept the tracing flag and variables")
@pytest.mark.parametrize("tool", ["epp-1.2", "epp-1.5"])
def test_picker_traces_with_otlp(tool: str, tmp_path: Path) -> None:
    manifest = everything()
    image = f"registry.k8s.io/gateway-api-inference-extension/epp:{TAGS[tool]}"
    manifest["spec"]["roles"][0]["endpointPicker"]["image"] = image
    objects = inputs.objects_of(inputs.plan_of(manifest))
    made = next(each for each in objects if each["kind"] == "Deployment")
    (container,) = made["spec"]["template"]["spec"]["containers"]
    config = next(each for each in objects if each["kind"] == "ConfigMap")
    path = tmp_path / "config.yaml"
    path.write_text(config["data"]["config.yaml"], encoding="utf-8")
    args = [each.replace("/config/config.yaml", str(path)) for each in container["args"]]
    variables = {each["name"]: each["value"] for each in container["env"] if "value" in each}
    # It ends at once: traces come first, and then it looks for a cluster in vain.
    done = subprocess.run(
        [program(tool, "epp"), *args],
        env={**variables, "KUBECONFIG": str(tmp_path / "none")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    (output,) = [line for line in done.stderr.splitlines() if "init OTel trace exporter" in line]
    assert '"type":"otlp"' in output
