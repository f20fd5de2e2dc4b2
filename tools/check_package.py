"""Builds the packages and checks the files that users install.

Builds a wheel from each sdist, runs a part of the tests in the core's sdist, runs `twine check`,
requires absolute links in descriptions, and runs the core's wheel on every supported Python of this
machine, alone and with the wheels of its companion packages.
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

import yaml
from test_pythons import PACKAGES, find_candidates, is_interpreter

ROOT = Path(__file__).resolve().parent.parent
VERSIONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
#: Tests that read files of the sdist: examples, templates, docs, tools and generated files.
TESTS = ("tests/test_public_api.py", "tests/test_json_schema.py", "tests/test_args_dicts.py",
         "tests/test_examples.py", "tests/test_readme.py", "tests/test_templates.py",
         "tests/test_architecture.py", "tests/provider")  # fmt: skip
#: A manifest that an importer reads.
SOURCE_MANIFEST = ROOT / "importers" / "tests" / "kthena_manifest.yaml"


def run(*command: str | Path, cwd: Path) -> str:
    """Return the output of a command, which must succeed."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        check=False,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} failed:\n{done.stdout[-4000:]}")
    return done.stdout


def build(source: Path, directory: Path) -> tuple[Path, Path]:
    """Return the sdist of a package, and the wheel that was built from it."""
    run(sys.executable, "-m", "build", "--outdir", directory, cwd=source)
    (sdist,), (wheel,) = directory.glob("*.tar.gz"), directory.glob("*.whl")
    return sdist, wheel


def check_stubs(wheel: Path) -> None:
    """Fail if type checkers do not find the stubs, which must be next to their modules."""
    with zipfile.ZipFile(wheel) as files:
        names = set(files.namelist())
    if "fusioninfer_pulumi/api/service.pyi" not in names or any("/stubs/" in n for n in names):
        raise SystemExit("the wheel has no stubs next to its modules")


def check_description(wheel: Path) -> None:
    """Fail if a link or picture of the package's description is relative."""
    with zipfile.ZipFile(wheel) as files:
        (name,) = (path for path in files.namelist() if path.endswith(".dist-info/METADATA"))
        description = email.message_from_bytes(files.read(name)).get_payload()
    links = re.findall(r"\]\(([^)]+)\)", str(description))
    relative = [link for link in links if not link.startswith(("https://", "#"))]
    if relative or not links:
        raise SystemExit(f"relative links in the description: {relative}")


def test_sdist(sdist: Path, directory: Path) -> None:
    """Install the core's sdist with the companion packages in it, and run `TESTS` of the sdist."""
    with tarfile.open(sdist) as files:
        files.extractall(directory, filter="data")
    (source,) = (path for path in directory.iterdir() if path.is_dir())
    home = directory / "venv"
    run(sys.executable, "-m", "venv", home, cwd=directory)
    pip = (home / "bin" / "python", "-m", "pip", "install", "-q", "--no-compile")
    companions = [f"./{name}" for name in PACKAGES]
    run(*pip, "-c", "constraints.txt", ".[dev]", *companions, cwd=source)
    print(run(home / "bin" / "python", "-m", "pytest", "-q", *TESTS, cwd=source).splitlines()[-1])


def run_wheels(wheel: Path, companions: list[Path], python: str, directory: Path) -> None:
    """Run both programs of the core's wheel, installed alone; then `check` with the companions."""
    run(python, "-m", "venv", directory, cwd=ROOT)
    programs = directory / "bin"
    pip = (programs / "python", "-m", "pip", "install", "-q", "--no-compile")
    run(*pip, "-c", ROOT / "constraints.txt", wheel, cwd=directory)
    manifest = ROOT / "examples" / "qwen-monolithic" / "inference-service.yaml"
    run(programs / "fusioninfer-pulumi", "check", manifest, cwd=directory)
    rejected = subprocess.run(
        [programs / "fusioninfer-pulumi", "check", SOURCE_MANIFEST],
        capture_output=True,
        text=True,
        check=False,
    )
    if "pip install" not in rejected.stderr or rejected.returncode != 2:
        raise SystemExit(f"{python}: a manifest without its importer: {rejected.stderr}")
    program = ROOT / "tests" / "typed_programs" / "accepted.py"
    # Pulumi's SDK requires an event loop.
    loop = "import asyncio; asyncio.set_event_loop(asyncio.new_event_loop())"
    run(programs / "python", "-c", f"{loop}\nexec(open({str(program)!r}).read())", cwd=directory)
    plugin = subprocess.Popen(
        [programs / "pulumi-resource-fusioninfer", "127.0.0.1:1"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        port = plugin.stdout.readline() if plugin.stdout else ""
    finally:
        plugin.terminate()
        plugin.wait()
    if not port.strip().isdecimal():
        raise SystemExit(f"{python}: the plugin serves no port")
    run(*pip, "-c", ROOT / "constraints.txt", wheel, *companions, cwd=directory)
    run(programs / "fusioninfer-pulumi", "check", SOURCE_MANIFEST, cwd=directory)


def run_new_projects(python: str, directory: Path) -> None:
    """Test the projects that `init` of these wheels creates, with their requirements installed."""
    init = (
        directory / "bin" / "fusioninfer-pulumi",
        "init",
        "Qwen/Qwen3-8B",
        "--accelerator",
        "H100",
    )
    for language in ("python", "yaml"):
        run(*init, "--language", language, "--directory", language, cwd=directory)
    project = directory / "python"
    run(python, "-m", "venv", project / ".venv", cwd=project)
    programs = project / ".venv" / "bin"
    pip = (programs / "python", "-m", "pip", "install", "-q", "--no-compile")
    run(*pip, "-c", ROOT / "constraints.txt", "-r", "requirements.txt", cwd=project)
    run(programs / "python", "-m", "pytest", "-q", cwd=project)
    run(programs / "fusioninfer-pulumi", "check", "--strict", ".", cwd=project)
    run(init[0], "check", "--strict", ".", cwd=directory / "yaml")
    program = yaml.safe_load((directory / "yaml" / "Pulumi.yaml").read_text(encoding="utf-8"))
    (plugin,) = program["plugins"]["providers"]
    if not (Path(plugin["path"]) / "pulumi-resource-fusioninfer").is_file():
        raise SystemExit(f"the YAML project's plugin is missing: {plugin}")


def main() -> int:
    """Run all checks, and print the Python versions that were tested."""
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        sdist, wheel = build(ROOT, directory / "dist")
        packages = [build(ROOT / name, directory / "dist" / name) for name in PACKAGES]
        companions = [built for _, built in packages]
        files = [sdist, wheel, *(file for pair in packages for file in pair)]
        print(f"built {', '.join(file.name for file in files)}")
        run(sys.executable, "-m", "twine", "check", "--strict", *files, cwd=ROOT)
        for built in (wheel, *companions):
            check_description(built)
        check_stubs(wheel)
        test_sdist(sdist, directory / "sdist")
        pythons = {}
        for version in VERSIONS:
            python = next(
                (path for path in find_candidates(version) if is_interpreter(path, version)), None
            )
            if python is None:
                print(f"skipped: no Python {version} on this machine")
                continue
            run_wheels(wheel, companions, python, directory / version)
            print(f"the wheels run on Python {version}")
            pythons[version] = python
        newest, python = list(pythons.items())[-1]
        run_new_projects(python, directory / newest)
        print(f"new projects run on Python {newest}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
