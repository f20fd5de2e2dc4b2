"""The README's links and pictures are there, and its commands are the Makefile's."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from test_reference import tool

from fusioninfer_pulumi.cli.main import main

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
#: Addresses of files of the repository: PyPI shows the README without them beside it.
ADDRESS = re.compile(
    r"https://(?:raw\.githubusercontent\.com/fusioninfer/fusioninfer-pulumi"
    r"|github\.com/fusioninfer/fusioninfer-pulumi/(?:blob|tree))/main/([\w./-]+)"
)
TARGETS = sorted(set(re.findall(r"(?:^|`)make (\w+)", README, re.MULTILINE)))


def test_links_are_absolute_and_lead_to_files() -> None:
    linked = ADDRESS.findall(README)
    assert len(linked) > 8
    assert [path for path in linked if not (ROOT / path).exists()] == []
    assert [each for each in re.findall(r"\]\(([^)]+)\)", README) if "://" not in each] == []


@pytest.mark.parametrize("target", TARGETS)
def test_a_make_target_exists_and_explains_itself(target: str) -> None:
    assert re.search(rf"^{target}:.*  ## [A-Z]", MAKEFILE, re.MULTILINE)


def test_the_demo_shows_the_plan(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    demo = MAKEFILE.partition("\ndemo:")[2].partition("\n\n")[0].splitlines()[1:]
    monkeypatch.chdir(ROOT)
    (line,) = (line.strip() for line in demo)
    assert main(shlex.split(line)[1:]) == 0
    assert "GPUS FREE" in capsys.readouterr().out


def test_the_pictures_are_of_this_code() -> None:
    for name, text in tool("pictures").pictures().items():
        path = ROOT / "docs" / "pictures" / name
        assert path.read_text(encoding="utf-8") == text, "make regenerate"
