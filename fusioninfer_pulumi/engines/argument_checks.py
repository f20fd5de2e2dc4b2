"""Checks a command line against the arguments of the image's release, using argparse."""

from __future__ import annotations

import argparse
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, NoReturn

from fusioninfer_pulumi.engines._shell_words import UNKNOWN
from fusioninfer_pulumi.engines.argument_tables import (
    UNKNOWN_DEFAULT,
    ArgumentDefinition,
    Definitions,
    load_argument_table,
    parse_release,
)
from fusioninfer_pulumi.engines.command_flags import (
    DASH_VALUE,
    parse_json,
    replace_variables,
    split_joined_flags,
)
from fusioninfer_pulumi.engines.engine import Engine, EngineCommand, Word
from fusioninfer_pulumi.findings import (
    Finding,
    Location,
    Rule,
    closest_name,
    error,
    quote_value,
    summarize_names,
    warning,
)
from fusioninfer_pulumi.rules.common import RELEASE_WITHOUT_FEATURE

ARGUMENT_UNKNOWN = Rule("argument-unknown")
ARGUMENT_REMOVED = Rule("argument-removed")
ARGUMENT_VALUE_INVALID = Rule("argument-value-invalid")

# A script may install another release before it starts the engine.
_INSTALLS = re.compile(r"\b(pip3?|uv)\b.*\binstall\b")
_MAX_SHOWN_CHOICES = 8
#: An unknown argument this similar to a known one is a typo, not an argument of a newer release.
_TYPO_SIMILARITY = 0.85
#: A suggestion less similar than this is often an argument with a different meaning.
_SUGGESTION_SIMILARITY = 0.8


class UserArgument(NamedTuple):
    """An argument of a command line.

    Attributes:
        name: The spelling in the command line, which may be an abbreviation.
        word: The word with the name, and with the value after `=` if there is one.
        definition: Its definition in the release, or None for an unknown or ambiguous name.
        problem: Why argparse rejects its name or its values; None if argparse accepts them or the
            name is unknown.
        extras: Words between its last value and the next argument.
    """

    name: str
    word: Word
    definition: ArgumentDefinition | None = None
    problem: str | None = None
    extras: tuple[Word, ...] = ()


def find_known_release(command: EngineCommand) -> str | None:
    """Return the release of the container's engine, or None if it is uncertain or has no table."""
    engine, release = command.engine, command.image.release
    if engine is None or release is None or command.image.engine != engine.name:
        return None
    if _INSTALLS.search(command.script or ""):
        return None
    return release if release in load_argument_table(engine.name).releases else None


def get_argument_words(command: EngineCommand, variables: Mapping[str, str]) -> list[Word]:
    """Return the engine's arguments, with references to `variables` replaced by their values."""
    argv, args_start = command.argv, len(command.argv.command)
    in_script = command.script is not None
    words: list[Word] = []
    if in_script:
        # A script is one element, so its arguments have the location of its field.
        location: Location = ("args",) if argv.args else ("command",)
        words = [Word(text, location) for text in command.arguments]
    else:
        start = len(command.program)
        for index, text in enumerate(argv.texts()[start:], start):
            location = ("command", index) if index < args_start else ("args", index - args_start)
            words += [Word(part, location) for part in split_joined_flags([text])]
    return [
        Word(replace_variables(word.value, variables, in_script=in_script), word.location)
        for word in words
    ]


def _has_unknown_part(text: str) -> bool:
    return UNKNOWN in text or "$" in text or "`" in text


def parse_arguments(
    words: Sequence[Word], definitions: Definitions, *, checks_values: bool = True
) -> tuple[list[Word], list[UserArgument]]:
    """Return the words before the first flag, and the flags with their values, up to `--`."""
    texts = [word.value for word in words]
    if "--" in texts:
        words = words[: texts.index("--")]
    starts = [
        index for index, word in enumerate(words) if _starts_argument(word.value, definitions)
    ]
    bounds = [*starts, len(words)]
    arguments = [
        _parse_argument(words[start:end], definitions, checks_values=checks_values)
        for start, end in pairwise(bounds)
    ]
    return list(words[: bounds[0]]), arguments


