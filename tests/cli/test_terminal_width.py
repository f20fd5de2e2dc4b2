"""`check`, `diff` and long work at a terminal: wrapped there, and whole lines in a pipe."""

from __future__ import annotations

import io
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from cli.printed import Terminal, to_text
from samples import container, plan_of, role, service, template

from fusioninfer_pulumi.cli import printing
from fusioninfer_pulumi.cli.diff import Difference, compare
from fusioninfer_pulumi.cli.finding_formats import format_finding_line
from fusioninfer_pulumi.cli.main import main
from fusioninfer_pulumi.cli.printing import working
from fusioninfer_pulumi.cli.terminal import console
from fusioninfer_pulumi.engines.model_arguments import ACCELERATORS_TOO_FEW
from fusioninfer_pulumi.findings import warning
from fusioninfer_pulumi.plan.service_objects import render

PLACE = "clusters/a folder/with-a-long-name/of-services/deepseek-v3.yaml:12"
FOUND = warning(
    ACCELERATORS_TOO_FEW,
    ("roles", 0, "template", "spec", "containers", 0, "args"),
    "--tensor-parallel-size 16 needs 16 accelerators, the pod has 8; raise nvidia.com/gpu",
)


def difference() -> Difference:
    def side(image: str, name: str) -> Any:
        pods = template(container(gpus=8, image=image))
        return plan_of(service(role(name, replicas=40, template=pods), groups=2))

    name = "a-role-with-a-long-name"
    plans = side("vllm/vllm-openai:v0.11.0", name), side("registry.example/vllm:v0.11.2", name)
    objects = [list(render(plan)) for plan in plans]
    return compare(*objects, plans=([plans[0]], [plans[1]]))


@pytest.mark.parametrize("width", [80, 120])
def test_finding_is_wrapped_between_words(width: int) -> None:
    lines = format_finding_line(PLACE, FOUND, width=width).splitlines()
    assert len(lines) > 1
    assert all(len(line) <= width for line in lines)
    assert lines[0].startswith(f"{PLACE}: ")
    assert all(line.startswith("    ") for line in lines[1:])
    assert " ".join(map(str.strip, lines)) == format_finding_line(PLACE, FOUND)


def test_words_wider_than_the_terminal_are_not_broken() -> None:
    lines = format_finding_line("x" * 90, FOUND, width=80).splitlines()
    assert lines[0] == "x" * 90 + ":"
    path = "roles[0].template.spec.containers[0].args:"
    assert any(path in line for line in lines)


@pytest.mark.parametrize("color", [True, False])
@pytest.mark.parametrize("width", [80, 120])
def test_difference_is_wrapped_between_words(width: int, *, color: bool) -> None:
    actual = difference()
    shown = to_text(actual, color=color, width=width)
    for code in ("\x1b[0m", "\x1b[1m", "\x1b[2m", *(f"\x1b[3{digit}m" for digit in range(8))):
        shown = shown.replace(code, "")
    assert "\x1b" not in shown
    assert all(len(line) <= width for line in shown.splitlines())
    words = "0-a-role-with-a-long-name-0..0-a-role-with-a-long-name-39"
    assert words in shown
    assert "containers[vllm].image:" in shown


def test_long_value_is_below_its_field() -> None:
    old, new = (
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"k": text}}
        for text in ("a" * 50, "b" * 50)
    )
    actual = compare([old], [new])
    assert f"    data.k: {'a' * 50} -> {'b' * 50}\n" in to_text(actual)
    narrow = to_text(actual, color=False, width=80)
    assert f"    data.k:\n      - {'a' * 50}\n      + {'b' * 50}\n" in narrow


def test_only_terminals_have_a_width(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "100")
    with console(Terminal()) as screen:
        assert screen.width == 100
    with console(file := io.StringIO()) as screen:
        screen.print("a " * 1_000, style="red")
    assert file.getvalue() == f"{'a ' * 999}a\n"


@pytest.mark.parametrize("stream", [Terminal, io.StringIO])
def test_check_wraps_lines_only_at_a_terminal(
    stream: type[io.StringIO], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "service.yaml"
    path.write_text("kind: InferenceService\nmetadata: {name: a}\nspec: {roles: [{name: X}]}\n")
    held = stream()
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr(sys, "stderr", held)
    assert main(["check", str(path)]) == 2
    lines = held.getvalue().splitlines()
    assert any(line.startswith("    ") for line in lines) is (stream is Terminal)


@pytest.mark.parametrize(("stream", "expected"), [(Terminal, True), (io.StringIO, False)])
def test_progress_is_shown_only_at_a_terminal(
    stream: type[io.StringIO], monkeypatch: pytest.MonkeyPatch, *, expected: bool
) -> None:
    held = stream()
    monkeypatch.setattr(sys, "stderr", held)
    monkeypatch.setattr(printing, "_FIRST_NOTICE", 0.01)
    with working("pools.yaml: placing"):
        end = time.monotonic() + 5
        while expected and not held.getvalue() and time.monotonic() < end:
            time.sleep(0.01)
    assert held.getvalue().startswith("pools.yaml: placing (") is expected


def test_short_work_shows_no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", held := Terminal())
    with working("anything"):
        pass
    assert held.getvalue() == ""
