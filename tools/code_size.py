"""Prints files, lines, statements and rules of each package, and the change since the last release.

Generated files do not count. Statements are `ast.stmt` nodes without docstrings, so that formatting
does not change the figure.
"""

from __future__ import annotations

import argparse
import ast
import shutil
import subprocess
import tarfile
from collections import Counter
from io import BytesIO
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parent.parent
LAST_RELEASE = "65390fc4"
"""The commit of version 0.2.0."""

GIT = shutil.which("git") or "git"
FIELDS = ("files", "lines", "statements", "rules")


def _run_git(*arguments: str) -> bytes:
    return subprocess.run([GIT, *arguments], cwd=ROOT, check=True, capture_output=True).stdout


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _measure_source(text: str) -> Counter[str]:
    nodes = list(ast.walk(ast.parse(text)))
    return Counter(
        files=1,
        lines=text.count("\n"),
        statements=sum(isinstance(node, ast.stmt) and not _is_docstring(node) for node in nodes),
        rules=sum(
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "Rule"
            and bool(node.args)
            for node in nodes
        ),
    )


def _find_package(path: PurePosixPath) -> str:
    """Return the row of a file: `tests`, its package in the core, or its top directory."""
    if "tests" in path.parts:
        return "tests"
    in_core_package = path.parts[0] == "fusioninfer_pulumi" and len(path.parts) > 2
    return "/".join(path.parts[: 2 if in_core_package else 1])


def _measure_revision(revision: str) -> dict[str, Counter[str]]:
    sizes: dict[str, Counter[str]] = {}
    with tarfile.open(fileobj=BytesIO(_run_git("archive", "--format=tar", revision))) as archive:
        for member in archive:
            path = PurePosixPath(member.name)
            if path.suffix != ".py" or "generated" in path.parts or len(path.parts) < 2:
                continue
            content = archive.extractfile(member)
            assert content is not None
            size = _measure_source(content.read().decode())
            rows = {_find_package(path)}
            if path.parts[0] == "fusioninfer_pulumi":
                rows.add("fusioninfer_pulumi")
            for row in rows:
                sizes.setdefault(row, Counter()).update(size)
    return sizes


def _is_known(revision: str) -> bool:
    command = [GIT, "cat-file", "-e", f"{revision}^{{commit}}"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, check=False).returncode == 0


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--since", default=LAST_RELEASE, help="a git revision")
    since = parser.parse_args().since
    now = _measure_revision("HEAD")
    before = _measure_revision(since) if _is_known(since) else {}
    note = f"change since {since}" if before else f"a shallow clone, which lacks {since}"
    print(f"Size of HEAD, {note}")
    print(f"{'package':<32}" + "".join(f"{field:>18}" for field in FIELDS))
    for package in sorted(now.keys() | before.keys()):
        size, old = now.get(package, Counter()), before.get(package, Counter())
        cells = (f"{size[f]}{f' ({size[f] - old[f]:+})' if before else ''}" for f in FIELDS)
        print(f"{package:<32}" + "".join(f"{cell:>18}" for cell in cells))


if __name__ == "__main__":
    main()
