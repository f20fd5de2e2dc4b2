"""What the releases of vLLM and SGLang take on their command lines.

`tools/engine_arguments.py` writes the tables in `generated`; its docstring describes them. They are
read when the first command line is looked up.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

from fusioninfer_pulumi.generated import FOLDER

#: Stands for a default that the sources work out while they run.
UNKNOWN_DEFAULT = object()


@dataclass(frozen=True)
class Option:
    """An argument of one release.

    Attributes:
        name: Its first spelling.
        names: All spellings, without those with `--no-`.
        kind: `switch`, `str`, `int`, `float`, `size` (a number such as `8k`), `json`, or `any`.
        nargs: As argparse has it; None for one value, and for a switch.
        negated: Whether it has a form with `--no-`.
        choices: The values that it takes; empty for any.
        default: Its default, `UNKNOWN_DEFAULT` where that is not known.
        limits: Limits of a number: `gt`, `ge`, `lt`, `le`.
        deprecated: What to use instead, empty where nothing is named; None where it is current.
        serve: Whether `vllm serve` alone has it.
    """

    name: str
    names: tuple[str, ...]
    kind: str
    nargs: int | str | None = None
    negated: bool = False
    choices: tuple[Any, ...] = ()
    default: Any = UNKNOWN_DEFAULT
    limits: Mapping[str, float] = field(default_factory=dict)
    deprecated: str | None = None
    serve: bool = False


class _Meaning:
    """What an argument was from one release on, until another.

    Attributes:
        name: Its first spelling.
        entry: What the table has of it.
        since: Index of the first release.
        until: Index of the release that changed or removed it; None where it is in the newest.
    """

    def __init__(self, name: str, entry: Mapping[str, Any], since: int) -> None:
        self.name, self.entry, self.since = name, entry, since
        self.until: int | None = None

    @cached_property
    def option(self) -> Option:
        """The argument."""
        entry = self.entry
        return Option(
            name=self.name,
            names=(self.name, *entry.get("names", ())),
            kind=entry["type"],
            nargs=entry.get("nargs"),
            negated=entry.get("negated", False),
            choices=tuple(entry.get("choices", ())),
            default=entry.get("default", UNKNOWN_DEFAULT),
            limits=entry.get("limits", {}),
            deprecated=entry.get("deprecated"),
            serve=entry.get("serve", False),
        )

    def words(self) -> Iterator[str]:
        """All words that stand for it."""
        names = (self.name, *self.entry.get("names", ()))
        yield from names
        if self.entry.get("negated"):
            yield from (f"--no-{name[2:]}" for name in names if name.startswith("--"))


class Options(Mapping[str, Option]):
    """Arguments by each of their spellings."""

    def __init__(self, meanings: Mapping[str, _Meaning]) -> None:
        self._meanings = meanings

    def __getitem__(self, word: str) -> Option:
        return self._meanings[word].option

    def __iter__(self) -> Iterator[str]:
        return iter(self._meanings)

    def __len__(self) -> int:
        return len(self._meanings)

    def name(self, word: str) -> str:
        """The first spelling of the argument that a word stands for."""
        return self._meanings[word].name

    def starting_with(self, name: str) -> list[Option]:
        """Return the arguments that a word may name, abbreviate, or begin with (`-n2`)."""
        short = name[:2] if not name.startswith("--") else name
        words = [word for word in self._meanings if word.startswith(name) or word == short]
        by_name = {self._meanings[word].name: self._meanings[word].option for word in words}
        return list(by_name.values())


class ArgumentTable:
    """The arguments of an engine by release."""

    def __init__(self, text: str) -> None:
        changes = [json.loads(line) for line in text.splitlines()]
        #: The releases, oldest first.
        self.releases: tuple[str, ...] = tuple(
            release_change["release"] for release_change in changes
        )
        # By word, oldest first.
        self._meanings: dict[str, list[_Meaning]] = {}
        current: dict[str, _Meaning] = {}
        for index, change in enumerate(changes):
            for name in (*change["removed"], *change["set"]):
                if name in current:
                    current.pop(name).until = index
            for name, details in change["set"].items():
                meaning = current[name] = _Meaning(name, details, index)
                for word in meaning.words():
                    self._meanings.setdefault(word, []).append(meaning)

    @property
    def newest(self) -> str:
        """The newest release."""
        return self.releases[-1]

    def options(self, release: str) -> Options:
        """The arguments of a release."""
        at = self.releases.index(release)
        return Options(
            {
                word: meaning
                for word, meanings in self._meanings.items()
                for meaning in meanings
                if meaning.since <= at and (meaning.until is None or at < meaning.until)
            }
        )

    def latest_options(self) -> Options:
        """The arguments of all releases, each as the newest one that has it."""
        return Options({word: meanings[-1] for word, meanings in self._meanings.items()})

    def first(self, word: str) -> str | None:
        """The first release that takes a word; None where none does."""
        meanings = self._meanings.get(word)
        return self.releases[meanings[0].since] if meanings else None

    def removed(self, word: str, release: str) -> str | None:
        """The release, up to this one, that no longer takes a word of earlier releases."""
        at = self.releases.index(release)
        ends = [
            meaning.until for meaning in self._meanings.get(word, ()) if meaning.until is not None
        ]
        before = [end for end in ends if end <= at]
        return self.releases[max(before)] if before else None

    def versions(self, word: str) -> list[Option]:
        """What a word meant in the releases that take it, oldest first."""
        return [meaning.option for meaning in self._meanings.get(word, ())]


@cache
def argument_table(engine: str) -> ArgumentTable:
    """The arguments of an engine, by its name."""
    file = FOLDER / f"{engine}_arguments.jsonl"
    return ArgumentTable(file.read_text(encoding="utf-8"))


def release_numbers(release: str) -> tuple[int, ...]:
    """The numbers of a release, to compare it: (0, 5, 10, 1) for `0.5.10.post1`."""
    return tuple(int(number) for number in re.findall(r"\d+", release))
