"""Projects that `pulumi new` creates from the templates pass `check` and their own test."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from fusioninfer_pulumi import InferenceServiceArgs, plan_service
from fusioninfer_pulumi.cli.main import main
from fusioninfer_pulumi.cli.new_project import TEMPLATE, describe_repository, format_release_tag
from fusioninfer_pulumi.extras import ADDRESS, ON_PYPI

ROOT = Path(__file__).parent.parent
TEMPLATES = ROOT / "templates"
ANSWERS = {"model": "Qwen/Qwen3-32B", "accelerator": "H100", "replicas": "3"}


@pytest.mark.parametrize("name", ["python", "yaml"])
def test_templates_equal_the_output_of_init(name: str) -> None:
    # `make regenerate` writes them.
    folder = TEMPLATES / name
    committed = {
        path.name: path.read_text(encoding="utf-8") for path in folder.iterdir() if path.is_file()
    }
    assert committed == TEMPLATE.render_files(name)


def generated(name: str, folder: Path) -> Path:
    """Return a project as `pulumi new` writes it."""
    result = folder / "chat"
    shutil.copytree(TEMPLATES / name, result, ignore=shutil.ignore_patterns("__pycache__"))
    described = result / "Pulumi.yaml"
    text = described.read_text(encoding="utf-8")
    text = text.replace("${PROJECT}", "chat").replace("${DESCRIPTION}", "A chat model")
    project = yaml.safe_load(text)
    del project["template"]
    described.write_text(yaml.safe_dump(project, sort_keys=False), encoding="utf-8")
    config = {f"chat:{key}": value for key, value in ANSWERS.items()}
    (result / "Pulumi.dev.yaml").write_text(yaml.safe_dump({"config": config}), encoding="utf-8")
    return result


def test_python_project_passes_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    project = generated("python", tmp_path)
    assert main(["check", str(project), "--stack", "dev"]) == 0
    assert main(["plan", str(project), "--stack", "dev", "--output", "json"]) == 0
    (plan,) = json.loads(capsys.readouterr().out)
    assert (plan["totalPods"], plan["totalGpus"]) == (3, 6)


@pytest.mark.slow
def test_python_projects_own_test_passes(tmp_path: Path) -> None:
    project = generated("python", tmp_path)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


def test_python_projects_requirements_are_those_of_its_files() -> None:
    lines = (TEMPLATES / "python" / "requirements.txt").read_text().splitlines()
    names = [re.split("[ >]", line)[0] for line in lines]
    assert names == ["fusioninfer-pulumi", "fusioninfer-capacity", "pytest"]
    ignored = (TEMPLATES / "python" / ".gitignore").read_text().splitlines()
    assert {".pulumi/", ".venv/", "__pycache__/"} <= set(ignored)
    assert ".pulumi/" in (ROOT / ".gitignore").read_text().splitlines()


@pytest.mark.parametrize(
    ("version", "tag"), [("0.3.0.dev0", None), ("0.3.0", "v0.3.0")], ids=["dev", "released"]
)
def test_only_released_versions_are_pinned_by_tag(version: str, tag: str | None) -> None:
    assert format_release_tag(version) == tag
    source = describe_repository(revision=tag)
    core, capacity = source.requirements
    assert core == f"fusioninfer-pulumi @ {ADDRESS}" + (f"@{tag}" if tag else "")
    assert capacity == core.replace("pulumi @", "capacity @") + "#subdirectory=capacity"
    # Without a version Pulumi uses the latest tag, and for 0.0.0 the default branch.
    url = ADDRESS.removeprefix("git+")
    assert source.plugin == {"packages": {"fusioninfer": f"{url}@{tag or '0.0.0'}"}}


def test_install_commands_of_pages_name_where_the_packages_are() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *ROOT.glob("*/README.md")]
    lines = [line for path in pages for line in path.read_text(encoding="utf-8").splitlines()]
    installs = [line for line in lines if re.search("pip install.*fusioninfer", line)]
    assert len(installs) > 3
    assert [line for line in installs if (ADDRESS in line) is ON_PYPI] == []


def answered(value: Any) -> Any:
    """Return a YAML program's properties with config values substituted."""
    if isinstance(value, dict):
        return {key: answered(item) for key, item in value.items()}
    if isinstance(value, list):
        return [answered(item) for item in value]
    if isinstance(value, str):
        for key, answer in ANSWERS.items():
            if value == f"${{{key}}}":
                return int(answer) if answer.isdecimal() else answer
            value = value.replace(f"${{{key}}}", answer)
    return value


@pytest.mark.parametrize(
    "path", ["templates/yaml/Pulumi.yaml", "examples/yaml/Pulumi.yaml"], ids=["template", "example"]
)
def test_yaml_programs_service_has_a_plan(path: str) -> None:
    program = yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))
    (resource,) = program["resources"].values()
    assert resource["type"] == "fusioninfer:InferenceService"
    plan = plan_service(InferenceServiceArgs(**answered(resource["properties"])), "llm")
    assert plan.total_pods == 3


@pytest.mark.parametrize("name", ["python", "yaml"])
def test_template_asks_for_model_accelerator_and_replicas(name: str) -> None:
    project = yaml.safe_load((TEMPLATES / name / "Pulumi.yaml").read_text(encoding="utf-8"))
    assert list(project["template"]["config"]) == ["model", "accelerator", "replicas"]
    assert project["name"] == "${PROJECT}"
    if name == "yaml":
        assert set(project["config"]) == set(project["template"]["config"])
