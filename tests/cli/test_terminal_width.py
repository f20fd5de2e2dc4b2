"""`diff` does not wrap lines; a long value is below its field."""

from __future__ import annotations

import io
from typing import Any

import pytest
from cli.printed import Terminal, to_text
from samples import container, plan_of, role, service, template

from fusioninfer_pulumi.cli.diff import Difference, compare
from fusioninfer_pulumi.cli.terminal import open_console
from fusioninfer_pulumi.plan.service_objects import render


def difference() -> Difference:
    def side(image: str, name: str) -> Any:
        pods = template(container(gpus=8, image=image))
        return plan_of(service(role(name, replicas=40, template=pods), groups=2))

    name = "a-role-with-a-long-name"
    plans = side("vllm/vllm-openai:v0.11.0", name), side("registry.example/vllm:v0.11.2", name)
    objects = [list(render(plan)) for plan in plans]
    return compare(*objects, plans=([plans[0]], [plans[1]]))


@pytest.mark.parametrize("color", [True, False])
def test_terminal_wraps_long_lines_itself(*, color: bool) -> None:
    shown = to_text(difference(), color=color, width=80)
    for code in ("\x1b[0m", "\x1b[1m", "\x1b[2m", *(f"\x1b[3{digit}m" for digit in range(8))):
        shown = shown.replace(code, "")
    assert "\x1b" not in shown
    role = "a-role-with-a-long-name"
    names = f"0-{role}-0..0-{role}-39, 1-{role}-0..1-{role}-39"
    assert f"  * image changed: restarts {names}\n" in shown
    assert f"    restarts  {names}\n" in shown
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
    with open_console(Terminal()) as screen:
        assert screen.width == 100
    with open_console(file := io.StringIO()) as screen:
        screen.print("a " * 1_000, style="red")
    assert file.getvalue() == f"{'a ' * 999}a\n"
