"""Errors of programs that fail."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from cli.projects import explain, frames, messages

from fusioninfer_pulumi.cli.program.recording import Recording
from fusioninfer_pulumi.findings import InvalidServiceError

Fails = Callable[[str], InvalidServiceError]


@pytest.fixture
def fails(run: Callable[[str], Recording]) -> Fails:
    def call(program: str) -> InvalidServiceError:
        with pytest.raises(InvalidServiceError) as caught:
            run(textwrap.dedent(program).lstrip())
        return caught.value

    return call


def test_only_the_users_frames_are_shown(fails: Fails, tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "build.py").write_text(
        "def build(size):\n    raise ValueError('size is wrong')\n"
    )
    problem = fails(
        """
        import json
        from parts.build import build
        json.loads("{}", object_hook=build)
        """
    )
    assert explain(problem).splitlines() == [
        "ValueError: size is wrong",
        "  __main__.py:5",
        "  parts/build.py:2 in build",
    ]
    assert messages(problem) == ("ValueError: size is wrong",)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("sys.exit(3)", "SystemExit: 3"),
        ('sys.exit("no models")', "SystemExit: no models"),
        ("pulumi.Output.from_input(1).apply(lambda _: sys.exit(3))", "SystemExit: 3"),
    ],
)
def test_sys_exit_with_failure_is_reported(fails: Fails, call: str, message: str) -> None:
    assert messages(fails(f"import sys\n{call}")) == (message,)


def test_sys_exit_with_success_ends_the_program(run: Callable[[str], Recording]) -> None:
    program = "import sys\nk8s.core.v1.ConfigMap('a', metadata={'name': 'a'})\nsys.exit(0)\n"
    assert len(run(program).objects) == 1


def test_syntax_error_names_the_place(fails: Fails) -> None:
    problem = fails("value = (\nother = 1 +\n")
    (line,) = messages(problem)
    assert line.startswith("SyntaxError: ")
    assert "(__main__.py, line " in line
    assert str(frames(problem)).count("/") == 0


def test_syntax_error_in_imported_module_names_it(fails: Fails, tmp_path: Path) -> None:
    (tmp_path / "settings.py").write_text("x =\n")
    problem = fails("import settings")
    assert messages(problem) == ("SyntaxError: invalid syntax (settings.py, line 1)",)
    assert frames(problem) == ("__main__.py:3",)


def test_deep_recursion_is_trimmed(fails: Fails) -> None:
    problem = fails("def again():\n    again()\n\nagain()\n")
    assert messages(problem)[0].startswith("RecursionError: ")
    assert len(frames(problem)) == 8
