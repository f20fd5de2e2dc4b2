"""Finds flags in an engine's argument list, the way argparse does, and resolves variables."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

# A long flag, white space, and its value, all in one list element: a shell would have split it.
_JOINED = re.compile(r"(--[A-Za-z0-9][\w.-]*)[ \t\r\n]+(\S.*)", re.DOTALL)


def parse_json(text: str) -> Any:
    """Parse a JSON text.

    Raises ValueError for invalid JSON, and for JSON that is nested too deep for Python.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deep") from None


def canonical(name: str) -> str:
    """Write a flag with dashes.

    vLLM reads underscores as dashes before the first dot of a long flag (FlexibleArgumentParser).
    """
    if not name.startswith("--"):
        return name
    head, dot, tail = name.partition(".")
    return head.replace("_", "-") + dot + tail


def get_flag_value(arguments: Sequence[str], *names: str) -> str | None:
    """Return the value of a flag in one of its spellings: `--x 1`, `--x=1`, `-tp 16`.

    The last occurrence counts, as in argparse. None if the flag is absent or has no value: at the
    end, or before another long flag.
    """
    wanted = {canonical(name) for name in names}
    last = None
    for index, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if canonical(name) not in wanted:
            continue
        if equals:
            last = value
        elif index + 1 < len(arguments) and not arguments[index + 1].startswith("--"):
            last = arguments[index + 1]
    return last


def has_flag(arguments: Sequence[str], *names: str) -> bool:
    """Return whether a flag is set, with or without a value."""
    wanted = {canonical(name) for name in names}
    return any(canonical(argument.partition("=")[0]) in wanted for argument in arguments)


def get_last_values(arguments: Sequence[str], flag: str) -> list[str] | None:
    """Return the values of the last occurrence of a flag with several values, None without it."""
    values = None
    for index, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if canonical(name) == flag:
            behind = arguments[index + 1 :]
            values = [value] if equals else list(takewhile(lambda word: word[:1] != "-", behind))
    return values


def integer(text: str | None) -> int | None:
    """Parse a plain decimal integer; None for anything else, such as `$TP` or `auto`."""
    if text is None or re.fullmatch(r"[+-]?[0-9]{1,9}", text) is None:
        return None
    return int(text)


def split_joined_flags(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with elements split that hold a flag and its value: `--x '{...}'`.

    Without a shell such an element is not split, and the engine does not know the flag
    `--x '{...}'`. Only elements that start with `--` and have white space right after the flag's
    name are split; a value that is one quoted shell word loses its quotes.
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
    # JSON without quotes around it is literal: a shell would have removed its quotes.
    if text[0] in "{[":
        return [text]
    try:
        words = shlex.split(text)
    except ValueError:
        return [text]
    # "--a 1 --b 2" in one element is a whole command line, "--note two words" one value.
    several = any(word.startswith("--") for word in words)
    return words if len(words) == 1 or several else [text]


def dump_json(settings: Mapping[str, Any]) -> str:
    """Write settings as the value of a flag that takes JSON, as the engines' docs do."""
    return json.dumps(settings, separators=(",", ":"), ensure_ascii=False)


#: What the kubelet expands in `command`, `args` and `env`; `$$` stands for a dollar sign.
REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)")
#: What a shell expands.
SHELL_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))")


def resolved(text: str, variables: Mapping[str, str], *, in_script: bool) -> str:
    """Replace the variables whose values are known."""

    def value(match: re.Match[str]) -> str:
        name = next((group for group in match.groups() if group), None)
        return variables.get(name, match[0]) if name is not None else match[0]

    text = REFERENCE.sub(value, text)
    return SHELL_VARIABLE.sub(value, text) if in_script else text


def read_plain_variables(container: Mapping[str, Any]) -> dict[str, str]:
    """Return the variables of a container that have plain values."""
    plain: dict[str, str] = {}
    listed = container.get("env")
    for variable in listed if isinstance(listed, (list, tuple)) else ():
        if not isinstance(variable, Mapping):
            continue
        name, value = variable.get("name"), variable.get("value")
        if isinstance(name, str):
            plain.pop(name, None)
            # The shell splits values with blanks, and values that refer to others are not known.
            if isinstance(value, str) and not re.search(r"[$\s]", value):
                plain[name] = value
    return plain
