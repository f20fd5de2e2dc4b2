"""Holds a command line against what the image's release takes, the way argparse reads it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fusioninfer_pulumi.engines._argv import UNKNOWN
from fusioninfer_pulumi.engines.arguments import (
    ArgumentTable,
    Option,
    Options,
    argument_table,
    release_numbers,
)
from fusioninfer_pulumi.engines.engine import CONFIG_FLAG, Engine, EngineCommand, Word
from fusioninfer_pulumi.engines.flags import parsed_json, split_joined_flags
from fusioninfer_pulumi.engines.rules import ARGUMENT_VALUE_INVALID
from fusioninfer_pulumi.engines.variables import resolved
from fusioninfer_pulumi.findings import Finding, Rule, error, info, shown, similar, warning
from fusioninfer_pulumi.rules.common import RELEASE_WITHOUT_FEATURE

ARGUMENT_UNKNOWN = Rule(
    "argument-unknown",
    ("error", "warning", "info"),
    "Each argument is one of the engine in the release of the image.",
    remedy="Correct the name, or remove the argument.",
    source="the argument tables of the engine's releases",
)

ARGUMENT_REMOVED = Rule(
    "argument-removed",
    ("warning", "error"),
    "The engine's release has the argument.",
    remedy="Use its successor, or remove it.",
    source="the engines' released sources",
)
ARGUMENT_DEPRECATED = Rule(
    "argument-deprecated",
    "info",
    "The argument is not deprecated in the engine's release.",
    remedy="Use its successor.",
    source="the engines' released sources",
)

_NEGATIVE_NUMBER = re.compile(r"-\d+|-\d*\.\d+")
# The command line may install another release before the engine starts.
_INSTALLS = re.compile(r"\b(pip3?|uv)\b.*\binstall\b")
_MOST_CHOICES = 8
#: Likeness from which on a word is a typing error; new arguments are less like known ones.
_SLIP = 0.9


@dataclass(frozen=True)
class WrittenArgument:
    """An argument as a command line gives it.

    Attributes:
        written: The word that names it, without its value.
        option: The option that it names in the release, None for one that it does not have.
        joined: Whether its value stands behind `=`.
    """

    written: str
    option: Option | None
    values: tuple[str, ...]
    word: Word
    joined: bool


@dataclass(frozen=True)
class Parsed:
    """A command line as argparse reads it.

    Attributes:
        extras: The words that belong to none, each with the argument before it.
        ambiguous: Abbreviations of several arguments, with those.
    """

    arguments: tuple[WrittenArgument, ...]
    extras: tuple[tuple[Word, WrittenArgument | None], ...]
    ambiguous: tuple[tuple[Word, tuple[str, ...]], ...]


def known_release(command: EngineCommand) -> str | None:
    """The release whose arguments are known to count; None where that is not certain."""
    engine, release = command.engine, command.image.release
    if engine is None or release is None or _INSTALLS.search(command.script or ""):
        return None
    table = argument_table(engine.name)
    fits = command.image.engine == engine.name and release in table.releases
    return release if fits else None


def read_words(command: EngineCommand, variables: Mapping[str, str]) -> list[Word]:
    """The engine's arguments, with `$(NAME)` replaced where the container's variables say it."""
    if command.script is not None:
        words = [Word(text, ()) for text in command.arguments]
    else:
        argv, start = command.argv, len(command.program)
        first = len(argv.command)
        words = []
        for index, text in enumerate(argv.texts()[start:], start):
            place = ("command", index) if index < first else ("args", index - first)
            words += [Word(part, place) for part in split_joined_flags([text])]
    in_script = command.script is not None
    return [
        Word(resolved(word.value, variables, in_script=in_script), word.place) for word in words
    ]


def _is_open(text: str) -> bool:
    """Whether a word has a part whose text is not known."""
    return UNKNOWN in text or "$" in text or "`" in text


def _is_flag(text: str, options: Options) -> bool:
    if not text.startswith("-") or len(text) == 1:
        return False
    if text.partition("=")[0] in options:
        return True
    return _NEGATIVE_NUMBER.fullmatch(text) is None and " " not in text


def parse(words: Sequence[Word], options: Options) -> Parsed:
    """Reads words as argparse does, abbreviations included."""
    arguments: list[WrittenArgument] = []
    extras: list[tuple[Word, WrittenArgument | None]] = []
    ambiguous: list[tuple[Word, tuple[str, ...]]] = []
    index = 0
    while index < len(words):
        word = words[index]
        index += 1
        if word.value == "--":
            extras += [(rest_word, None) for rest_word in words[index:]]
            break
        if not _is_flag(word.value, options):
            extras.append((word, arguments[-1] if arguments else None))
            continue
        name, equals, value = word.value.partition("=")
        matches = _named(name, options)
        if len(matches) > 1:
            ambiguous.append((word, tuple(matches)))
        option = options[matches[0]] if matches else None
        values = [value] if equals else []
        if option is not None and matches[0] == name[:2] != name:
            equals, values = "=", [word.value[2:]]
        most = _most_values(option, len(words)) if len(matches) == 1 else len(words)
        while not equals and len(values) < most and index < len(words):
            if words[index].value == "--" or _is_flag(words[index].value, options):
                break
            values.append(words[index].value)
            index += 1
        if len(matches) < 2:
            arguments.append(WrittenArgument(name, option, tuple(values), word, bool(equals)))
    return Parsed(tuple(arguments), tuple(extras), tuple(ambiguous))


def _named(name: str, options: Options) -> list[str]:
    """The arguments that a word names: one, or those that it abbreviates."""
    if name in options:
        return [name]
    matches = [word for word in options if word.startswith(name)]
    # One dash takes a value without a blank as well: `-n2`.
    if not name.startswith("--") and name[:2] in options:
        matches.append(name[:2])
    return matches if len({options.name(word) for word in matches}) > 1 else matches[:1]


def _most_values(option: Option | None, most: int) -> int:
    if option is None:
        return most  # what stands behind an unknown argument may be its values
    if option.kind == "switch":
        return 0
    if option.nargs in ("*", "+"):
        return most
    return option.nargs if isinstance(option.nargs, int) else 1


class _Check:
    """The findings of one command line."""

    def __init__(
        self,
        command: EngineCommand,
        engine: Engine,
        words: Sequence[Word],
        release: str | None,
        leave_out: str | None = None,
    ) -> None:
        self.command, self.engine, self.release = command, engine, release
        self.leave_out = leave_out
        self.table: ArgumentTable = argument_table(engine.name)
        # For an unknown release, each argument is read as by the newest release that has it.
        table = self.table
        self.options = table.options(release) if release else table.latest_options()
        self.words = engine.argparse_words(command, words)
        self.say: Callable[[Rule, Any, str], Finding] = warning
        if release is not None and not engine.takes_other_arguments(command):
            self.say = error

    def findings(self) -> Iterator[Finding]:
        parsed = parse(self.words, self.options)
        for argument in parsed.arguments:
            if _is_open(argument.written):
                continue
            if argument.option is None:
                yield self._unknown(argument)
            elif self._needs_serve(argument.option):
                message = (
                    f"{argument.written} is an argument of vllm serve alone; start the engine so"
                )
                yield self.say(ARGUMENT_UNKNOWN, argument.word.place, message)
            elif argument.option.name != self.leave_out:
                yield from self._values(argument, argument.option)
        for word, matches in parsed.ambiguous:
            if self.release is None or _is_open(word.value):
                continue
            if self.table.first(word.value) is not None:  # it was an argument of its own
                yield self._unknown(WrittenArgument(word.value, None, (), word, joined=False))
            else:
                message = f"{word.value} abbreviates {' and '.join(matches[:3])}; write one of them"
                yield self.say(ARGUMENT_UNKNOWN, word.place, message)
        yield from self._extras(parsed)
        if self.say is error:
            yield from self.engine.check_words(self.command, self.words)

    def _needs_serve(self, option: Option) -> bool:
        # The parser itself reads files of arguments, whatever the program.
        other = bool(self.command.program) and not self.command.serve
        return self.release is not None and other and option.serve and option.name != CONFIG_FLAG

    def _unknown(self, argument: WrittenArgument) -> Finding:
        name, table = argument.written, self.table
        place, title = argument.word.place, self.engine.title
        if self.release is not None:
            here = f"{title} v{self.release}"
            gone = table.removed(name, self.release)
            first = table.first(name)
            if gone is not None:
                way = self._instead(name)
                message = f"{name} was removed in {title} v{gone}, the image has v{self.release}; "
                rule = ARGUMENT_REMOVED
                return self.say(rule, place, message + (way or "remove it"))
            if first is not None:
                message = (
                    f"{name} exists from {title} v{first} on, the image has v{self.release}; use a "
                    "newer image, or remove it"
                )
                return self.say(RELEASE_WITHOUT_FEATURE, place, message)
            text = f"{here} has no argument {name}"
        else:
            if self._is_newer() and not self._is_slip(name):
                message = f"{name} is not known: the image is newer than {title} v{table.newest}"
                return info(ARGUMENT_UNKNOWN, place, message)
            text = f"no release of {title} up to v{table.newest} has an argument {name}"
        meant = similar(name, [word for word in self.options if word.startswith("--")])
        hint = f"; did you mean {meant}?" if meant else "; remove it"
        return self.say(ARGUMENT_UNKNOWN, place, text + hint)

    def _is_slip(self, name: str) -> bool:
        """Whether a name is nearly that of a known argument."""
        import difflib  # noqa: PLC0415  # start-up time: few command lines have unknown arguments

        return bool(difflib.get_close_matches(name, list(self.options), n=1, cutoff=_SLIP))

    def _is_newer(self) -> bool:
        """Whether the image has, or may have, a release that the tables do not know yet."""
        image = self.command.image
        if image.version is None:
            return image.engine is not None and not image.stock
        newest = tuple(int(part) for part in re.findall(r"\d+", self.table.newest)[:3])
        return image.version > newest

    def _instead(self, name: str) -> str | None:
        new = successor(self.engine, name)
        return f"use {new} instead" if new else None

    def _values(self, argument: WrittenArgument, option: Option) -> Iterator[Finding]:
        place, name = argument.word.place, argument.written
        if option.kind == "switch":
            if argument.joined:
                message = (
                    f"{name} takes no value, got {shown(argument.values[0])}; remove the value"
                )
                yield self.say(ARGUMENT_VALUE_INVALID, place, message)
        elif not argument.values:
            if option.nargs not in ("?", "*"):
                message = f"{name} has no value; write {name} VALUE, or remove it"
                yield self.say(ARGUMENT_VALUE_INVALID, place, message)
        elif not any(map(_is_open, argument.values)):
            yield from self._wrong(argument, option)
        if self.release is not None and option.deprecated is not None:
            way = self._instead(option.name)
            message = f"{name} is deprecated in {self.engine.title} v{self.release}"
            yield info(ARGUMENT_DEPRECATED, place, f"{message}; {way}" if way else message)

    def _wrong(self, argument: WrittenArgument, option: Option) -> Iterator[Finding]:
        options = [option] if self.release is not None else self.table.versions(option.name)
        for value in argument.values:
            outcomes = [problem(choice, value) for choice in options]
            # For an unknown release, only a value that no release takes is wrong.
            if outcomes and all(outcomes) and outcomes[-1] is not None:
                rule, wanted = outcomes[-1]
                message = f"{argument.written} {wanted}, got {shown(value)}"
                yield self.say(rule, argument.word.place, message)

    def _extras(self, parsed: Parsed) -> Iterator[Finding]:
        if not self.command.readable or any(_is_open(read_word.value) for read_word in self.words):
            return  # a word that is not known may be an argument that takes them
        for index, (word, before) in enumerate(parsed.extras):
            if before is not None and before.option is not None and before.option.kind == "switch":
                rest = f"{before.written} takes no value, got {shown(word.value)}; remove the value"
                yield self.say(ARGUMENT_VALUE_INVALID, word.place, rest)
            elif index >= self.engine.positionals(self.command):
                # The word is not shown: it may be a key that lost its argument.
                message = "belongs to no argument; remove it, or write the argument in front of it"
                yield self.say(ARGUMENT_UNKNOWN, word.place, message)


def successor(engine: Engine, name: str) -> str | None:
    """What takes the place of a removed or deprecated argument, None where nothing is known."""
    versions = argument_table(engine.name).versions(name)
    said = versions[-1].deprecated if versions else None
    return engine.successors.get(name) or said or None


def check_arguments(
    command: EngineCommand, variables: Mapping[str, str], *, leave_out: str | None = None
) -> list[Finding]:
    """What the image's release does not take; located relative to the container.

    Errors where the image is the engine's own and its release is known, warnings where another
    release may run or the program takes more than the release's table has. The values of one
    argument can be left out.
    """
    engine = command.engine
    if engine is None or command.program_in_args:
        return []
    table, version = argument_table(engine.name), command.image.version
    if version is not None and version < release_numbers(table.releases[0]):
        return []  # older than all that is known
    words = read_words(command, variables)
    check = _Check(command, engine, words, known_release(command), leave_out)
    return list(check.findings())


def check_added(command: EngineCommand, original: EngineCommand) -> list[Finding]:
    """Arguments that were added to a user's own, and that the image's release does not have.

    They come from fields; located at the command line as a whole.
    """
    engine, release = command.engine, known_release(command)
    if engine is None or release is None:
        return []
    table = argument_table(engine.name)
    options = table.options(release)
    every = [engine.argparse_words(side, read_words(side, {})) for side in (command, original)]
    added, written = (parse(words, options).arguments for words in every)
    names = {argument.written for argument in written}
    problems = []
    for argument in added:
        first = table.first(argument.written)
        if argument.option is None and argument.written not in names and first is not None:
            message = (
                f"the fields of the role need {argument.written}, which {engine.title} has from "
                f"v{first} on; the image has v{release}"
            )
            problems.append(error(RELEASE_WITHOUT_FEATURE, (), message))
    return problems


def check_value(command: EngineCommand, flag: str) -> list[Finding]:
    """What is wrong with the value of one argument; located at the flag."""
    value = command.value(flag)
    if command.engine is None or value is None:
        return []
    words = [Word(flag, (flag,)), Word(value, (flag,))]
    check = _Check(command, command.engine, words, known_release(command))
    return list(check.findings())


def problem(option: Option, value: str) -> tuple[Rule, str] | None:
    """The rule that a value breaks, and what it must be; None for a value that is taken."""
    if value in ("", "None") and option.default is None:
        return None
    if option.kind in _READERS:
        wanted, read = _READERS[option.kind]
        try:
            number = read(value)
        except ValueError:
            return ARGUMENT_VALUE_INVALID, f"must be {wanted}"
    elif option.kind in ("any", "switch"):
        return None
    else:
        number = value
    if option.choices and number not in option.choices:
        return ARGUMENT_VALUE_INVALID, f"must be one of {_listed(option.choices)}"
    limits = {**_NATURAL.get(option.name, {}), **option.limits}
    if isinstance(number, (int, float)) and not _within(number, limits):
        return ARGUMENT_VALUE_INVALID, f"must be {_range(limits)}"
    return None


_POSITIVE = (
    "--tensor-parallel-size", "--pipeline-parallel-size", "--max-num-seqs",
    "--max-num-batched-tokens", "--max-loras", "--max-running-requests", "--context-length",
)  # fmt: skip
#: Limits that follow from what a number counts, where a release does not state them.
_NATURAL: Mapping[str, Mapping[str, float]] = {
    **{name: {"ge": 1} for name in _POSITIVE},
    "--port": {"ge": 1, "le": 65535},
    "--max-model-len": {"ge": -1},
    "--gpu-memory-utilization": {"gt": 0, "le": 1},
    "--mem-fraction-static": {"gt": 0, "le": 1},
}


def _json(text: str) -> None:
    """Raises ValueError for what is no JSON."""
    # Newer releases of vLLM take 80m for a number, older releases `key=1,other=2` for an object.
    if "=" not in text and not re.search(r"\d[kKmMgGtT]\b", text):
        parsed_json(text)


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


def _within(number: float, limits: Mapping[str, float]) -> bool:
    return (
        number > limits.get("gt", float("-inf"))
        and number >= limits.get("ge", float("-inf"))
        and number < limits.get("lt", float("inf"))
        and number <= limits.get("le", float("inf"))
    )


_LIMITS = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}


def _range(limits: Mapping[str, float]) -> str:
    return " and ".join(f"{words} {limits[key]}" for key, words in _LIMITS.items() if key in limits)


def _listed(choices: Sequence[Any]) -> str:
    listed = ", ".join(map(str, choices[:_MOST_CHOICES]))
    more = len(choices) - _MOST_CHOICES
    return f"{listed} and {more} more" if more > 0 else listed
