"""Files of the packages and their syntax trees, parsed once for all tests."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "fusioninfer_pulumi"
FILES = sorted(PACKAGE.rglob("*.py"))
#: Companion packages, each in its own distribution.
PLUGINS = [
    path
    for name in ("importers", "capacity")
    if (path := ROOT / name / f"fusioninfer_{name}").is_dir()
]
PLUGIN_FILES = sorted(file for path in PLUGINS for file in path.rglob("*.py"))


def name(path: Path) -> str:
    """Return a file's path in the core or in its companion package."""
    home = PACKAGE if PACKAGE in path.parents else ROOT / path.relative_to(ROOT).parts[0]
    return path.relative_to(home).as_posix()


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(tree(path)))


@cache
def imported(path: Path, start: str) -> frozenset[str]:
    """Return a file's imports with a prefix; `from a import b` is `a.b`."""
    names: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return frozenset(module for module in names if module.startswith(start))
