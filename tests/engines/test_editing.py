"""Set and added arguments reach the engine, also through real shells."""

from __future__ import annotations

import shutil
from typing import Any

import pytest
from hypothesis import given, strategies as st
from profiles import examples
from rows import each_row

from fusioninfer_pulumi.api.role import Launcher
from fusioninfer_pulumi.engines.command_editing import EditError, edit_command, set_command
from fusioninfer_pulumi.engines.command_flags import get_flag_value, split_joined_flags
from fusioninfer_pulumi.engines.engine import Argument, ContainerCommand
from fusioninfer_pulumi.engines.engine_commands import parse_command
from fusioninfer_pulumi.engines.launchers import build_command

NIXL = '{"kv_connector":"NixlConnector","kv_role":"kv_both"}'


def setting(flag: str, value: str) -> Argument:
    return Argument((flag,), (value,), replaces=True)


def edited(
    container: dict[str, Any], *arguments: Argument, model: str | None = None
) -> ContainerCommand | None:
    return edit_command(parse_command(container), arguments, model=model)


SETTINGS = [setting("--kv-transfer-config", NIXL), setting("--port", "8001")]
SHELLS = [name for name in ("sh", "bash", "dash") if shutil.which(name)]
SHELLY = st.text(alphabet="'\"\\$`(){}[]<>|&;#!*?~=% \t\n\rab1-")

SCRIPTS = [
    "vllm serve m",
    "exec vllm serve m --port 8000 -tp 2",
    "vllm serve m --port=8000 >/dev/null 2>&1",
    "vllm serve m >/dev/null --port 8000",
    "P=8000; vllm serve m --port $P",
    'P=8000; vllm serve m --port="$P" | cat',
    f"vllm serve m --kv-transfer-config '{NIXL}' --port 1",
    f"vllm serve m \"--kv-transfer-config {NIXL}\"".replace('{"', '{\\"').replace('":"', '\\":\\"')
    .replace('","', '\\",\\"').replace('"}"', '\\"}"'),
    'vllm serve m "--port 8000"',
    "set -e\ncd / &&\nvllm serve m \\\n  --port 8000 \\\n",
    "if false; then exit 1; else vllm serve b; fi",
    "vllm serve \"$@\"",
    "vllm serve m --port",
]  # fmt: skip


def run(
    host: Any, container: dict[str, Any], chosen: list[Argument], model: str | None = None
) -> list[str]:
    result = edited(container, *chosen, model=model)
    assert result is not None
    (call,) = host.run([*result.command, *(result.args or [])])
    arguments: list[str] = call.arguments
    return arguments


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("script", SCRIPTS)
def test_script_passes_set_flags_to_the_engine(host: Any, shell: str, script: str) -> None:
    container = {"command": [shell, "-c", script, "name", "--port", "8000"]}
    arguments = run(host, container, SETTINGS)
    assert get_flag_value(arguments, "--port") == "8001"
    assert get_flag_value(arguments, "--kv-transfer-config") == NIXL
    # Only `"$@"` may repeat the flag.
    assert arguments.count("--port") <= 1 + ("$@" in script)


@pytest.mark.parametrize("script", SCRIPTS)
def test_edited_script_can_be_launched_with_ray(host: Any, script: str) -> None:
    container = {"command": ["sh", "-c", script, "name", "--port", "8000"]}
    result = set_command(container, edited(container, *SETTINGS))
    leader = build_command(parse_command(result), Launcher.RAY, 2, is_leader=True)
    assert leader is not None
    _, engine = host.run([*leader.command, *(leader.args or [])])
    assert get_flag_value(engine.arguments, "--port") == "8001"
    assert get_flag_value(engine.arguments, "--kv-transfer-config") == NIXL


@examples(0.5)
@given(SHELLY.filter(lambda text: not text.startswith("--")))
def test_any_value_survives_the_shell(host: Any, value: str) -> None:
    container = {"command": ["sh", "-c", "vllm serve m --flag x"]}
    chosen = [setting("--flag", value), setting("--other", value)]
    assert run(host, container, chosen) == ["serve", "m", "--flag", value, "--other", value]


@examples(0.5)
@given(st.lists(SHELLY, max_size=5), SHELLY.filter(lambda text: not text.startswith("--")))
def test_list_is_unchanged_except_for_the_flag(arguments: list[str], value: str) -> None:
    kept = [a for a in arguments if split_joined_flags([a]) == [a] and a.partition("=")[0] != "--p"]
    container = {"command": ["vllm", "serve"], "args": kept}
    result = edited(container, setting("--p", value))
    assert result is not None
    assert [*result.command, *(result.args or [])] == ["vllm", "serve", *kept, "--p", value]


