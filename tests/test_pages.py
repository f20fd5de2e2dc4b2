"""Code blocks in the documentation run, and links lead to files."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import subprocess
import sys
from enum import Enum
from pathlib import Path

import pytest
import yaml
from page_blocks import ROOT, Block, blocks, commands, copy_template, edit, matches
from profiles import slow_unless

import fusioninfer_pulumi
from fusioninfer_pulumi.cli.main import main

PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
#: Programs on the reader's machine: their commands are not run here.
_READERS_PROGRAMS = {
    "source",
    "cd",
    "curl",
    "python",
    "docker",
    "export",
    "gh",
    "git",
    "glab",
    "helm",
    "kind",
    "kubectl",
    "make",
    "npm",
    "pip",
    "pulumi",
    "unset",
    "uv",
}


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def is_fast(page: Path) -> bool:
    """Return whether few blocks of a page are programs or long commands."""
    return page.parent.name != "how-to" and page.name not in ("placement.md", "tutorial.md")


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_to_files(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "how-to").glob("*.md")), ids=name)
def test_guide_answers_one_question_in_400_words(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text.partition("\n")[0].endswith("?")
    assert len(text.split()) <= 400


def test_python_page_lists_every_public_name() -> None:
    page = (ROOT / "docs" / "reference" / "python.md").read_text(encoding="utf-8")
    shown = {line.rpartition(".")[2] for line in page.splitlines() if line.startswith(":::")}
    public = {name: getattr(fusioninfer_pulumi, name) for name in fusioninfer_pulumi.__all__}
    on_fields_page = {
        name
        for name, value in public.items()
        if name.endswith(("Args", "ArgsDict"))
        or (isinstance(value, type) and issubclass(value, Enum) and name not in shown)
    }
    assert shown | on_fields_page == set(public)


@pytest.mark.parametrize("page", slow_unless(is_fast, PAGES), ids=name)
def test_code_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write files, run commands, and check fragments within a valid service."""
    monkeypatch.chdir(tmp_path)
    for block in blocks(page):
        _CHECKS[block.language](block)


def _file(block: Block) -> None:
    if block.part_of:
        _fragment(block)
        return
    assert block.title, f"{block}: a file has a title"
    path = Path(block.title)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(block.text, encoding="utf-8")


def _program(block: Block) -> None:
    """Write a program; run its tests, or check the services of a Pulumi project."""
    if block.part_of:
        compile(block.text, str(block), "exec")
        return
    _file(block)
    if Path(block.title).name == "__main__.py":
        folder = Path(block.title).parent
        project = folder / "Pulumi.yaml"
        is_shown = project.exists()
        if not is_shown:
            project.write_text("name: app\nruntime: python\n", encoding="utf-8")
        assert _run(f"fusioninfer-pulumi check {folder}") == [], block
        if not is_shown:  # a command of the page fails on this folder, as it does for readers
            project.unlink()
    elif Path(block.title).name.startswith("test_"):
        command = [sys.executable, "-m", "unittest", block.title]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert ran.returncode == 0, (str(block), ran.stderr)
        assert "Ran 0 tests" not in ran.stderr, block


def _manifest(block: Block) -> None:
    """Check a manifest. It may be invalid if the page shows its error."""
    _file(block)
    if not block.part_of and "kind: InferenceService" in block.text:
        page = Path(ROOT / block.page).read_text(encoding="utf-8")
        shown = re.search(rf"^{re.escape(block.title)}(:\d+)?: ", page, re.MULTILINE)
        _run(f"fusioninfer-pulumi check {shlex.quote(block.title)}", status=None if shown else 0)


