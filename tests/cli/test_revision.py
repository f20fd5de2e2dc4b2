"""`diff --base REF SOURCE`: a git revision against the working tree."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from fusioninfer_pulumi.cli.main import main

MANIFEST = """\
apiVersion: fusioninfer.io/v1alpha1
kind: InferenceService
metadata: {name: chat}
spec:
  roles:
    - name: serve
      componentType: worker
      replicas: 2
      template: {spec: {containers: [{name: vllm, image: "vllm/vllm-openai:v0.11.0"}]}}
"""
PROGRAM = """\
from pathlib import Path
from fusioninfer_pulumi import InferenceService, load
for args in load(Path(__file__).parent.parent / "chat.yaml"):
    InferenceService("chat", args)
"""


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=tests", "-c", "user.email=tests@example.invalid"]
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "chat.yaml").write_text(MANIFEST)
    project = tmp_path / "project"
    project.mkdir()
    (project / "Pulumi.yaml").write_text("name: chat\nruntime: python\n")
    (project / "__main__.py").write_text(PROGRAM)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "one")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_an_unchanged_source_is_no_difference(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diff", "--base", "HEAD", "chat.yaml"]) == 0
    assert capsys.readouterr().out == ""


def test_the_working_tree_is_the_new_side(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (repository / "chat.yaml").write_text(MANIFEST.replace("replicas: 2", "replicas: 3"))

    assert main(["diff", "--base", "HEAD", "chat.yaml"]) == 1

    assert "serve replicas 2 -> 3" in capsys.readouterr().out


def test_a_folder_of_manifests_is_read_in_its_revision(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (repository / "chat.yaml").write_text(MANIFEST.replace("replicas: 2", "replicas: 3"))
    (repository / "more.yaml").write_text("a: [1\n")

    assert main(["diff", "--base", "HEAD", "./"]) == 2
    assert capsys.readouterr().err.startswith("more.yaml: not YAML")
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "two")
    (repository / "more.yaml").unlink()

    assert main(["diff", "--base", "HEAD", "./"]) == 2
    assert capsys.readouterr().err.startswith("HEAD:./more.yaml: not YAML")
    assert main(["diff", "--base", "HEAD~1", "./"]) == 1
    assert "serve replicas 2 -> 3" in capsys.readouterr().out


def test_a_program_sees_the_files_of_its_own_revision(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (repository / "chat.yaml").write_text(MANIFEST.replace("v0.11.0", "v0.12.0"))

    assert main(["diff", "--base", "HEAD", "project"]) == 1

    assert "image changed: replicas serve-0, serve-1 restart" in capsys.readouterr().out


def test_what_did_not_exist_yet_is_added(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (repository / "more.yaml").write_text(MANIFEST.replace("name: chat", "name: more"))

    assert main(["diff", "--base", "HEAD", "more.yaml"]) == 1

    assert "+ LeaderWorkerSet more-serve-0" in capsys.readouterr().out


def test_problems_of_the_revision_name_it_and_no_temporary_folder(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (repository / "chat.yaml").write_text("kind: Nothing\n")
    git(repository, "commit", "-q", "-a", "-m", "two")
    (repository / "chat.yaml").write_text(MANIFEST)

    assert main(["diff", "--base", "HEAD", "chat.yaml"]) == 2

    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("HEAD:chat.yaml: apiVersion: is required")


@pytest.mark.parametrize("base", ["nowhere", "--output=/dev/null", "HEAD:chat.yaml"])
def test_what_is_no_commit_is_one_line(
    repository: Path, capsys: pytest.CaptureFixture[str], base: str
) -> None:
    assert main(["diff", f"--base={base}", "chat.yaml"]) == 2

    assert capsys.readouterr().err == f"{base}:chat.yaml: no such revision: {base}\n"


def test_a_folder_outside_of_git_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "chat.yaml"
    file.write_text(MANIFEST)

    assert main(["diff", "--base", "HEAD", str(file)]) == 2

    assert "not a git repository" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["chat.yaml"], ["--base", "HEAD", "chat.yaml", "chat.yaml"]])
def test_one_or_two_sources_are_asked_for(
    repository: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    assert main(["diff", *arguments]) == 2

    assert "wanted OLD NEW, or --base REF SOURCE" in capsys.readouterr().err
