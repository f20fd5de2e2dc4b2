"""Finds flags in an engine's arguments as argparse does, and replaces variables by their values."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

#: Words that start with a dash but are values: a dash alone, and a negative number.
DASH_VALUE = re.compile(r"-|-\d+|-\d*\.\d+")
# A long flag and its value in one list element, which only a shell would split.
_JOINED = re.compile(r"(--[A-Za-z0-9][\w.-]*)[ \t\r\n]+(\S.*)", re.DOTALL)


def parse_json(text: str) -> Any:
    """Parse JSON; raise ValueError if it is invalid or too deeply nested for Python."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def normalize_flag(name: str) -> str:
    """Replace underscores with dashes before the first dot of a long flag, as vLLM does."""
    if not name.startswith("--"):
        return name
    head, dot, tail = name.partition(".")
    return head.replace("_", "-") + dot + tail


def get_flag_value(arguments: Sequence[str], *names: str) -> str | None:
    """Return the value of a flag, as in `--x 1`, `--x=1` or `-tp 16`; `names` are its spellings.

    The last occurrence with a value counts; None if there is none. A flag at the end or before
    another long flag has no value.
    """
    spellings = {normalize_flag(name) for name in names}
    last = None
    for index, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if normalize_flag(name) not in spellings:
            continue
        if equals:
            last = value
        elif index + 1 < len(arguments) and not arguments[index + 1].startswith("--"):
            last = arguments[index + 1]
    return last


def has_flag(arguments: Sequence[str], *names: str) -> bool:
    """Return whether a flag is set, with or without a value."""
    spellings = {normalize_flag(name) for name in names}
    return any(normalize_flag(argument.partition("=")[0]) in spellings for argument in arguments)


def get_last_values(arguments: Sequence[str], flag: str) -> list[str] | None:
    """Return the values of a flag's last occurrence, or None if the flag is absent."""
    values = None
    for index, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if normalize_flag(name) == flag:
            after = arguments[index + 1 :]
            values = [value] if equals else list(takewhile(lambda word: word[:1] != "-", after))
    return values


def parse_integer(text: str | None) -> int | None:
    """Parse a decimal integer; return None for other text, such as `$TP` or `auto`."""
    if text is None or re.fullmatch(r"[+-]?[0-9]{1,9}", text) is None:
        return None
    return int(text)


def split_joined_flags(arguments: Sequence[str]) -> list[str]:
    """Split each element that holds both a flag and its value, such as `--x '{...}'`.

    Without a shell nothing else splits it, and the engine rejects the unknown flag `--x '{...}'`.
    Such an element starts with `--` and has white space after the flag's name. A value that is one
    quoted shell word loses its quotes.
    """
    split: list[str] = []
    for argument in arguments:
        match = _JOINED.fullmatch(argument)
        if match is None:
            split.append(argument)
        else:
            split.append(match[1])
            split.extend(_split_value(match[2].rstrip()))
    return split


def _split_value(text: str) -> list[str]:
    # JSON without shell quotes is kept, because splitting would remove the quotes inside it.
    if text[0] in "{[":
        return [text]
    try:
        words = shlex.split(text)
    except ValueError:
        return [text]
    # "--a 1 --b 2" in one element is a command line; in "--note two words" there is one value.
    has_flags = any(word.startswith("--") for word in words)
    return words if len(words) == 1 or has_flags else [text]


def dump_json(settings: Mapping[str, Any]) -> str:
    """Return settings as compact JSON, as in the engines' documentation."""
    return json.dumps(settings, separators=(",", ":"), ensure_ascii=False)


#: References that the kubelet expands in `command`, `args` and `env`; `$$` is a literal dollar.
REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)")
#: References that a shell expands.
SHELL_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))")


def replace_variables(text: str, variables: Mapping[str, str], *, in_script: bool) -> str:
    """Replace references to these variables by their values; shell references only in a script."""

    def get_value(match: re.Match[str]) -> str:
        name = next((group for group in match.groups() if group), None)
        return variables.get(name, match[0]) if name is not None else match[0]

    text = REFERENCE.sub(get_value, text)
    return SHELL_VARIABLE.sub(get_value, text) if in_script else text


def get_plain_variables(container: Mapping[str, Any]) -> dict[str, str]:
    """Return a container's environment variables whose values are text without blanks and `$`."""
    plain: dict[str, str] = {}
    variables = container.get("env")
    for variable in variables if isinstance(variables, (list, tuple)) else ():
        if not isinstance(variable, Mapping):
            continue
        name, value = variable.get("name"), variable.get("value")
        if isinstance(name, str):
            plain.pop(name, None)
            # A shell would split a value with blanks, and `$` may refer to another variable.
            if isinstance(value, str) and not re.search(r"[$\s]", value):
                plain[name] = value
    return plain
