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
from collections.abc import Sequence

from fusioninfer_pulumi.api.role import Launcher
from fusioninfer_pulumi.engines.command_editing import (
    EditError,
    edit,
    edit_script,
    format_script_words,
    missing,
    read_engine_script,
)
from fusioninfer_pulumi.engines.command_flags import split_joined_flags
from fusioninfer_pulumi.engines.engine import Argument, ContainerCommand, Engine, EngineCommand

#: Port of ray's head.
RAY_PORT = 6379
#: Variable with a pod's IP address. ZeroMQ binds to addresses, not to names, so the leader of data
#: parallel ranks needs it (KServe's template resolves LWS_LEADER_ADDRESS for this reason).
LEADER_ADDRESS_ENV = "POD_IP"
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
        EditError: When the container cannot be launched this way.
    """
    engine = command.engine
    if launcher is Launcher.NONE or nodes < 2:
        return None
    if engine is not None and launcher not in engine.multi_node.launchers:
        raise EditError(
            f"{engine.title} does not use launcher: {launcher.value}; use launcher: "
            f"{engine.launcher.value}"
        )
    if launcher is Launcher.RAY:
        if is_leader:
            return _ray_leader(command)
        return ContainerCommand(list(_SHELL), [_WAIT_AND_JOIN if retry else _JOIN])
    if engine is None:
        # A script has a better reason.
        return edit(command)
    arguments = engine.multi_node.arguments(command, launcher, nodes, is_leader=is_leader)
    if launcher is Launcher.DATA_PARALLEL and command.script is None:
        return _data_parallel_lists(command, arguments)
    return edit(command, arguments, to_args=True)


def _ray_leader(command: EngineCommand) -> ContainerCommand:
    """Start ray and then the engine."""
    if command.script is not None:
        return _ray_script(command)
    if not command.program and not command.serve:
        raise EditError(
            "the container has no command, and the program that its image starts is not known, so "
            "launcher: ray cannot run it after ray: give the container a command (for example "
            "[vllm, serve])"
        )
    program, arguments = _split_program(command)
    arguments += [word for argument in missing(command, [_BACKEND]) for word in argument.words]
    # With `exec` the engine is process 1, which gets SIGTERM when the pod ends.
    return ContainerCommand(list(_SHELL), [f"{_HEAD} && exec {shlex.join([*program, *arguments])}"])


def _ray_script(command: EngineCommand) -> ContainerCommand:
    script = read_engine_script(command)
    if script.starts_ray:
        raise EditError(
            "the container's shell script starts ray itself, and a second ray start would fail: "
            "leave it out"
        )
    call, text = script.calls[0], edit_script(script, missing(command, [_BACKEND]))
    if call.may_exec:
        text = f"{text[: call.start]}exec {text[call.start :]}"
    if script.single:
        text = f"{_HEAD} && {text}"
    else:
        # Braces: nothing of the script runs when ray does not start.
        body = text.rstrip("\n")
        text = f"{_HEAD} && {{\n{body}{chr(10) if body.endswith(chr(92)) else ''}\n}}"
    return ContainerCommand(*command.argv.with_script(text))


def _data_parallel_lists(command: EngineCommand, wanted: Sequence[Argument]) -> ContainerCommand:
    # Only `vllm serve` knows --headless, and older images start something else.
    program, arguments = _split_program(command)
    added = missing(command, wanted)
    computed = [argument for argument in added if argument.in_script and not argument.values]
    arguments += [word for argument in added if argument not in computed for word in argument.words]
    if not computed:
        return ContainerCommand(program, arguments)
    # The shell computes the first rank, and passes the other words on.
    script = f'exec {shlex.join(program)} "$@"{format_script_words(computed)}'
    return ContainerCommand(["/bin/sh", "-c", script, "sh"], arguments)


def _split_program(command: EngineCommand) -> tuple[list[str], list[str]]:
    """Return program and arguments, with the model as `vllm serve` wants it."""
    program = list(command.program)
    arguments = split_joined_flags(command.argv.texts()[len(program) :])
    if command.serve or not program:
        arguments = _move_model_to_front(arguments)
    return program or ["vllm", "serve"], arguments


def _move_model_to_front(arguments: list[str]) -> list[str]:
    """Turn `--model X` into a positional argument."""
    if arguments and not arguments[0].startswith("-"):
        return arguments
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
    return arguments if model is None else [model, *rest]
