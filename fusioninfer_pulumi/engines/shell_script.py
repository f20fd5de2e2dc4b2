"""Finds the engine's simple command in a shell script, and where arguments can be added to it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from fusioninfer_pulumi.engines.programs import basename, find_program
from fusioninfer_pulumi.engines.shell_lexer import Token, tokens

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_OPENING = ("if", "for", "while", "until", "case", "select", "{", "(")
_CLOSING = ("fi", "done", "esac", "}", ")")
# Operators that a newline does not end.
_CONTINUED = ("&&", "||", "|", "|&")
# Words that may stand before a command without being one.
_RESERVED = (*_OPENING, *_CLOSING, "then", "elif", "else", "do", "!", "time", "function")
# Programs, not shell builtins or functions: `exec` may stand before them.
_PROGRAMS = re.compile(r"vllm|sglang|python[0-9.]*")
_PREFIXES = ("env", "numactl", "taskset", "nice", "nohup", "stdbuf", "setsid", "tini", "dumb-init")


@dataclass(frozen=True)
class EngineCall:
    """One place in a script where an engine is started.

    Attributes:
        engine: `vllm` or `sglang`.
        program: The words up to the engine's first argument.
        serve: Whether the program is `vllm serve`.
        arguments: The engine's arguments, without quotes; expansions stay as written.
        hidden: Whether expansions such as `$ARGS` may hold further arguments.
        start: Offset of the command's first word, behind any assignments.
        end: Offset behind its last word: further arguments go here.
        may_exec: Whether `exec` can stand at `start` without changing what the script does: the
            engine is the last command, on its own, and nothing waits for it.
    """

    engine: str
    program: tuple[str, ...]
    serve: bool
    arguments: tuple[str, ...]
    hidden: bool
    start: int
    end: int
    may_exec: bool


@dataclass(frozen=True)
class Script:
    """A shell script that was read.

    Attributes:
        text: The script.
        calls: Where it starts an engine.
        single: Whether it is one pipeline, or several joined by `&&` only, so that `x && script`
            runs all of it after `x`, or none.
        starts_ray: Whether it starts ray itself, as vLLM's multi-node-serving.sh does as well.
    """

    text: str
    calls: tuple[EngineCall, ...]
    single: bool
    starts_ray: bool


@dataclass(frozen=True)
class _Command:
    words: tuple[Token, ...]
    before: str
    after: str
    nested: bool


def read_script(text: str, parameters: Sequence[str] = ()) -> Script:
    """Reads a shell script.

    Args:
        text: What `sh -c` gets.
        parameters: The words behind it: `$0`, `$1`, ...; they are put in place of `"$@"`.

    Returns:
        The engine commands in it.

    Raises:
        ShellError: When the script uses something that cannot be read safely.
    """
    found = list(tokens(text))
    commands = _simple_commands(found)
    # `exec` would end the shell, and with it the trap that the script has set.
    traps = any(command.words[0].value == "trap" for command in commands)
    calls = []
    for index, command in enumerate(commands):
        last = index == len(commands) - 1 and not traps
        call = _engine_call(command, parameters[1:], last=last)
        if call is not None:
            calls.append(call)
    return Script(text, tuple(calls), _is_single(found), _starts_ray(commands))


def _starts_ray(commands: Sequence[_Command]) -> bool:
    for command in commands:
        names = [basename(word.value) for word in command.words]
        if names[:2] == ["ray", "start"] or "multi-node-serving.sh" in names:
            return True
    return False


def _is_single(found: Sequence[Token]) -> bool:
    texts = [token.text for token in found]
    while texts and texts[-1] == "\n":
        texts.pop()
    while texts and texts[0] == "\n":
        texts.pop(0)
    operators = [token.text for token in found if token.kind == "operator"]
    return all(text in ("&&", "|", "|&") or text not in operators for text in texts)


def _simple_commands(found: Sequence[Token]) -> list[_Command]:
    commands: list[_Command] = []
    words: list[Token] = []
    before, depth, target = "", 0, False

    def finish(after: str) -> None:
        nonlocal before, words
        if words:
            commands.append(_Command(tuple(words), before, after, nested=depth > 0))
        if words or after != "\n" or before not in _CONTINUED:
            before = after
        words = []

    for token in found:
        if token.kind == "operator":
            finish(token.text)
            depth += (token.text == "(") - (token.text == ")")
        elif token.kind == "redirection":
            target = True
        elif target:
            target = False  # the file that a redirection names is no argument
        elif not words and token.text in _RESERVED:
            depth += (token.text in _OPENING) - (token.text in _CLOSING)
            before = token.text
        elif words or not _ASSIGNMENT.match(token.text):
            words.append(token)
    finish("")
    return commands


def _engine_call(command: _Command, parameters: Sequence[str], *, last: bool) -> EngineCall | None:
    values = [word.value for word in command.words]
    program = find_program(values)
    if program is None:
        return None
    arguments: list[str] = []
    hidden = False
    for index, word in enumerate(command.words[program.end :]):
        if word.text in ('"$@"', "$@", "$*"):
            arguments.extend(parameters)
            continue
        previous = arguments[-1] if arguments else ""
        # The first word may be the model and the word after a flag its value; an expansion
        # anywhere else may hold whole flags.
        hidden = hidden or (word.open and index > 0 and not previous.startswith("-"))
        arguments.append(word.value)
    alone = command.before in ("", "&&", ";", "\n") and command.after in ("", ";", "\n")
    first = basename(values[0])
    external = first in _PREFIXES or _PROGRAMS.fullmatch(first) is not None
    return EngineCall(
        engine=program.engine,
        program=tuple(values[: program.end]),
        serve=program.serve,
        arguments=tuple(arguments),
        hidden=hidden,
        start=command.words[0].start,
        end=command.words[-1].end,
        may_exec=last and alone and external and not command.nested,
    )
