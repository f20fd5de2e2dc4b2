"""Launches vLLM on several nodes with ray: the leader starts the cluster, the workers join it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from fusioninfer_pulumi.engines.command import EngineCommand, read_command
from fusioninfer_pulumi.engines.container_words import ContainerWords, read_words
from fusioninfer_pulumi.engines.facts import RAY_PORT
from fusioninfer_pulumi.engines.flags import has_flag, split_joined_flags
from fusioninfer_pulumi.engines.launch_script import engine_script, output_error
from fusioninfer_pulumi.engines.launch_types import BY_HAND, Launch, LaunchError, launched
from fusioninfer_pulumi.engines.shell_script import EngineCall
from fusioninfer_pulumi.kube.outputs import is_output

_SHELL = ["/bin/sh", "-c"]
_HEAD = f"ray start --head --port={RAY_PORT}"
_JOIN = f"ray start --address=$LWS_LEADER_ADDRESS:{RAY_PORT} --block"
_FLAG = "--distributed-executor-backend"
_BACKEND = f"{_FLAG} ray"

# `ray health-check` asks the head whether it is up (KubeRay's workers wait with it too). The trap
# ends the wait on SIGTERM, which a shell that is process 1 ignores otherwise; `exec` then gives the
# signal to ray. Once the head has answered there is no further try: if it dies, the worker ends.
_WAIT_AND_JOIN = f"""\
trap 'exit 143' TERM
until ray health-check --address=$LWS_LEADER_ADDRESS:{RAY_PORT} >/dev/null 2>&1; do
  echo "waiting for the ray head at $LWS_LEADER_ADDRESS:{RAY_PORT}"
  sleep 5 &
  wait $!
done
trap - TERM
exec {_JOIN}"""


def ray_leader(container: Mapping[str, Any]) -> Launch:
    """The leader's command: `ray start --head`, then the engine with ray as its executor.

    Args:
        container: The container as in the pod template.

    Returns:
        `/bin/sh -c` with every argument quoted, or the container's own shell script with the same
        two things added to it.

    Raises:
        LaunchError: When the command cannot be wrapped.
    """
    command, words = read_command(container), read_words(container)
    _refuse_sglang(command)
    for name in words.outputs:
        raise output_error(name)
    if words.script_at is not None:
        return _scripted(words)
    return _listed(command, words)


def ray_worker(container: Mapping[str, Any], *, retry: bool) -> Launch:
    """The workers' command: join the leader's ray cluster and stay in it.

    Args:
        container: The container as in the pod template; what it runs is left out.
        retry: Wait until the leader's ray answers, instead of giving up when it is not up yet.

    Returns:
        `/bin/sh -c` with the literal command of the documents, or with the waiting one.

    Raises:
        LaunchError: For an engine that does not use ray.
    """
    command, words = read_command(container), read_words(container)
    _refuse_sglang(command)
    lost = ""
    if words.script_at is not None:
        lost = "workers only run ray: the container's script runs on the leader alone"
    return launched(list(_SHELL), [_WAIT_AND_JOIN if retry else _JOIN], lost)


def _refuse_sglang(command: EngineCommand) -> None:
    if command.engine == "sglang":
        raise LaunchError(
            "SGLang does not use launcher: ray; use launcher: multiprocessing, which gives every "
            f"node SGLang's own --nnodes, --node-rank and --dist-init-addr, {BY_HAND}"
        )


def _listed(command: EngineCommand, words: ContainerWords) -> Launch:
    texts = _plain(words)
    program = list(command.program)
    arguments = texts[len(program) :]
    if not program:
        if not command.serve:
            raise LaunchError(
                f"the container has no command, and the program that image "
                f"{command.image.name!r} starts is not known, so launcher: ray cannot run it after "
                f"ray: give the container a command (for example [vllm, serve]), {BY_HAND}"
            )
        program = ["vllm", "serve"]
    split = split_joined_flags(arguments)
    joined = "an argument that held a flag and its value was split" if split != arguments else ""
    # `vllm serve` wants its model as the positional argument (`facts`).
    arguments = positional_model(split) if command.serve else split
    if not has_flag(arguments, _FLAG):
        arguments = [*arguments, *_BACKEND.split()]
    guess = ""
    if command.engine is None:
        guess = f"{shlex.join(program)} is not a known engine: it must take vLLM's {_FLAG}"
    # `exec` makes the engine process 1, which gets SIGTERM when the pod ends.
    script = f"{_HEAD} && exec {shlex.join([*program, *arguments])}"
    return launched(list(_SHELL), [script], joined, guess)


def _plain(words: ContainerWords) -> list[str]:
    texts: list[str] = []
    for index, word in enumerate(words.words):
        place = words.place(index)
        if is_output(word):
            raise output_error(place)
        if not isinstance(word, str):
            raise LaunchError(f"{place} must be a string, got {word!r}")
        texts.append(word)
    return texts


def positional_model(arguments: Sequence[str]) -> list[str]:
    """Turns `--model X` into the positional argument that `vllm serve` wants."""
    if arguments and not arguments[0].startswith("-"):
        return list(arguments)
    model, rest, skip = None, [], False
    for index, argument in enumerate(arguments):
        if skip:
            skip = False
        elif argument == "--model" and index + 1 < len(arguments):
            model, skip = arguments[index + 1], True
        elif argument.startswith("--model="):
            model = argument.partition("=")[2]
        else:
            rest.append(argument)
    return list(arguments) if model is None else [model, *rest]


def _scripted(words: ContainerWords) -> Launch:
    script = engine_script(words)
    if script.starts_ray:
        raise LaunchError(
            "the container's shell script starts ray itself, and a second ray start would fail: "
            f"leave it out, {BY_HAND}"
        )
    text = script.text
    for call in reversed(script.calls):
        if call.engine != "vllm":
            raise LaunchError(
                f"the container's shell script starts {call.engine} as well, which does not use "
                f"launcher: ray: start one engine, {BY_HAND}"
            )
        text = _edited(text, call)
    if script.single:
        text = f"{_HEAD} && {text}"
    else:
        # Braces: nothing of the script runs when ray does not start.
        body = text.rstrip("\n")
        text = f"{_HEAD} && {{\n{body}{chr(10) if body.endswith(chr(92)) else ''}\n}}"
    note = ""
    if not all(call.may_exec or call.program[0] == "exec" for call in script.calls):
        note = (
            "the engine is not the last command of the script, so the script has to pass SIGTERM "
            "on to it"
        )
    command, args = words.with_word(words.script_at or 0, text)
    return launched(command, args, note)


def _edited(text: str, call: EngineCall) -> str:
    if not has_flag(call.arguments, _FLAG):
        text = f"{text[: call.end]} {_BACKEND}{text[call.end :]}"
    return f"{text[: call.start]}exec {text[call.start :]}" if call.may_exec else text
