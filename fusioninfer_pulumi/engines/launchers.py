"""Writes the command lines of a replica that spans several nodes.

`ray`: the leader starts a ray cluster and the engine in it, the workers join (the documents'
form). `multiprocessing`: every node runs the engine with its multi-node arguments.
`data-parallel`: every node runs its share of vLLM's data parallel ranks, the leader serves.
`none`: command lines are not changed.

LeaderWorkerSet puts `LWS_LEADER_ADDRESS` and `LWS_WORKER_INDEX` (0 on the leader) in front of every
container's variables, so the kubelet can expand them in `command` and `args`, and a shell in its
script.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from fusioninfer_pulumi.api.role import Launcher
from fusioninfer_pulumi.engines._container_words import Argv
from fusioninfer_pulumi.engines._shell_scripts import EngineCall, Script
from fusioninfer_pulumi.engines.command_editing import (
    EditError,
    format_script_words,
    missing,
    read_engine_script,
)
from fusioninfer_pulumi.engines.command_flags import has_flag, integer, split_joined_flags
from fusioninfer_pulumi.engines.engine import Argument, ContainerCommand, Engine, EngineCommand
from fusioninfer_pulumi.findings import Finding, Rule, error
from fusioninfer_pulumi.kube.pulumi_outputs import is_output
from fusioninfer_pulumi.rules.common import PARALLELISM_NOT_DIVISIBLE, STATED_TWICE

LAUNCHER_CONTRADICTED = Rule("launcher-contradicted")

#: Port of ray's head.
RAY_PORT = 6379
#: Variable with a pod's IP address. ZeroMQ binds to addresses, not to names, so the leader of data
#: parallel ranks needs it (KServe's template resolves LWS_LEADER_ADDRESS for this reason).
LEADER_ADDRESS_ENV = "POD_IP"
#: The end of every error: how users start the nodes themselves.
BY_HAND = "or set launcher: none and write the leader's and the workers' commands yourself"
#: Spellings of the flag with the number of nodes.
NODES = ("--nnodes", "-n")

_SHELL = ["/bin/sh", "-c"]
_HEAD = f"ray start --head --port={RAY_PORT}"
_JOIN = f"ray start --address=$LWS_LEADER_ADDRESS:{RAY_PORT} --block"
_BACKEND = Argument(("--distributed-executor-backend",), ("ray",))

# `ray health-check` asks the head whether it is up (KubeRay's workers wait with it too). The trap
# ends the wait on SIGTERM, which a shell that is process 1 ignores otherwise; `exec` then gives the
# signal to ray. After the head has answered once, the worker ends if the head dies.
_WAIT_AND_JOIN = f"""\
trap 'exit 143' TERM
until ray health-check --address=$LWS_LEADER_ADDRESS:{RAY_PORT} >/dev/null 2>&1; do
  echo "waiting for the ray head at $LWS_LEADER_ADDRESS:{RAY_PORT}"
  sleep 5 &
  wait $!
done
trap - TERM
exec {_JOIN}"""


class LaunchError(ValueError):
    """Raised when a container's command cannot be launched on several nodes as asked.

    The message has the reason and the fix, with `launcher: none` as the last resort.
    """


def choose_launcher(engine: Engine | None, nodes: int, data: int | None = None) -> Launcher:
    """Return the default launcher: ray, as in the documents, for an unknown engine.

    `data` copies of the model that the nodes share evenly need no launcher that splits one.
    """
    if engine is None:
        return Launcher.RAY
    return engine.data_launcher if data is not None and data % nodes == 0 else engine.launcher


def launch(
    command: EngineCommand, launcher: Launcher, nodes: int, *, is_leader: bool, retry: bool = False
) -> ContainerCommand | None:
    """Return the command line of one node of a replica; None for no change.

    The leader serves. With `retry`, ray's workers wait for the leader instead of ending when it is
    not up yet: for groups whose restart policy would recreate them all for that.

    Raises:
        LaunchError: When the container cannot be launched this way.
    """
    if launcher is Launcher.NONE or nodes < 2:
        return None
    if command.engine is not None:
        return command.engine.multi_node.launch(
            command, launcher, nodes, is_leader=is_leader, retry=retry
        )
    if launcher is Launcher.RAY:
        return ray_launch(command, is_leader=is_leader, retry=retry)
    reject_outputs(command.argv)
    if command.script is not None:
        _read_script(command)
    raise LaunchError(
        f"launcher: {launcher.value} adds the engine's own arguments, but the container's "
        "command and image name neither vLLM nor SGLang: give it a command (for example "
        f"[vllm, serve]), {BY_HAND}"
    )


def ray_launch(command: EngineCommand, *, is_leader: bool, retry: bool) -> ContainerCommand:
    """Start ray and then the engine on the leader, and ray alone on workers."""
    if not is_leader:
        return ContainerCommand(list(_SHELL), [_WAIT_AND_JOIN if retry else _JOIN])
    argv, program = command.argv, list(command.program)
    _reject_unquotable(argv)
    if command.script is not None:
        return _ray_script(command)
    if not program:
        if not command.serve:
            raise LaunchError(
                "the container has no command, and the program that its image starts is not known, "
                "so launcher: ray cannot run it after ray: give the container a command (for "
                f"example [vllm, serve]), {BY_HAND}"
            )
        program = ["vllm", "serve"]
    arguments = split_joined_flags(argv.texts()[len(command.program) :])
    if command.serve:
        arguments = move_model_to_front(arguments)
    if not has_flag(arguments, *_BACKEND.names):
        arguments = [*arguments, *_BACKEND.words]
    # With `exec` the engine is process 1, which gets SIGTERM when the pod ends.
    script = f"{_HEAD} && exec {shlex.join([*program, *arguments])}"
    return ContainerCommand(list(_SHELL), [script])


def _ray_script(command: EngineCommand) -> ContainerCommand:
    script = _read_script(command)
    if script.starts_ray:
        raise LaunchError(
            "the container's shell script starts ray itself, and a second ray start would fail: "
            f"leave it out, {BY_HAND}"
        )
    text = script.text
    for call in reversed(script.calls):
        text = _with_arguments(text, call, [_BACKEND])
        if call.may_exec:
            text = f"{text[: call.start]}exec {text[call.start :]}"
    if script.single:
        text = f"{_HEAD} && {text}"
    else:
        # Braces: nothing of the script runs when ray does not start.
        body = text.rstrip("\n")
        text = f"{_HEAD} && {{\n{body}{chr(10) if body.endswith(chr(92)) else ''}\n}}"
    return ContainerCommand(*command.argv.with_script(text))


def add_to_script(
    command: EngineCommand, wanted: Callable[[EngineCall], Sequence[Argument]]
) -> ContainerCommand:
    """Return a container's script with arguments added to each start of the engine."""
    script = _read_script(command)
    text = script.text
    for call in reversed(script.calls):
        text = _with_arguments(text, call, wanted(call))
    return ContainerCommand(*command.argv.with_script(text))


