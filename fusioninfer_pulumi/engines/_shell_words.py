"""A container's `command` and `args` as words, the engine's program, and shell scripts.

`parse_script` finds the command that starts the engine, and the offsets at which it can be edited.
Here-documents and `$'...'` are rejected rather than guessed, because a wrong offset would corrupt
the script. All other syntax is parsed as in bash.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from posixpath import basename
from typing import Any, NamedTuple

from fusioninfer_pulumi.kube.pulumi_outputs import is_output

#: Stands for a Pulumi Output, whose text is unknown at plan time.
UNKNOWN = "<output>"

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_SHELLS = ("sh", "bash", "dash", "ash", "ksh", "zsh")
# Programs that start a shell given in their arguments.
_WRAPPERS = ("env", "tini", "dumb-init", "nvidia_entrypoint.sh")


class Argv(NamedTuple):
    """A container's `command` and `args`; a field that is not set is empty."""

    command: tuple[Any, ...] = ()
    args: tuple[Any, ...] = ()
    outputs: tuple[str, ...] = ()  #: fields (`command`, `args`) that are Outputs
    script_index: int | None = None  #: index of the script of `sh -c` in `words`, or None

    @property
    def words(self) -> tuple[Any, ...]:
        """Command and args, joined."""
        return self.command + self.args

    def texts(self) -> list[str]:
        """Return the words as text, `UNKNOWN` for each Output."""
        return [UNKNOWN if is_output(word) else str(word) for word in self.words]

    def with_script(self, text: str) -> tuple[list[Any], list[Any] | None]:
        """Return command and args with the script replaced; args is None if it would be empty."""
        words = [text if i == self.script_index else word for i, word in enumerate(self.words)]
        return words[: len(self.command)], words[len(self.command) :] or None


def parse_argv(container: Mapping[str, Any]) -> Argv:
    """Return the words of a container's `command` and `args`; never raises."""
    lists: dict[str, tuple[Any, ...]] = {}
    outputs = []
    for key in ("command", "args"):
        value = container.get(key, ())
        if is_output(value):
            outputs.append(key)
        is_list = isinstance(value, Sequence) and not isinstance(value, (str, bytes))
        lists[key] = tuple(value) if is_list else ()
    script_index = None
    # If the command is an Output, it may or may not be a shell, so no word is known to be a script.
    if "command" not in outputs:
        script_index = _find_script(lists["command"] + lists["args"])
    return Argv(lists["command"], lists["args"], tuple(outputs), script_index)


def _find_script(words: Sequence[Any]) -> int | None:
    """Return the index of the script after `sh -c` or `bash -euo pipefail -c`, or None."""
    shells = [index for index, word in enumerate(words) if basename(str(word)) in _SHELLS]
    if not shells:
        return None
    shell_index = shells[0]
    # Only wrappers, their options and assignments may precede the shell, as in `env A=1 sh -c`.
    for word in words[:shell_index]:
        is_option = isinstance(word, str) and (word.startswith("-") or _ASSIGNMENT.match(word))
        if not is_option and basename(str(word)) not in _WRAPPERS:
            return None
    is_option_value = False  # such as `pipefail` in `-o pipefail`
    for index, word in enumerate(words[shell_index + 1 :], shell_index + 1):
        if not isinstance(word, str) or not (is_option_value or word.startswith(("-", "+"))):
            return None
        letters = "" if is_option_value or word.startswith("--") else word[1:]
        if "c" in letters and word.startswith("-"):
            # In `-euco pipefail SCRIPT` the value of `o` comes before the script.
            script_index = index + 1 + letters.count("o")
            return script_index if script_index < len(words) else None
        is_option_value = "o" in letters
    return None


# Modules that `python3 -m` runs, and the engine that each starts.
_MODULES = {
    # The entrypoint of vLLM's images up to v0.11.0.
    "vllm.entrypoints.openai.api_server": "vllm",
    "sglang.launch_server": "sglang",
}
_VLLM_CLI = "vllm.entrypoints.cli.main"  # the module that the program `vllm` runs
_PYTHON = re.compile(r"python[0-9.]*")
# Interpreter options that take the next word as their value.
_PYTHON_VALUED = ("-X", "-W", "--check-hash-based-pycs")
# Programs whose arguments may name an engine that they do not start.
_OTHER_PROGRAMS = ("echo", "printf", "pip", "pip3", "which", "test", "[", "grep", "pkill", "pgrep")


