"""Builds the command lines of a replica that spans several nodes.

- `ray`: the leader starts a ray cluster and the engine in it; workers join the cluster. This is the
  launcher of FusionInfer's design documents.
- `multiprocessing`: every node runs the engine with its multi-node arguments.
- `data-parallel`: every node runs its share of vLLM's data parallel ranks; only the leader serves.
- `none`: command lines are not changed.

LeaderWorkerSet sets `LWS_LEADER_ADDRESS` and `LWS_WORKER_INDEX` (0 on the leader) before all other
variables of a container. So the kubelet expands `$(LWS_WORKER_INDEX)` in arguments and variables.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from fusioninfer_pulumi.api.role import Launcher
from fusioninfer_pulumi.engines.command_editing import (
    EditError,
    edit_command,
    edit_script,
    format_script_words,
    parse_engine_script,
    select_new_arguments,
)
from fusioninfer_pulumi.engines.command_flags import split_joined_flags
from fusioninfer_pulumi.engines.engine import Argument, ContainerCommand, Engine, EngineCommand

#: Launchers that edit command lines.
COMMAND_EDITING_LAUNCHERS = (Launcher.RAY, Launcher.MULTIPROCESSING, Launcher.DATA_PARALLEL)
#: Port of ray's head.
RAY_PORT = 6379
#: Variable with a pod's IP address. ZeroMQ binds to addresses and not to names, so the leader of
#: data parallel ranks needs it. KServe's template resolves LWS_LEADER_ADDRESS for the same reason.
OWN_ADDRESS_ENV = "POD_IP"

_SHELL = ["/bin/sh", "-c"]
_START_HEAD = f"ray start --head --port={RAY_PORT}"
_JOIN = f"ray start --address=$LWS_LEADER_ADDRESS:{RAY_PORT} --block"
_RAY_BACKEND = Argument(("--distributed-executor-backend",), ("ray",))

# `ray health-check` succeeds once the head is up; KubeRay's workers also use it. The trap ends the
# wait on SIGTERM, which a shell as process 1 otherwise ignores. After the wait, `exec` replaces the
# shell with ray, so that ray receives the signals. A worker that has joined exits if the head dies.
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
    """Return the default launcher: ray for unknown engines. `data` is the data parallel size."""
    if engine is None:
        return Launcher.RAY
    supported = engine.multi_node.launchers
    # If the ranks divide evenly among the nodes, no rank (a copy of the model) spans nodes.
    divides_evenly = data is not None and data % nodes == 0
    if divides_evenly and Launcher.DATA_PARALLEL in supported:
        return Launcher.DATA_PARALLEL
    return supported[0]


def build_command(
    command: EngineCommand, launcher: Launcher, nodes: int, *, is_leader: bool, waits: bool = False
) -> ContainerCommand | None:
    """Return the command line of the leader or of a worker, or None if it does not change.

    `launcher` is one of `COMMAND_EDITING_LAUNCHERS`. If `waits` is True, a ray worker waits until
    the ray head is up instead of exiting, because some restart policies recreate the whole replica
    when a worker exits.

    Raises:
        EditError: If the launcher cannot start this command line.
    """
    engine = command.engine
    if engine is not None and launcher not in engine.multi_node.launchers:
        raise EditError(
            f"{engine.title} does not support launcher: {launcher.value}; use launcher: "
            f"{engine.multi_node.launchers[0].value}"
        )
    if launcher is Launcher.RAY:
        if is_leader:
            return _build_ray_command(command)
        return ContainerCommand(list(_SHELL), [_WAIT_AND_JOIN if waits else _JOIN])
    if engine is None:
        # Always raises an EditError with the reason why the engine is unknown.
        return edit_command(command)
    arguments = engine.multi_node.build_arguments(command, launcher, nodes, is_leader=is_leader)
    if launcher is Launcher.DATA_PARALLEL and command.script is None:
        return _build_data_parallel_command(command, arguments)
    return edit_command(command, arguments, use_args=True)


def _build_ray_command(command: EngineCommand) -> ContainerCommand:
    if command.script is not None:
        return _wrap_script_in_ray(command)
    if not command.program and not command.is_vllm_serve:
        raise EditError(
            "the container has no command, and the program that its image starts is unknown, so "
            "launcher: ray cannot start it after ray; give the container a command (for example "
            "[vllm, serve])"
        )
    program, arguments = _split_program(command)
    for argument in select_new_arguments(command, [_RAY_BACKEND]):
        arguments += argument.words
    # With `exec` the engine is process 1 and receives SIGTERM when the pod is deleted.
    return ContainerCommand(
        list(_SHELL), [f"{_START_HEAD} && exec {shlex.join([*program, *arguments])}"]
    )


def _wrap_script_in_ray(command: EngineCommand) -> ContainerCommand:
    script = parse_engine_script(command)
    if script.starts_ray:
        raise EditError(
            "the container's shell script starts ray itself, so a second ray start would fail; "
            "remove `ray start` from the script"
        )
    call = script.calls[0]  # the only one, see `parse_engine_script`
    text = edit_script(script, select_new_arguments(command, [_RAY_BACKEND]))
    if call.can_exec:  # edits come after `call.start`, so the offset still holds
        text = f"{text[: call.start]}exec {text[call.start :]}"
    if script.is_and_list:
        text = f"{_START_HEAD} && {text}"
    else:
        # Braces, so that no part of the script runs if ray fails to start.
        body = text.rstrip("\n")
        # A backslash at the end would join the closing brace to the last line.
        end = "\n\n" if body.endswith("\\") else "\n"
        text = f"{_START_HEAD} && {{\n{body}{end}}}"
    return ContainerCommand(*command.argv.with_script(text))


def _build_data_parallel_command(
    command: EngineCommand, arguments_to_set: Sequence[Argument]
) -> ContainerCommand:
    # The command is explicit, because the entrypoint of older images does not accept --headless.
    program, arguments = _split_program(command)
    shell_arguments: list[Argument] = []
    for argument in select_new_arguments(command, arguments_to_set):
        if argument.in_script and not argument.values:
            shell_arguments.append(argument)
        else:
            arguments += argument.words
    if not shell_arguments:
        return ContainerCommand(program, arguments)
    # The shell computes the values of `shell_arguments`, such as the node's first rank; `"$@"` are
    # the other words.
    script = f'exec {shlex.join(program)} "$@"{format_script_words(shell_arguments)}'
    return ContainerCommand(["/bin/sh", "-c", script, "sh"], arguments)


def _split_program(command: EngineCommand) -> tuple[list[str], list[str]]:
    """Return the program, `vllm serve` by default, and its arguments, a positional model first."""
    program = list(command.program)
    arguments = split_joined_flags(command.argv.texts()[len(program) :])
    if command.is_vllm_serve or not program:
        arguments = _move_model_to_front(arguments)
    return program or ["vllm", "serve"], arguments


def _move_model_to_front(arguments: list[str]) -> list[str]:
    if arguments and not arguments[0].startswith("-"):
        return arguments
    model, other_arguments, is_model = None, [], False
    for index, argument in enumerate(arguments):
        if is_model:
            model, is_model = argument, False
        elif argument == "--model" and index + 1 < len(arguments):
            is_model = True
        elif argument.startswith("--model="):
            model = argument.partition("=")[2]
        else:
            other_arguments.append(argument)
    return arguments if model is None else [model, *other_arguments]
