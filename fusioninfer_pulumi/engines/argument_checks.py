"""Checks a command line against the arguments of the image's release, with argparse."""

from __future__ import annotations

import argparse
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, NoReturn

from fusioninfer_pulumi.engines._container_words import UNKNOWN
from fusioninfer_pulumi.engines.argument_tables import (
    UNKNOWN_DEFAULT,
    Option,
    Options,
    load_argument_table,
    parse_release,
)
from fusioninfer_pulumi.engines.command_flags import parse_json, resolved, split_joined_flags
from fusioninfer_pulumi.engines.engine import (
    ARGUMENT_VALUE_INVALID,
    Engine,
    EngineCommand,
    Word,
)
from fusioninfer_pulumi.findings import Finding, Rule, closest_name, error, shown, warning
from fusioninfer_pulumi.rules.common import RELEASE_WITHOUT_FEATURE

ARGUMENT_UNKNOWN = Rule("argument-unknown")
ARGUMENT_REMOVED = Rule("argument-removed")

#: A dash alone, and a negative number, are values.
_NO_FLAG = re.compile(r"-|-\d+|-\d*\.\d+")
# The command line may install another release before the engine starts.
_INSTALLS = re.compile(r"\b(pip3?|uv)\b.*\binstall\b")
_MOST_CHOICES = 8
#: Likeness from which on a word is a typing error; new arguments are less like known ones.
_SLIP = 0.9


@dataclass(frozen=True)
class UserArgument:
    """An argument of a command line.

    Attributes:
        name: Its name as the command line spells it.
        option: The option that it names in the release, None for an unknown or ambiguous name.
        problem: Why argparse rejects it.
        extras: The words up to the next argument that are not its values.
    """

    name: str
    word: Word
    option: Option | None = None
    problem: str | None = None
    extras: tuple[Word, ...] = ()


def find_known_release(command: EngineCommand) -> str | None:
    """Return the engine release that certainly runs, None if that is not known."""
    engine, release = command.engine, command.image.release
    if engine is None or release is None or _INSTALLS.search(command.script or ""):
        return None
    table = load_argument_table(engine.name)
    fits = command.image.engine == engine.name and release in table.releases
    return release if fits else None


def read_argument_words(command: EngineCommand, variables: Mapping[str, str]) -> list[Word]:
    """Return the engine's arguments with known `$(NAME)` variables replaced."""
    argv, first = command.argv, len(command.argv.command)
    in_script = command.script is not None
    if in_script:
        place = ("args",) if argv.args else ("command",)
        words = [Word(text, place) for text in command.arguments]
    else:
        start = len(command.program)
        words = [
            Word(part, ("command", index) if index < first else ("args", index - first))
            for index, text in enumerate(argv.texts()[start:], start)
            for part in split_joined_flags([text])
        ]
    return [
        Word(resolved(word.value, variables, in_script=in_script), word.place) for word in words
    ]


def _is_open(text: str) -> bool:
    """Return whether parts of a word are unknown."""
    return UNKNOWN in text or "$" in text or "`" in text


def parse(
    words: Sequence[Word], options: Options, *, checks_values: bool = True
) -> tuple[list[Word], list[UserArgument]]:
    """Return the words before all arguments, and the arguments, as argparse reads them."""
    texts = [word.value for word in words]
    if "--" in texts:
        words = words[: texts.index("--")]
    starts = [
        index
        for index, word in enumerate(words)
        if word.value.partition("=")[0] in options
        or (word.value[:1] == "-" and " " not in word.value and not _NO_FLAG.fullmatch(word.value))
    ]
    bounds = [*starts, len(words)]
    arguments = [
        _read(words[i:j], options, checks_values=checks_values) for i, j in pairwise(bounds)
    ]
    return list(words[: bounds[0]]), arguments


class _Parser(argparse.ArgumentParser):
    """A parser that raises in place of ending the process."""

    def error(self, message: str) -> NoReturn:
        raise argparse.ArgumentError(None, message)


