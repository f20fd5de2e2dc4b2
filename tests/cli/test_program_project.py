"""Main files of projects, and rejected projects."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli.projects import PROGRAM, PROJECT, Folder

from fusioninfer_pulumi.cli.read_sources import is_project

UNREADABLE = (
    "but only Python and YAML programs are supported; run `pulumi preview`, or write the service "
    "as a manifest or a YAML program"
)


def test_main_may_be_a_subfolder(folder: Folder) -> None:
    folder.write("Pulumi.yaml", PROJECT + "main: src/\n")
    folder.write("src/settings.py", "NAME = 'sub'\n")
    folder.write(
        "src/__main__.py",
        PROGRAM
        + """
import os
import settings
cwd = os.path.basename(os.getcwd())
k8s.core.v1.ConfigMap("a", metadata={"name": settings.NAME}, data={"cwd": cwd})
""",
    )
    manifest = folder.run().objects[0]
    assert (manifest["metadata"]["name"], manifest["data"]["cwd"]) == ("sub", "src")


def test_main_may_be_a_file(folder: Folder) -> None:
    folder.write("Pulumi.yaml", PROJECT + "main: program.py\n")
    folder.reads(name="__name__")
    (folder.root / "__main__.py").rename(folder.root / "program.py")
    assert folder.data() == {"name": "__main__"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("name: a\nruntime: nodejs\n", f"Pulumi.yaml: runtime is nodejs, {UNREADABLE}"),
        ("name: a\nruntime: {name: go}\n", f"Pulumi.yaml: runtime is go, {UNREADABLE}"),
        ("name: a\n", f"Pulumi.yaml: runtime is missing, {UNREADABLE}"),
        ("runtime: python\n", "Pulumi.yaml: name is missing"),
        ("", "Pulumi.yaml: name is missing"),
        ("- a\n", "Pulumi.yaml: must be one YAML mapping"),
        ("name: a\nruntime: python\nmain: gone\n", "Pulumi.yaml: gone does not exist"),
        ("name: a\nruntime: python\n", "Pulumi.yaml: __main__.py does not exist"),
    ],
)
def test_project_that_cannot_run_has_a_message(folder: Folder, content: str, message: str) -> None:
    folder.write("Pulumi.yaml", content)
    assert folder.fails() == message


@pytest.mark.parametrize(
    "content", ["name: [\n", "name: !!python/name:os.system x\n", "a: 1\na: 2\n"]
)
def test_unreadable_project_file_has_a_one_line_message(folder: Folder, content: str) -> None:
    folder.write("Pulumi.yaml", content)
    message = folder.fails()
    assert message.startswith("Pulumi.yaml: ")
    assert len(message.splitlines()) == 1


def test_unreadable_stack_file_has_a_one_line_message(folder: Folder) -> None:
    folder.reads()
    (folder.root / "Pulumi.dev.yaml").write_bytes(b"\xff\xfe\xfa")
    assert folder.fails() == (
        "Pulumi.dev.yaml: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"
    )
    folder.write("Pulumi.dev.yaml", "config: text\n")
    assert folder.fails() == "Pulumi.dev.yaml: config must be a mapping"
    (folder.root / "Pulumi.dev.yaml").unlink()
    folder.write("Pulumi.yaml", f"{PROJECT}config: [a]\n")
    assert folder.fails() == "Pulumi.yaml: config must be a mapping"


def test_runtime_may_have_options(folder: Folder) -> None:
    folder.write("Pulumi.yaml", "name: app\nruntime:\n  name: python\n  options: {toolchain: uv}\n")
    folder.reads(name="pulumi.get_project()")
    assert folder.data() == {"name": "app"}


def test_folder_with_pulumi_yaml_is_a_project(tmp_path: Path) -> None:
    assert not is_project(tmp_path)
    assert not is_project(tmp_path / "gone")
    (tmp_path / "Pulumi.yml").write_text(PROJECT)
    assert is_project(tmp_path)
    assert not is_project(tmp_path / "Pulumi.yml")
