"""Flags that are set in a command line reach the engine, through real shells too."""

from __future__ import annotations

import shutil
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from fusioninfer_pulumi.engines.flags import flag_value, split_joined_flags
from fusioninfer_pulumi.engines.kv_settings import Setting, SettingError, with_settings
from fusioninfer_pulumi.engines.launch import leader_launch

NIXL = '{"kv_connector":"NixlConnector","kv_role":"kv_both"}'
SETTINGS = [Setting("--kv-transfer-config", NIXL), Setting("--port", "8001")]
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
    "if false; then vllm serve a; else vllm serve b; fi",
    "vllm serve \"$@\"",
    "vllm serve m --port",
]  # fmt: skip


def run(host: Any, container: dict[str, Any], chosen: list[Setting]) -> list[str]:
    edit = with_settings(container, chosen)
    assert edit is not None
    (call,) = host.run([*edit.command, *(edit.args or [])])
    made: list[str] = call.arguments
    return made


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_gives_the_engine_what_is_set(host: Any, shell: str, script: str) -> None:
    container = {"command": [shell, "-c", script, "name", "--port", "8000"]}
    arguments = run(host, container, SETTINGS)
    assert flag_value(arguments, "--port") == "8001"
    assert flag_value(arguments, "--kv-transfer-config") == NIXL
    # What the engine reads, and nothing that stands twice for it but `"$@"`.
    assert arguments.count("--port") <= 1 + ("$@" in script)


@pytest.mark.parametrize("script", SCRIPTS)
def test_ray_is_put_around_a_script_that_was_edited(host: Any, script: str) -> None:
    container = {"command": ["sh", "-c", script, "name", "--port", "8000"]}
    edit = with_settings(container, SETTINGS)
    assert edit is not None
    edited = {"command": edit.command, "args": edit.args}
    launch = leader_launch(edited, "ray", 2)
    _, engine = host.run([*launch.command, *(launch.args or [])])
    assert flag_value(engine.arguments, "--port") == "8001"
    assert flag_value(engine.arguments, "--kv-transfer-config") == NIXL


@examples(0.5)
@given(SHELLY.filter(lambda text: not text.startswith("--")))
def test_any_value_survives_the_shell(host: Any, value: str) -> None:
    container = {"command": ["sh", "-c", "vllm serve m --flag x"]}
    chosen = [Setting("--flag", value), Setting("--other", value)]
    assert run(host, container, chosen) == ["serve", "m", "--flag", value, "--other", value]


@examples(0.5)
@given(st.lists(SHELLY, max_size=5), SHELLY.filter(lambda text: not text.startswith("--")))
def test_a_list_is_left_as_it_is_but_for_the_flag(arguments: list[str], value: str) -> None:
    kept = [a for a in arguments if split_joined_flags([a]) == [a] and a.partition("=")[0] != "--p"]
    container = {"command": ["vllm", "serve"], "args": kept}
    edit = with_settings(container, [Setting("--p", value)])
    assert edit is not None
    assert [*edit.command, *(edit.args or [])] == ["vllm", "serve", *kept, "--p", value]


LISTS: list[tuple[list[str], list[str]]] = [
    (["--port", "1"], ["--port", "2"]),
    (["--port=1"], ["--port=2"]),
    (["--port 1"], ["--port", "2"]),
    (["--port"], ["--port", "2"]),
    (["--port", "--tp", "1"], ["--port", "2", "--tp", "1"]),
    (["--port", "1", "--port=3"], ["--port", "2", "--port=2"]),
    (["m"], ["m", "--port", "2"]),
]


@pytest.mark.parametrize(("given_args", "wanted"), LISTS)
def test_a_flag_gets_its_value_where_it_stands(given_args: list[str], wanted: list[str]) -> None:
    edit = with_settings(
        {"image": "vllm/vllm-openai:latest", "args": given_args}, [Setting("--port", "2")]
    )
    assert edit is not None
    assert (edit.command, edit.args) == ([], wanted)


def test_what_is_right_is_not_touched() -> None:
    container = {"image": "vllm/vllm-openai:latest", "args": ["--port=2"]}
    assert with_settings(container, [Setting("--port", "2")]) is None
    assert with_settings(container, []) is None
    script = {"command": ["sh", "-c", "vllm serve m --port=2"]}
    assert with_settings(script, [Setting("--port", "2")]) is None


@pytest.mark.parametrize(
    ("container", "why"),
    [
        ({"image": "mine:1", "command": ["/serve"]}, "name neither vLLM nor SGLang"),
        ({"command": ["sh", "-c", "cat <<E\nE\nvllm serve m"]}, "a here-document"),
        ({"command": ["sh", "-c", "/start.sh"]}, "starts neither vLLM nor SGLang"),
    ],
)
def test_no_flag_is_set_where_its_place_is_not_known(container: dict[str, Any], why: str) -> None:
    with pytest.raises(SettingError, match=why):
        with_settings(container, [Setting("--port", "2")])


def test_outputs_stay_in_a_list_and_are_no_script(output: Any) -> None:
    name = output("m")
    container = {"command": ["vllm", "serve"], "args": [name, "--port", "1"]}
    edit = with_settings(container, [Setting("--port", "2")])
    assert edit is not None
    assert edit.args is not None
    assert edit.args[0] is name
    assert edit.args[1:] == ["--port", "2"]
    for hidden in ({"args": output([])}, {"command": ["sh", "-c"], "args": [output("x")]}):
        with pytest.raises(SettingError, match="a pulumi Output"):
            with_settings({"image": "vllm/vllm-openai:latest", **hidden}, [])