def _read(words: Sequence[Word], options: Options, *, checks_values: bool) -> UserArgument:
    name = words[0].value.partition("=")[0]
    parser = _Parser(add_help=False, exit_on_error=False, argument_default=argparse.SUPPRESS)
    # Only the options that the word may mean, `-n2` among them: a release has hundreds.
    short = name[:2] if not name.startswith("--") else name
    named = [word for word in options if word.startswith(name) or word == short]
    for option in {options[word].name: options[word] for word in named}.values():
        settings: dict[str, Any] = {"nargs": option.nargs}
        if option.kind == "switch":
            settings = {"action": "store_true"}
            if option.negated:
                settings["action"] = argparse.BooleanOptionalAction
        elif checks_values:
            settings["type"] = partial(_check_value, option)
        parser.add_argument(*option.names, dest=option.name, **settings)
    try:
        values, rest = parser.parse_known_args([word.value for word in words])
    except argparse.ArgumentError as error:
        names = (error.argument_name or "").split("/")
        return UserArgument(name, words[0], options.get(names[0]), error.message)
    option_names = list(vars(values))
    if not option_names:
        return UserArgument(name, words[0])
    extras = tuple(words[len(words) - len(rest) :])
    return UserArgument(name, words[0], options[option_names[0]], extras=extras)


def _check_value(option: Option, value: str) -> str:
    problem = explain_invalid_value(option, value)
    if problem and not _is_open(value):
        raise argparse.ArgumentTypeError(f"{problem}, got {shown(value)}")
    return value


def check_arguments(
    command: EngineCommand, variables: Mapping[str, str], *, leave_out: str | None = None
) -> Iterator[Finding]:
    """Check the arguments against the image's release; located relative to the container.

    Errors if the release is certain, warnings if another release may run or the program accepts
    more arguments than the release's table has. For an unknown release only names are checked,
    against all releases. One argument can be left out.
    """
    engine = command.engine
    if engine is None or command.program_in_args:
        return
    table, version = load_argument_table(engine.name), command.image.version
    if version is not None and version < parse_release(table.releases[0]):
        return  # reported as unsupported
    release, serves = find_known_release(command), command.program[-1:] == ("serve",)
    is_sure = release is not None and not (serves and engine.serve_starts_others)
    make_finding = error if is_sure else warning
    words = engine.argparse_words(command, read_argument_words(command, variables))
    head, arguments = parse(words, table.options(release), checks_values=release is not None)
    for argument in arguments:
        name, place, option = argument.name, argument.word.place, argument.option
        if _is_open(name) or (option is not None and option.name == leave_out):
            continue
        if option is None and release is not None:
            rule, message = _explain_unknown(engine, name, release)
            yield make_finding(rule, place, message)
        elif option is None and argument.problem is None:
            meant = closest_name(name, table.options(None), cutoff=_SLIP)
            text = f"no release of {engine.title} up to v{table.newest} has an argument {name}"
            if meant is not None:
                yield warning(ARGUMENT_UNKNOWN, place, f"{text}; did you mean {meant}?")
        elif option is not None and argument.problem is not None:
            yield make_finding(ARGUMENT_VALUE_INVALID, place, f"{name}: {argument.problem}")
    if not command.readable or any(_is_open(word.value) for word in words):
        return  # an unknown word may be an argument whose values are the others
    # The words are not shown: they may be keys that lost their argument.
    extras = [*head, *(word for argument in arguments for word in argument.extras)]
    # The older program of vLLM ignores a positional model, and serves its default.
    has_model = serves or (not command.program and engine.image_serves)
    for word in extras[int(has_model) :]:
        message = "belongs to no argument; remove it or add the argument's name"
        yield make_finding(ARGUMENT_UNKNOWN, word.place, message)


def _explain_unknown(engine: Engine, name: str, release: str) -> tuple[Rule, str]:
    """Return rule and message for an argument that a release does not have."""
    table, title = load_argument_table(engine.name), engine.title
    gone, first = table.removed(name, release), table.first(name)
    if gone is not None:
        new = find_successor(engine, name)
        remedy = f"use {new} instead" if new else "remove or replace it"
        text = f"{name} was removed in {title} v{gone}, the image has v{release}; {remedy}"
        return ARGUMENT_REMOVED, text
    if first is not None:
        text = f"{name} exists from {title} v{first} on, the image has v{release}; use a newer "
        return RELEASE_WITHOUT_FEATURE, text + "image, or remove it"
    meant = closest_name(name, [word for word in table.options(release) if word.startswith("--")])
    hint = f"did you mean {meant}?" if meant else "remove it"
    return ARGUMENT_UNKNOWN, f"{title} v{release} has no argument {name}; {hint}"


def find_successor(engine: Engine, name: str) -> str | None:
    """Return what replaces a removed argument, None if its last help does not name it."""
    versions = load_argument_table(engine.name).versions(name)
    return versions[-1].deprecated or None if versions else None


