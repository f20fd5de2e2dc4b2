"""What the README shows is what happens."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from fusioninfer_pulumi.cli.main import main
from fusioninfer_pulumi.cli.program import ProgramError, run_program

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
(PROGRAM,) = [text for language, text in BLOCKS if language == "python"]


def commands() -> Iterator[str]:
    """Lines of the README and of `make demo` that need neither a cluster nor the Pulumi CLI."""
    for language, text in BLOCKS:
        if language == "bash":
            yield from (line.partition("#")[0].strip() for line in text.splitlines())
    demo = MAKEFILE.partition("\ndemo:")[2].partition("\n\n")[0]
    yield from (line.strip() for line in demo.splitlines()[1:])


OURS = sorted({line for line in commands() if "fusioninfer-pulumi " in line})
TARGETS = sorted({line.split()[1] for line in commands() if line.startswith("make ")})


def project(folder: Path, program: str) -> Path:
    (folder / "Pulumi.yaml").write_text("name: app\nruntime: python\n")
    (folder / "__main__.py").write_text(program)
    return folder


def test_the_program_prints_what_the_readme_says(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run_program(project(tmp_path, PROGRAM))
    (printed,) = re.findall(r"^prints `([^`]*)`", README, re.MULTILINE)
    assert capfd.readouterr().err == f"{printed}\n"


def test_the_program_is_refused_as_the_readme_says(tmp_path: Path) -> None:
    more = ', "--tensor-parallel-size", "4"'
    assert more.strip(", ") in README
    changed = PROGRAM.replace('"Qwen/Qwen3-8B"', f'"Qwen/Qwen3-8B"{more}')
    with pytest.raises(ProgramError) as caught:
        run_program(project(tmp_path, changed))
    told = str(caught.value).splitlines()[0].removeprefix("InvalidServiceError: ")
    shown = README.partition("stop at preview instead")[2].partition("```text\n")[2]
    assert " ".join(shown.partition("\n```")[0].split()) == told


@pytest.mark.parametrize("line", OURS)
def test_a_command_works_as_shown(
    line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    assert main(shlex.split(line)[1:]) == 0
    assert capsys.readouterr().out


def test_commands_were_found() -> None:
    assert len(OURS) >= 4
    assert {"demo", "test", "setup"} <= set(TARGETS)


@pytest.mark.parametrize("target", TARGETS)
def test_a_make_target_exists_and_explains_itself(target: str) -> None:
    assert re.search(rf"^{target}:.*  ## [A-Z]", MAKEFILE, re.MULTILINE)


def test_links_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
