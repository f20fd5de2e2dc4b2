"""The code blocks of the pages: what each one is, and the folder that a page builds up.

A block says what it is by its language and title, which the site shows above it:

- `yaml title="qwen.yaml"`: a file that is complete; `yaml title="part of spec"` or
  `"part of roles[0]"`: a fragment of an InferenceService, and of what.
- `python title="__main__.py"`: a file, too. It becomes the program of a Pulumi project.
- `diff title="service.py"`: an edit of a file that a block before it wrote or copied.
- `console`: commands after `$`, each followed by exactly what it prints. `…` alone on a line
  stands for lines left out; within a line, for times and folders that differ each time. Commands of
  Pulumi and `make` are run by `e2e/engine/test_tutorial.py`.
- `bash`: commands for the reader's own cluster or repository; only their form is checked.
- Other languages show other tools' files (`toml`, `typescript`, `go`, ...) or text.
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
        page: Path of its page below the root.
        line: Line on which it begins, from 1.
        language: What stands after the fence.
        title: Its title, empty without one.
        text: What it holds.
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
        """The field that a fragment is a part of, empty for whole files."""
        return self.title.removeprefix("part of ") if self.title.startswith("part of ") else ""


def blocks(page: Path) -> list[Block]:
    """The blocks of a page in their order."""
    text, name = page.read_text(encoding="utf-8"), page.relative_to(ROOT).as_posix()
    return [
        Block(
            name,
            text.count("\n", 0, found.start()) + 1,
            found["language"],
            found["title"] or "",
            "".join(line.removeprefix(found["indent"]) for line in found["text"].splitlines(True)),
        )
        for found in _BLOCK.finditer(text)
    ]


@dataclass(frozen=True)
class Command:
    """A command of a console block, and the lines that it prints."""

    line: str
    printed: tuple[str, ...]


def commands(block: Block) -> Iterator[Command]:
    """The commands of a console block."""
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        line, *printed = part.rstrip("\n").split("\n")
        yield Command(line, tuple(each.rstrip() for each in printed))


def matches(shown: tuple[str, ...], printed: list[str]) -> bool:
    """Whether lines are as shown, where a line of `…` stands for any number of lines."""
    if not shown:
        return not printed
    if shown[0].strip() == "…":
        return any(matches(shown[1:], printed[at:]) for at in range(len(printed) + 1))
    line = re.escape(shown[0]).replace("…", ".*")
    return bool(printed and re.fullmatch(line, printed[0].rstrip())) and matches(
        shown[1:], printed[1:]
    )


def edit(block: Block, folder: Path) -> None:
    """Makes the change of a diff block: its lines without `+` become those without `-`."""
    path = folder / block.title
    text, lines = path.read_text(encoding="utf-8"), block.text.splitlines(keepends=True)
    old = "".join(line[1:] for line in lines if line[0] in " -")
    new = "".join(line[1:] for line in lines if line[0] in " +")
    assert text.count(old) == 1, f"{block}: these lines are not once in {block.title}"
    path.write_text(text.replace(old, new), encoding="utf-8")


def copy_template(words: list[str], folder: Path) -> None:
    """Copies the template of a `pulumi new` without Pulumi, as it would."""
    name, (template,) = words[words.index("--name") + 1], [w for w in words if "templates/" in w]
    source = ROOT / "templates" / template.rpartition("/")[2]
    for each in source.iterdir():
        if each.is_file():
            text = each.read_text(encoding="utf-8").replace("${PROJECT}", name)
            (folder / each.name).write_text(text, encoding="utf-8")
