"""`init` creates the same service in each language."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import sysconfig
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from fusioninfer_pulumi import InferenceServiceArgs, model_service, plan_service, render
from fusioninfer_pulumi.cli import new_project
from fusioninfer_pulumi.cli.main import main
from fusioninfer_pulumi.cli.new_project import TEMPLATE, read_installation

LANGUAGES = ("python", "yaml")
PAIR = ("deepseek-ai/DeepSeek-R1", "H200", "--prefill-decode")
ONE = ("Qwen/Qwen3-32B", "H100")


def init(folder: Path, language: str, words: tuple[str, ...] = ONE) -> Path:
    model, accelerator, *more = words
    arguments = ["--accelerator", accelerator, "--language", language, *more]
    assert main(["init", model, *arguments, "--directory", str(folder / "chat")]) == 0
    return folder / "chat"


def expected(words: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return the objects that a project must deploy."""
    model, accelerator, *pair = words
    more: dict[str, Any] = {}
    if pair:
        more = {"prefill_replicas": 1, "router": {"gateway": {}, "httproute": {}}}
    return list(render(plan_service(model_service(model, accelerator=accelerator, **more), "llm")))


def objects(properties: dict[str, Any]) -> list[dict[str, Any]]:
    return list(render(plan_service(InferenceServiceArgs(**properties), "llm")))


