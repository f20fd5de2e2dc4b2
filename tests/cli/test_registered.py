"""Names that a program passes as Outputs are read from its objects."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli.projects import PROGRAM, PROJECT, Folder

from fusioninfer_pulumi.cli.main import main

SERVICE = """
from fusioninfer_pulumi import InferenceService

def serve(name, namespace, service="svc"):
    InferenceService(name, {"name": service, "namespace": namespace, "roles": [
        {"name": "w", "componentType": "worker", "template": {"spec": {"containers": [
            {"name": "vllm", "image": "vllm/vllm-openai:v0.11.0", "args": ["--model", "m"]}]}}},
        {"name": "router", "componentType": "router", "gateway": {},
         "httproute": {"hostnames": [namespace]}}]})

def space(name):
    return k8s.core.v1.Namespace(name, metadata={"name": name}).metadata["name"]
"""


def project(root: Path, text: str) -> str:
    folder = Folder(root)
    folder.write("Pulumi.yaml", PROJECT)
    folder.write("__main__.py", f"{PROGRAM}\n{SERVICE}\n{text}")
    return str(root)


@pytest.mark.parametrize("form", ["text", "json"])
def test_plan_shows_names_passed_as_outputs(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = project(tmp_path, 'serve("svc", space("team"))')
    assert main(["plan", path, "--output", form]) == 0
    out = capsys.readouterr().out
    # Ids of rules in the JSON may have the word.
    assert ("<unknown>" if form == "json" else "unknown") not in out
    assert {"json": '"namespace": "team"', "text": "namespace team"}[form] in out


def test_services_of_one_name_have_separate_namespaces(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = project(tmp_path, 'serve("one", space("a"))\nserve("two", space("b"))')
    assert main(["plan", path, "--output", "json"]) == 0
    plans = json.loads(capsys.readouterr().out)
    assert [plan["namespace"] for plan in plans] == ["a", "b"]
    assert [{item["namespace"] for item in plan["objects"]} for plan in plans] == [{"a"}, {"b"}]


def test_unknown_namespace_is_shown_as_unknown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unknown = 'k8s.core.v1.Namespace("made").metadata["name"]'
    path = project(tmp_path, f'serve("svc", {unknown})')
    assert main(["plan", path]) == 0
    assert "namespace <unknown>" in capsys.readouterr().out
