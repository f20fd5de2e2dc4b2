"""`init`: projects that serve a model, in each language; what they deploy is one service."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from fusioninfer_pulumi import InferenceServiceArgs, model_service, plan_service, render
from fusioninfer_pulumi.cli.main import main
from fusioninfer_pulumi.cli.new_project import LANGUAGES

PAIR = ("deepseek-ai/DeepSeek-R1", "H200", "--prefill-decode")
ONE = ("Qwen/Qwen3-32B", "H100")


def made(folder: Path, language: str, words: tuple[str, ...] = ONE) -> Path:
    model, accelerator, *more = words
    arguments = ["--accelerator", accelerator, "--language", language, *more]
    assert main(["init", model, *arguments, "--directory", str(folder / "chat")]) == 0
    return folder / "chat"


def expected(words: tuple[str, ...]) -> list[dict[str, Any]]:
    """The objects that a project is to deploy."""
    model, accelerator, *pair = words
    more: dict[str, Any] = {}
    if pair:
        more = {"prefill_replicas": 1, "router": {"gateway": {}, "httproute": {}}}
    return list(render(plan_service(model_service(model, accelerator=accelerator, **more), "llm")))


def objects(properties: dict[str, Any]) -> list[dict[str, Any]]:
    return list(render(plan_service(InferenceServiceArgs(**properties), "llm")))


@pytest.mark.parametrize("words", [ONE, PAIR], ids=["one", "pair"])
def test_a_python_project_deploys_the_same(
    words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = made(tmp_path, "python", words)
    capsys.readouterr()
    assert main(["render", str(project), "--output", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["items"] == expected(words)


# That of a project with one role is the template's: tests/test_templates.py.
def test_a_python_project_of_two_roles_passes_its_own_test(tmp_path: Path) -> None:
    project = made(tmp_path, "python", PAIR)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


@pytest.mark.parametrize("words", [ONE, PAIR], ids=["one", "pair"])
def test_a_yaml_project_deploys_the_same(words: tuple[str, ...], tmp_path: Path) -> None:
    text = (made(tmp_path, "yaml", words) / "Pulumi.yaml").read_text(encoding="utf-8")
    program = yaml.safe_load(text)
    for key, declared in program["config"].items():
        text = text.replace(f"${{{key}}}", str(declared["default"]))
    (resource,) = yaml.safe_load(text)["resources"].values()
    assert objects(resource["properties"]) == expected(words)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_number_of_gpus_is_written(language: str, tmp_path: Path) -> None:
    project = made(tmp_path, language, ("team/chat", "H100", "--gpus", "4"))
    texts = "".join(path.read_text(encoding="utf-8") for path in project.iterdir())
    assert re.search(r"(?i)\bgpus\W.*4", texts)


def test_what_cannot_run_is_not_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["init", "team/chat", "--accelerator", "H100"]) == 2
    assert "roles[0].gpus: is required" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_files_of_others_stay(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["init", "Qwen/Qwen3-8B", "--accelerator", "H100"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "qwen3-8b/Pulumi.yaml"
    before = (tmp_path / "qwen3-8b" / "service.py").read_text(encoding="utf-8")
    assert main(["init", "Qwen/Qwen3-8B", "--accelerator", "L4"]) == 2
    assert "exists already" in capsys.readouterr().err
    assert (tmp_path / "qwen3-8b" / "service.py").read_text(encoding="utf-8") == before
