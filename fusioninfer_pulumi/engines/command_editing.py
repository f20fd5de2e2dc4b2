"""Sets and adds engine arguments in a container's command line.

A list stays a list and a shell script stays a script; launchers may wrap both later.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from fusioninfer_pulumi.engines._shell_words import UNKNOWN, Script, ShellError, parse_script
from fusioninfer_pulumi.engines.command_flags import normalize_flag, split_joined_flags
from fusioninfer_pulumi.engines.engine import Argument, ContainerCommand, EngineCommand

_LIST_HINT = "; write the command as a list"


class EditError(ValueError):
    """Raised for a command line that cannot be edited; the message has the reason and the fix."""


def set_command(container: Mapping[str, Any], edited: ContainerCommand | None) -> dict[str, Any]:
    """Return the container with the edited command line; unchanged if `edited` is None."""
    if edited is None:
        return dict(container)
    lists = {"command": edited.command, "args": edited.args}
    head = {key: container[key] for key in ("name", "image") if key in container}
    tail = {key: value for key, value in container.items() if key not in {**head, **lists}}
    # Kubernetes treats an empty list like a missing field, so empty fields are omitted.
    return {**head, **{key: value for key, value in lists.items() if value}, **tail}


def select_new_arguments(command: EngineCommand, arguments: Sequence[Argument]) -> list[Argument]:
    """Return the arguments that the command line lacks, and those with `replaces`."""
    return [
        argument for argument in arguments if argument.replaces or not command.has(*argument.names)
    ]


def edit_command(
    command: EngineCommand,
    arguments: Sequence[Argument] = (),
    *,
    model: str | None = None,
    use_args: bool = False,
) -> ContainerCommand | None:
    """Return the command line with the arguments set, or None if nothing changes.

    An argument with `replaces` overwrites a value, which keeps its position. Other arguments are
    added if they are missing: to `args`, or to `command` if there are no `args` and `use_args` is
    False. List elements such as `--port 8000` are split. A positional `model` comes first.

    Raises:
        EditError: If it is unknown where the arguments belong.
    """
    if command.argv.outputs:
        raise EditError(f"{command.argv.outputs[0]} is a pulumi Output as a whole{_LIST_HINT}")
    new_arguments = select_new_arguments(command, arguments)
    if command.argv.script_index is not None:
        script = parse_engine_script(command)
        text = edit_script(script, new_arguments, model)
        return None if text == script.text else ContainerCommand(*command.argv.with_script(text))
    if command.engine is None:
        raise EditError(
            "the container's command and image name neither vLLM nor SGLang; give it a command "
            "(for example [vllm, serve])"
        )
    argv, start = command.argv, len(command.program)
    # If `use_args` is set, a program in `args` moves to `command`; otherwise the image's entrypoint
    # would treat the program's name as an argument.
    command_end = start if use_args and command.program_in_args else len(argv.command)
    # Each word, and whether it belongs to `command`.
    words: list[tuple[Any, bool]] = []
    for index, word in enumerate(argv.words):
        parts = split_joined_flags([word]) if isinstance(word, str) else [word]
        words += [(part, index < command_end) for part in parts]
    if model is not None:
        words.insert(start, (model, start < command_end))
    has_args = any(not in_command for _, in_command in words)
    appends_to_command = not use_args and command_end > 0 and not has_args
    replacements, added = _find_replacements([word for word, _ in words], new_arguments)
    edited: list[tuple[Any, bool]] = []
    for index, (word, in_command) in enumerate(words):
        edited += [(part, in_command) for part in replacements.get(index, (word,))]
    edited += [(word, appends_to_command) for argument in added for word in argument.words]
    if [word for word, _ in edited] == list(argv.words) and command_end == len(argv.command):
        return None
    args = [word for word, in_command in edited if not in_command]
    return ContainerCommand([word for word, in_command in edited if in_command], args or None)


def _find_replacements(
    words: Sequence[Any], new_arguments: Sequence[Argument]
) -> tuple[dict[int, list[str]], list[Argument]]:
    """Return new words, keyed by the index of the word to replace, and the arguments to append."""
    replacing = {
        name: argument for argument in new_arguments if argument.replaces for name in argument.names
    }
    replacements: dict[int, list[str]] = {}
    used = []
    for index, word in enumerate(words):
        if not isinstance(word, str):
            continue
        name, equals, _ = word.partition("=")
        argument = replacing.get(normalize_flag(name))
        if argument is None:
            continue
        used.append(argument)
        (value,) = argument.values
        next_word = words[index + 1] if index + 1 < len(words) else None
        is_before_flag = isinstance(next_word, str) and next_word.startswith("--")
        if equals:
            replacements[index] = [f"{name}={value}"]
        elif next_word is None or is_before_flag:
            replacements[index] = [word, value]
        else:
            replacements[index + 1] = [value]
    return replacements, [argument for argument in new_arguments if argument not in used]


def parse_engine_script(command: EngineCommand) -> Script:
    """Return the script of a container's shell.

    Raises:
        EditError: If its text is unknown, cannot be parsed, or does not start exactly one engine.
    """
    if command.script == UNKNOWN:
        raise EditError(f"the script of the container's shell is a pulumi Output{_LIST_HINT}")
    problem = "starts neither vLLM nor SGLang"
    try:
        script = parse_script(command.argv)
        if len(script.calls) == 1:
            return script
        if script.calls:
            problem = "starts an engine in several places"
    except ShellError as error:
        problem = f"has {error}, which is not supported"
    raise EditError(f"the container's shell script {problem}{_LIST_HINT}")


def edit_script(script: Script, new_arguments: Sequence[Argument], model: str | None = None) -> str:
    """Return the text of a script with these arguments for its engine."""
    call, text = script.calls[0], script.text
    replacements, added = _find_replacements([word.value for word in call.words], new_arguments)
    # Edits proceed from the end of the script to its start, so that the offsets before an edit stay
    # valid.
    text = f"{text[: call.end]}{format_script_words(added)}{text[call.end :]}"
    for index, words in sorted(replacements.items(), reverse=True):
        word = call.words[index]
        text = f"{text[: word.start]}{shlex.join(words)}{text[word.end :]}"
    if model is None:
        return text
    return f"{text[: call.program_end]} {shlex.quote(model)}{text[call.program_end :]}"


def format_script_words(arguments: Sequence[Argument]) -> str:
    """Return arguments as shell text to append to a command of a script."""
    words = []
    for argument in arguments:
        words.append(argument.names[0])
        if argument.in_script is not None:
            words.append(argument.in_script)
        elif argument.values:
            words.append(shlex.join(argument.values))
    return "".join(f" {word}" for word in words)
