"""YAML programs, compared with Python programs of the same service."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.catalog import tool
from e2e.engine.project import REPOSITORY
from e2e.engine.services import TWO_NODES, Stack, role, router
from e2e.harness import Cluster

HOST = tool("pulumi-yaml").directory / "bin"
PLUGIN = Path(sys.prefix) / "bin" / "pulumi-resource-fusioninfer"
PLUGINS = {"providers": [{"name": "fusioninfer", "path": str(PLUGIN.parent)}]}

pytestmark = pytest.mark.skipif(
    not (HOST.is_dir() or shutil.which("pulumi-language-yaml")), reason="no YAML language host"
)


class YamlStack(Stack):
    """A stack with a YAML program; its plugin is the console script of this installation."""

    def __init__(self, folder: Path, cluster: Cluster, namespace: str) -> None:
        super().__init__(folder, cluster, namespace)
        path = os.pathsep.join([str(HOST), str(PLUGIN.parent), self.environment["PATH"]])
        self.environment["PATH"] = path

    def write(self, *services: Mapping[str, Any]) -> None:
        """Write a program with these services; without services, keep the program."""
        if not services:
            return
        resources = {
            item["metadata"]["name"]: {
                "type": "fusioninfer:InferenceService",
                "properties": {**item["metadata"], **item["spec"]},
            }
            for item in services
        }
        first = services[0]["metadata"]["name"]
        program = {
            "name": self.folder.name,
            "runtime": "yaml",
            "plugins": PLUGINS,
            "resources": resources,
            "outputs": {"status": f"${{{first}.status}}", "endpoint": f"${{{first}.endpoint}}"},
        }
        text = json.dumps(program)  # Pulumi does not read YAML aliases.
        (self.folder / "Pulumi.yaml").write_text(text, encoding="utf-8")


@pytest.fixture
def yaml_stack(cluster: Cluster, namespace: str, tmp_path: Path) -> YamlStack:
    return YamlStack(tmp_path / "yaml", cluster, namespace)


def preview_inputs(stack: Stack) -> dict[str, str]:
    """Return the inputs of each Kubernetes resource in a preview, as text."""
    steps = stack.json("preview", "--json", "--show-secrets")["steps"]
    return {
        f"{state['type']} {state['urn'].rpartition('::')[2]}": json.dumps(
            state["inputs"], sort_keys=True
        )
        for state in (step["newState"] for step in steps)
        if state["type"].startswith("kubernetes:")
    }


@pytest.mark.verifies("YAML and Python programs register identical objects")
def test_yaml_and_python_register_equal_objects(stack: Stack, yaml_stack: YamlStack) -> None:
    nodes = role(replicas=2, gpus=1, disruptionBudget={"maxUnavailable": 1}, **TWO_NODES)
    manifest = stack.service(router(), nodes)
    stack.write(manifest)
    yaml_stack.write(manifest)
    expected = preview_inputs(stack)
    assert len(expected) > 8
    assert preview_inputs(yaml_stack) == expected


@pytest.mark.verifies("A YAML program creates a service and updates it replica by replica")
def test_yaml_program_creates_and_updates(yaml_stack: YamlStack) -> None:
    stack = yaml_stack
    stack.cluster.add_nodes(2)
    # The provider constructs several components at the same time.
    others = [stack.service(role(replicas=1), name=f"other-{index}") for index in range(4)]
    stack.deploy_services(stack.service(role(replicas=2)), *others)
    assert stack.read_output("endpoint") == f"http://svc.{stack.namespace}.svc:8000"
    assert stack.read_output("status")["components"]["serve"]["phase"] == "Running"
    assert stack.preview() == {}
    stack.deploy_services(stack.service(role(replicas=2, tag="2")), *others)
    found = stack.lws_tags()
    assert {name: tag for name, tag in found.items() if name.startswith("svc-")} == {
        "svc-serve-0": "2",
        "svc-serve-1": "2",
    }
    assert {tag for name, tag in found.items() if name.startswith("other-")} == {"1"}
    stack.down().assert_succeeded()


@pytest.mark.verifies(
    "A YAML program's failing update gives the reason; invalid properties fail at preview"
)
def test_yaml_program_reports_failures(stack: Stack, yaml_stack: YamlStack) -> None:
    stack.cluster.add_nodes(1)
    short = {"timeout": "15s"}
    failing = stack.service(role(replicas=1, behavior="unpullable"), rollout=short, wait=short)
    for one in (yaml_stack, stack):
        one.write(failing)
        result = one.up().assert_failed()
        assert one is stack or "Traceback" not in result.text
        assert "ImagePullBackOff" in result.text
        one.down().assert_succeeded()
    yaml_stack.write(stack.service(role(replicas=-1)))
    rejected = yaml_stack.run("preview").assert_failed()
    assert "property roles[0].replicas" in rejected.text
    assert "must be at least 0, got -1" in rejected.text
    assert "Traceback" not in rejected.text


@pytest.mark.verifies("Secrets and Outputs in a YAML program's template reach the pods as secrets")
def test_yaml_secrets_and_outputs_reach_pods(yaml_stack: YamlStack) -> None:
    stack = yaml_stack
    stack.cluster.add_nodes(1)
    manifest = stack.service(role(replicas=1))
    (container,) = manifest["spec"]["roles"][0]["template"]["spec"]["containers"]
    container["env"] = [
        {"name": "TOKEN", "value": {"fn::secret": "t0ken-value"}},
        {"name": "UPSTREAM", "value": "${other.endpoint}"},
    ]
    stack.deploy_services(manifest, stack.service(role(replicas=1), name="other"))
    assert "t0ken-value" not in json.dumps(stack.json("stack", "export"))
    sets = {resource["urn"].rpartition("::")[2]: resource for resource in stack.read_resources()}
    after = {urn.rpartition("::")[2] for urn in sets["svc-serve-0"]["dependencies"]}
    assert any(item.startswith("other") for item in after), after
    (pod,) = [
        item
        for item in stack.cluster.pods(stack.namespace)
        if item["metadata"]["name"] == "svc-serve-0-0"
    ]
    env = {item["name"]: item.get("value") for item in pod["spec"]["containers"][0]["env"]}
    assert env["TOKEN"] == "t0ken-value"
    assert env["UPSTREAM"] == f"http://other.{stack.namespace}.svc:8000"
    stack.down().assert_succeeded()


@pytest.mark.verifies("The YAML example and template pass a preview")
@pytest.mark.parametrize("program", ["examples/yaml", "templates/yaml"])
def test_yaml_example_and_template_pass_preview(yaml_stack: YamlStack, program: str) -> None:
    stack = yaml_stack
    project = yaml.safe_load((REPOSITORY / program / "Pulumi.yaml").read_text(encoding="utf-8"))
    # Their plugin is downloaded from the repository.
    del project["packages"], project["description"]
    project.pop("template", None)
    project["name"] = stack.folder.name
    project["plugins"] = PLUGINS
    (stack.folder / "Pulumi.yaml").write_text(json.dumps(project), encoding="utf-8")
    for key, value in {"model": "Qwen/Qwen3-8B", "accelerator": "H100", "replicas": "3"}.items():
        stack.run("config", "set", key, value).assert_succeeded()
    (name,) = project["resources"]
    (*_, role) = project["resources"][name]["properties"]["roles"]
    assert sorted(item for item in preview_inputs(stack) if ":LeaderWorkerSet " in item) == [
        f"kubernetes:leaderworkerset.x-k8s.io/v1:LeaderWorkerSet {name}-{role['name']}-{index}"
        for index in range(3)
    ]