def _with_arguments(text: str, call: EngineCall, wanted: Sequence[Argument]) -> str:
    added = [argument for argument in wanted if not has_flag(call.arguments, *argument.names)]
    return f"{text[: call.end]}{format_script_words(added)}{text[call.end :]}"


def add_to_lists(command: EngineCommand, wanted: Sequence[Argument]) -> ContainerCommand:
    """Return a container's command and args with the missing arguments added."""
    added = [word for argument in missing(command, wanted) for word in argument.words]
    argv = command.argv
    program, arguments = split_program(command)
    # A program in `args` moves to `command` if the image's entrypoint would start another.
    end = len(program) if command.program_in_args else len(argv.command)
    if command.program_in_args or len(program) + len(arguments) > len(argv.words):
        # Where the program ends in `args`, so that `command` is only a part of it, it stays there.
        return ContainerCommand(program[:end], [*program[end:], *arguments, *added])
    return ContainerCommand(list(argv.command), [*argv.args, *added])


def _read_script(command: EngineCommand) -> Script:
    """Return the script of a container's shell, which starts one engine."""
    if is_output(command.argv.script):
        raise _output_error("the script of the container's shell")
    try:
        script = read_engine_script(command)
    except EditError as problem:
        raise LaunchError(f"{problem}: write the command as a list, {BY_HAND}") from problem
    engines = sorted({call.engine for call in script.calls})
    if len(engines) > 1:
        raise LaunchError(
            f"the container's shell script starts {' and '.join(engines)}: start one engine, "
            f"{BY_HAND}"
        )
    return script


def split_program(command: EngineCommand) -> tuple[list[Any], list[Any]]:
    """Return a list's program and its arguments; splits a flag and its value in one word."""
    words = command.argv.words
    program = list(words[: len(command.program)])
    arguments: list[Any] = []
    for word in words[len(program) :]:
        arguments.extend(split_joined_flags([word]) if isinstance(word, str) else [word])
    return program, arguments


def move_model_to_front(arguments: Sequence[str]) -> list[str]:
    """Turn `--model X` into the positional argument that `vllm serve` wants."""
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


def check_nodes(command: EngineCommand, nodes: int) -> Iterator[Finding]:
    """Check the number of nodes, and whether they divide the ranks evenly.

    All engines assert the latter, on the product of the sizes.
    """
    node_count = integer(command.value(*NODES))
    if node_count is not None and node_count != nodes:
        message = f"--nnodes {node_count}, but a replica has {nodes} nodes: leave it out"
        yield error(STATED_TWICE, (NODES[0],), message)
    parallelism, engine = command.parallelism, command.engine
    if engine is not None and parallelism is not None and parallelism.devices() % nodes:
        yield error(
            PARALLELISM_NOT_DIVISIBLE,
            (NODES[0],),
            f"{parallelism.describe(engine.size_flags)} cannot be divided evenly among {nodes} "
            "nodes, which multiprocessing needs",
        )


def reject_outputs(argv: Argv) -> None:
    """Reject a command or args that is one Output, to which nothing can be added."""
    for name in argv.outputs:
        raise LaunchError(
            f"{name} is a pulumi Output as a whole, so the engine's arguments cannot be added to "
            f"it: give a list, whose elements may be Outputs, {BY_HAND}"
        )


def _reject_unquotable(argv: Argv) -> None:
    """Reject Outputs in a command line that a shell script is written from."""
    words = () if argv.script_at is not None else enumerate(argv.words)
    for place in (*argv.outputs, *(argv.place(index) for index, word in words if is_output(word))):
        raise _output_error(place)


def _output_error(place: str) -> LaunchError:
    return LaunchError(
        f"{place} is a pulumi Output, but a shell script is written from it, so it must be quoted "
        "and therefore be a plain string: read the value from pulumi.Config instead (building the "
        "InferenceService inside Output.apply would hide it from preview), or pass it in an "
        "environment variable and write $(NAME)"
    )
