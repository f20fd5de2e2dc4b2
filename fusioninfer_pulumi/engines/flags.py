"""Finds flags in an engine's argument list, the way argparse does."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

# A long flag, white space, and its value, all in one list element: a shell would have split it.
_JOINED = re.compile(r"(--[A-Za-z0-9][\w.-]*)[ \t\r\n]+(\S.*)", re.DOTALL)


def canonical(name: str) -> str:
    """Writes a flag with dashes.

    vLLM reads underscores as dashes before the first dot of a long flag (FlexibleArgumentParser).
    """
    if not name.startswith("--"):
        return name
    head, dot, tail = name.partition(".")
    return head.replace("_", "-") + dot + tail


def flag_value(arguments: Sequence[str], *names: str) -> str | None:
    """Reads the value of a flag: `--x 1`, `--x=1`, `-tp 16`.

    Args:
        arguments: The engine's argument list.
        names: All spellings of the flag, with their leading dashes.

    Returns:
        The value of the last occurrence, as argparse takes it; None when the flag is absent or
        stands last or before another long flag, without a value.
    """
    wanted = {canonical(name) for name in names}
    found = None
    for index, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if canonical(name) not in wanted:
            continue
        if equals:
            found = value
        elif index + 1 < len(arguments) and not arguments[index + 1].startswith("--"):
            found = arguments[index + 1]
    return found


def has_flag(arguments: Sequence[str], *names: str) -> bool:
    """Tells whether a flag is given, with or without a value."""
    wanted = {canonical(name) for name in names}
    return any(canonical(argument.partition("=")[0]) in wanted for argument in arguments)


def integer(text: str | None) -> int | None:
    """Reads a plain decimal integer; None for anything else, such as `$TP` or `auto`."""
    if text is None or re.fullmatch(r"[+-]?[0-9]{1,9}", text) is None:
        return None
    return int(text)


def split_joined_flags(arguments: Sequence[str]) -> list[str]:
    """Splits elements that hold a flag and its value, such as `--kv-transfer-config '{...}'`.

    Without a shell nobody splits such an element, and the engine does not know the flag
    `--kv-transfer-config '{...}'`. Only elements that start with `--` and have white space right
    after the flag's name are split; a value that is one quoted shell word loses its quotes.

    Args:
        arguments: The argument list as written.

    Returns:
        The argument list that was meant.
    """
    split: list[str] = []
    for argument in arguments:
        match = _JOINED.fullmatch(argument)
        if match is None:
            split.append(argument)
        else:
            split.append(match[1])
            split.extend(_values(match[2].rstrip()))
    return split


def _values(text: str) -> list[str]:
    # JSON without quotes around it is meant literally: a shell would have removed its own quotes.
    if text[0] in "{[":
        return [text]
    try:
        words = shlex.split(text)
    except ValueError:
        return [text]
    # "--a 1 --b 2" in one element is a whole command line, "--note two words" one value.
    several = any(word.startswith("--") for word in words)
    return words if len(words) == 1 or several else [text]
