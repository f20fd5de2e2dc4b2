"""Adds arguments to an engine's command line, whatever form that has.

Lists stay lists, a shell's script is edited in place, so that the launchers can wrap either
afterwards. What is there already is left alone: compare before, add only what is missing.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from fusioninfer_pulumi.engines.command import read_command
from fusioninfer_pulumi.engines.container_words import ContainerWords, read_words
from fusioninfer_pulumi.engines.kv_settings import SettingError, with_settings
from fusioninfer_pulumi.engines.launch_types import Launch, with_words
from fusioninfer_pulumi.engines.shell_lexer import ShellError, tokens
from fusioninfer_pulumi.engines.shell_script import EngineCall, read_script


def with_arguments(
    container: Mapping[str, Any], added: Sequence[str], *, model: str | None = None
) -> Launch | None:
    """Adds arguments behind the engine's own.

    Args:
        container: The serving container as in the pod template; it is not changed.
        added: The arguments; may hold `$(NAME)`, which the kubelet expands.
        model: The engine's positional model, which stands before all arguments; None for none.

    Returns:
        Command and args; None when there is nothing to add.

    Raises:
        SettingError: When the place for the arguments is not known.
    """
    if not added and model is None:
        return None
    # Refuses what cannot be edited, and splits arguments that were joined.
    edit = with_settings(container, ())
    container = with_words(container, edit)
    words_given = read_words(container)
    if words_given.script_at is not None:
        launch = _scripted(words_given, added, model)
    else:
        launch = _listed(words_given, len(read_command(container).program), added, model)
    return Launch(launch.command, launch.args, edit.note if edit is not None else None)


def _listed(words: ContainerWords, start: int, added: Sequence[str], model: str | None) -> Launch:
    command, args = list(words.command), list(words.args)
    first = [] if model is None else [model]
    if start < len(command):
        command[start:start] = first
    else:
        at = start - len(command)
        args[at:at] = first
    if command and not args:
        return Launch([*command, *added], None, None)
    return Launch(command, [*args, *added], None)


def _scripted(words: ContainerWords, added: Sequence[str], model: str | None) -> Launch:
    at = words.script_at or 0
    texts = words.texts()[at:]
    try:
        script = read_script(texts[0], texts[1:])
    except ShellError as error:
        raise SettingError(str(error)) from error
    text = script.text
    tail = "".join(f" {shlex.quote(word)}" for word in added)
    for call in reversed(script.calls):
        text = f"{text[: call.end]}{tail}{text[call.end :]}"
        if model is not None:
            place = _program_end(script.text, call)
            text = f"{text[:place]} {shlex.quote(model)}{text[place:]}"
    return Launch(*words.with_word(at, text), None)


def _program_end(text: str, call: EngineCall) -> int:
    found = [token for token in tokens(text[call.start : call.end]) if token.kind == "word"]
    return call.start + found[len(call.program) - 1].end
