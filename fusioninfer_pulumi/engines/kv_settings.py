"""Sets flags of an engine in a container's command line, whatever form that has.

A flag that is there gets the new value where it stands; one that is not is added at the end. Lists
stay lists, a shell's script is edited in place, so that the launchers can wrap either afterwards.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fusioninfer_pulumi.engines.command import read_command
from fusioninfer_pulumi.engines.container_words import ContainerWords, read_words
from fusioninfer_pulumi.engines.flags import canonical, split_joined_flags
from fusioninfer_pulumi.engines.launch_types import Launch
from fusioninfer_pulumi.engines.shell_lexer import ShellError, Token, tokens
from fusioninfer_pulumi.engines.shell_script import EngineCall, read_script
from fusioninfer_pulumi.kube.outputs import is_output

_JOINED = "an argument that held a flag and its value was split, as a shell would have done"


class SettingError(ValueError):
    """Raised for a command line in which no flag can be set; the message says why."""


@dataclass(frozen=True)
class Setting:
    """A flag and the value that it shall have.

    Attributes:
        flag: The flag's long spelling, with dashes.
        value: Its value; may hold `$(NAME)`, which the kubelet expands.
    """

    flag: str
    value: str


def with_settings(container: Mapping[str, Any], settings: Sequence[Setting]) -> Launch | None:
    """Sets flags, and splits arguments that hold a flag and its value in one.

    Args:
        container: The serving container as in the pod template; it is not changed.
        settings: What to set; may be empty.

    Returns:
        Command and args, None when they are right as they are.

    Raises:
        SettingError: When the place for the flags is not known.
    """
    command, words = read_command(container), read_words(container)
    for name in words.outputs:
        raise SettingError(f"{name} is a pulumi Output as a whole")
    if words.script_at is not None:
        return _scripted(words, settings)
    if command.engine is None:
        raise SettingError("the container's command and image name neither vLLM nor SGLang")
    return _listed(words, len(command.program), settings)


def _listed(words: ContainerWords, start: int, settings: Sequence[Setting]) -> Launch | None:
    in_command = len(words.command)
    items = [(word, index < in_command) for index, word in enumerate(words.words)]
    rest = [
        (part, where)
        for word, where in items[start:]
        for part in (split_joined_flags([word]) if isinstance(word, str) else [word])
    ]
    note = _JOINED if len(rest) > len(items) - start else None
    for setting in settings:
        rest = _set(rest, setting, to_command=bool(words.command) and not words.args)
    wanted = [*items[:start], *rest]
    if wanted == items:
        return None
    args = [word for word, where in wanted if not where]
    return Launch([word for word, where in wanted if where], args or None, note)


def _set(
    items: Sequence[tuple[Any, bool]], setting: Setting, *, to_command: bool
) -> list[tuple[Any, bool]]:
    result: list[tuple[Any, bool]] = []
    found = value_next = False
    for word, where in items:
        name, equals, _ = word.partition("=") if isinstance(word, str) else ("", "", "")
        if value_next:
            result.append((setting.value, where))
            value_next = False
            if not name.startswith("--"):
                continue  # it was the value
        if canonical(name) == setting.flag:
            found, value_next = True, not equals
            result.append((f"{name}={setting.value}" if equals else word, where))
        else:
            result.append((word, where))
    if value_next:
        result.append((setting.value, to_command))
    if not found:
        result += [(setting.flag, to_command), (setting.value, to_command)]
    return result


def _scripted(words: ContainerWords, settings: Sequence[Setting]) -> Launch | None:
    at = words.script_at or 0
    if is_output(words.words[at]):
        raise SettingError("the script of the container's shell is a pulumi Output")
    texts = words.texts()[at:]
    try:
        script = read_script(texts[0], texts[1:])
    except ShellError as error:
        raise SettingError(
            f"the container's shell script has {error}, which is not understood"
        ) from error
    if not script.calls:
        raise SettingError("the container's shell script starts neither vLLM nor SGLang")
    text, joined = script.text, False
    for call in reversed(script.calls):
        line = text[call.start : call.end]
        edited, split = _line(line, call, settings)
        text, joined = f"{text[: call.start]}{edited}{text[call.end :]}", joined or split
    if text == script.text:
        return None
    command, args = words.with_word(at, text)
    return Launch(command, args, _JOINED if joined else None)


def _line(line: str, call: EngineCall, settings: Sequence[Setting]) -> tuple[str, bool]:
    """Edits one command of a script, from its end to its start."""
    edits: list[tuple[int, int, str]] = []
    given = _arguments(line)[len(call.program) :]
    missing = list(settings)
    joined = False
    for index, word in enumerate(given):
        name, equals, _ = word.value.partition("=")
        following = given[index + 1] if index + 1 < len(given) else None
        parts = split_joined_flags([word.value])
        if len(parts) > 1 and not set("$`") & set(word.text):
            # Quoted as one word, so the shell does not split it either.
            joined = True
            values = {setting.flag: setting.value for setting in settings}
            if canonical(parts[0]) in values:
                parts[1:] = [values[canonical(parts[0])]]
                missing = [each for each in missing if each.flag != canonical(parts[0])]
            edits.append((word.start, word.end, shlex.join(parts)))
        for setting in settings:
            if canonical(name) != setting.flag:
                continue
            missing = [each for each in missing if each is not setting]
            quoted = shlex.quote(setting.value)
            if equals:
                edits.append((word.start, word.end, f"{name}={quoted}"))
            elif following is not None and not following.value.startswith("--"):
                edits.append((following.start, following.end, quoted))
            else:
                edits.append((word.end, word.end, f" {quoted}"))
    for start, end, new in sorted(edits, reverse=True):
        line = f"{line[:start]}{new}{line[end:]}"
    added = "".join(f" {each.flag} {shlex.quote(each.value)}" for each in missing)
    return f"{line}{added}", joined


def _arguments(line: str) -> list[Token]:
    """The words of a command, without the targets of its redirections."""
    found: list[Token] = []
    target = False
    for token in tokens(line):
        if token.kind == "word" and not target:
            found.append(token)
        target = token.kind == "redirection"
    return found
