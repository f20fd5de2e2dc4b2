"""Runs the fast tests on each Python from 3.10 to 3.13 on this machine, in separate environments.

Interpreters are searched on PATH and in pyenv's directory of versions, because pyenv's shims on
PATH only start selected versions.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VERSIONS = ("3.10", "3.11", "3.12", "3.13")
#: Companion packages.
PACKAGES = sorted(path.parent.name for path in ROOT.glob("*/pyproject.toml"))
BRIEF_TESTS = (
    "tests/component", "tests/api", "tests/manifests", "tests/test_examples.py",
    "tests/test_public_api.py",
)  # fmt: skip
"""Tests of rendering, and of what depends on Python (compiled libraries, asyncio, typing)."""


def find_candidates(version: str) -> Iterator[str]:
    """Yield paths of possible interpreters of a Python version."""
    executable = shutil.which(f"python{version}")
    if executable:
        yield executable
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    yield from (str(path) for path in sorted(pyenv.glob(f"{version}.*/bin/python{version}")))
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        yield sys.executable


def is_interpreter(python: str, version: str) -> bool:
    """Return whether a program is an interpreter of a Python version."""
    program = "import sys, venv; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([python, "-c", program], capture_output=True, text=True, check=False)
    return done.returncode == 0 and done.stdout.strip() == version


def run(python: str, version: str, tests: Sequence[str]) -> tuple[bool, str]:
    """Create an environment and run the fast tests in it.

    Args:
        python: The interpreter.
        version: Its version.
        tests: Paths of tests, all tests if empty.

    Returns:
        Whether they passed, and their output.
    """
    started = time.monotonic()
    home = ROOT / ".venvs" / version
    interpreter = home / "bin" / "python"
    pip = [str(interpreter), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    pip.append("--no-compile")  # modules are compiled on import, and most are never imported
    editable = [word for name in PACKAGES for word in ("-e", f"./{name}")]
    steps = [
        [*pip, "-c", "constraints.txt", "-e", ".[dev,e2e]", *editable],
        [str(interpreter), "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests],
    ]
    if not interpreter.exists():
        steps.insert(0, [python, "-m", "venv", str(home)])
    output = ""
    for step in steps:
        done = subprocess.run(
            step, check=False, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        output += done.stdout
        if done.returncode:
            return False, output
    seconds = f"{time.monotonic() - started:.0f} s"
    only = f"; only {' '.join(tests)}" if tests else ""
    return True, f"{output}Python {version}: {seconds}, including setup{only}\n"


def main() -> int:
    """Test the versions, concurrently on all processors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--others", action="store_true", help="skip the Python version that runs this program"
    )
    parser.add_argument(
        "--brief",
        action="store_true",
        help="run all tests only on the oldest and newest version, and few on the others",
    )
    arguments = parser.parse_args()
    running = f"{sys.version_info.major}.{sys.version_info.minor}"
    skipped = running if arguments.others else None
    wanted = [version for version in VERSIONS if version != skipped]
    executables = {
        version: next(
            (path for path in find_candidates(version) if is_interpreter(path, version)), None
        )
        for version in wanted
    }
    available = [version for version in VERSIONS if version == skipped or executables.get(version)]
    ends = (available[0], available[-1]) if available and arguments.brief else VERSIONS
    failed = []
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        runs = {
            pool.submit(run, path, version, () if version in ends else BRIEF_TESTS): version
            # Complete runs first: the short ones then use the remaining time.
            for version, path in sorted(executables.items(), key=lambda item: item[0] not in ends)
            if path
        }
        for done in as_completed(runs):
            passed, output = done.result()
            print(f"=== Python {runs[done]}\n{output}", flush=True)
            if not passed:
                failed.append(runs[done])
    for version, path in executables.items():
        if path is None:
            print(f"skipped: no Python {version} on this machine")
    if failed:
        print(f"failed on Python {', '.join(sorted(failed))}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
