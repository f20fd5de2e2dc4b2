"""The command-line arguments of each release of vLLM and SGLang.

`tools/engine_arguments.py` writes the tables in `generated` and describes their format. A table is
loaded on first use.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from fusioninfer_pulumi.generated import DIRECTORY

#: Stands for a default that the engine computes at runtime.
UNKNOWN_DEFAULT = object()


@dataclass(eq=False)
class ArgumentDefinition:
    """An argument in a range of releases that all define it in the same way."""

    name: str  #: its first spelling
    names: tuple[str, ...]  #: all spellings except the negated ones, which start with `--no-`
    kind: str  #: `switch`, `str`, `int`, `float`, `size` (a number such as `8k`), `json`, or `any`
    nargs: int | str | None = None  #: as in argparse; None for one value, and for a switch
    negated: bool = False  #: whether it has negated spellings
    choices: tuple[Any, ...] = ()  #: the accepted values; empty for any
    default: Any = UNKNOWN_DEFAULT  #: its default, `UNKNOWN_DEFAULT` if unknown
    limits: Mapping[str, float] = field(default_factory=dict)  #: `gt`, `ge`, `lt`, `le`
    deprecated: str | None = None  #: the successor, or empty if unknown; None if not deprecated
    since: int = 0  #: index of the first release of the range
    until: int | None = None  #: index of the first release after the range, or None if open

    def spellings(self) -> Iterator[str]:
        """Yield all spellings, negated ones included."""
        yield from self.names
        if self.negated:
            yield from (f"--no-{name[2:]}" for name in self.names if name.startswith("--"))


#: Definitions by spelling, including negated spellings.
Definitions = Mapping[str, ArgumentDefinition]


class ArgumentTable:
    """The arguments that each release of an engine has."""

    def __init__(self, text: str) -> None:
        # A line has the changes of a release: `{"release": ..., "removed": [...], "set": {...}}`.
        changes = [json.loads(line) for line in text.splitlines()]
        #: The releases, oldest first.
        self.releases: tuple[str, ...] = tuple(change["release"] for change in changes)
        # By spelling, oldest first.
        self._definitions: dict[str, list[ArgumentDefinition]] = {}
        current: dict[str, ArgumentDefinition] = {}
        for index, change in enumerate(changes):
            # A new definition of an argument ends its previous one.
            for name in (*change["removed"], *change["set"]):
                if name in current:
                    current.pop(name).until = index
            for name, entry in change["set"].items():
                fields = {key: value for key, value in entry.items() if key != "type"}
                fields["kind"] = entry["type"]
                fields["names"] = (name, *entry.get("names", ()))
                fields["choices"] = tuple(entry.get("choices", ()))
                definition = ArgumentDefinition(name, since=index, **fields)
                current[name] = definition
                for spelling in definition.spellings():
                    self._definitions.setdefault(spelling, []).append(definition)

    def get_definitions(self, release: str | None) -> Definitions:
        """Return the arguments of a release, or the newest definition of each if it is None."""
        if release is None:
            return {name: definitions[-1] for name, definitions in self._definitions.items()}
        index = self.releases.index(release)
        return {
            spelling: definition
            for spelling, definitions in self._definitions.items()
            for definition in definitions
            if definition.since <= index and (definition.until is None or index < definition.until)
        }

    def find_first_release(self, spelling: str) -> str | None:
        """Return the first release that has an argument, or None if no release has it."""
        definitions = self._definitions.get(spelling)
        return self.releases[definitions[0].since] if definitions else None

    def find_removing_release(self, spelling: str, release: str) -> str | None:
        """Return the last release up to `release` that removed or redefined a flag, or None."""
        index = self.releases.index(release)
        ends = [definition.until for definition in self.list_definitions(spelling)]
        removals = [end for end in ends if end is not None and end <= index]
        return self.releases[max(removals)] if removals else None

    def list_definitions(self, spelling: str) -> list[ArgumentDefinition]:
        """Return all definitions of an argument, oldest first."""
        return self._definitions.get(spelling, [])


@cache
def load_argument_table(engine: str) -> ArgumentTable:
    """Return the argument table of an engine."""
    file = DIRECTORY / f"{engine}_arguments.jsonl"
    return ArgumentTable(file.read_text(encoding="utf-8"))


def parse_release(release: str) -> tuple[int, ...]:
    """Return the numbers in a release for comparisons: (0, 5, 10, 1) for `0.5.10.post1`."""
    return tuple(int(number) for number in re.findall(r"\d+", release))
