"""Splits a shell script into words and operators, with their places in the text.

Only what the POSIX shell grammar and bash agree on is read; anything else (here-documents,
`$'...'`) is refused rather than guessed, because the places are used to edit the script.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

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
        text: As written.
        value: The word without its quotes; expansions such as `$MODEL` stay as written.
        start: Offset of the first character.
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
    """Reads a script from left to right.

    Args:
        script: The text that `sh -c` gets.

    Yields:
        Its tokens in order; comments, blanks and line continuations are left out.

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
        while (found := _find(script, "`", end)) and script[found - 1] == "\\":
            end = found + 1
        return found + 1
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
    found = script.find(text, at)
    if found < 0:
        raise ShellError(f"an unclosed {text}")
    return found
