"""Shell completion, written by shtab from the parser of the command line."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

import shtab

from fusioninfer_pulumi.capacity_package import capacity
from fusioninfer_pulumi.findings import Severity
from fusioninfer_pulumi.rules.catalog import all_rules

SHELLS = ("bash", "zsh", "fish")
#: Arguments that are paths.
_PATHS = frozenset({"sources", "old", "new", "inventory", "previous"})


def completion(parser: argparse.ArgumentParser, shell: str) -> str:
    """A script that completes commands, options, paths, rules and models in a shell.

    Args:
        parser: The parser of the command line, which nothing else uses any more.
        shell: One of `SHELLS`.
    """
    package = capacity()
    names: dict[str, Sequence[str]] = {
        "rule": tuple(all_rules()),
        "ignore": [rule.id for rule in all_rules().values() if Severity.WARNING in rule.severities],
        "model": () if package is None else package.model_names(),
    }
    for action in _arguments(parser):
        if action.dest in _PATHS:
            setattr(action, "complete", shtab.FILE)  # noqa: B010  # as shtab documents it
        elif action.choices is None:
            action.choices = names.get(action.dest) or None
    return shtab.complete(parser, shell=shell)


def _arguments(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:  # noqa: SLF001  # argparse has no other way to list them
        if isinstance(action.choices, dict):
            for command in action.choices.values():
                yield from _arguments(command)
        else:
            yield action
