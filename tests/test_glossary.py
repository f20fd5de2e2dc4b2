"""One thing has one name: words that docs, rules, messages and identifiers do not use.

To add a word, add a row; to hold a word in another place, add the place to its row.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from fusioninfer_pulumi.rules.catalog import all_rules

ROOT = Path(__file__).parent.parent
FINDINGS = {"error", "warning", "info", "finding", "Finding"}
#: Word, what to use instead, and the places that do not have it.
WORDS = (
    ("accelerators that are missing", "missing GPUs", "docs rules messages"),
    ("anew", "again, or replace", "docs rules messages names"),
    ("holds? together", "gang-scheduled", "docs rules messages"),
    ("in our words", "import, convert", "docs rules messages"),
    ("inside of", "in", "docs rules messages"),
    ("mends?", "fix", "docs rules messages names"),
    ("parked", "scaled to zero", "docs rules messages"),
    ("patience", "timeout, deadline", "docs rules messages"),
    ("proved", "verified", "docs rules messages names"),
    ("reckon(ed|s)?", "estimate", "docs rules messages names"),
    ("the other's", "source manifest", "docs rules messages"),
    ("told", "reported", "docs rules"),
    ("whole truth|slip of the pen", "typo", "docs rules messages"),
)


@cache
def texts(place: str) -> dict[str, str]:
    """Each text of a place by its address."""
    return dict({"docs": docs, "rules": rules, "messages": messages, "names": names}[place]())


def docs() -> Iterator[tuple[str, str]]:
    for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        text = re.sub(r"^ *```.*?^ *```", "", path.read_text("utf-8"), flags=re.M | re.S)
        yield path.relative_to(ROOT).as_posix(), re.sub(r"`[^`]*`|\]\([^)]*\)", "", text)


def rules() -> Iterator[tuple[str, str]]:
    for rule in all_rules().values():
        yield rule.id, f"{rule.title} {rule.remedy}"


def nodes() -> Iterator[tuple[str, ast.AST]]:
    for path in (ROOT / "fusioninfer_pulumi").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            yield f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}", node


def messages() -> Iterator[tuple[str, str]]:
    for place, node in nodes():
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in FINDINGS:
            inner = [each.value for each in ast.walk(node) if isinstance(each, ast.Constant)]
            yield place, " ".join(value for value in inner if isinstance(value, str))


def names() -> Iterator[tuple[str, str]]:
    for place, node in nodes():
        name = getattr(node, "name", None) or getattr(node, "arg", None)
        name = node.id if isinstance(node, ast.Name) else name
        if isinstance(name, str):
            yield f"{place} {name}", name.replace("_", " ")


@pytest.mark.parametrize(("word", "instead", "places"), WORDS)
def test_glossary_word_is_not_used(word: str, instead: str, places: str) -> None:
    found = {
        f"{place}: {at}"
        for place in places.split()
        for at, text in texts(place).items()
        if re.search(rf"\b({word})\b", text, re.IGNORECASE)
    }
    assert not found, f"use {instead}"
