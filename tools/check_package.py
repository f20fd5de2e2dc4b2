"""Builds the packages and checks them as users get them.

The sdist builds the wheel and passes a part of its own tests; `twine check` finds nothing; no link
of the description is relative; the wheel runs on every supported Python of this machine.
"""

from __future__ import annotations

import email
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from test_pythons import candidates, works

ROOT = Path(__file__).resolve().parent.parent
VERSIONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
#: Whether the sdist holds what tests read: examples, templates, docs, tools and generated files.
TESTS = ("tests/test_public_api.py", "tests/test_json_schema.py", "tests/test_args_dicts.py",
         "tests/test_examples.py", "tests/test_readme.py", "tests/test_templates.py",
         "tests/test_architecture.py", "tests/provider")  # fmt: skip


def run(*command: str | Path, cwd: Path) -> str:
    """Output of a command, which must succeed."""
    done = subprocess.run(
        [str(each) for each in command],
        cwd=cwd,
        check=False,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} failed:\n{done.stdout[-4000:]}")
    return done.stdout


def build(folder: Path) -> tuple[Path, Path]:
    """The sdist, and the wheel that was built from it."""
    run(sys.executable, "-m", "build", "--outdir", folder, cwd=ROOT)
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return sdist, wheel


def check_description(wheel: Path) -> None:
    """Fails where a link or picture of the description works in the repository alone."""
    with zipfile.ZipFile(wheel) as held:
        (name,) = (each for each in held.namelist() if each.endswith(".dist-info/METADATA"))
        description = email.message_from_bytes(held.read(name)).get_payload()
    links = re.findall(r"\]\(([^)]+)\)", str(description))
    relative = [each for each in links if not each.startswith(("https://", "#"))]
    if relative or not links:
        raise SystemExit(f"links of the description that no index can follow: {relative}")


def test_sdist(sdist: Path, folder: Path) -> None:
    """Runs tests of the unpacked sdist, on its own package."""
    with tarfile.open(sdist) as held:
        held.extractall(folder, filter="data")
    (source,) = (each for each in folder.iterdir() if each.is_dir())
    home = folder / "venv"
    run(sys.executable, "-m", "venv", home, cwd=folder)
    pip = (home / "bin" / "python", "-m", "pip", "install", "-q", "--no-compile")
    run(*pip, "-c", "constraints.txt", ".[dev]", cwd=source)
    print(run(home / "bin" / "python", "-m", "pytest", "-q", *TESTS, cwd=source).splitlines()[-1])


def run_wheel(wheel: Path, python: str, folder: Path) -> None:
    """Installs the wheel alone, and runs both of its programs."""
    run(python, "-m", "venv", folder, cwd=ROOT)
    own = folder / "bin"
    pip = (own / "python", "-m", "pip", "install", "-q", "--no-compile")
    run(*pip, "-c", ROOT / "constraints.txt", wheel, cwd=folder)
    manifest = ROOT / "examples" / "qwen-monolithic" / "inference-service.yaml"
    run(own / "fusioninfer-pulumi", "check", manifest, cwd=folder)
    program = ROOT / "tests" / "typed_programs" / "accepted.py"
    loop = "import asyncio; asyncio.set_event_loop(asyncio.new_event_loop())"
    run(own / "python", "-c", f"{loop}\nexec(open({str(program)!r}).read())", cwd=folder)
    plugin = subprocess.Popen(
        [own / "pulumi-resource-fusioninfer", "127.0.0.1:1"], stdout=subprocess.PIPE, text=True
    )
    try:
        port = plugin.stdout.readline() if plugin.stdout else ""
    finally:
        plugin.terminate()
        plugin.wait()
    if not port.strip().isdecimal():
        raise SystemExit(f"{python}: the plugin serves no port")


def main() -> int:
    """Checks everything, and says what it saw."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        sdist, wheel = build(folder / "dist")
        print(f"built {sdist.name} and {wheel.name}")
        run(sys.executable, "-m", "twine", "check", "--strict", sdist, wheel, cwd=ROOT)
        check_description(wheel)
        test_sdist(sdist, folder / "sdist")
        for version in VERSIONS:
            python = next((each for each in candidates(version) if works(each, version)), None)
            if python is None:
                print(f"skipped: no Python {version} on this machine")
                continue
            run_wheel(wheel, python, folder / version)
            print(f"the wheel runs on Python {version}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
