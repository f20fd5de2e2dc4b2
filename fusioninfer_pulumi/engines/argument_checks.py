"""Checks a command line against the arguments of the image's release, with argparse."""

from __future__ import annotations

import argparse
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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
    CONFIG_FLAG,
    Engine,
    EngineCommand,
    Word,
)
from fusioninfer_pulumi.findings import Finding, Rule, closest_name, error, info, shown, warning
from fusioninfer_pulumi.rules.common import RELEASE_WITHOUT_FEATURE

ARGUMENT_UNKNOWN = Rule("argument-unknown")

ARGUMENT_REMOVED = Rule("argument-removed")
ARGUMENT_DEPRECATED = Rule("argument-deprecated")

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
    words: Sequence[Word],
    options: Options,
    versions: Callable[[str], Sequence[Option]] | None = None,
) -> tuple[list[Word], list[UserArgument]]:
    """Return the words before all arguments, and the arguments, as argparse reads them.

    With `versions` a value is valid if any version of its option accepts it.
    """
    texts = [word.value for word in words]
    if "--" in texts:
        words = words[: texts.index("--")]
    starts = [index for index, word in enumerate(words) if _is_flag(word.value, options)]
    bounds = [*starts, len(words)]
    arguments = [_read(words[i:j], options, versions) for i, j in pairwise(bounds)]
    return list(words[: bounds[0]]), arguments


def _is_flag(text: str, options: Options) -> bool:
    if text.partition("=")[0] in options:
        return True
    return text.startswith("-") and " " not in text and not _NO_FLAG.fullmatch(text)


class _Parser(argparse.ArgumentParser):
    """A parser that raises in place of ending the process."""

    def error(self, message: str) -> NoReturn:
        raise argparse.ArgumentError(None, message)


def _read(
    words: Sequence[Word], options: Options, versions: Callable[[str], Sequence[Option]] | None
) -> UserArgument:
    name = words[0].value.partition("=")[0]
    parser = _Parser(add_help=False, exit_on_error=False, argument_default=argparse.SUPPRESS)
    # Only the options that the word may mean, `-n2` among them: a release has hundreds.
    short = name[:2] if not name.startswith("--") else name
    named = [word for word in options if word.startswith(name) or word == short]
    for option in {options[word].name: options[word] for word in named}.values():
        settings: dict[str, Any] = {"nargs": option.nargs}
        settings["type"] = _reader([option] if versions is None else versions(option.name))
        if option.kind == "switch":
            settings = {"action": "store_true"}
            if option.negated:
                settings["action"] = argparse.BooleanOptionalAction
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


def _reader(versions: Sequence[Option]) -> Callable[[str], str]:
    """Return the check of a value for argparse."""

    def read(value: str) -> str:
        problems = [explain_invalid_value(version, value) for version in versions]
        if problems and all(problems) and not _is_open(value):
            raise argparse.ArgumentTypeError(f"{problems[-1]}, got {shown(value)}")
        return value

    return read