def _fragment(block: Block) -> None:
    """Check a fragment as part of a service that is valid without it."""
    part = yaml.safe_load(block.text)
    role = {
        "name": "inference",
        "componentType": "worker",
        "template": {
            "spec": {
                "containers": [
                    {
                        "name": "vllm",
                        "image": "vllm/vllm-openai:v0.11.0",
                        "args": ["--model", "Qwen/Qwen3-8B"],
                        "resources": {"limits": {"nvidia.com/gpu": "8"}},
                    }
                ]
            }
        },
    }
    spec = {"roles": [role]}
    if block.part_of in {"spec", "spec.model"}:
        if block.part_of == "spec.model":
            part = {"model": {"uri": "hf://Qwen/Qwen3-8B", **part}}
        if "model" in part and "roles" not in part:
            role["template"]["spec"]["containers"][0].pop("args")  # the model is named once
        spec.update(part)
    elif block.part_of == "roles":
        spec["roles"] += part
    elif " " in block.part_of:
        return  # part of something else
    else:
        assert re.fullmatch(r"roles\[0\]", block.part_of), f"{block}: unknown field"
        role.update(part)
    manifest = {
        "apiVersion": "fusioninfer.io/v1alpha1",
        "kind": "InferenceService",
        "metadata": {"name": "fragment"},
        "spec": spec,
    }
    Path("fragment.yaml").write_text(yaml.safe_dump(manifest), encoding="utf-8")
    _run("fusioninfer-pulumi check fragment.yaml", status=0)


def _console(block: Block) -> None:
    result = list(commands(block))
    assert result, f"{block}: no command"
    for command in result:
        if command.line.startswith(("pulumi ", "export ", "make ")):
            _imitate_pulumi(shlex.split(command.line))
            continue
        printed = _run(command.line, status=None)
        assert matches(command.printed, printed), (str(block), command.line, printed)


def _imitate_pulumi(words: list[str]) -> None:
    """Write the files that a Pulumi command writes; end-to-end tests run the real one."""
    if words[:2] == ["pulumi", "new"]:
        copy_template(words, Path())
    elif words[:3] == ["pulumi", "config", "set"]:
        project = yaml.safe_load(Path("Pulumi.yaml").read_text(encoding="utf-8"))["name"]
        path = Path("Pulumi.dev.yaml")
        text = path.read_text(encoding="utf-8") if path.exists() else "{}"
        config = yaml.safe_load(text).get("config", {})
        written = {"config": {**config, f"{project}:{words[3]}": words[4]}}
        path.write_text(yaml.safe_dump(written), encoding="utf-8")


def _check_form(block: Block) -> None:
    """Check commands that are not run: known programs, subcommands and make targets."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for line in block.text.replace("\\\n", " ").splitlines():
        words = shlex.split(line.removeprefix("sudo "), comments=True)
        if not words:
            continue
        program = Path(words[0]).name
        assert program in {"fusioninfer-pulumi", *_READERS_PROGRAMS}, f"{block}: {line}"
        if program == "make" and len(words) > 1:
            assert re.search(rf"^{words[1]}:", makefile, re.MULTILINE), f"{block}: {line}"
        if program == "fusioninfer-pulumi":
            with contextlib.redirect_stdout(io.StringIO()):
                assert main([words[1], "--help"]) == 0, f"{block}: {line}"


def _skip(block: Block) -> None:
    """Skip other languages and text."""


def _run(line: str, status: int | None = 0) -> list[str]:
    """Run a command; return the lines of standard output, then of standard error."""
    if line.startswith(("cat ", "sed ")):
        shown = subprocess.run(line, shell=True, check=True, capture_output=True, text=True)
        return shown.stdout.splitlines()
    words = shlex.split(line)
    target = words[words.index(">") + 1] if ">" in words else None
    words = words[: words.index(">")] if target else words
    assert words[0] == "fusioninfer-pulumi", line
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(words[1:])
    assert status is None or code == status, (line, err.getvalue())
    if target:
        Path(target).write_text(out.getvalue(), encoding="utf-8")
    return [*([] if target else out.getvalue().splitlines()), *err.getvalue().splitlines()]


_CHECKS = {
    "yaml": _manifest,
    "python": _program,
    "console": _console,
    "bash": _check_form,
    "diff": lambda block: edit(block, Path()),
    **dict.fromkeys(
        ("text", "toml", "json", "typescript", "go", "csharp", "java", "mermaid"), _skip
    ),
}
