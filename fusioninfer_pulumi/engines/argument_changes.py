"""What another release of an engine changes for a command line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fusioninfer_pulumi.engines.argument_checks import known_release, parse, read_words, successor
from fusioninfer_pulumi.engines.arguments import UNKNOWN_DEFAULT, Options, argument_table
from fusioninfer_pulumi.engines.engine import EngineCommand


@dataclass(frozen=True)
class RemovedArgument:
    """An argument that the newer image does not take.

    Attributes:
        name: As the command line writes it.
        instead: What takes its place, None where nothing is known.
    """

    name: str
    instead: str | None


@dataclass(frozen=True)
class ChangedDefault:
    """An argument that the command line leaves to a default that is another one now."""

    name: str
    before: Any
    after: Any


@dataclass(frozen=True)
class ArgumentChanges:
    """What a change of the release does to a command line.

    Attributes:
        removed: Arguments, of the command line before or after, that are gone or renamed.
        defaults: Arguments that are not set, and whose default changes.
    """

    engine: str
    before: str
    after: str
    removed: tuple[RemovedArgument, ...]
    defaults: tuple[ChangedDefault, ...]


def argument_changes(old: EngineCommand, new: EngineCommand) -> ArgumentChanges | None:
    """What differs for a container; None where both releases are not known, or are the same."""
    engine, before, after = old.engine, known_release(old), known_release(new)
    if engine is None or new.engine is not engine or not before or not after or before == after:
        return None
    table = argument_table(engine.name)
    was, now = table.options(before), table.options(after)
    names = {**_written(old, was), **_written(new, was)}
    removed = tuple(
        RemovedArgument(name, successor(engine, name)) for name in names if name not in now
    )
    written = {was.name(name) for name in names} | {now.name(name) for name in _written(new, now)}
    written |= set(engine.model_flags)  # also without its flag a model is given
    defaults = [
        ChangedDefault(name, was[name].default, now[name].default)
        for name in was
        if name in now and name == was.name(name) and name not in written
        if now[name].deprecated is None and _differ(was[name].default, now[name].default)
    ]
    defaults.sort(key=lambda default: default.name)
    return ArgumentChanges(engine.title, before, after, removed, tuple(defaults))


def _written(command: EngineCommand, options: Options) -> dict[str, None]:
    """The arguments that a command line gives, as it writes them."""
    engine = command.engine
    assert engine is not None
    words = engine.argparse_words(command, read_words(command, {}))
    # An abbreviation stands for the whole name.
    return {
        argument.name if argument.name in options else argument.option.name: None
        for argument in parse(words, options)[1]
        if argument.option is not None
    }


def _differ(before: Any, after: Any) -> bool:
    return UNKNOWN_DEFAULT not in (before, after) and before != after