class Program(NamedTuple):
    """An engine's program in a list of words."""

    engine: str  #: `vllm` or `sglang`
    words: tuple[str, ...]  #: the words before the engine's first argument
    is_vllm_serve: bool  #: whether it is `vllm serve`; see `EngineCommand`


def find_program(words: Sequence[str]) -> Program | None:
    """Find the first engine program in a command line.

    Programs are `vllm serve`, `sglang serve`, `python3 -m sglang.launch_server`, and `python3 -m`
    with vLLM's `entrypoints.openai.api_server` or `entrypoints.cli.main serve`, also with a full
    path or after a prefix such as `exec`, `env A=1`, `numactl ...` or `tini --`.
    """
    if words and basename(words[0]) in _OTHER_PROGRAMS:
        return None
    for index, word in enumerate(words):
        name = basename(word)
        if name in ("vllm", "sglang") and words[index + 1 : index + 2] == ["serve"]:
            return Program(name, tuple(words[: index + 2]), is_vllm_serve=name == "vllm")
        if _PYTHON.fullmatch(name):
            program = _find_python_program(words, index + 1)
            if program is not None:
                return program
    return None


def _find_python_program(words: Sequence[str], index: int) -> Program | None:
    while index < len(words) and words[index].startswith("-") and words[index] != "-m":
        index += 2 if words[index] in _PYTHON_VALUED else 1
    if index + 1 >= len(words) or words[index] != "-m":
        return None
    module, end = words[index + 1], index + 2
    if module == _VLLM_CLI and words[end : end + 1] == ["serve"]:
        return Program("vllm", tuple(words[: end + 1]), is_vllm_serve=True)
    if module in _MODULES:
        return Program(_MODULES[module], tuple(words[:end]), is_vllm_serve=False)
    return None


_SPACE = re.compile(r"(?:[ \t]|\\\n)+|#[^\n]*")
_REDIRECTION = re.compile(r"[0-9]*(?:&>>|&>|<<<|<>|>>|>\||[<>]&|[<>](?!\())")
_OPERATOR = re.compile(r"&&|\|\||;;&|;;|;&|\|&|[;&|()\n]")
_SINGLE, _ESCAPE, _BACKTICKS = r"'[^']*'", r"\\.", r"`(?:\\.|[^`\\])*`"
_PARENTHESES = r"(?!)"  # matches nothing
for _ in range(4):  # each round adds a level of nested substitutions
    _PARENTHESES = rf"\((?:{_ESCAPE}|{_SINGLE}|\"(?:\\.|[^\"\\])*\"|[^()'\"\\]|{_PARENTHESES})*\)"
_EXPANSION = rf"\${_PARENTHESES}|\$\{{[^{{}}]*(?:\{{[^{{}}]*\}}[^{{}}]*)*\}}|{_BACKTICKS}"
_DOUBLE = rf"\"(?:{_ESCAPE}|{_EXPANSION}|\$(?![({{])|[^\"\\`$])*\""
# A quoted, expanded or plain part of a word. Compiled only when a script is read, because compiling
# takes longer than checking most manifests.
_PIECE = (
    rf"{_ESCAPE}|{_SINGLE}|{_DOUBLE}|{_EXPANSION}|[<>]{_PARENTHESES}|\$(?!['({{])"
    r"|[^\\'\"$` \t\n;&|()<>]+"
)
_WORD = rf"(?:{_PIECE})+"


class ShellError(ValueError):
    """Raised for a script that cannot be parsed; the message names the construct."""


class Token(NamedTuple):
    """A token of a script; `kind` is `word`, `operator` (`&&`, `;`, newline) or `redirection`."""

    kind: str
    text: str
    start: int

    @property
    def value(self) -> str:
        """The word without its quotes; expansions such as `$MODEL` are kept."""
        return "".join(map(_unquote, re.findall(_PIECE, self.text, re.DOTALL)))

    @property
    def end(self) -> int:
        """Offset after the last character."""
        return self.start + len(self.text)

    @property
    def starts_with_expansion(self) -> bool:
        """Whether the word starts with an expansion, quoted or not."""
        return re.match(r"\"?[$`]|[<>]\(", self.text) is not None