class _Check:
    """The findings of one command line."""

    def __init__(self, command: EngineCommand, engine: Engine, words: Sequence[Word]) -> None:
        self.command, self.engine, self.release = command, engine, find_known_release(command)
        # For an unknown release, each argument is read as by the newest release that has it.
        self.table = table = load_argument_table(engine.name)
        self.options = table.options(self.release) if self.release else table.latest_options()
        self.words = engine.argparse_words(command, words)
        self.serves = command.program[-1:] == ("serve",)
        is_sure = self.release is not None and not (self.serves and engine.serve_starts_others)
        self.finding: Callable[[Rule, Any, str], Finding] = error if is_sure else warning

    def findings(self, leave_out: str | None = None) -> Iterator[Finding]:
        versions = None if self.release is not None else self.table.versions
        head, arguments = parse(self.words, self.options, versions)
        for argument in arguments:
            option = argument.option
            if not _is_open(argument.name) and (option is None or option.name != leave_out):
                yield from self._argument(argument)
        if not self.command.readable or any(_is_open(word.value) for word in self.words):
            return  # an unknown word may be an argument whose values are the others
        # The words are not shown: they may be keys that lost their argument.
        extras = [*head, *(word for argument in arguments for word in argument.extras)]
        # The older program of vLLM ignores a positional model, and serves its default.
        has_model = self.serves or (not self.command.program and self.engine.image_serves)
        for word in extras[int(has_model) :]:
            message = "belongs to no argument; remove it or add the argument's name"
            yield self.finding(ARGUMENT_UNKNOWN, word.place, message)

    def _argument(self, argument: UserArgument) -> Iterator[Finding]:
        name, place, option = argument.name, argument.word.place, argument.option
        if option is None and argument.problem is not None and self.table.first(name) is None:
            if self.release is not None:
                message = f"{name} abbreviates several arguments; write one of them in full"
                yield self.finding(ARGUMENT_UNKNOWN, place, message)
            return
        if option is None:
            yield self._unknown(name, place)
            return
        # The parser itself reads files of arguments, whatever the program.
        other = bool(self.command.program) and not self.command.serve
        if self.release is not None and other and option.serve and option.name != CONFIG_FLAG:
            message = f"{name} is an argument of vllm serve alone; start the engine with it"
            yield self.finding(ARGUMENT_UNKNOWN, place, message)
            return
        if argument.problem is not None:
            yield self.finding(ARGUMENT_VALUE_INVALID, place, f"{name}: {argument.problem}")
        if self.release is not None and option.deprecated is not None:
            new = find_successor(self.engine, option.name)
            message = f"{name} is deprecated in {self.engine.title} v{self.release}"
            message += f"; use {new} instead" if new else ""
            yield info(ARGUMENT_DEPRECATED, place, message)

    def _unknown(self, name: str, place: Any) -> Finding:
        table, title = self.table, self.engine.title
        if self.release is not None:
            gone, first = table.removed(name, self.release), table.first(name)
            if gone is not None:
                new = find_successor(self.engine, name)
                message = (
                    f"{name} was removed in {title} v{gone}, the image has v{self.release}; "
                    f"{f'use {new} instead' if new else 'remove it'}"
                )
                return self.finding(ARGUMENT_REMOVED, place, message)
            if first is not None:
                message = (
                    f"{name} exists from {title} v{first} on, the image has v{self.release}; use a "
                    "newer image, or remove it"
                )
                return self.finding(RELEASE_WITHOUT_FEATURE, place, message)
            text = f"{title} v{self.release} has no argument {name}"
        else:
            if self._is_newer() and closest_name(name, self.options, cutoff=_SLIP) is None:
                message = f"{name} is not known: the image is newer than {title} v{table.newest}"
                return info(ARGUMENT_UNKNOWN, place, message)
            text = f"no release of {title} up to v{table.newest} has an argument {name}"
        meant = closest_name(name, [word for word in self.options if word.startswith("--")])
        hint = f"; did you mean {meant}?" if meant else "; remove it"
        return self.finding(ARGUMENT_UNKNOWN, place, text + hint)

    def _is_newer(self) -> bool:
        """Return whether the image has, or may have, a release that the tables do not know yet."""
        image = self.command.image
        if image.version is None:
            return image.engine is not None and not image.stock
        return image.version > parse_release(self.table.newest)[:3]


def find_successor(engine: Engine, name: str) -> str | None:
    """Return what replaces a removed or deprecated argument, None if nothing is known."""
    versions = load_argument_table(engine.name).versions(name)
    return engine.successors.get(name) or (versions[-1].deprecated if versions else None) or None


def check_arguments(
    command: EngineCommand, variables: Mapping[str, str], *, leave_out: str | None = None
) -> list[Finding]:
    """Check the arguments against the image's release; located relative to the container.

    Errors if the release is certain, warnings if another release may run or the program accepts
    more arguments than the release's table has. One argument can be left out.
    """
    engine = command.engine
    if engine is None or command.program_in_args:
        return []
    table, version = load_argument_table(engine.name), command.image.version
    if version is not None and version < parse_release(table.releases[0]):
        return []  # older than all that is known
    return list(
        _Check(command, engine, read_argument_words(command, variables)).findings(leave_out)
    )


def check_generated_arguments(command: EngineCommand, original: EngineCommand) -> list[Finding]:
    """Check generated arguments against the image's release.

    They come from fields; located at the command line as a whole.
    """
    engine, release = command.engine, find_known_release(command)
    if engine is None or release is None:
        return []
    table = load_argument_table(engine.name)
    added, users = (_arguments(side, table.options(release)) for side in (command, original))
    names = {argument.name for argument in users}
    problems = []
    for argument in added:
        name, first = argument.name, table.first(argument.name)
        if name in names:
            continue
        if argument.option is None and first is not None:
            message = (
                f"the fields of the role need {name}, which {engine.title} has from v{first} on; "
                f"the image has v{release}"
            )
            problems.append(error(RELEASE_WITHOUT_FEATURE, (), message))
        elif argument.problem is not None:
            message = f"the fields of the role set {name}: {argument.problem}"
            problems.append(error(ARGUMENT_VALUE_INVALID, (), message))
    return problems


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
