"""Sets and adds arguments of an engine in a container's command line, whatever form that has.

Lists stay lists, a shell's script is edited in place, so that the launchers can wrap either
afterwards.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from fusioninfer_pulumi.engines._shell_scripts import EngineCall, Script, ShellError, read_script
from fusioninfer_pulumi.engines.command_flags import canonical, split_joined_flags
from fusioninfer_pulumi.engines.engine import Argument, ContainerCommand, EngineCommand
from fusioninfer_pulumi.kube.pulumi_outputs import is_output

_JOINED = "an argument that held a flag and its value was split, as a shell would have done"


class EditError(ValueError):
    """Raised for a command line that cannot be edited; the message gives the reason."""


def with_command(container: Mapping[str, Any], edited: ContainerCommand | None) -> dict[str, Any]:
    """Return the container with an edited command line, or unchanged if that is None.

    The command line follows name and image, where people look for it.
    """
    if edited is None:
        return dict(container)
    lists = {"command": edited.command, "args": edited.args}
    head = {key: container[key] for key in ("name", "image") if key in container}
    tail = {key: value for key, value in container.items() if key not in {**head, **lists}}
    # With an empty list the image's entrypoint runs.
    return {**head, **{key: value for key, value in lists.items() if value}, **tail}


def missing(command: EngineCommand, arguments: Sequence[Argument]) -> list[Argument]:
    """Return the arguments that a command line lacks, and those that replace existing ones."""
    return [
        argument for argument in arguments if argument.replaces or not command.has(*argument.names)
    ]


def edit(
    command: EngineCommand, arguments: Sequence[Argument] = (), *, model: str | None = None
) -> ContainerCommand | None:
    """Return a command line with the arguments that it lacks, None if it has them all.

    An argument that replaces another takes its position; all others are appended. List elements
    with a flag and its value are split. The positional model comes before all arguments.

    Raises:
        EditError: If the position of the arguments is unknown.
    """
    for name in command.argv.outputs:
        raise EditError(f"{name} is a pulumi Output as a whole")
    wanted = missing(command, arguments)
    if command.argv.script_at is not None:
        return _edit_script(command, wanted, model)
    if command.engine is None:
        raise EditError("the container's command and image name neither vLLM nor SGLang")
    return _edit_lists(command, wanted, model)


def _edit_lists(
    command: EngineCommand, wanted: Sequence[Argument], model: str | None
) -> ContainerCommand | None:
    argv, start = command.argv, len(command.program)
    in_command = len(argv.command)
    items = [(word, index < in_command) for index, word in enumerate(argv.words)]
    rest = [
        (part, where)
        for word, where in items[start:]
        for part in (split_joined_flags([word]) if isinstance(word, str) else [word])
    ]
    note = _JOINED if len(rest) > len(items) - start else None
    if model is not None:
        rest.insert(0, (model, start < in_command))
    to_command = in_command > 0 and all(where for _, where in [*items[:start], *rest])
    replaced, added = _replacements([word for word, _ in rest], wanted)
    edited = [
        *items[:start],
        *(
            (part, where)
            for index, (word, where) in enumerate(rest)
            for part in replaced.get(index, (word,))
        ),
        *((word, to_command) for argument in added for word in argument.words),
    ]
    if edited == items:
        return None
    args = [word for word, where in edited if not where]
    return ContainerCommand([word for word, where in edited if where], args or None, note)


def _replacements(
    words: Sequence[Any], wanted: Sequence[Argument]
) -> tuple[dict[int, list[str]], list[Argument]]:
    """Return the words that take the place of others, by their index, and the arguments to add."""
    by_name = {
        name: argument for argument in wanted if argument.replaces for name in argument.names
    }
    replaced: dict[int, list[str]] = {}
    replacing = []
    for index, word in enumerate(words):
        name, equals, _ = word.partition("=") if isinstance(word, str) else ("", "", "")
        argument = by_name.get(canonical(name))
        if argument is None:
            continue
        replacing.append(argument)
        (value,) = argument.values
        if equals:
            replaced[index] = [f"{name}={value}"]
            continue
        has_value = index + 1 < len(words)
        if has_value and isinstance(words[index + 1], str):
            has_value = not words[index + 1].startswith("--")
        if has_value:
            replaced[index + 1] = [value]
        else:
            replaced[index] = [word, value]
    return replaced, [argument for argument in wanted if argument not in replacing]


def read_engine_script(command: EngineCommand) -> Script:
    """Return the script of a container's shell, whose text is known.

    Raises:
        EditError: When it cannot be read, or starts no engine.
    """
    try:
        script = read_script(command.argv)
    except ShellError as error:
        raise EditError(
            f"the container's shell script has {error}, which is not understood"
        ) from error
    if not script.calls:
        raise EditError("the container's shell script starts neither vLLM nor SGLang")
    return script


def _edit_script(
    command: EngineCommand, wanted: Sequence[Argument], model: str | None
) -> ContainerCommand | None:
    if is_output(command.argv.script):
        raise EditError("the script of the container's shell is a pulumi Output")
    script = read_engine_script(command)
    text = script.text
    for call in reversed(script.calls):
        text = _edit_call(text, call, wanted, model)
    return None if text == script.text else ContainerCommand(*command.argv.with_script(text))


def _edit_call(text: str, call: EngineCall, wanted: Sequence[Argument], model: str | None) -> str:
    """Edit one command of a script, from its end to its start."""
    replaced, added = _replacements([word.value for word in call.words], wanted)
    text = f"{text[: call.end]}{format_script_words(added)}{text[call.end :]}"
    for index, words in sorted(replaced.items(), reverse=True):
        word = call.words[index]
        text = f"{text[: word.start]}{shlex.join(words)}{text[word.end :]}"
    if model is None:
        return text
    return f"{text[: call.program_end]} {shlex.quote(model)}{text[call.program_end :]}"


def format_script_words(arguments: Sequence[Argument]) -> str:
    """Return arguments as they are added behind a command of a script."""
    words = []
    for argument in arguments:
        values = argument.in_script
        words += [argument.names[0], shlex.join(argument.values) if values is None else values]
    return "".join(f" {word}" for word in words if word)
