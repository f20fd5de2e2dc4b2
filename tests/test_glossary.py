"""One thing has one name: words that docs, rules, messages and identifiers do not use.

To add a word, add a row; to hold a word in another place, add the place to its row.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import package_code
from rows import each_row

from fusioninfer_pulumi.rules.catalog import load_rules

ROOT = Path(__file__).parent.parent
PACKAGES = "fusioninfer_pulumi", "importers/fusioninfer_importers", "capacity/fusioninfer_capacity"
#: Functions and methods whose arguments are messages; the last five are of the importers.
FINDINGS = {"error", "warning", "info", "finding", "Finding",
            "unsupported", "invalid", "left_out", "translated", "chosen"}  # fmt: skip
#: Pages whose sentences are those of rules, models and commands.
GENERATED = {"rules.md", "fields.md", "command-line.md", "model-catalogue.md"}
#: Word, what to use instead, and the places that do not have it.
WORDS = (
    ("accelerators that are missing", "missing GPUs", "docs fields rules messages"),
    ("anew|made new", "again, or replace", "docs fields rules messages names tests"),
    ("beside", "next to, with", "docs tests"),
    ("comes? back|goes away", "returns, is deleted", "docs fields rules messages"),
    ("dice|enclosures?|slips?|worlds?", "rng, sandbox, typo, cluster", "tests"),
    ("foreign", "source manifest", "docs fields rules messages tests"),
    ("gives? up", "fails", "docs fields rules"),
    ("goes on|go on", "continue", "docs fields rules messages"),
    ("holds? together", "gang-scheduled", "docs fields rules messages"),
    ("in our words|the other's", "import, convert, source manifest", "docs fields rules messages"),
    ("in words|words of", "message of", "docs fields rules messages"),
    ("inside of", "in", "docs fields rules messages"),
    ("judge[sd]?", "check", "docs fields rules messages"),
    ("looks? at", "read", "docs fields rules messages"),
    ("mend(s|ed)?", "fix", "docs fields rules messages names tests"),
    ("misspelt", "unknown", "docs fields rules messages"),
    ("of one's own|one's own", "your own", "docs fields rules messages"),
    ("one set|the sets?", "LeaderWorkerSet", "docs fields rules"),
    ("parked", "scaled to zero", "docs fields rules messages tests"),
    ("patience", "timeout, deadline", "docs fields rules messages tests"),
    ("proved", "verified", "docs fields rules messages names tests"),
    ("reckon(ed|s)?", "estimate", "docs fields rules messages names tests"),
    ("refus(e|es|ed|al)", "reject", "docs rules"),
    ("says? what", "report", "docs fields rules messages"),
    ("shall", "must, will", "docs fields rules messages names tests"),
    ("slips? of the pen", "typo", "docs fields rules messages tests"),
    ("so many", "the number of", "docs fields rules messages tests"),
    ("stands? still", "stalls", "docs fields rules"),
    ("stated", "set, explicit", "docs fields rules messages"),
    ("take turns|whose turn", "one at a time", "docs fields rules messages"),
    ("to be had", "available", "docs fields rules messages"),
    ("told", "reported", "docs fields rules messages names tests"),
    ("whoever", "clients, users", "docs fields rules messages tests"),
    ("without room", "unschedulable", "docs fields rules messages tests"),
    ("what is written|the written", "manifest, spec", "docs fields rules messages"),
)


@cache
def texts(place: str) -> dict[str, str]:
    """Return each text of a place by its address."""
    return dict(PLACES[place]())


def docs() -> Iterator[tuple[str, str]]:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    return map(page, (path for path in pages if path.name not in GENERATED))


def fields() -> Iterator[tuple[str, str]]:
    yield page(ROOT / "docs" / "reference" / "fields.md")


def page(path: Path) -> tuple[str, str]:
    """Return the prose of a page, without code."""
    text = re.sub(r"^ *```.*?^ *```", "", path.read_text("utf-8"), flags=re.M | re.S)
    return path.relative_to(ROOT).as_posix(), re.sub(r"`[^`]*`|\]\([^)]*\)", "", text)


def rules() -> Iterator[tuple[str, str]]:
    for rule in load_rules().values():
        yield rule.id, f"{rule.title} {rule.remedy}"


@cache
def nodes() -> list[tuple[str, ast.AST]]:
    return [
        (f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}", node)
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        for node in package_code.nodes(path)
        if isinstance(node, ast.Call) or _name_of(node)
    ]


def _name_of(node: ast.AST) -> str | None:
    name = getattr(node, "name", None) or getattr(node, "arg", None) or getattr(node, "id", None)
    return name if isinstance(name, str) else None


def messages() -> Iterator[tuple[str, str]]:
    for place, node in nodes():
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in FINDINGS:
            inner = [item.value for item in ast.walk(node) if isinstance(item, ast.Constant)]
            yield place, " ".join(value for value in inner if isinstance(value, str))


def names() -> Iterator[tuple[str, str]]:
    first = {name: place for place, node in reversed(nodes()) if (name := _name_of(node))}
    for name, place in first.items():
        yield f"{place} {name}", name.replace("_", " ")


def names_in_tests() -> Iterator[tuple[str, str]]:
    definition = re.compile(r"^(?: *def | *class |)(\w+)(?: = |[(:])", re.MULTILINE)
    for path in [*(ROOT / "tests").rglob("*.py"), *(ROOT / "e2e").rglob("*.py")]:
        for name in definition.findall(path.read_text("utf-8")):
            yield f"{path.relative_to(ROOT)} {name}", name.replace("_", " ")


PLACES = {"docs": docs, "fields": fields, "rules": rules, "messages": messages, "names": names,
          "tests": names_in_tests}  # fmt: skip


@each_row(("word", "instead", "places"), WORDS)
def test_glossary_word_is_not_used(word: str, instead: str, places: str) -> None:
    result = {
        f"{place}: {at}"
        for place in places.split()
        for at, text in texts(place).items()
        if re.search(rf"\b({word})\b", text, re.IGNORECASE)
    }
    assert not result, f"use {instead}"