@pytest.mark.parametrize("words", [ONE, PAIR], ids=["one", "pair"])
def test_python_project_deploys_the_same(
    words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = init(tmp_path, "python", words)
    capsys.readouterr()
    assert main(["render", str(project), "--output", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["items"] == expected(words)


# tests/test_templates.py runs the test of a project with one role.
@pytest.mark.slow
def test_python_project_of_two_roles_passes_its_own_test(tmp_path: Path) -> None:
    project = init(tmp_path, "python", PAIR)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


@pytest.mark.parametrize("words", [ONE, PAIR], ids=["one", "pair"])
def test_yaml_project_deploys_the_same(words: tuple[str, ...], tmp_path: Path) -> None:
    text = (init(tmp_path, "yaml", words) / "Pulumi.yaml").read_text(encoding="utf-8")
    program = yaml.safe_load(text)
    for key, declared in program["config"].items():
        text = text.replace(f"${{{key}}}", str(declared["default"]))
    (resource,) = yaml.safe_load(text)["resources"].values()
    assert objects(resource["properties"]) == expected(words)


@pytest.mark.parametrize("language", LANGUAGES)
def test_gpus_option_is_in_the_project(language: str, tmp_path: Path) -> None:
    project = init(tmp_path, language, ("team/chat", "H100", "--gpus", "4"))
    texts = "".join(path.read_text(encoding="utf-8") for path in project.iterdir())
    assert re.search(r"(?i)\bgpus\W.*4", texts)


def test_invalid_service_writes_no_project(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["init", "team/chat", "--accelerator", "H100"]) == 2
    printed = capsys.readouterr().err
    assert "gpus: is required: the number of GPUs per pod, because the model" in printed
    assert list(tmp_path.iterdir()) == []


def test_warnings_are_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    init(tmp_path, "yaml", ("Qwen/Qwen3-32", "H100", "--gpus", "2"))
    assert "did you mean Qwen/Qwen3-32B?" in capsys.readouterr().err


def test_existing_files_are_not_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["init", "Qwen/Qwen3-8B", "--accelerator", "H100"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "qwen3-8b/Pulumi.yaml"
    before = (tmp_path / "qwen3-8b" / "service.py").read_text(encoding="utf-8")
    assert main(["init", "Qwen/Qwen3-8B", "--accelerator", "L4"]) == 2
    assert "already exists" in capsys.readouterr().err
    assert (tmp_path / "qwen3-8b" / "service.py").read_text(encoding="utf-8") == before


def test_dangling_link_is_not_written_through(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "chat").mkdir()
    (tmp_path / "chat" / "service.py").symlink_to(tmp_path / "outside")
    words = ["init", *ONE[:1], "--accelerator", "H100", "--directory", str(tmp_path / "chat")]
    assert main(words) == 2
    assert "already exists" in capsys.readouterr().err
    assert not (tmp_path / "outside").exists()


SPECIAL_CHARACTERS = 'x", replicas=print("injected"), namespace="y: #\\'


def test_arguments_are_quoted_in_python(tmp_path: Path) -> None:
    project = init(tmp_path, "python", ("team/chat", SPECIAL_CHARACTERS, "--gpus", "1"))
    tree = ast.parse((project / "test_service.py").read_text(encoding="utf-8"))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    (call,) = (entry for entry in calls if ast.unparse(entry.func) == "service_args")
    keywords = {entry.arg: ast.literal_eval(entry.value) for entry in call.keywords}
    assert keywords == {"accelerator": SPECIAL_CHARACTERS, "replicas": 3}


@pytest.mark.parametrize("language", LANGUAGES)
def test_arguments_are_quoted_in_yaml(language: str, tmp_path: Path) -> None:
    project = init(tmp_path, language, ("team/chat", SPECIAL_CHARACTERS, "--gpus", "1"))
    config = yaml.safe_load((project / "Pulumi.yaml").read_text(encoding="utf-8"))["config"]
    assert config["accelerator"] == {"default": SPECIAL_CHARACTERS}


@pytest.mark.parametrize(
    ("model", "name", "uri"),
    [
        ("hf://Qwen/Qwen3-32B", "Qwen/Qwen3-32B", "hf://${model}"),
        ("s3://models/chat", "s3://models/chat", "${model}"),
    ],
)
def test_scheme_of_the_model_is_written_once(
    model: str, name: str, uri: str, tmp_path: Path
) -> None:
    project = init(tmp_path, "yaml", (model, "H100", "--gpus", "1"))
    program = yaml.safe_load((project / "Pulumi.yaml").read_text(encoding="utf-8"))
    assert program["config"]["model"] == {"default": name}
    assert program["resources"]["llm"]["properties"]["model"] == {"uri": uri}


def test_templates_and_init_have_the_same_replicas(tmp_path: Path) -> None:
    program = yaml.safe_load((init(tmp_path, "yaml") / "Pulumi.yaml").read_text(encoding="utf-8"))
    assert program["config"]["replicas"]["default"] == TEMPLATE.defaults["replicas"]


# Requirements that a project installs.

COMMIT = "0123456789abcdef0123456789abcdef01234567"
URL = "https://git.example.com/llm"


def git(requested: str | None, url: str = URL) -> dict[str, Any]:
    revision = {} if requested is None else {"requested_revision": requested}
    return {"url": url, "vcs_info": {"vcs": "git", "commit_id": COMMIT, **revision}}


def editable(folder: str) -> dict[str, Any]:
    return {"url": f"file:///src/{folder}", "dir_info": {"editable": True}}


def wheel(name: str) -> dict[str, Any]:
    return {"url": f"file:///wheels/{name}.whl", "archive_info": {}}


@pytest.mark.parametrize(
    ("tag", "core", "capacity", "expected"),
    [
        (None, git("main"), None,
         [f"fusioninfer-pulumi @ git+{URL}@{COMMIT}",
          f"fusioninfer-capacity @ git+{URL}@{COMMIT}#subdirectory=capacity"]),
        ("v1.2.0", git("v1.2.0"), None,
         [f"fusioninfer-pulumi @ git+{URL}@v1.2.0",
          f"fusioninfer-capacity @ git+{URL}@v1.2.0#subdirectory=capacity"]),
        # The tag may not exist between the release's commit and its tag, or after it.
        ("v1.2.0", git("main"), None,
         [f"fusioninfer-pulumi @ git+{URL}@{COMMIT}",
          f"fusioninfer-capacity @ git+{URL}@{COMMIT}#subdirectory=capacity"]),
        (None, editable("llm"), editable("llm/capacity"),
         ["-e file:///src/llm", "-e file:///src/llm/capacity"]),
        (None, wheel("core"), wheel("capacity"),
         ["fusioninfer-pulumi @ file:///wheels/core.whl",
          "fusioninfer-capacity @ file:///wheels/capacity.whl"]),
        (None, {}, {}, ["fusioninfer-pulumi==1.2", "fusioninfer-capacity==1.2"]),
        (None, {}, None, ["fusioninfer-pulumi==1.2"]),
    ],
    ids=["commit", "tag", "release without its tag", "editable", "wheels", "index", "core alone"],
)  # fmt: skip
def test_project_installs_what_is_installed(
    tag: str | None,
    core: dict[str, Any],
    capacity: dict[str, Any] | None,
    expected: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    records = {"fusioninfer-pulumi": core, "fusioninfer-capacity": capacity}

    def distribution(name: str) -> Any:
        record = records[name]
        if record is None:
            raise PackageNotFoundError(name)
        text = json.dumps(record) if record else None
        return SimpleNamespace(version="1.2", read_text=lambda _: text)

    monkeypatch.setattr(new_project, "distribution", distribution)
    monkeypatch.setattr(new_project, "RELEASE_TAG", tag)
    source = read_installation()
    assert [line for line in source.requirements if not line.startswith("#")] == expected
    scripts = {"name": "fusioninfer", "path": sysconfig.get_path("scripts")}
    plugin: dict[str, Any] = {"plugins": {"providers": [scripts]}}
    if "vcs_info" in core:
        plugin = {"packages": {"fusioninfer": f"{URL}@{expected[0].rpartition('@')[2]}"}}
    assert source.plugin == plugin


def test_plugin_of_a_repository_behind_ssh_is_the_installed_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Pulumi clones plugins by https only.
    text = json.dumps(git("main", "ssh://git@git.example.com/llm"))
    monkeypatch.setattr(
        new_project, "distribution", lambda _: SimpleNamespace(read_text=lambda _: text)
    )
    assert list(read_installation().plugin) == ["plugins"]
