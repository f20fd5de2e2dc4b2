"""Finds the engine's simple command in a shell script, and where arguments can be added to it.

Only what the POSIX shell grammar and bash agree on is read; anything else (here-documents,
`$'...'`) is rejected rather than guessed, because the places are used to edit the script.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fusioninfer_pulumi.engines._container_words import Argv, basename, find_program

_SPACE = re.compile(r"(?:[ \t]|\\\n)+|#[^\n]*")
_REDIRECTION = re.compile(r"[0-9]*(?:&>>|&>|<<<|<>|>>|>\||[<>]&|[<>](?!\())")
_OPERATOR = re.compile(r"&&|\|\||;;&|;;|;&|\|&|[;&|()\n]")
_SINGLE, _ESCAPE, _BACKTICKS = r"'[^']*'", r"\\.", r"`(?:\\.|[^`\\])*`"
_PARENTHESES = r"(?!)"
for _ in range(4):  # as deep as substitutions are read
    _PARENTHESES = rf"\((?:{_ESCAPE}|{_SINGLE}|\"(?:\\.|[^\"\\])*\"|[^()'\"\\]|{_PARENTHESES})*\)"
_EXPANSION = rf"\${_PARENTHESES}|\$\{{[^{{}}]*(?:\{{[^{{}}]*\}}[^{{}}]*)*\}}|{_BACKTICKS}"
_DOUBLE = rf"\"(?:{_ESCAPE}|{_EXPANSION}|\$(?![({{])|[^\"\\`$])*\""
_PIECE = re.compile(
    rf"{_ESCAPE}|{_SINGLE}|{_DOUBLE}|{_EXPANSION}|[<>]{_PARENTHESES}|\$(?!['({{])"
    r"|[^\\'\"$` \t\n;&|()<>]+",
    re.DOTALL,
)
_WORD = re.compile(rf"(?:{_PIECE.pattern})+", re.DOTALL)


class ShellError(ValueError):
    """Raised for a script that cannot be read; the message names the construct."""


class Token(NamedTuple):
    """A word, an operator (`&&`, `;`, newline, ...) or a redirection operator."""

    kind: str
    text: str
    start: int

    @property
    def value(self) -> str:
        """The word without its quotes; expansions such as `$MODEL` are kept."""
        return "".join(map(_unquoted, _PIECE.findall(self.text)))

    @property
    def end(self) -> int:
        """Offset behind the last character."""
        return self.start + len(self.text)

    @property
    def open(self) -> bool:
        """Whether the word starts with an expansion, which may become several words or none."""
        return re.match(r"\"?[$`]|[<>]\(", self.text) is not None


def _unquoted(piece: str) -> str:
    if piece[0] == "'":
        return piece[1:-1]
    if piece[0] == '"':
        # Inside double quotes a backslash quotes only these; before others it is itself.
        return re.sub(r"\\\n|\\([$`\"\\])", r"\1", piece[1:-1])
    if piece[0] == "\\":
        return piece[1:].replace("\n", "")
    return piece


def tokens(script: str) -> Iterator[Token]:
    """Return the tokens of a script in order, without comments, blanks and line continuations.

    Raises:
        ShellError: For here-documents, unclosed quotes or parentheses, and `$'...'`.
    """
    at = 0
    while at < len(script):
        if match := _SPACE.match(script, at):
            at = match.end()
            continue
        if match := _REDIRECTION.match(script, at):
            if match[0].endswith("<") and script.startswith("<", match.end()):
                raise ShellError("a here-document (<<)")
            kind = "redirection"
        elif match := _OPERATOR.match(script, at):
            kind = "operator"
        elif match := _WORD.match(script, at):
            kind = "word"
        elif script.startswith("$'", at):
            raise ShellError("a $'...' string")
        else:
            raise ShellError(f"an unclosed {script[at:].lstrip('$<>')[:1]}")
        yield Token(kind, match[0], at)
        at = match.end()


_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_OPENING = ("if", "for", "while", "until", "case", "select", "{", "(")
_CLOSING = ("fi", "done", "esac", "}", ")")
# Operators that a newline does not end.
_CONTINUED = ("&&", "||", "|", "|&")
# Reserved words that may precede a command.
_RESERVED = (*_OPENING, *_CLOSING, "then", "elif", "else", "do", "!", "time", "function")
# Programs, not shell builtins or functions: `exec` may precede them.
_PROGRAMS = re.compile(
    r"vllm|sglang|python[0-9.]*|env|numactl|taskset|nice|nohup|stdbuf|setsid|tini|dumb-init"
)


@dataclass(frozen=True)
class EngineCall:
    """One place in a script where an engine is started.

    Attributes:
        engine: `vllm` or `sglang`.
        program: The words up to the engine's first argument.
        serve: Whether the program is `vllm serve`.
        words: The words behind the program.
        arguments: The engine's arguments, without quotes; expansions are kept.
        hidden: Whether expansions such as `$ARGS` may hold further arguments.
        start: Offset of the command's first word, behind any assignments.
        program_end: Offset behind the program.
        end: Offset behind its last word: further arguments go here.
        may_exec: Whether `exec` can be inserted at `start` without changing what the script does:
            the engine is the last command, not in a pipeline, and nothing waits for it.
    """

    engine: str
    program: tuple[str, ...]
    serve: bool
    words: tuple[Token, ...]
    arguments: tuple[str, ...]
    hidden: bool
    start: int
    program_end: int
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


def read_script(argv: Argv) -> Script:
    """Read the script of a container's shell, and find the engine commands in it.

    The words behind it (`$0`, `$1`, ...) are put in place of `"$@"`.

    Raises:
        ShellError: When the script uses something that cannot be read safely.
    """
    text, *parameters = argv.texts()[argv.script_at or 0 :]
    script_tokens = list(tokens(text))
    commands = _simple_commands(script_tokens)
    names = [[basename(word.value) for word in command.words] for command in commands]
    # `exec` would end the shell, and with it the trap that the script has set.
    may_exec = not any(words[0] == "trap" for words in names)
    calls = [
        _engine_call(command, parameters[1:], last=may_exec and command is commands[-1])
        for command in commands
    ]
    solid = [index for index, token in enumerate(script_tokens) if token.text != "\n"] or [0]
    inner = script_tokens[solid[0] : solid[-1] + 1]
    operators = {token.text for token in inner if token.kind == "operator"}
    return Script(
        text,
        tuple(call for call in calls if call is not None),
        operators <= {"&&", "|", "|&"},
        any(words[:2] == ["ray", "start"] or "multi-node-serving.sh" in words for words in names),
    )


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
            target = False  # the file of a redirection is not an argument
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
    words = command.words[program.end :]
    for index, word in enumerate(words):
        if word.text in ('"$@"', "$@", "$*"):
            arguments.extend(parameters)
            continue
        previous = arguments[-1] if arguments else ""
        # The first word may be the model and the word after a flag its value; an expansion
        # anywhere else may hold whole flags.
        hidden = hidden or (word.open and index > 0 and not previous.startswith("-"))
        arguments.append(word.value)
    alone = command.before in ("", "&&", ";", "\n") and command.after in ("", ";", "\n")
    is_program = _PROGRAMS.fullmatch(basename(values[0])) is not None
    return EngineCall(
        engine=program.engine,
        program=tuple(values[: program.end]),
        serve=program.serve,
        words=words,
        arguments=tuple(arguments),
        hidden=hidden,
        start=command.words[0].start,
        program_end=command.words[program.end - 1].end,
        end=command.words[-1].end,
        may_exec=last and alone and is_program and not command.nested,
    )
