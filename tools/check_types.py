"""Checks users' programs with mypy and pyright in strict mode.

There must be no error in `examples/`, `templates/`, the companion packages' examples, the programs
in README and docs, and `tests/typed_programs/accepted.py`. `tests/typed_programs/mistakes.py` must
have an error in each line with `# mistake: `, and no others. Pyright is installed as
`basedpyright`, which includes Node.js; its additional rules are off.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MISTAKES = "mistakes.py"
#: Directory for the package as in its wheel: with the stubs next to the modules.
PACKAGES = "packages"
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def list_programs() -> Iterator[tuple[str, str]]:
    """Yield a unique name and the text of every program."""
    for directory in ("examples", "templates", "importers/example", "capacity/example"):
        for path in sorted((ROOT / directory).rglob("*.py")):
            if {".venv", "venv"} & set(path.parts):
                continue
            text = path.read_text(encoding="utf-8")
            directory_name = "_".join(path.parent.relative_to(ROOT).parts).replace("-", "_")
            yield (f"{directory_name}.py" if path.name == "__main__.py" else path.name), text
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for index, text in enumerate(_BLOCK.findall(path.read_text(encoding="utf-8"))):
            if "import" in text:
                yield f"{path.stem.replace('-', '_').lower()}_{index}.py", text
    for path in sorted((ROOT / "tests" / "typed_programs").glob("*.py")):
        yield path.name, path.read_text(encoding="utf-8")


def run_mypy(directory: Path) -> set[tuple[str, int, str]]:
    """Return file, line and message of each error."""
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--config-file="]
    command += ["--follow-imports=silent"]  # as for packages in site-packages
    command += [f"--cache-dir={ROOT / '.mypy_cache' / 'programs'}", "--show-absolute-path"]
    done = subprocess.run(
        [*command, *map(str, sorted(directory.glob("*.py")))],
        cwd=directory,
        env={**os.environ, "MYPYPATH": str(directory / PACKAGES)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in (0, 1):
        raise RuntimeError(done.stdout + done.stderr)
    lines = re.findall(r"^(.+?):(\d+): error: (.*)$", done.stdout, re.MULTILINE)
    return {(Path(path).name, int(line), message) for path, line, message in lines}


def run_pyright(directory: Path) -> set[tuple[str, int, str]]:
    """Return file, line and message of each error."""
    settings = {"typeCheckingMode": "strict", "pythonVersion": "3.10", "include": ["*.py"]}
    settings["extraPaths"] = [PACKAGES]
    # Kubernetes objects and config are Any, because users need not write types for them.
    unknown = ("Variable", "Member", "Argument", "Parameter", "Lambda")
    settings |= {f"reportUnknown{unknown_kind}Type": False for unknown_kind in unknown}
    (directory / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in (0, 1):
        raise RuntimeError(done.stdout + done.stderr)
    return {
        (
            Path(diagnostic["file"]).name,
            diagnostic["range"]["start"]["line"] + 1,
            diagnostic["message"],
        )
        for diagnostic in json.loads(done.stdout)["generalDiagnostics"]
        if diagnostic["severity"] == "error"
    }


def main() -> int:
    """Print the errors of each checker."""
    failed = False
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        package = ROOT / "fusioninfer_pulumi"
        shutil.copytree(package, directory / PACKAGES / package.name)
        stubs = package / "generated" / "stubs"
        shutil.copytree(stubs, directory / PACKAGES / package.name, dirs_exist_ok=True)
        program_texts = dict(list_programs())
        for name, text in program_texts.items():
            (directory / name).write_text(text, encoding="utf-8")
        marked = {
            line
            for line, text in enumerate(program_texts[MISTAKES].splitlines(), start=1)
            if "# mistake: " in text
        }
        for checker, run in (("mypy", run_mypy), ("pyright", run_pyright)):
            errors = run(directory)
            problems = sorted(problem for problem in errors if problem[0] != MISTAKES)
            reported = {line for name, line, _ in errors if name == MISTAKES}
            problems += [
                (MISTAKES, line, "no error" if line in marked else "an unexpected error")
                for line in sorted(reported ^ marked)
            ]
            for name, line, message in problems:
                print(f"{checker}: {name}:{line}: {message}")
            print(f"{checker}: {len(program_texts)} programs, {len(problems)} problems")
            failed = failed or bool(problems)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
