"""Links in a git revision, for `diff --base`."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli.revisions import MANIFEST, PROGRAM, git

from fusioninfer_pulumi.cli.main import main


def linked(repository: Path, name: str, target: str) -> None:
    link = repository / name
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(target)


@pytest.mark.parametrize("source", ["env", "env/svc.yaml", "again", "again/svc.yaml", "."])
def test_links_are_followed_in_the_revision(
    repository: Path, capsys: pytest.CaptureFixture[str], source: str
) -> None:
    linked(repository, "env/svc.yaml", "../chat.yaml")
    linked(repository, "again", "env")
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "two")

    assert main(["diff", "--base", "HEAD", source]) == 0, capsys.readouterr()
    (repository / "chat.yaml").write_text(MANIFEST.replace("replicas: 2", "replicas: 3"))
    assert main(["diff", "--base", "HEAD", source]) == 1

    printed = capsys.readouterr()
    assert "role serve: replicas 2 -> 3" in printed.out
    assert printed.err == ""


def test_link_has_its_target_of_the_revision(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (repository / "more.yaml").write_text(MANIFEST.replace("replicas: 2", "replicas: 3"))
    linked(repository, "env/svc.yaml", "../chat.yaml")
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "two")
    (repository / "env" / "svc.yaml").unlink()
    linked(repository, "env/svc.yaml", "../more.yaml")

    assert main(["diff", "--base", "HEAD", "env/svc.yaml"]) == 1

    assert "role serve: replicas 2 -> 3" in capsys.readouterr().out


def test_program_imports_linked_modules(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (repository / "shared").mkdir()
    (repository / "shared" / "held.py").write_text(PROGRAM.replace("parent.parent", "parents[2]"))
    (repository / "project" / "__main__.py").write_text("import linked.held\n")
    linked(repository, "project/linked", "../shared")
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "two")

    assert main(["diff", "--base", "HEAD", "project"]) == 0, capsys.readouterr()


@pytest.mark.parametrize("source", [".", "out.yaml"])
def test_link_out_of_the_repository_is_rejected(
    repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], source: str
) -> None:
    (tmp_path / "other.yaml").write_text(MANIFEST)
    linked(repository, "out.yaml", str(tmp_path / "other.yaml"))
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "two")

    assert main(["diff", "--base", "HEAD", source]) == 2

    assert "out.yaml is a link to a path outside the repository" in capsys.readouterr().err


def test_circular_links_are_ignored(repository: Path) -> None:
    linked(repository, "round", "round")
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "two")

    assert main(["diff", "--base", "HEAD", "."]) == 0
