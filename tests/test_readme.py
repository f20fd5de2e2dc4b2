"""Links, pictures and make targets of the README exist."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest
from test_reference import tool

from fusioninfer_pulumi.cli.main import main

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # pytest depends on it

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
#: Files of the repository: links and pictures are relative, and work in a clone.
LINKED = re.findall(r"\]\((?![a-z]+:|#)([^)#]+)|(?:src|srcset)=\"([^\"]+)", README)
TARGETS = sorted(set(re.findall(r"(?:^|`)make (\w+)", README, re.MULTILINE)))


def test_links_lead_to_files() -> None:
    linked = [link or picture for link, picture in LINKED]
    assert len(linked) > 8
    assert [path for path in linked if not (ROOT / path).exists()] == []


def test_package_description_has_absolute_links() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    text = README
    for substitution in settings["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"][
        "substitutions"
    ]:
        text = re.sub(substitution["pattern"], substitution["replacement"], text)
    targets = re.findall(r"\]\(([^)]+)|(?:src|srcset)=\"([^\"]+)", text)
    assert len(targets) > 8
    assert [t for t in targets if not (t[0] or t[1]).startswith("https://")] == []


@pytest.mark.parametrize("target", TARGETS)
def test_make_target_exists_with_help(target: str) -> None:
    assert re.search(rf"^{target}:.*  ## [A-Z]", MAKEFILE, re.MULTILINE)


def test_demo_prints_plan(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    demo = MAKEFILE.partition("\ndemo:")[2].partition("\n\n")[0].splitlines()[1:]
    monkeypatch.chdir(ROOT)
    (line,) = (line.strip() for line in demo)
    assert main(shlex.split(line)[1:]) == 0
    assert "GPUS FREE" in capsys.readouterr().out


def test_pictures_are_up_to_date() -> None:
    for name, text in tool("pictures").pictures().items():
        path = ROOT / "docs" / "pictures" / name
        assert path.read_text(encoding="utf-8") == text, "make regenerate"


def test_llms_txt_is_up_to_date() -> None:
    assert tool("llms").TARGET.read_text(encoding="utf-8") == tool("llms").text(), "make regenerate"
