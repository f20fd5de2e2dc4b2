"""Code blocks of the documentation.

The language and title of a block say how it is tested. The blocks of a page share one folder:

- `yaml title="qwen.yaml"`: a complete file; `yaml title="part of spec"` or
  `"part of roles[0]"`: a fragment of an InferenceService.
- `python title="__main__.py"`: the program of a Pulumi project; `test_*.py`: tests that pass.
- `diff title="service.py"`: an edit of an earlier file.
- `console`: commands after `$`, each followed by its exact output. `…` stands for omitted lines or,
  within a line, for text that varies. `e2e/engine/test_tutorial.py` runs Pulumi and `make`.
- `bash`: commands for the reader's cluster or repository; not run, only their form is checked.
- Other languages are not tested.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_BLOCK = re.compile(
    r"^(?P<indent> *)```(?P<language>\w+)(?: title=\"(?P<title>[^\"]*)\")?\n"
    r"(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """One code block.

    Attributes:
        page: Path of its page in the repository.
        line: First line, from 1.
        language: Word after the fence.
        title: Its title, or empty without one.
        text: Its content.
    """

    page: str
    line: int
    language: str
    title: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def part_of(self) -> str:
        """Field that contains the fragment; empty for whole files."""
        return self.title.removeprefix("part of ") if self.title.startswith("part of ") else ""


def blocks(page: Path) -> list[Block]:
    """Return the blocks of a page in order."""
    text, name = page.read_text(encoding="utf-8"), page.relative_to(ROOT).as_posix()
    return [
        Block(
            name,
            text.count("\n", 0, match.start()) + 1,
            match["language"],
            match["title"] or "",
            "".join(line.removeprefix(match["indent"]) for line in match["text"].splitlines(True)),
        )
        for match in _BLOCK.finditer(text)
    ]


@dataclass(frozen=True)
class Command:
    """A command of a console block and its output."""

    line: str
    printed: tuple[str, ...]


def commands(block: Block) -> Iterator[Command]:
    """Yield the commands of a console block."""
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        line, *printed = part.rstrip("\n").split("\n")
        yield Command(line, tuple(item.rstrip() for item in printed))


def matches(shown: tuple[str, ...], printed: list[str]) -> bool:
    """Return whether the printed lines match those shown, with `…` as a wildcard."""
    if not shown:
        return not printed
    if shown[0].strip() == "…":
        return any(matches(shown[1:], printed[at:]) for at in range(len(printed) + 1))
    line = re.escape(shown[0]).replace("…", ".*")
    return bool(printed and re.fullmatch(line, printed[0].rstrip())) and matches(
        shown[1:], printed[1:]
    )


def edit(block: Block, folder: Path) -> None:
    """Apply a diff block to a file."""
    path = folder / block.title
    text, lines = path.read_text(encoding="utf-8"), block.text.splitlines(keepends=True)
    old = "".join(line[1:] for line in lines if line[0] in " -")
    new = "".join(line[1:] for line in lines if line[0] in " +")
    assert text.count(old) == 1, f"{block}: these lines are not once in {block.title}"
    path.write_text(text.replace(old, new), encoding="utf-8")


def copy_template(words: list[str], folder: Path) -> None:
    """Copy a template as `pulumi new` does."""
    name, (template,) = words[words.index("--name") + 1], [w for w in words if "templates/" in w]
    source = ROOT / "templates" / template.rpartition("/")[2]
    for item in source.iterdir():
        if item.is_file():
            text = item.read_text(encoding="utf-8").replace("${PROJECT}", name)
            (folder / item.name).write_text(text, encoding="utf-8")
