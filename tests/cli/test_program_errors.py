"""How a program that fails is reported."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from cli.projects import frames, messages

from fusioninfer_pulumi.cli.program import ProgramError, run_program

Fails = Callable[[str], ProgramError]


@pytest.fixture
def fails(tmp_path: Path) -> Fails:
    def call(program: str) -> ProgramError:
        (tmp_path / "Pulumi.yaml").write_text("name: app\nruntime: python\n")
        head = "import pulumi\nimport pulumi_kubernetes as k8s\n"
        (tmp_path / "__main__.py").write_text(head + textwrap.dedent(program).lstrip())
        with pytest.raises(ProgramError) as caught:
            run_program(tmp_path)
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
    assert str(problem).splitlines() == [
        "ValueError: size is wrong",
        "  __main__.py:5",
        "  parts/build.py:2 in build",
    ]
    assert messages(problem) == ("ValueError: size is wrong",)


def test_all_lines_of_a_message_are_kept(fails: Fails) -> None:
    problem = fails(
        """
        class Invalid(ValueError):
            pass

        raise Invalid("a: wrong\\nb: wrong too")
        """
    )
    assert messages(problem) == ("Invalid: a: wrong", "b: wrong too")


def test_exception_without_message(fails: Fails) -> None:
    assert messages(fails("raise KeyboardError if False else RuntimeError")) == ("RuntimeError",)


def test_failure_in_an_apply(fails: Fails) -> None:
    problem = fails(
        """
        made = k8s.core.v1.ConfigMap("a", metadata={"name": "a"})
        made.metadata.apply(lambda metadata: 1 / 0)
        """
    )
    assert messages(problem) == ("ZeroDivisionError: division by zero",)
    assert "__main__.py:4 in <lambda>" in frames(problem)[-1]


def test_failure_after_registrations(fails: Fails) -> None:
    problem = fails(
        """
        for index in range(20):
            k8s.core.v1.ConfigMap(f"a{index}", metadata={"name": f"a{index}"})
        raise RuntimeError("late")
        """
    )
    assert messages(problem) == ("RuntimeError: late",)


def test_run_error_has_no_traceback(fails: Fails) -> None:
    problem = fails('raise pulumi.RunError("not today")')
    assert str(problem) == "not today"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("sys.exit(3)", "the program called sys.exit(3)"),
        ('sys.exit("no models")', "SystemExit: no models"),
        (
            "pulumi.Output.from_input(1).apply(lambda _: sys.exit(3))",
            "the program called sys.exit(3)",
        ),
    ],
)
def test_sys_exit(fails: Fails, call: str, message: str) -> None:
    assert messages(fails(f"import sys\n{call}")) == (message,)


def test_sys_exit_with_success_ends_the_program(tmp_path: Path) -> None:
    (tmp_path / "Pulumi.yaml").write_text("name: app\nruntime: python\n")
    (tmp_path / "__main__.py").write_text(
        "import sys, pulumi_kubernetes as k8s\n"
        "k8s.core.v1.ConfigMap('a', metadata={'name': 'a'})\n"
        "sys.exit(0)\n"
    )
    assert len(run_program(tmp_path).resources) == 1


def test_syntax_error_names_the_place(fails: Fails) -> None:
    problem = fails("value = (\nother = 1 +\n")
    (line,) = messages(problem)
    assert line.startswith("SyntaxError: ")
    assert "(__main__.py:" in line
    assert str(frames(problem)).count("/") == 0


def test_syntax_error_in_a_module(fails: Fails, tmp_path: Path) -> None:
    (tmp_path / "settings.py").write_text("x =\n")
    problem = fails("import settings")
    assert messages(problem) == ("SyntaxError: invalid syntax (settings.py:1)",)
    assert frames(problem) == ("__main__.py:3",)


def test_missing_package_says_where_it_is_missing(fails: Fails) -> None:
    (line,) = messages(fails("import package_that_is_not_there"))
    assert line == (
        "ModuleNotFoundError: No module named 'package_that_is_not_there'; "
        "the program runs in the Python environment of fusioninfer-pulumi"
    )


def test_two_resources_of_one_name(fails: Fails) -> None:
    problem = fails(
        """
        for _ in range(2):
            k8s.core.v1.ConfigMap("twin", metadata={"name": "twin"})
        """
    )
    assert str(problem) == (
        "Duplicate resource URN 'urn:pulumi:dev::app::kubernetes:core/v1:ConfigMap::twin'; "
        "try giving it a unique name (__main__.py:4)"
    )


def test_value_that_is_no_property(fails: Fails) -> None:
    problem = fails(
        """
        k8s.apiextensions.CustomResource(
            "a", api_version="x/v1", kind="A", spec={"x": object(), "token": "hunter2"})
        """
    )
    assert str(problem) == (
        "resource 'a', type: 'kubernetes:x/v1:A': "
        "ValueError: unexpected input of type object for x in CustomResource"
    )


def test_transform_that_raises(fails: Fails) -> None:
    problem = fails(
        """
        def broken(args):
            raise LookupError("no such label")

        k8s.core.v1.ConfigMap("a", opts=pulumi.ResourceOptions(transforms=[broken]))
        """
    )
    assert messages(problem) == ("LookupError: no such label",)
    assert frames(problem) == ("__main__.py:4 in broken",)


def test_deep_recursion_is_trimmed(fails: Fails) -> None:
    problem = fails("def again():\n    again()\n\nagain()\n")
    assert messages(problem)[0].startswith("RecursionError: ")
    assert len(frames(problem)) == 8