def _unquote(piece: str) -> str:
    if piece[0] == "'":
        return piece[1:-1]
    if piece[0] == '"':
        # Inside double quotes a backslash escapes only these characters.
        return re.sub(r"\\\n|\\([$`\"\\])", r"\1", piece[1:-1])
    if piece[0] == "\\":
        return piece[1:].replace("\n", "")
    return piece


def tokenize(script: str) -> Iterator[Token]:
    """Yield the tokens of a script in order, without comments, blanks and line continuations.

    Raises:
        ShellError: For here-documents, unclosed quotes or parentheses, and `$'...'`.
    """
    offset = 0
    while offset < len(script):
        if match := _SPACE.match(script, offset):
            offset = match.end()
            continue
        if match := _REDIRECTION.match(script, offset):
            if match[0].endswith("<") and script.startswith("<", match.end()):
                raise ShellError("a here-document (<<)")
            kind = "redirection"
        elif match := _OPERATOR.match(script, offset):
            kind = "operator"
        elif match := re.compile(_WORD, re.DOTALL).match(script, offset):
            kind = "word"
        elif script.startswith("$'", offset):
            raise ShellError("a $'...' string")
        else:
            raise ShellError(f"an unclosed {script[offset:].lstrip('$<>')[:1]}")
        yield Token(kind, match[0], offset)
        offset = match.end()


_SCRIPT_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_OPENING = ("if", "for", "while", "until", "case", "select", "{", "(")
_CLOSING = ("fi", "done", "esac", "}", ")")
_NESTING = {**dict.fromkeys(_OPENING, 1), **dict.fromkeys(_CLOSING, -1)}
# Operators after which a command continues on the next line.
_CONTINUED = ("&&", "||", "|", "|&")
# Reserved words that may precede a command.
_RESERVED = (*_OPENING, *_CLOSING, "then", "elif", "else", "do", "!", "time", "function")
# `exec` may precede these, because they are programs and not shell builtins or functions.
_MAY_FOLLOW_EXEC = re.compile(
    r"vllm|sglang|python[0-9.]*|env|numactl|taskset|nice|nohup|stdbuf|setsid|tini|dumb-init"
)


class EngineCall(NamedTuple):
    """One place in a script where an engine is started.

    Attributes:
        program: The engine's program.
        words: The words after the program.
        arguments: The engine's arguments, without quotes; expansions are kept.
        has_hidden_arguments: Whether expansions such as `$ARGS` may contain additional arguments.
        start: Offset of the command's first word, after any assignments.
        program_end: Offset after the program.
        end: Offset after the command's last word, where additional arguments are inserted.
        can_exec: Whether `exec` can be inserted at `start` without changing what the script does:
            the engine is the last command, neither nested nor in a pipeline, and no trap needs the
            shell.
    """

    program: Program
    words: tuple[Token, ...]
    arguments: tuple[str, ...]
    has_hidden_arguments: bool
    start: int
    program_end: int
    end: int
    can_exec: bool


class Script(NamedTuple):
    """A parsed shell script.

    Attributes:
        calls: The places where an engine is started.
        is_and_list: Whether `&&` and pipes are its only operators, so that `x && script` runs no
            part of the script if `x` fails.
        starts_ray: Whether it starts ray, directly or with vLLM's multi-node-serving.sh.
    """

    text: str
    calls: tuple[EngineCall, ...]
    is_and_list: bool
    starts_ray: bool


class _Command(NamedTuple):
    """A command of a script."""

    words: tuple[Token, ...]
    separator_before: str  #: the operator or reserved word before it, or empty at the start
    separator_after: str  #: the operator after it, or empty at the end
    is_nested: bool  #: whether it is in parentheses, braces, `if`, `for` or a similar construct


