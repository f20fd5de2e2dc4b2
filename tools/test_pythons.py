"""Runs the fast tests on every supported Python that the machine has, each in its own environment.

Interpreters are looked for on PATH and among pyenv's versions, whose shims on PATH do not start
unless a version was selected.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VERSIONS = ("3.10", "3.11", "3.12", "3.13")


def candidates(version: str) -> Iterator[str]:
    """Yields paths of programs that may be a Python of a version."""
    found = shutil.which(f"python{version}")
    if found:
        yield found
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    yield from (str(path) for path in sorted(pyenv.glob(f"{version}.*/bin/python{version}")))
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        yield sys.executable


def works(python: str, version: str) -> bool:
    """Tells whether a program is a Python of that version."""
    program = "import sys, venv; print('%d.%d' % sys.version_info[:2])"
    told = subprocess.run([python, "-c", program], capture_output=True, text=True, check=False)
    return told.returncode == 0 and told.stdout.strip() == version


def run(python: str, version: str) -> bool:
    """Sets up an environment and runs the fast tests in it."""
    home = ROOT / ".venvs" / version
    own = home / "bin" / "python"
    if not own.exists():
        subprocess.run([python, "-m", "venv", str(home)], check=True)
    install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run(
        [str(own), *install, "-c", "constraints.txt", "-e", ".[dev]"], check=True, cwd=ROOT
    )
    tests = [str(own), "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    return subprocess.run(tests, check=False, cwd=ROOT).returncode == 0


def main() -> int:
    """Tests all versions, and says which the machine does not have."""
    failed, missing = [], []
    for version in VERSIONS:
        python = next((path for path in candidates(version) if works(path, version)), None)
        if python is None:
            missing.append(version)
            continue
        print(f"=== Python {version}", flush=True)
        if not run(python, version):
            failed.append(version)
    for version in missing:
        print(f"skipped: no Python {version} on this machine")
    if failed:
        print(f"failed on Python {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
