"""A YAML program and a Python program of one service do the same on the real engine."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.catalog import tool
from e2e.engine.project import REPOSITORY, Project
from e2e.engine.services import images, role, router, service
from e2e.harness import Cluster

Make = Callable[..., Project]

NEEDS = "the Pulumi engine is on PATH, and `python -m e2e.build_tools --only pulumi-yaml` was run"
HOST = tool("pulumi-yaml").directory / "bin"
PLUGIN = Path(sys.prefix) / "bin" / "pulumi-resource-fusioninfer"
PLUGINS = {"providers": [{"name": "fusioninfer", "path": str(PLUGIN.parent)}]}

pytestmark = pytest.mark.skipif(
    not (HOST.is_dir() or shutil.which("pulumi-language-yaml")), reason="no YAML language host"
)


class YamlProject:
    """A project whose program is YAML; its plugin is the console script of this installation."""

    def __init__(self, made: Project) -> None:
        self.project = made
        path = os.pathsep.join([str(HOST), str(PLUGIN.parent), made.environment["PATH"]])
        made.environment["PATH"] = path

    def write(self, *services: Mapping[str, Any], **more: Any) -> None:
        """Sets what the program makes."""
        resources = {
            each["metadata"]["name"]: {
                "type": "fusioninfer:InferenceService",
                "properties": {**each["metadata"], **each["spec"]},
            }
            for each in services
        }
        first = services[0]["metadata"]["name"]
        program = {
            "name": self.project.folder.name,
            "runtime": "yaml",
            "plugins": PLUGINS,
            "resources": resources,
            "outputs": {
                "status": f"${{{first}.status}}",
                "endpoint": f"${{{first}.endpoint}}",
            },
            **more,
        }
        text = json.dumps(program)  # YAML without aliases, which Pulumi does not read
        (self.project.folder / "Pulumi.yaml").write_text(text, encoding="utf-8")


@pytest.fixture
def yaml_project(project: Make) -> YamlProject:
    """A project in YAML beside those in Python."""
    return YamlProject(project("yaml"))


def children(stack: Project) -> dict[str, str]:
    """What a preview says of each Kubernetes resource: its inputs, as text."""
    steps = stack.json("preview", "--json", "--show-secrets")["steps"]
    return {
        f"{state['type']} {state['urn'].rpartition('::')[2]}": json.dumps(
            state["inputs"], sort_keys=True
        )
        for state in (step["newState"] for step in steps)
        if state["type"].startswith("kubernetes:")
    }


def model(namespace: str, **more: Any) -> dict[str, Any]:
    """A service with a router, a group of nodes and numbers of every kind."""
    return service(
        namespace,
        router(),
        role(
            replicas=2,
            gpus=1,
            multinode={"nodeCount": 2, "launcher": "none"},
            disruptionBudget={"maxUnavailable": 1},
        ),
        **more,
    )


@pytest.mark.proves("YAML and Python programs register identical objects", needs=NEEDS)
def test_the_same_objects(namespace: str, project: Make, yaml_project: YamlProject) -> None:
    written = model(namespace)
    python = project("python")
    python.write(written)
    yaml_project.write(written)
    expected = children(python)
    assert len(expected) > 8
    assert children(yaml_project.project) == expected


@pytest.mark.proves(
    "A YAML program creates a service and updates it replica by replica",
    needs=NEEDS,
)
def test_created_and_updated(cluster: Cluster, namespace: str, yaml_project: YamlProject) -> None:
    cluster.add_nodes(2)
    stack = yaml_project.project
    # Several components are constructed at the same time.
    others = [service(namespace, role(replicas=1), name=f"other-{index}") for index in range(4)]
    yaml_project.write(service(namespace, role(replicas=2)), *others)
    stack.up().assert_fine()
    assert stack.output("endpoint") == f"http://svc.{namespace}.svc:8000"
    assert stack.output("status")["components"]["serve"]["phase"] == "Running"
    assert stack.preview() == {}
    yaml_project.write(service(namespace, role(replicas=2, tag="2")), *others)
    stack.up().assert_fine()
    found = images(cluster, namespace)
    assert {name: tag for name, tag in found.items() if name.startswith("svc-")} == {
        "svc-serve-0": "2",
        "svc-serve-1": "2",
    }
    assert {tag for name, tag in found.items() if name.startswith("other-")} == {"1"}
    stack.down().assert_fine()


@pytest.mark.proves(
    "A YAML program's failing update gives the reason; invalid properties fail at preview",
    needs=NEEDS,
)
def test_failing_and_refused(
    cluster: Cluster, namespace: str, project: Make, yaml_project: YamlProject
) -> None:
    cluster.add_nodes(1)
    short = {"timeout": "15s"}
    bad = service(namespace, role(replicas=1, behaviour="unpullable"), rollout=short, wait=short)
    texts = []
    for write, stack in (
        (yaml_project.write, yaml_project.project),
        ((other := project("python")).write, other),
    ):
        write(bad)
        told = stack.up()
        assert told.status != 0
        assert stack is other or "Traceback" not in told.text
        texts.append([line for line in told.text.splitlines() if "ImagePullBackOff" in line])
        stack.down().assert_fine()
    assert all(texts)
    yaml_project.write(service(namespace, role(replicas=-1)))
    refused = yaml_project.project.run("preview")
    assert refused.status != 0
    assert "property roles[0].replicas" in refused.text
    assert "must be at least 0, got -1" in refused.text
    assert "Traceback" not in refused.text


@pytest.mark.proves(
    "Secrets and Outputs in a YAML program's template reach the pods as secrets",
    needs=NEEDS,
)
def test_secrets_and_outputs(cluster: Cluster, namespace: str, yaml_project: YamlProject) -> None:
    cluster.add_nodes(1)
    stack = yaml_project.project
    written = service(namespace, role(replicas=1))
    (container,) = written["spec"]["roles"][0]["template"]["spec"]["containers"]
    container["env"] = [
        {"name": "TOKEN", "value": {"fn::secret": "t0ken-value"}},
        {"name": "UPSTREAM", "value": "${other.endpoint}"},
    ]
    other = service(namespace, role(replicas=1), name="other")
    yaml_project.write(written, other)
    stack.up().assert_fine()
    assert "t0ken-value" not in json.dumps(stack.json("stack", "export"))
    sets = {resource["urn"].rpartition("::")[2]: resource for resource in stack.resources()}
    after = {urn.rpartition("::")[2] for urn in sets["svc-serve-0"]["dependencies"]}
    assert any(each.startswith("other") for each in after), after
    (pod,) = [
        each for each in cluster.pods(namespace) if each["metadata"]["name"] == "svc-serve-0-0"
    ]
    env = {each["name"]: each.get("value") for each in pod["spec"]["containers"][0]["env"]}
    assert env["TOKEN"] == "t0ken-value"
    assert env["UPSTREAM"] == f"http://other.{namespace}.svc:8000"
    stack.down().assert_fine()


@pytest.mark.proves("The YAML example and template pass a preview", needs=NEEDS)
@pytest.mark.parametrize("program", ["examples/yaml", "templates/yaml"])
def test_programs_of_this_repository(yaml_project: YamlProject, program: str) -> None:
    stack = yaml_project.project
    described = yaml.safe_load((REPOSITORY / program / "Pulumi.yaml").read_text(encoding="utf-8"))
    # Their plugin comes from the repository's address.
    del described["packages"], described["description"]
    described.pop("template", None)
    described["name"] = stack.folder.name
    described["plugins"] = PLUGINS
    (stack.folder / "Pulumi.yaml").write_text(json.dumps(described), encoding="utf-8")
    for key, value in {"model": "Qwen/Qwen3-8B", "accelerator": "H100", "replicas": "3"}.items():
        stack.run("config", "set", key, value).assert_fine()
    (name,) = described["resources"]
    (*_, role) = described["resources"][name]["properties"]["roles"]
    assert sorted(each for each in children(stack) if ":LeaderWorkerSet " in each) == [
        f"kubernetes:leaderworkerset.x-k8s.io/v1:LeaderWorkerSet {name}-{role['name']}-{index}"
        for index in range(3)
    ]