def _starts_argument(text: str, definitions: Definitions) -> bool:
    if text.partition("=")[0] in definitions:
        return True
    return text.startswith("-") and " " not in text and not DASH_VALUE.fullmatch(text)


class _Parser(argparse.ArgumentParser):
    """A parser that raises an error instead of exiting."""

    def error(self, message: str) -> NoReturn:
        raise argparse.ArgumentError(None, message)


def _parse_argument(
    words: Sequence[Word], definitions: Definitions, *, checks_values: bool
) -> UserArgument:
    """Parse an argument: `words` are the flag and all words up to the next flag."""
    name = words[0].value.partition("=")[0]
    parser = _Parser(add_help=False, exit_on_error=False, argument_default=argparse.SUPPRESS)
    # A release has hundreds of arguments, so the parser gets only those that the name may mean: the
    # name may be an abbreviation, or a short flag with its value (`-n2`).
    short_flag = name if name.startswith("--") else name[:2]
    candidates: dict[str, ArgumentDefinition] = {}
    for spelling, definition in definitions.items():
        if spelling.startswith(name) or spelling == short_flag:
            candidates[definition.name] = definition
    for definition in candidates.values():
        settings: dict[str, Any] = {"nargs": definition.nargs}
        if definition.kind == "switch":
            settings = {"action": "store_true"}
            if definition.negated:
                settings["action"] = argparse.BooleanOptionalAction
        elif checks_values:
            settings["type"] = partial(_check_value, definition)
        parser.add_argument(*definition.names, dest=definition.name, **settings)
    try:
        values, extra_texts = parser.parse_known_args([word.value for word in words])
    except argparse.ArgumentError as exc:
        # argparse joins an argument's spellings: `--tensor-parallel-size/-tp`.
        first_spelling = (exc.argument_name or "").partition("/")[0]
        return UserArgument(name, words[0], definitions.get(first_spelling), exc.message)
    # The parser sets at most one attribute, because there is one flag in `words`.
    parsed_name = next(iter(vars(values)), None)
    if parsed_name is None:
        return UserArgument(name, words[0])
    extras = tuple(words[len(words) - len(extra_texts) :])
    return UserArgument(name, words[0], definitions[parsed_name], extras=extras)


def _check_value(definition: ArgumentDefinition, value: str) -> str:
    problem = explain_invalid_value(definition, value)
    if problem and not _has_unknown_part(value):
        raise argparse.ArgumentTypeError(f"{problem}, got {quote_value(value)}")
    return value


