"""Arguments that are added to a command line reach the engine, through real shells too."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from fusioninfer_pulumi.engines.added_arguments import with_arguments
from fusioninfer_pulumi.engines.command import read_command
from fusioninfer_pulumi.engines.kv_settings import SettingError

ADDED = ["--tensor-parallel-size", "4", "--lora-modules", "a=/x y", "b='z'"]
VALUES = st.text(alphabet="'\"\\$`(){}[]<>|&;#!*?~=% \t\n\rab1").filter(
    lambda text: text[:1] != "-"
)

CONTAINERS: list[tuple[dict[str, Any], list[str]]] = [
    ({"command": ["vllm", "serve"]}, []),
    ({"command": ["vllm", "serve", "--port", "1"]}, ["--port", "1"]),
    ({"command": ["vllm"], "args": ["serve", "--port", "1"]}, ["--port", "1"]),
    ({"command": ["vllm", "serve"], "args": ["--port 1"]}, ["--port", "1"]),
    ({"command": ["sh", "-c", "vllm serve --port 1"]}, ["--port", "1"]),
    ({"command": ["sh", "-c"], "args": ["cd /; exec vllm serve >/dev/null --port 1"]},
     ["--port", "1"]),
    ({"command": ["bash", "-c", 'vllm serve "$@"', "-", "--port", "1"]}, ["--port", "1"]),
]  # fmt: skip


@pytest.mark.parametrize(("container", "own"), CONTAINERS)
def test_arguments_stand_behind_the_own_ones(
    host: Any, container: dict[str, Any], own: list[str]
) -> None:
    made = with_arguments(container, ADDED, model="org/model")
    assert made is not None
    (call,) = host.run([*made.command, *(made.args or [])])
    assert call.arguments == ["serve", "org/model", *own, *ADDED]


@examples(0.5)
@given(st.lists(VALUES, min_size=1, max_size=3), VALUES)
def test_any_value_survives_the_shell(host: Any, values: list[str], model: str) -> None:
    made = with_arguments({"command": ["sh", "-c", "vllm serve"]}, ["--x", *values], model=model)
    assert made is not None
    (call,) = host.run([*made.command, *(made.args or [])])
    assert call.arguments == ["serve", model, "--x", *values]


@given(st.lists(VALUES, min_size=1, max_size=3))
def test_what_was_added_is_read_back(values: list[str]) -> None:
    container = {"image": "vllm/vllm-openai:v0.12.0", "args": ["--model", "m"]}
    made = with_arguments(container, ["--x", *values])
    assert made is not None
    command = read_command({**container, "args": made.args})
    assert command.arguments == ("--model", "m", "--x", *values)


def test_nothing_to_add_is_no_edit() -> None:
    assert with_arguments({"command": ["vllm", "serve"]}, []) is None


@pytest.mark.parametrize(
    "container",
    [
        {"image": "registry.example.com/own:1", "command": ["/serve"]},
        {"command": ["sh", "-c", "./start.sh"]},
        {"command": ["sh", "-c", "vllm serve 'm"]},
    ],
)
def test_no_place_is_an_error(container: dict[str, Any]) -> None:
    with pytest.raises(SettingError):
        with_arguments(container, ADDED)