def parse_script(argv: Argv) -> Script:
    """Parse the script of a container's shell, and find the engine commands in it.

    In the commands' arguments, `"$@"` is replaced by the script's parameters. After `-c`, the words
    are the script, `$0` and the parameters.

    Raises:
        ShellError: If the script contains syntax that is not supported.
    """
    text, *zero_and_parameters = argv.texts()[argv.script_index :]
    return _parse_script_text(text, tuple(zero_and_parameters[1:]))


@lru_cache(maxsize=32)  # several edits and checks of a role parse the same script
def _parse_script_text(text: str, parameters: tuple[str, ...]) -> Script:
    script_tokens = list(tokenize(text))
    commands = _split_commands(script_tokens)
    words_by_command = [[basename(word.value) for word in command.words] for command in commands]
    # `exec` replaces the shell, and with it the script's trap.
    has_trap = any(words[0] == "trap" for words in words_by_command)
    calls = []
    for command in commands:
        is_last_without_trap = command is commands[-1] and not has_trap
        call = _parse_engine_call(command, parameters, is_last_without_trap=is_last_without_trap)
        if call is not None:
            calls.append(call)
    # Newlines at the start and the end of the script do not separate commands.
    indexes = [index for index, token in enumerate(script_tokens) if token.text != "\n"] or [0]
    trimmed = script_tokens[indexes[0] : indexes[-1] + 1]
    operators = {token.text for token in trimmed if token.kind == "operator"}
    return Script(
        text,
        tuple(calls),
        is_and_list=operators <= {"&&", "|", "|&"},
        starts_ray=any(
            words[:2] == ["ray", "start"] or "multi-node-serving.sh" in words
            for words in words_by_command
        ),
    )


def _split_commands(script_tokens: Sequence[Token]) -> list[_Command]:
    commands: list[_Command] = []
    words: list[Token] = []
    before, depth, is_redirect_target = "", 0, False

    def finish(after: str) -> None:
        nonlocal before, words
        if words:
            commands.append(_Command(tuple(words), before, after, is_nested=depth > 0))
        # After `&&` and a newline, the operator before the next command is still `&&`.
        is_continued = not words and after == "\n" and before in _CONTINUED
        if not is_continued:
            before = after
        words = []

    for token in script_tokens:
        if token.kind == "operator":
            finish(token.text)
            depth += _NESTING.get(token.text, 0)
        elif token.kind == "redirection":
            is_redirect_target = True
        elif is_redirect_target:
            is_redirect_target = False  # the file of a redirection is not an argument
        elif not words and token.text in _RESERVED:
            depth += _NESTING.get(token.text, 0)
            before = token.text
        elif words or not _SCRIPT_ASSIGNMENT.match(token.text):
            words.append(token)
    finish("")
    return commands


def _parse_engine_call(
    command: _Command, parameters: Sequence[str], *, is_last_without_trap: bool
) -> EngineCall | None:
    values = [word.value for word in command.words]
    program = find_program(values)
    if program is None:
        return None
    arguments: list[str] = []
    has_hidden_arguments = False
    words = command.words[len(program.words) :]
    for index, word in enumerate(words):
        if word.text in ('"$@"', "$@", "$*"):
            arguments.extend(parameters)
            continue
        previous = arguments[-1] if arguments else ""
        # An expansion is one value if it is the first word (the model) or follows a flag. Anywhere
        # else it may contain flags.
        may_hold_flags = index > 0 and not previous.startswith("-")
        if word.starts_with_expansion and may_hold_flags:
            has_hidden_arguments = True
        arguments.append(word.value)
    # The shell waits only for this command: it is in no pipeline, and not followed by `&&` or `&`.
    runs_alone = command.separator_before in ("", "&&", ";", "\n") and (
        command.separator_after in ("", ";", "\n")
    )
    starts_with_executable = _MAY_FOLLOW_EXEC.fullmatch(basename(values[0])) is not None
    return EngineCall(
        program=program,
        words=words,
        arguments=tuple(arguments),
        has_hidden_arguments=has_hidden_arguments,
        start=command.words[0].start,
        program_end=command.words[len(program.words) - 1].end,
        end=command.words[-1].end,
        can_exec=(
            is_last_without_trap and starts_with_executable and runs_alone and not command.is_nested
        ),
    )