def check_arguments(
    command: EngineCommand, variables: Mapping[str, str], *, ignored: str | None = None
) -> Iterator[Finding]:
    """Check the arguments against the image's release; findings are relative to the container.

    Findings are errors if the release is known and the program accepts only the table's arguments;
    otherwise they are warnings. If the release is unknown, values are not checked, only their
    number, and an unknown name is reported only if it is similar to an argument of some release.
    The argument `ignored` is not checked.
    """
    engine = command.engine
    if engine is None or command.program_in_args:
        return
    table, stock_release = load_argument_table(engine.name), command.image.stock_release
    if stock_release is not None and stock_release < parse_release(table.releases[0]):
        return  # reported as unsupported
    release = find_known_release(command)
    is_serve = command.program[-1:] == ("serve",)
    may_be_other_server = is_serve and engine.server_flag is not None
    make_finding = warning if release is None or may_be_other_server else error
    words = engine.preprocess_words(get_argument_words(command, variables))
    leading_words, arguments = parse_arguments(
        words, table.get_definitions(release), checks_values=release is not None
    )
    for argument in arguments:
        name, location, definition = argument.name, argument.word.location, argument.definition
        if _has_unknown_part(name) or (definition is not None and definition.name == ignored):
            continue
        if is_serve and name == engine.server_flag:
            continue
        if definition is None and release is not None:
            rule, message = _explain_unknown_argument(engine, name, release)
            yield make_finding(rule, location, message)
        elif definition is None and argument.problem is None:
            closest = closest_name(name, table.get_definitions(None), cutoff=_TYPO_SIMILARITY)
            if closest is not None:
                message = (
                    f"no release of {engine.title} up to v{table.releases[-1]} has an argument "
                    f"{name}; did you mean {closest}?"
                )
                yield warning(ARGUMENT_UNKNOWN, location, message)
        elif definition is not None and argument.problem is not None:
            yield make_finding(ARGUMENT_VALUE_INVALID, location, f"{name}: {argument.problem}")
    if not command.is_readable or any(_has_unknown_part(word.value) for word in words):
        return  # an unknown word may be a flag that takes the words after it
    # The message does not show the word, because it may be an API key.
    extras = [*leading_words, *(word for argument in arguments for word in argument.extras)]
    # The first word is the positional model. vLLM's older program, `api_server`, ignores it and
    # serves its default model.
    accepts_model = is_serve or (not command.program and engine.image_serves)
    # A boolean is the value of a switch, which takes none: no model has such a name.
    if accepts_model and extras and extras[0].value.lower() not in ("true", "false"):
        extras = extras[1:]
    for word in extras:
        message = "is not the value of an argument; remove it, or add the argument's name"
        yield make_finding(ARGUMENT_UNKNOWN, word.location, message)


def _explain_unknown_argument(engine: Engine, name: str, release: str) -> tuple[Rule, str]:
    """Return the rule and the message about an argument that a release does not have."""
    table, title = load_argument_table(engine.name), engine.title
    removed_in = table.find_removing_release(name, release)
    if removed_in is not None:
        successor = find_successor(engine, name)
        remedy = f"use {successor} instead" if successor else "remove or replace it"
        text = f"{name} was removed in {title} v{removed_in}, but the image has v{release}"
        return ARGUMENT_REMOVED, f"{text}; {remedy}"
    first_release = table.find_first_release(name)
    if first_release is not None:
        return RELEASE_WITHOUT_FEATURE, (
            f"{name} needs {title} v{first_release} or later, but the image has v{release}; use "
            "a newer image, or remove it"
        )
    closest = closest_name(name, table.get_definitions(release), cutoff=_SUGGESTION_SIMILARITY)
    hint = f"did you mean {closest}?" if closest else "remove it"
    return ARGUMENT_UNKNOWN, f"{title} v{release} has no argument {name}; {hint}"


def find_successor(engine: Engine, name: str) -> str | None:
    """Return the successor of a removed argument, or None if the engine's help did not name one."""
    last_definition = load_argument_table(engine.name).list_definitions(name)[-1]
    return last_definition.deprecated or None  # empty for an unknown successor


class RemovedArgument(NamedTuple):
    """An argument that the new release does not accept; the fields are keys of `diff` as JSON."""

    name: str
    instead: str | None  #: its successor if known


class ChangedDefault(NamedTuple):
    """An argument whose default changes, and that neither command line sets."""

    name: str
    before: Any
    after: Any


class ArgumentChanges(NamedTuple):
    """How a new release of the engine affects a command line."""

    engine: str
    before: str
    after: str
    removed: tuple[RemovedArgument, ...]
    defaults: tuple[ChangedDefault, ...]


