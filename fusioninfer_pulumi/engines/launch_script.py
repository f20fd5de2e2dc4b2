"""What the launchers share that add arguments to a container's own command."""

from __future__ import annotations

from typing import Any

from fusioninfer_pulumi.engines.command import EngineCommand
from fusioninfer_pulumi.engines.container_words import ContainerWords
from fusioninfer_pulumi.engines.flags import split_joined_flags
from fusioninfer_pulumi.engines.launch_types import BY_HAND, LaunchError
from fusioninfer_pulumi.engines.shell_lexer import ShellError
from fusioninfer_pulumi.engines.shell_script import Script, read_script
from fusioninfer_pulumi.kube.outputs import is_output


def engine_script(words: ContainerWords) -> Script:
    """Reads the script of a container whose shell starts an engine.

    Args:
        words: The container's words; `script_at` must be set.

    Returns:
        The script, with at least one engine command.

    Raises:
        LaunchError: When it is an Output, cannot be read, or starts no known engine.
    """
    if is_output(words.words[words.script_at or 0]):
        raise output_error("the script of the container's shell")
    texts = words.texts()[words.script_at or 0 :]
    try:
        script = read_script(texts[0], texts[1:])
    except ShellError as error:
        raise LaunchError(
            f"the container's shell script has {error}, which is not understood, so arguments "
            f"cannot be added to the engine in it: write the command as a list, {BY_HAND}"
        ) from error
    if not script.calls:
        raise LaunchError(
            "the container's shell script starts no known engine (vllm serve, python3 -m "
            "sglang.launch_server), so the place for the engine's arguments is not known: write "
            f"the command as a list, {BY_HAND}"
        )
    return script


def program_and_arguments(
    command: EngineCommand, words: ContainerWords
) -> tuple[list[Any], list[Any], str]:
    """Takes a command that is no script apart, with a flag and its value as two arguments each.

    Args:
        command: What is known about the container's engine.
        words: The container's words.

    Returns:
        The program's words, its arguments, and what was changed; empty for nothing.
    """
    program = list(words.words[: len(command.program)])
    arguments: list[Any] = []
    for word in words.words[len(program) :]:
        arguments.extend(split_joined_flags([word]) if isinstance(word, str) else [word])
    split = len(program) + len(arguments) > len(words.words)
    note = "an argument that held a flag and its value was split" if split else ""
    return program, arguments, note


def refuse_whole_outputs(words: ContainerWords) -> None:
    """Refuses a command or args that is one Output, to which nothing can be added.

    Args:
        words: The container's words.

    Raises:
        LaunchError: When one is.
    """
    for name in words.outputs:
        raise LaunchError(
            f"{name} is a pulumi Output as a whole, so the engine's arguments cannot be added to "
            f"it: give a list, whose elements may be Outputs, {BY_HAND}"
        )


def output_error(place: str) -> LaunchError:
    """The refusal of an Output that has to be put into a shell script.

    Args:
        place: Where it stands, for example `args[2]`.
    """
    return LaunchError(
        f"{place} is a pulumi Output, but a shell script is written from it, so it must be quoted "
        "and therefore be a plain string: read the value from pulumi.Config instead (building the "
        "InferenceService inside Output.apply would hide it from preview), or pass it in an "
        "environment variable and write $(NAME)"
    )