def _arguments(command: EngineCommand, options: Options) -> list[UserArgument]:
    assert command.engine is not None
    return parse(command.engine.argparse_words(command, read_argument_words(command, {})), options)[
        1
    ]


class RemovedArgument(NamedTuple):
    """An argument that the newer release does not accept, and its successor if that is known."""

    name: str
    instead: str | None


class ChangedDefault(NamedTuple):
    """An argument that the command line does not set, and whose default changes."""

    name: str
    before: Any
    after: Any


class ArgumentChanges(NamedTuple):
    """What a change of the release, from `before` to `after`, does to a command line."""

    engine: str
    before: str
    after: str
    removed: tuple[RemovedArgument, ...]
    defaults: tuple[ChangedDefault, ...]


def compare_arguments(old: EngineCommand, new: EngineCommand) -> ArgumentChanges | None:
    """Compare two releases for a container; None unless both are known and differ."""
    engine, before, after = old.engine, find_known_release(old), find_known_release(new)
    if engine is None or new.engine is not engine or not before or not after or before == after:
        return None
    table = load_argument_table(engine.name)
    was, now = table.options(before), table.options(after)
    names = {**_names(old, was), **_names(new, was)}
    removed = tuple(
        RemovedArgument(name, find_successor(engine, name)) for name in names if name not in now
    )
    set_names = {was[name].name for name in names} | {now[name].name for name in _names(new, now)}
    set_names |= set(engine.model_flags)  # the model may be positional
    defaults = [
        ChangedDefault(name, was[name].default, now[name].default)
        for name in was
        if name in now and name == was[name].name and name not in set_names
        if now[name].deprecated is None and was[name].default != now[name].default
        if UNKNOWN_DEFAULT not in (was[name].default, now[name].default)
    ]
    defaults.sort(key=lambda default: default.name)
    return ArgumentChanges(engine.title, before, after, removed, tuple(defaults))


def _names(command: EngineCommand, options: Options) -> dict[str, None]:
    """Return the arguments of a command line, as it writes them but for abbreviations."""
    return {
        argument.name if argument.name in options else argument.option.name: None
        for argument in _arguments(command, options)
        if argument.option is not None
    }


def explain_invalid_value(option: Option, value: str) -> str | None:
    """Return what a value must be, None for one that the release accepts."""
    if option.kind in ("any", "switch") or (value in ("", "None") and option.default is None):
        return None
    number: Any = value
    if option.kind in _READERS:
        wanted, read = _READERS[option.kind]
        try:
            number = read(value)
        except ValueError:
            return f"must be {wanted}"
    if option.choices and number not in option.choices:
        return f"must be one of {_listed(option.choices)}"
    limits = {**_LIMITS_BY_NAME.get(option.name, {}), **option.limits}
    bounds = [(*_LIMITS[key], limits[key]) for key in _LIMITS if key in limits]
    if isinstance(number, (int, float)) and not all(is_in(number, to) for _, is_in, to in bounds):
        return f"must be {' and '.join(f'{words} {to}' for words, _, to in bounds)}"
    return None


#: Limits that the engines' sources do not contain.
_LIMITS_BY_NAME: Mapping[str, Mapping[str, float]] = {
    "--port": {"ge": 1, "le": 65535},
    "--mem-fraction-static": {"gt": 0, "le": 1},
}


def _json(text: str) -> None:
    """Raise ValueError for invalid JSON."""
    # Newer releases of vLLM take 80m for a number, older releases `key=1,other=2` for an object.
    if "=" not in text and not re.search(r"\d[kKmMgGtT]\b", text):
        parse_json(text)


def _size(text: str) -> int:
    if text.strip().lower() == "auto":
        return -1
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kKmMgGtT])", text.strip())
    return int(float(match[1]) * 1000) if match else int(text)


_READERS: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "int": ("an integer", int),
    "float": ("a number", float),
    "size": ("an integer, or one with a suffix such as 8k", _size),
    "json": ("JSON", _json),
}


_LIMITS: Mapping[str, tuple[str, Callable[[float, float], bool]]] = {
    "gt": ("above", operator.gt),
    "ge": ("at least", operator.ge),
    "lt": ("below", operator.lt),
    "le": ("at most", operator.le),
}


def _listed(choices: Sequence[Any]) -> str:
    listed = ", ".join(map(str, choices[:_MOST_CHOICES]))
    more = len(choices) - _MOST_CHOICES
    return f"{listed} and {more} more" if more > 0 else listed
