"""`diff --base REF SOURCE` compares a git revision with the working tree."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from cli.revisions import MANIFEST, PROGRAM, git
from printed_findings import without_rules

from fusioninfer_pulumi.cli.main import main


def test_unchanged_source_does_not_differ(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diff", "--base", "HEAD", "chat.yaml"]) == 0
    assert capsys.readouterr().out == ""


def test_working_tree_is_the_new_side(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (repository / "chat.yaml").write_text(MANIFEST.replace("replicas: 2", "replicas: 3"))

    assert main(["diff", "--base", "HEAD", "chat.yaml"]) == 1

    assert "role serve: replicas 2 -> 3" in capsys.readouterr().out


def test_folder_of_manifests_is_read_in_its_revision(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (repository / "chat.yaml").write_text(MANIFEST.replace("replicas: 2", "replicas: 3"))
    (repository / "more.yaml").write_text("a: [1\n")

    assert main(["diff", "--base", "HEAD", "./"]) == 2
    assert capsys.readouterr().err.startswith("more.yaml:2: invalid YAML")
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "two")
    (repository / "more.yaml").unlink()

    assert main(["diff", "--base", "HEAD~1", "./"]) == 1
    assert "role serve: replicas 2 -> 3" in capsys.readouterr().out


def test_program_reads_the_files_of_its_revision(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (repository / "chat.yaml").write_text(MANIFEST.replace("v0.11.0", "v0.12.0"))

    assert main(["diff", "--base", "HEAD", "project"]) == 1

    assert "image changed: restarts serve-0, serve-1" in capsys.readouterr().out


def test_source_missing_in_the_revision_is_added(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (repository / "more.yaml").write_text(MANIFEST.replace("name: chat", "name: more"))

    assert main(["diff", "--base", "HEAD", "more.yaml"]) == 1

    assert "+ LeaderWorkerSet more-serve-0" in capsys.readouterr().out


def test_change_may_fix_an_invalid_base(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = MANIFEST.replace("name: chat", "name: more")
    (repository / "more.yaml").write_text(other)
    (repository / "chat.yaml").write_text(MANIFEST + "  rollout: {maxUnavailable: 0}\n")
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "two")
    (repository / "chat.yaml").write_text(MANIFEST)
    (repository / "more.yaml").write_text(other.replace("replicas: 2", "replicas: 3"))

    # Findings of the base do not fail the command, even with --strict.
    assert main(["diff", "--strict", "--base", "HEAD", "."]) == 1

    printed = capsys.readouterr()
    shown = without_rules(printed.err)
    assert "HEAD:./chat.yaml: warning: rollout.maxUnavailable: must be at least 1" in shown
    assert "  * warning: parts of HEAD:. have errors and are ignored; " in printed.out
    assert "+ LeaderWorkerSet chat-serve-0" in printed.out
    # Readable documents are compared.
    assert "more: role serve: replicas 2 -> 3" in printed.out
    assert "+ LeaderWorkerSet more-serve-0" not in printed.out


def test_change_may_fix_a_failing_program(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main_file = repository / "project" / "__main__.py"
    main_file.write_text("raise RuntimeError('bad')\n")
    git(repository, "commit", "-q", "-a", "-m", "two")
    main_file.write_text(PROGRAM)

    assert main(["diff", "--base", "HEAD", "project"]) == 1

    printed = capsys.readouterr()
    assert printed.err.startswith("HEAD:project: warning: ")
    assert "service chat added" in printed.out


def test_invalid_source_is_rejected(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (repository / "old.yaml").write_text(MANIFEST + "  rollout: {maxUnavailable: 0}\n")

    assert main(["diff", "old.yaml", "chat.yaml"]) == 2

    shown = without_rules(capsys.readouterr().err)
    assert shown.startswith("old.yaml: rollout.maxUnavailable: must be")


@pytest.mark.parametrize("source", ["chat.yaml", ".", "project"])
def test_source_missing_in_the_working_tree_is_removed(
    repository: Path, capsys: pytest.CaptureFixture[str], source: str
) -> None:
    (repository / "project" / "Pulumi.yaml").unlink()
    if source != "project":  # whose program reads it
        (repository / "chat.yaml").unlink()

    assert main(["diff", "--base", "HEAD", source]) == 1

    printed = capsys.readouterr()
    assert printed.err == ""
    assert "service chat removed (3 objects)" in printed.out


def test_source_missing_on_both_sides_is_an_error(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diff", "--base", "HEAD", "nothing.yaml"]) == 2

    assert capsys.readouterr().err == (
        "nothing.yaml: cannot be read: No such file or directory [unreadable-file]\n"
    )


def test_removed_source_with_an_unreadable_base_is_a_difference(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (repository / "chat.yaml").write_text("kind: Nothing\n")
    git(repository, "commit", "-q", "-a", "-m", "two")
    (repository / "chat.yaml").unlink()

    assert main(["diff", "--base", "HEAD", "chat.yaml"]) == 1

    printed = capsys.readouterr()
    # Messages have the path from the command line, not the temporary folder.
    assert without_rules(printed.err).startswith("HEAD:chat.yaml: warning: apiVersion: is required")
    assert printed.out.startswith(
        "objects: none changed\n\n  * warning: parts of HEAD:chat.yaml have errors and are ignored"
    )


@pytest.mark.parametrize("base", ["nowhere", "--output=/dev/null", "HEAD:chat.yaml"])
def test_unknown_revision_is_reported_in_one_line(
    repository: Path, capsys: pytest.CaptureFixture[str], base: str
) -> None:
    assert main(["diff", f"--base={base}", "chat.yaml"]) == 2

    printed = f"{base}:chat.yaml: no such revision: {base} [unreadable-revision]\n"
    assert capsys.readouterr().err == printed


def test_unknown_revision_of_folder_is_reported_without_trailing_slash(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diff", "--base=nowhere", "./"]) == 2

    printed = "nowhere:.: no such revision: nowhere [unreadable-revision]\n"
    assert capsys.readouterr().err == printed


def test_folder_outside_of_git_is_reported_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "chat.yaml"
    file.write_text(MANIFEST)

    assert main(["diff", "--base", "HEAD", str(file)]) == 2

    assert "not a git repository" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["chat.yaml"], ["--base", "HEAD", "chat.yaml", "chat.yaml"]])
def test_diff_needs_two_sources_or_a_base(
    repository: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    assert main(["diff", *arguments]) == 2

    assert "expected OLD NEW, or --base REF SOURCE" in capsys.readouterr().err


def test_files_excluded_from_archives_are_checked_out(repository: Path) -> None:
    (repository / ".gitattributes").write_text("chat.yaml export-ignore\n")
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "two")

    assert main(["diff", "--base", "HEAD", "chat.yaml"]) == 0


def test_repository_is_not_changed(repository: Path) -> None:
    (repository / "chat.yaml").write_text(MANIFEST.replace("replicas: 2", "replicas: 3"))
    git(repository, "add", "chat.yaml")
    (repository / "chat.yaml").write_text(MANIFEST.replace("replicas: 2", "replicas: 4"))
    requests = ["git", "status", "--porcelain=v2"]
    before = subprocess.run(requests, check=True, capture_output=True).stdout

    assert main(["diff", "--base", "HEAD", "chat.yaml"]) == 1

    assert subprocess.run(requests, check=True, capture_output=True).stdout == before
    assert (repository / "chat.yaml").read_text() == MANIFEST.replace("replicas: 2", "replicas: 4")
