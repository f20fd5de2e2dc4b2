"""Projects and manifests in one command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from cli.projects import PROGRAM, PROJECT
from samples import role, service

from fusioninfer_pulumi.cli.main import main

Capsys = pytest.CaptureFixture[str]


@pytest.fixture
def sources(tmp_path: Path) -> list[str]:
    """Return a project with a service and a ConfigMap, and a manifest."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "Pulumi.yaml").write_text(PROJECT)
    (folder / "__main__.py").write_text(
        f"{PROGRAM}from fusioninfer_pulumi import InferenceService\n"
        f"InferenceService('project', {{'roles': [{role()!r}]}})\n"
        "k8s.core.v1.ConfigMap('c', metadata={'name': 'c'})\n"
    )
    (tmp_path / "manifest.yaml").write_text(yaml.safe_dump(service(name="manifest")))
    return [str(folder), str(tmp_path / "manifest.yaml")]


def test_project_and_manifest_are_rendered(sources: list[str], capsys: Capsys) -> None:
    assert main(["render", *sources]) == 0
    objects = list(yaml.safe_load_all(capsys.readouterr().out))
    names = [manifest["metadata"]["name"] for manifest in objects]
    assert names == ["manifest-inference-0", "manifest", "project-inference-0", "project", "c"]


def test_project_and_manifest_are_planned(sources: list[str], capsys: Capsys) -> None:
    assert main(["plan", *sources, "--output", "json"]) == 0
    plans = json.loads(capsys.readouterr().out)
    assert [(plan["service"], len(plan["objects"])) for plan in plans] == [
        ("manifest", 2),
        ("project", 2),
    ]


def test_project_and_manifest_are_checked(sources: list[str], capsys: Capsys) -> None:
    assert main(["check", *sources, "--strict"]) == 0
    assert capsys.readouterr().err == ""


def test_project_next_to_a_manifest_is_not_converted(sources: list[str], capsys: Capsys) -> None:
    assert main(["convert", *sources]) == 2
    assert (
        f"{sources[0]}: is a Pulumi project, which cannot be converted" in capsys.readouterr().err
    )
