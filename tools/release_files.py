"""Builds the files of a release in dist/: sdists, wheels, the plugin, an SBOM, and SDKs.

The SDKs, and the check that the plugin installs, need the Pulumi CLI with its language hosts;
without it they are skipped, except in CI.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from check_package import PACKAGES, ROOT, build, run

from fusioninfer_pulumi import __version__
from fusioninfer_pulumi.provider.server import VERSION

DIST = ROOT / "dist"
SCHEMA = ROOT / "fusioninfer_pulumi" / "generated" / "pulumi-package.json"
#: Languages of the SDKs that `pulumi package gen-sdk` writes.
LANGUAGES = ("nodejs", "go", "dotnet", "java")
#: Pulumi downloads one archive for each of these systems; all contain the same plugin.
SYSTEMS = ("linux-amd64", "linux-arm64", "darwin-amd64", "darwin-arm64", "windows-amd64")


def write_sbom(wheels: list[Path], directory: Path) -> None:
    """Write the SBOM of an environment with only the wheels and their dependencies."""
    run(sys.executable, "-m", "venv", directory, cwd=ROOT)
    python = directory / "bin" / "python"
    constraints = ROOT / "constraints.txt"
    run(python, "-m", "pip", "install", "-q", "--no-compile", "-c", constraints, *wheels, cwd=ROOT)
    run(python, "-m", "pip", "uninstall", "-q", "--yes", "pip", "setuptools", cwd=ROOT)
    module = (sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible")
    run(*module, "--output-file", DIST / "sbom.cdx.json", python, cwd=ROOT)


def write_plugin(wheels: list[Path], directory: Path) -> list[Path]:
    """Write the archives of the plugin: its start script, and the wheels that Pulumi installs."""
    directory.mkdir()
    for file in (ROOT / "PulumiPlugin.yaml", ROOT / "__main__.py", *wheels):
        shutil.copy(file, directory)
    requirements = "".join(f"./{wheel.name}\n" for wheel in wheels)
    (directory / "requirements.txt").write_text(requirements, encoding="utf-8")
    name = f"pulumi-resource-fusioninfer-v{VERSION}"
    archives = (DIST / f"{name}-{system}" for system in SYSTEMS)
    return [Path(shutil.make_archive(str(path), "gztar", directory)) for path in archives]


def check_plugin(archive: Path, home: Path) -> None:
    """Install the plugin as Pulumi does, and get its schema from it."""
    home.mkdir()
    pulumi = ("env", f"PULUMI_HOME={home}", "pulumi")
    install = (*pulumi, "plugin", "install", "resource", "fusioninfer", VERSION)
    # Run outside the repository: the CLI rejects a directory that is a project and a plugin.
    run(*install, "--file", archive, cwd=home)
    schema = run(*pulumi, "package", "get-schema", f"fusioninfer@{VERSION}", cwd=home)
    if f'"version": "{VERSION}"' not in schema:
        raise SystemExit(f"the installed plugin has another schema:\n{schema[:400]}")


def write_sdks(directory: Path) -> None:
    """Write an archive of each language's SDK."""
    for language in LANGUAGES:
        run(
            "pulumi",
            "package",
            "gen-sdk",
            SCHEMA,
            "--language",
            language,
            "--out",
            directory,
            cwd=directory.parent,
        )
        name = DIST / f"fusioninfer-sdk-{language}-{__version__}"
        shutil.make_archive(str(name), "gztar", directory / language)


def main() -> int:
    """Build everything, and list the files."""
    tag = os.environ.get("GITHUB_REF_NAME", "")
    if tag.startswith("v") and tag != f"v{__version__}":
        raise SystemExit(f"the tag is {tag}, the version is {__version__}")
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        files = [build(ROOT / name, directory / f"built-{name}") for name in ("", *PACKAGES)]
        built = [Path(shutil.copy(file, DIST)) for pair in files for file in pair]
        wheels = [file for file in built if file.suffix == ".whl"]
        write_sbom(wheels, directory / "venv")
        archive, *_ = write_plugin(wheels, directory / "plugin")
        if shutil.which("pulumi") or os.environ.get("CI"):
            check_plugin(archive, directory / "home")
            write_sdks(directory / "sdks")
        else:
            print("skipped: SDKs and the plugin's check, because there is no Pulumi CLI")
    print("\n".join(sorted(path.name for path in DIST.iterdir())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
