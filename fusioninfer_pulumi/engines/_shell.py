"""Finds the engine's simple command in a shell script, and where arguments can be added to it.

Only what the POSIX shell grammar and bash agree on is read; anything else (here-documents,
`$'...'`) is refused rather than guessed, because the places are used to edit the script.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from fusioninfer_pulumi.engines._argv import basename, find_program

#: Scripts that start engines have a few hundred words.
_MOST_TOKENS = 20_000
_SPACE = re.compile(r"(?:[ \t]|\\\n)+")
_COMMENT = re.compile(r"#[^\n]*")
_REDIRECTION = re.compile(r"[0-9]*(?:&>>|&>|<<<|<>|>>|>\||[<>]&|[<>](?!\())")
_OPERATOR = re.compile(r"&&|\|\||;;&|;;|;&|\|&|[;&|()\n]")
_PLAIN = re.compile(r"[^\\'\"$` \t\n;&|()<>]+")
_NAMED = re.compile(r"\$(?:[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-])")


class ShellError(ValueError):
    """Raised for a script that cannot be read; the message says which construct is in the way."""


@dataclass(frozen=True)
class Token:
    """A word, an operator or a redirection operator.

    Attributes:
        kind: `word`, `operator` (`&&`, `;`, newline, ...) or `redirection`.
        value: The word without its quotes; expansions such as `$MODEL` stay as written.
        end: Offset behind the last character.
        open: Whether the word starts with an expansion outside of single quotes, which may become
            several words or none.
    """

    kind: Literal["word", "operator", "redirection"]
    text: str
    value: str
    start: int
    end: int
    open: bool = False


def tokens(script: str) -> Iterator[Token]:
    """The tokens of a script in order, without comments, blanks and line continuations.

    Raises:
        ShellError: For here-documents, unclosed quotes or parentheses, and `$'...'`.
    """
    at = 0
    while at < len(script):
        if match := _SPACE.match(script, at) or _COMMENT.match(script, at):
            at = match.end()
        elif match := _REDIRECTION.match(script, at):
            if match[0].endswith("<") and script.startswith("<", match.end()):
                raise ShellError("a here-document (<<)")
            yield Token("redirection", match[0], match[0], at, match.end())
            at = match.end()
        elif match := _OPERATOR.match(script, at):
            yield Token("operator", match[0], match[0], at, match.end())
            at = match.end()
        else:
            word = _word(script, at)
            yield word
            at = word.end


def _word(script: str, start: int) -> Token:
    at, value, opens = start, "", False
    while at < len(script):
        if match := _PLAIN.match(script, at):
            value, at = value + match[0], match.end()
        elif script.startswith("\\\n", at):
            at += 2
        elif script[at] == "\\":
            value, at = value + script[at + 1 : at + 2], at + 2
        elif script[at] == "'":
            end = _find(script, "'", at + 1)
            value, at = value + script[at + 1 : end], end + 1
        elif script[at] == '"':
            opens = opens or (at == start and script.startswith(("$", "`"), at + 1))
            text, at = _double_quoted(script, at + 1)
            value += text
        elif script[at] in "$`" or script.startswith(("<(", ">("), at):
            opens = opens or at == start
            end = _expansion(script, at)
            value, at = value + script[at:end], end
        else:
            break
    return Token("word", script[start:at], value, start, at, opens)


def _double_quoted(script: str, at: int) -> tuple[str, int]:
    value = ""
    while at < len(script):
        character = script[at]
        if character == '"':
            return value, at + 1
        if character == "\\":
            escaped = script[at + 1 : at + 2]
            # Inside double quotes a backslash quotes only these; before others it is itself.
            value += "" if escaped == "\n" else escaped if escaped in '$`"\\' else f"\\{escaped}"
            at += 2
        elif character in "$`":
            end = _expansion(script, at)
            value, at = value + script[at:end], end
        else:
            value, at = value + character, at + 1
    raise ShellError('an unclosed "')


def _expansion(script: str, at: int) -> int:
    if script.startswith("$'", at):
        raise ShellError("a $'...' string")
    if script[at] == "`":
        end = at + 1
        while (tick := _find(script, "`", end)) and script[tick - 1] == "\\":
            end = tick + 1
        return tick + 1
    if script.startswith("${", at):
        return _closed(script, at + 2, "{", "}")
    if script[at + 1 : at + 2] == "(":
        return _closed(script, at + 2, "(", ")")
    match = _NAMED.match(script, at)
    return match.end() if match else at + 1


def _closed(script: str, at: int, opening: str, closing: str) -> int:
    depth = 1
    while at < len(script):
        character = script[at]
        if character == "\\":
            at += 2
            continue
        if character == "'":
            at = _find(script, "'", at + 1)
        elif character == '"':
            at = _double_quoted(script, at + 1)[1] - 1
        elif character in (opening, closing):
            depth += 1 if character == opening else -1
        at += 1
        if depth == 0:
            return at
    raise ShellError(f"an unclosed {opening}")


def _find(script: str, text: str, at: int) -> int:
    position = script.find(text, at)
    if position < 0:
        raise ShellError(f"an unclosed {text}")
    return position


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
    """Reads what `sh -c` gets, and finds the engine commands in it.

    The words behind it (`$0`, `$1`, ...) are put in place of `"$@"`.

    Raises:
        ShellError: When the script uses something that cannot be read safely.
    """
    try:
        script_tokens = list(islice(tokens(text), _MOST_TOKENS + 1))
    except RecursionError:
        raise ShellError("quotes and expansions nested too deep") from None
    if len(script_tokens) > _MOST_TOKENS:
        raise ShellError(f"more than {_MOST_TOKENS} words")
    commands = _simple_commands(script_tokens)
    # `exec` would end the shell, and with it the trap that the script has set.
    traps = any(command.words[0].value == "trap" for command in commands)
    calls = []
    for index, command in enumerate(commands):
        last = index == len(commands) - 1 and not traps
        call = _engine_call(command, parameters[1:], last=last)
        if call is not None:
            calls.append(call)
    return Script(text, tuple(calls), _is_single(script_tokens), _starts_ray(commands))


def _starts_ray(commands: Sequence[_Command]) -> bool:
    for command in commands:
        names = [basename(word.value) for word in command.words]
        if names[:2] == ["ray", "start"] or "multi-node-serving.sh" in names:
            return True
    return False


def _is_single(script_tokens: Sequence[Token]) -> bool:
    texts = [token.text for token in script_tokens]
    while texts and texts[-1] == "\n":
        texts.pop()
    while texts and texts[0] == "\n":
        texts.pop(0)
    operators = [token.text for token in script_tokens if token.kind == "operator"]
    return all(text in ("&&", "|", "|&") or text not in operators for text in texts)


def _simple_commands(script_tokens: Sequence[Token]) -> list[_Command]:
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

    for token in script_tokens:
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
