"""Projects and manifests of one command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from cli.projects import PROGRAM, PROJECT
from samples import role, service

from fusioninfer_pulumi.cli.main import main


@pytest.fixture
def both(tmp_path: Path) -> tuple[str, str]:
    """A manifest, and a project with a service and a ConfigMap."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "Pulumi.yaml").write_text(PROJECT)
    (folder / "__main__.py").write_text(
        f"{PROGRAM}from fusioninfer_pulumi import InferenceService\n"
        f"InferenceService('programmed', {{'roles': [{role()!r}]}})\n"
        "k8s.core.v1.ConfigMap('c', metadata={'name': 'c'})\n"
    )
    (tmp_path / "written.yaml").write_text(yaml.safe_dump(service(name="written")))
    return str(folder), str(tmp_path / "written.yaml")


def test_objects_of_both_are_rendered(
    both: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["render", *both]) == 0
    objects = list(yaml.safe_load_all(capsys.readouterr().out))
    names = [manifest["metadata"]["name"] for manifest in objects]
    assert names == [
        "written-inference-0",
        "written",
        "programmed-inference-0",
        "programmed",
        "c",
    ]


def test_both_are_planned(both: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", *both, "--output", "json"]) == 0
    plans = json.loads(capsys.readouterr().out)
    assert [(plan["service"], len(plan["objects"])) for plan in plans] == [
        ("written", 2),
        ("programmed", 2),
    ]


def test_both_are_checked(both: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", *both, "--strict"]) == 0
    assert capsys.readouterr().err == ""


def test_project_next_to_a_manifest_is_not_converted(
    both: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["convert", *both]) == 2
    assert f"{both[0]}: is a Pulumi project, which cannot be converted" in capsys.readouterr().err