LISTS: list[tuple[list[str], list[str]]] = [
    (["--port", "1"], ["--port", "2"]),
    (["--port=1"], ["--port=2"]),
    (["--port 1"], ["--port", "2"]),
    (["--port"], ["--port", "2"]),
    (["--port", "--tp", "1"], ["--port", "2", "--tp", "1"]),
    (["--port", "1", "--port=3"], ["--port", "2", "--port=2"]),
    (["m"], ["m", "--port", "2"]),
]


@each_row(("given_args", "wanted"), LISTS)
def test_flag_is_replaced_in_place(given_args: list[str], wanted: list[str]) -> None:
    result = edited(
        {"image": "vllm/vllm-openai:latest", "args": given_args}, setting("--port", "2")
    )
    assert result is not None
    assert (result.command, result.args) == ([], wanted)


def test_complete_command_line_is_not_edited() -> None:
    container = {"image": "vllm/vllm-openai:latest", "args": ["--port=2"]}
    assert edited(container, setting("--port", "2")) is None
    assert edited(container) is None
    script = {"command": ["sh", "-c", "vllm serve m --port=2"]}
    assert edited(script, setting("--port", "2")) is None


@each_row(
    ("container", "why"),
    [
        ({"image": "mine:1", "command": ["/serve"]}, "name neither vLLM nor SGLang"),
        ({"command": ["sh", "-c", "cat <<E\nE\nvllm serve m"]}, "a here-document"),
        ({"command": ["sh", "-c", "/start.sh"]}, "starts neither vLLM nor SGLang"),
        ({"command": ["sh", "-c", "vllm serve a || vllm serve b"]}, "in several places"),
    ],
)
def test_flag_is_not_set_at_unknown_position(container: dict[str, Any], why: str) -> None:
    with pytest.raises(EditError, match=why):
        edited(container, setting("--port", "2"))


def test_outputs_stay_in_a_list_and_are_no_script(output: Any) -> None:
    name = output("m")
    container = {"command": ["vllm", "serve"], "args": [name, "--port", "1"]}
    result = edited(container, setting("--port", "2"))
    assert result is not None
    assert result.args is not None
    assert result.args[0] is name
    assert result.args[1:] == ["--port", "2"]
    for hidden in ({"args": output([])}, {"command": ["sh", "-c"], "args": [output("x")]}):
        with pytest.raises(EditError, match="a pulumi Output"):
            edited({"image": "vllm/vllm-openai:latest", **hidden})


ADDED = [
    Argument(("--tensor-parallel-size", "-tp"), ("4",)),
    Argument(("--lora-modules",), ("a=/x y", "b='z'")),
]
ADDED_WORDS = ["--tensor-parallel-size", "4", "--lora-modules", "a=/x y", "b='z'"]
VALUES = SHELLY.filter(lambda text: text[:1] != "-")

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


@pytest.mark.parametrize(("container", "fields"), CONTAINERS)
def test_arguments_are_appended_to_the_users(
    host: Any, container: dict[str, Any], fields: list[str]
) -> None:
    arguments = run(host, container, ADDED, model="org/model")
    assert arguments == ["serve", "org/model", *fields, *ADDED_WORDS]


@examples(0.5)
@given(st.lists(VALUES, min_size=1, max_size=3), VALUES)
def test_any_added_value_survives_the_shell(host: Any, values: list[str], model: str) -> None:
    container = {"command": ["sh", "-c", "vllm serve"]}
    arguments = run(host, container, [Argument(("--x",), tuple(values))], model=model)
    assert arguments == ["serve", model, "--x", *values]


@given(st.lists(VALUES, min_size=1, max_size=3))
def test_added_arguments_are_read_back(values: list[str]) -> None:
    container = {"image": "vllm/vllm-openai:v0.12.0", "args": ["--model", "m"]}
    result = edited(container, Argument(("--x",), tuple(values)))
    assert result is not None
    command = parse_command({**container, "args": result.args})
    assert command.arguments == ("--model", "m", "--x", *values)


def test_existing_arguments_are_not_added_again() -> None:
    for container in (
        {"command": ["vllm", "serve"], "args": ["-tp", "2"]},
        {"command": ["sh", "-c", "vllm serve m -tp 2"]},
    ):
        assert edited(container, ADDED[0]) is None
