"""Launches an engine on several nodes with its own arguments, without ray.

Every node runs the same command with its own rank. LeaderWorkerSet puts `LWS_LEADER_ADDRESS` and
`LWS_WORKER_INDEX` (0 on the leader) in front of every container's variables, so the kubelet can
expand them in `command` and `args`, and a shell in its script.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fusioninfer_pulumi.engines.command import EngineCommand, read_command
from fusioninfer_pulumi.engines.container_words import ContainerWords, read_words
from fusioninfer_pulumi.engines.facts import SGLANG_INIT_PORT, VLLM_MASTER_PORT
from fusioninfer_pulumi.engines.flags import flag_value, has_flag, integer
from fusioninfer_pulumi.engines.launch_script import (
    engine_script,
    program_and_arguments,
    refuse_whole_outputs,
)
from fusioninfer_pulumi.engines.launch_types import BY_HAND, Launch, LaunchError, launched
from fusioninfer_pulumi.engines.parallelism import read_parallelism

# With these every node serves its own endpoint or holds a rank that its command states: vLLM
# refuses them together with `--headless`, or the one template cannot say them for every node.
_OWN_RANKS = (
    ("--data-parallel-rank", "-dpn"),
    ("--data-parallel-start-rank", "-dpr"),
    ("--data-parallel-hybrid-lb", "-dph"),
    ("--data-parallel-external-lb", "-dpe"),
    ("--data-parallel-multi-port-external-lb", "-dpm"),
)


@dataclass(frozen=True)
class _Argument:
    names: tuple[str, ...]
    value: str | None  # LWS variables as {NAME}


def own_launch(container: Mapping[str, Any], nodes: int, *, leader: bool) -> Launch:
    """The command of one node: the container's own, with the engine's multi-node arguments.

    Data parallel ranks need no further arguments: vLLM divides them among the nodes by
    `--nnodes` and `--node-rank` (`create_engine_config`, 0.11.1 to 0.33.0).

    Args:
        container: The container as in the pod template.
        nodes: Pods of one replica.
        leader: Whether it is the leader, which serves.

    Returns:
        Command and args as they were written, with those arguments that they do not have yet.

    Raises:
        LaunchError: When the engine is not known, or cannot span nodes with these arguments.
    """
    command, words = read_command(container), read_words(container)
    refuse_whole_outputs(words)
    if words.script_at is not None:
        return _scripted(command, words, nodes, leader=leader)
    if command.engine is None:
        raise LaunchError(
            "launcher: multiprocessing adds the engine's own arguments, but the container's "
            "command and image name neither vLLM nor SGLang: give it a command (for example "
            f"[vllm, serve]), {BY_HAND}"
        )
    _check(command, command.arguments, nodes, serve=command.serve or not command.program)
    wanted = _arguments(command.engine, nodes, leader=leader)
    added: list[Any] = []
    for argument in wanted:
        if not has_flag(command.arguments, *argument.names):
            added.append(argument.names[0])
            if argument.value is not None:
                added.append(argument.value.replace("{", "$(").replace("}", ")"))
    return _listed(command, words, added)


def _listed(command: EngineCommand, words: ContainerWords, added: Sequence[Any]) -> Launch:
    program, arguments, joined = program_and_arguments(command, words)
    moved = ""
    first = words.command
    if command.program_in_args and command.image.engine == "vllm":
        # The image's own entrypoint is `vllm serve`: it would take these words as arguments.
        moved = "the program in args was moved to command"
        first = tuple(program)
    if joined or moved:
        # Where the program ends in `args`, so that `command` is only a part of it, it stays there.
        kept = [*program[len(first) :], *arguments]
        return launched(program[: len(first)], [*kept, *added], moved, joined)
    return launched(list(first), [*words.args, *added])


def _scripted(command: EngineCommand, words: ContainerWords, nodes: int, *, leader: bool) -> Launch:
    script = engine_script(words)
    text = script.text
    for call in reversed(script.calls):
        _check(command, call.arguments, nodes, serve=call.serve)
        added = ""
        for argument in _arguments(call.engine, nodes, leader=leader):
            if not has_flag(call.arguments, *argument.names):
                added += f" {argument.names[0]}"
                if argument.value is not None:
                    added += f" {_shell_value(argument.value)}"
        text = f"{text[: call.end]}{added}{text[call.end :]}"
    return launched(*words.with_word(words.script_at or 0, text))


def _shell_value(value: str) -> str:
    return f'"{value.replace("{", "${")}"' if "{" in value else value


def _arguments(engine: str, nodes: int, *, leader: bool) -> list[_Argument]:
    rank = "0" if leader else "{LWS_WORKER_INDEX}"
    if engine == "sglang":
        address = f"{{LWS_LEADER_ADDRESS}}:{SGLANG_INIT_PORT}"
        return [
            _Argument(("--nnodes",), str(nodes)),
            _Argument(("--node-rank",), rank),
            _Argument(("--dist-init-addr", "--nccl-init-addr"), address),
        ]
    arguments = [
        # vLLM 0.11.1 chooses the executor `uni` for ranks of one accelerator and then refuses
        # `--nnodes`; later releases choose `mp` or `uni` themselves.
        _Argument(("--distributed-executor-backend",), "mp"),
        _Argument(("--nnodes", "-n"), str(nodes)),
        _Argument(("--node-rank", "-r"), rank),
        _Argument(("--master-addr",), "{LWS_LEADER_ADDRESS}"),
        _Argument(("--master-port",), str(VLLM_MASTER_PORT)),
    ]
    # Only the leader serves HTTP; SGLang's other nodes do not serve either, without a flag.
    return arguments if leader else [*arguments, _Argument(("--headless",), None)]


def _check(command: EngineCommand, arguments: Sequence[str], nodes: int, *, serve: bool) -> None:
    if command.engine != "vllm":
        return
    if not serve:
        raise LaunchError(
            "launcher: multiprocessing starts workers with --headless, which only `vllm serve` "
            f"obeys: start the engine with `vllm serve`, {BY_HAND}"
        )
    if has_flag(arguments, "--headless"):
        raise LaunchError(
            "--headless would keep the leader from serving: leave it out, the workers get it from "
            f"launcher: multiprocessing, {BY_HAND}"
        )
    for names in _OWN_RANKS:
        if has_flag(arguments, *names):
            raise LaunchError(
                f"{names[0]} cannot be used with launcher: multiprocessing, where the leader alone "
                "serves and vLLM gives every node its data parallel ranks by --node-rank: leave it "
                f"out, {BY_HAND}"
            )
    if flag_value(arguments, "--data-parallel-backend", "-dpb") == "ray":
        raise LaunchError(
            "--data-parallel-backend ray cannot be used with launcher: multiprocessing: leave it "
            f"out, use launcher: ray, {BY_HAND}"
        )
    _check_local_ranks(command, arguments, nodes)


def _check_local_ranks(command: EngineCommand, arguments: Sequence[str], nodes: int) -> None:
    given = integer(flag_value(arguments, "--data-parallel-size-local", "-dpl"))
    parallelism = read_parallelism(command)
    if given is None or parallelism is None:
        return
    # How vLLM infers the number of local ranks: the share of a node, at least one.
    rank = parallelism.devices() // parallelism.data
    right = max(parallelism.devices() // nodes // rank, 1)
    if given != right:
        raise LaunchError(
            f"--data-parallel-size-local {given} does not fit --data-parallel-size "
            f"{parallelism.data} on {nodes} nodes, where each runs {right}: leave it out, {BY_HAND}"
        )