def compare_arguments(old: EngineCommand, new: EngineCommand) -> ArgumentChanges | None:
    """Return how a new release affects the arguments, or None if no change of release is known."""
    engine, before, after = old.engine, find_known_release(old), find_known_release(new)
    if engine is None or new.engine is not engine:
        return None
    if before is None or after is None or before == after:
        return None
    table = load_argument_table(engine.name)
    old_table, new_table = table.get_definitions(before), table.get_definitions(after)
    names = [name for side in (old, new) for name in _list_used_names(engine, side, old_table)]
    removed = tuple(
        RemovedArgument(name, find_successor(engine, name))
        for name in dict.fromkeys(names)  # each name once, in order
        if name not in new_table
    )
    set_names = {old_table[name].name for name in names}
    set_names |= {new_table[name].name for name in _list_used_names(engine, new, new_table)}
    set_names |= set(engine.model_flags)  # the model may be positional
    defaults = []
    for name, old_definition in sorted(old_table.items()):
        new_definition = new_table.get(name)
        # The table has a definition under all its spellings; only the first counts.
        if name != old_definition.name or name in set_names:
            continue
        if new_definition is None or new_definition.deprecated is not None:
            continue
        old_default, new_default = old_definition.default, new_definition.default
        if old_default != new_default and UNKNOWN_DEFAULT not in (old_default, new_default):
            defaults.append(ChangedDefault(name, old_default, new_default))
    return ArgumentChanges(engine.title, before, after, removed, tuple(defaults))


def _list_used_names(engine: Engine, command: EngineCommand, definitions: Definitions) -> list[str]:
    """Return the arguments' names as the command line spells them, but abbreviations in full."""
    words = engine.preprocess_words(get_argument_words(command, {}))
    _, arguments = parse_arguments(words, definitions)
    return [
        argument.name if argument.name in definitions else argument.definition.name
        for argument in arguments
        if argument.definition is not None
    ]


def explain_invalid_value(definition: ArgumentDefinition, value: str) -> str | None:
    """Return what a value must be, such as `must be an integer`, or None if it is accepted."""
    is_default = value in ("", "None") and definition.default is None
    if is_default or definition.kind in ("any", "switch"):
        return None
    parsed: Any = value
    if definition.kind in _PARSERS:
        description, parse = _PARSERS[definition.kind]
        try:
            parsed = parse(value)
        except ValueError:
            return f"must be {description}"
    if definition.choices and parsed not in definition.choices:
        choices = summarize_names([*map(str, definition.choices)], _MAX_SHOWN_CHOICES)
        return f"must be one of {choices}"
    limits = {**_LIMITS_BY_NAME.get(definition.name, {}), **definition.limits}
    if not isinstance(parsed, (int, float)):
        return None
    for key, (phrase, compare) in _COMPARISONS.items():
        if key in limits and not compare(parsed, limits[key]):
            return f"must be {phrase} {limits[key]}"
    return None


#: Limits that the engines' sources do not contain.
_LIMITS_BY_NAME: Mapping[str, Mapping[str, float]] = {
    "--port": {"ge": 1, "le": 65535},
    "--mem-fraction-static": {"gt": 0, "le": 1},
}


def _check_json(text: str) -> None:
    # Newer releases of vLLM accept 80m as a number, and older ones `key=1` as an object. Such text
    # is not checked.
    if "=" not in text and not re.search(r"\d[kKmMgGtT]\b", text):
        parse_json(text)


def _parse_size(text: str) -> int:
    if text.strip().lower() == "auto":
        return -1  # as in vLLM
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kKmMgGtT])", text.strip())
    # All limits of sizes are at most 1, so the exact factor of the suffix does not matter.
    return int(float(match[1]) * 1000) if match else int(text)


_PARSERS: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "int": ("an integer", int),
    "float": ("a number", float),
    "size": ("an integer, or one with a suffix such as 8k", _parse_size),
    "json": ("JSON", _check_json),
}

#: Phrase and operator of each kind of limit.
_COMPARISONS: Mapping[str, tuple[str, Callable[[float, float], bool]]] = {
    "gt": ("above", operator.gt),
    "ge": ("at least", operator.ge),
    "lt": ("below", operator.lt),
    "le": ("at most", operator.le),
}
