"""Command lines and endpoint picker configurations are read once for all replicas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from routed import pair
from samples import container, nodes, plan_of, role, service, template

from fusioninfer_pulumi.endpoint_pickers import picker_choice
from fusioninfer_pulumi.engines import engine_commands

SIZED = container(gpus=4, args=["--model", "m", "--tensor-parallel-size", "4"])


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Record the arguments of each container whose command line is parsed."""
    arguments: list[Any] = []
    real = engine_commands._parse_literally

    def count_read(spec: Mapping[str, Any]) -> Any:
        arguments.append(spec.get("args"))
        return real(spec)

    monkeypatch.setattr(engine_commands, "_parse_literally", count_read)
    return arguments


@pytest.mark.parametrize("more", [{}, {"multinode": nodes(2)}])
def test_more_replicas_read_no_command_line_again(read: list[Any], more: Any) -> None:
    plan_of(service(role(template=template(SIZED), **more)))
    count = len(read)
    plan_of(service(role(replicas=3, template=template(SIZED), **more)))
    assert len(read) == 2 * count


def test_epp_choice_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    choices: list[Any] = []
    real = picker_choice.EppChoice

    def create_choice(*args: Any, **fields: Any) -> Any:
        choices.append(real(*args, **fields))
        return choices[-1]

    monkeypatch.setattr(picker_choice, "EppChoice", create_choice)
    plan_of(pair())
    assert len(choices) == 1
