"""Sets and adds arguments of an engine in a container's command line, whatever form that has.

Lists stay lists, a shell's script is edited in place, so that the launchers can wrap either
afterwards.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from fusioninfer_pulumi.engines._argv import Argv
from fusioninfer_pulumi.engines._shell import (
    EngineCall,
    Script,
    ShellError,
    Token,
    read_script,
    tokens,
)
from fusioninfer_pulumi.engines.engine import Argument, ContainerCommand, EngineCommand
from fusioninfer_pulumi.engines.flags import canonical, split_joined_flags
from fusioninfer_pulumi.kube.outputs import is_output

#: A word, and whether it stands in `command`.
_Item = tuple[Any, bool]

_JOINED = "an argument that held a flag and its value was split, as a shell would have done"


class EditError(ValueError):
    """Raised for a command line that cannot be edited; the message says why."""


def with_command(container: Mapping[str, Any], edited: ContainerCommand | None) -> dict[str, Any]:
    """A container that runs an edited command line; as it was without one.

    The command line follows name and image, where people look for it.
    """
    if edited is None:
        return dict(container)
    lists = {"command": edited.command, "args": edited.args}
    head = {key: container[key] for key in ("name", "image") if key in container}
    tail = {key: value for key, value in container.items() if key not in {**head, **lists}}
    # An empty list leaves the image's own entrypoint.
    return {**head, **{key: value for key, value in lists.items() if value}, **tail}


def missing(command: EngineCommand, arguments: Sequence[Argument]) -> list[Argument]:
    """The arguments that a command line does not have, and those that replace what it has."""
    return [
        argument for argument in arguments if argument.replaces or not command.has(*argument.names)
    ]


def edit(
    command: EngineCommand, arguments: Sequence[Argument] = (), *, model: str | None = None
) -> ContainerCommand | None:
    """A command line with the arguments that it lacks; None when it is right as it is.

    An argument that replaces another gets its value where that stands; all others are added at
    the end. Elements that hold a flag and its value are split. The positional model stands before
    all arguments.

    Raises:
        EditError: When the place for the arguments is not known.
    """
    for name in command.argv.outputs:
        raise EditError(f"{name} is a pulumi Output as a whole")
    wanted = missing(command, arguments)
    if command.argv.script_at is not None:
        return _edit_script(command.argv, wanted, model)
    if command.engine is None:
        raise EditError("the container's command and image name neither vLLM nor SGLang")
    return _edit_lists(command, wanted, model)


def _edit_lists(
    command: EngineCommand, wanted: Sequence[Argument], model: str | None
) -> ContainerCommand | None:
    argv, start = command.argv, len(command.program)
    in_command = len(argv.command)
    items = [(word, index < in_command) for index, word in enumerate(argv.words)]
    program = items[:start]
    rest = [
        (part, where)
        for word, where in items[start:]
        for part in (split_joined_flags([word]) if isinstance(word, str) else [word])
    ]
    note = _JOINED if len(rest) > len(items) - start else None
    if model is not None:
        rest.insert(0, (model, start < in_command))
    to_command = in_command > 0 and all(where for _, where in [*program, *rest])
    for argument in wanted:
        replaced = _replaced(rest, argument, to_command=to_command) if argument.replaces else None
        rest = replaced or [*rest, *((word, to_command) for word in argument.words)]
    edited = [*program, *rest]
    if edited == items:
        return None
    args = [word for word, where in edited if not where]
    return ContainerCommand([word for word, where in edited if where], args or None, note)


def _replaced(
    items: Sequence[_Item], argument: Argument, *, to_command: bool
) -> list[_Item] | None:
    """The items with an argument's value where it stands; None where it does not stand."""
    (value,) = argument.values
    result: list[_Item] = []
    is_replaced = value_next = False
    for word, where in items:
        name, equals, _ = word.partition("=") if isinstance(word, str) else ("", "", "")
        if value_next:
            result.append((value, where))
            value_next = False
            if not name.startswith("--"):
                continue  # it was the value
        if canonical(name) in argument.names:
            is_replaced, value_next = True, not equals
            result.append((f"{name}={value}" if equals else word, where))
        else:
            result.append((word, where))
    if value_next:
        result.append((value, to_command))
    return result if is_replaced else None


def _edit_script(
    argv: Argv, wanted: Sequence[Argument], model: str | None
) -> ContainerCommand | None:
    if is_output(argv.script):
        raise EditError("the script of the container's shell is a pulumi Output")
    try:
        script = script_of(argv)
    except ShellError as error:
        raise EditError(
            f"the container's shell script has {error}, which is not understood"
        ) from error
    if not script.calls:
        raise EditError("the container's shell script starts neither vLLM nor SGLang")
    text, joined = script.text, False
    for call in reversed(script.calls):
        line, split = _edit_call(text[call.start : call.end], call, wanted, model)
        text, joined = f"{text[: call.start]}{line}{text[call.end :]}", joined or split
    if text == script.text:
        return None
    return ContainerCommand(*argv.with_script(text), _JOINED if joined else None)


def script_of(argv: Argv) -> Script:
    """The script that a container's shell gets.

    Raises:
        ShellError: When it cannot be read.
    """
    texts = argv.texts()[argv.script_at or 0 :]
    return read_script(texts[0], texts[1:])


def script_words(arguments: Sequence[Argument]) -> str:
    """Arguments as they are added behind a command of a script."""
    texts = [
        [
            argument.names[0],
            argument.in_script if argument.in_script is not None else shlex.join(argument.values),
        ]
        for argument in arguments
    ]
    return "".join(f" {word}" for text_words in texts for word in text_words if word)


def _edit_call(
    line: str, call: EngineCall, wanted: Sequence[Argument], model: str | None
) -> tuple[str, bool]:
    """Edits one command of a script, from its end to its start."""
    words = _words(line)
    program, arguments = words[: len(call.program)], words[len(call.program) :]
    edits: list[tuple[int, int, str]] = []
    if model is not None:
        edits.append((program[-1].end, program[-1].end, f" {shlex.quote(model)}"))
    unset = list(wanted)
    joined = False
    for index, word in enumerate(arguments):
        name, equals, _ = word.value.partition("=")
        following = arguments[index + 1] if index + 1 < len(arguments) else None
        parts = split_joined_flags([word.value])
        if len(parts) > 1 and not set("$`") & set(word.text):
            # Quoted as one word, so the shell does not split it either.
            joined = True
            for argument in wanted:
                items = [(part, False) for part in parts]
                replaced = (
                    _replaced(items, argument, to_command=False) if argument.replaces else None
                )
                if replaced is not None:
                    parts = [part for part, _ in replaced]
                    unset = [other for other in unset if other is not argument]
            edits.append((word.start, word.end, shlex.join(parts)))
        for argument in wanted:
            if not argument.replaces or canonical(name) not in argument.names:
                continue
            unset = [other for other in unset if other is not argument]
            (value,) = map(shlex.quote, argument.values)
            if equals:
                edits.append((word.start, word.end, f"{name}={value}"))
            elif following is not None and not following.value.startswith("--"):
                edits.append((following.start, following.end, value))
            else:
                edits.append((word.end, word.end, f" {value}"))
    for start, end, new in sorted(edits, reverse=True):
        line = f"{line[:start]}{new}{line[end:]}"
    return f"{line}{script_words(unset)}", joined


def _words(line: str) -> list[Token]:
    """The words of a command, without the targets of its redirections."""
    word_tokens: list[Token] = []
    target = False
    for token in tokens(line):
        if token.kind == "word" and not target:
            word_tokens.append(token)
        target = token.kind == "redirection"
    return word_tokens
