"""The platform stack example, policy packs and ServingPrerequisites."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from e2e.engine.project import REPOSITORY, Project
from e2e.engine.services import Stack, list_state, role, router, service
from e2e.harness import Cluster

PLATFORM = REPOSITORY / "examples" / "platform-stack"
POOLS = "inferencepools.inference.networking.k8s.io"
DEFINITIONS = "apiextensions.k8s.io/v1/CustomResourceDefinition"


def write_kubeconfig(cluster: Cluster, folder: Path, *names: str) -> str:
    """Return a kubeconfig with other context names for the cluster."""
    kubeconfig = yaml.safe_load(cluster.kubeconfig.read_text(encoding="utf-8"))
    (first, *_) = kubeconfig["contexts"]
    kubeconfig["contexts"] = [{"name": name, "context": first["context"]} for name in names]
    kubeconfig["current-context"] = names[0]
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(kubeconfig), encoding="utf-8")
    return str(path)


@pytest.mark.verifies(
    "examples/platform-stack deploys, its policy fails a preview, another stack reads its endpoint"
)
def test_platform_stack_deploys(project: Callable[..., Stack], tmp_path: Path) -> None:
    stack = project("platform", example=PLATFORM)
    stack.cluster.add_nodes(1)
    for item in (stack.folder / "catalogue").iterdir():
        text = item.read_text(encoding="utf-8")
        assert "namespace: models" in text
        item.write_text(text.replace("namespace: models", f"namespace: {stack.namespace}"))
    stack.environment["KUBECONFIG"] = write_kubeconfig(stack.cluster, tmp_path, "dev")
    result = stack.up().assert_succeeded()
    assert "prerequisites" not in result.text
    assert stack.count_ready() == {"serve": 1}
    assert stack.list_objects() == list_state(stack.read_resources())
    teams = {
        resource["inputs"]["metadata"]["labels"].get("platform.example.com/team")
        for resource in stack.read_resources()
        if resource["type"].startswith("kubernetes:")
    }
    assert teams == {"search"}
    assert stack.read_output("dev-chat")["status"]["components"]["serve"]["phase"] == "Running"
    assert stack.preview() == {}

    stack.run("config", "set", "platform-stack:gpuBudget", "0").assert_succeeded()
    rejected = stack.run("preview").assert_failed()
    assert "policy: the services need 1 GPUs, the budget is 0" in rejected.text
    stack.run("config", "set", "platform-stack:gpuBudget", "4").assert_succeeded()

    reader = project("consumer", example=PLATFORM / "consumer", backend=stack.state)
    reader.up().assert_succeeded()
    endpoint = stack.read_output("endpoints")["dev"]["chat"]
    assert endpoint
    assert reader.read_output("endpoint") == endpoint
    written = stack.cluster.get("v1/ConfigMap", "model", "default")["data"]
    assert written == {"OPENAI_BASE_URL": f"{endpoint}/v1"}
    reader.down().assert_succeeded()
    stack.down().assert_succeeded()
    assert stack.list_objects() == []


CHECKED = """\
import pulumi

from fusioninfer_pulumi import InferenceService, ServingPrerequisites, load

(args,) = load("services.yaml")
checked = ServingPrerequisites("cluster", {"services": [args]})
service = InferenceService("svc", args, pulumi.ResourceOptions(depends_on=[checked]))
pulumi.export("checked", checked.checked)
"""


@pytest.mark.verifies(
    "ServingPrerequisites fails a preview without the CRDs and reports missing permissions"
)
def test_missing_crd_fails_preview(tmp_path: Path) -> None:
    with Cluster(components=()) as bare:
        stack = Project(tmp_path / "checked", bare.kubeconfig)
        stack.program = CHECKED
        stack.write(service("default", router(), role(replicas=1), wait={"level": "None"}))
        assert stack.preview()["create"] > 9
        stack.up().assert_succeeded()
        assert stack.read_output("checked") is True
        stack.down().assert_succeeded()
        bare.delete(DEFINITIONS, POOLS)
        bare.wait(lambda: not bare.exists(DEFINITIONS, POOLS), 60)
        rejected = stack.run("preview").assert_failed()
        assert "InferencePool (inference.networking.k8s.io/v1) is not served" in rejected.text
        unreachable = stack.run("preview", KUBECONFIG=str(tmp_path / "none")).assert_succeeded()
        assert "prerequisites were not checked" in unreachable.text


@pytest.mark.verifies("Each policy of the pack rejects a service by its inputs or objects")
def test_policy_pack_rejects_service(project: Callable[..., Stack], tmp_path: Path) -> None:
    pack = shutil.copytree(REPOSITORY / "examples" / "policies", tmp_path / "pack")
    stack = project()
    # The policy pack uses the virtual environment of the tests, and the stack is `dev`.
    policy_file = yaml.safe_load((pack / "PulumiPolicy.yaml").read_text(encoding="utf-8"))
    policy_file["runtime"] = yaml.safe_load((stack.folder / "Pulumi.yaml").read_text())["runtime"]
    (pack / "PulumiPolicy.yaml").write_text(yaml.safe_dump(policy_file), encoding="utf-8")
    policies = (pack / "policies.py").read_text(encoding="utf-8")
    policies = policies.replace("MAX_GPUS = 64", "MAX_GPUS = 0").replace('"prod"', '"dev"')
    (pack / "policies.py").write_text(policies, encoding="utf-8")
    manifest = stack.service(role(replicas=1, gpus=1), router())
    manifest["spec"]["model"] = {"uri": "hf://example/unapproved"}
    stack.write(manifest)
    result = stack.run("preview", "--policy-pack", str(pack), "--color", "never").assert_failed()
    for violation in (
        "the stack uses 1 GPUs, allowed: 0",
        "registry.example/engine:1 is not from an allowed registry",
        "hf://example/unapproved is not an approved model",
        "role serve needs at least 2 replicas",
        "role serve has no disruptionBudget",
        "the route is public: no policy authenticates its requests",
    ):
        assert violation in result.text
