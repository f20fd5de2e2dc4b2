"""Gives a program the process that it expects."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path


def enter(program: Path) -> None:
    """Makes the process one that the language host starts for the program.

    The working directory and the first place to import from are the program's folder.
    """
    importlib.invalidate_caches()  # the folder may have been written a moment ago
    os.chdir(program.parent)
    sys.path.insert(0, str(program.parent))
    sys.argv = [str(program)]


def is_users(file: str, root: Path) -> bool:
    """Tells whether a source file is the user's own, not that of a package installed there."""
    if file.startswith("<"):  # <string>, <frozen runpy>: no file at all
        return False
    try:
        parts = Path(file).resolve().relative_to(root).parts
    except (OSError, ValueError):
        return False
    return "site-packages" not in parts
