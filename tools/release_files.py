"""Builds what a release consists of into dist/: sdists, wheels, an SBOM, and SDKs.

The SDKs need the Pulumi CLI with its language hosts; without it they are skipped, except in CI.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from check_package import PACKAGES, ROOT, build, run

from fusioninfer_pulumi import __version__

DIST = ROOT / "dist"
SCHEMA = ROOT / "fusioninfer_pulumi" / "generated" / "pulumi-package.json"
#: Languages of the SDKs that `pulumi package gen-sdk` writes.
LANGUAGES = ("nodejs", "go", "dotnet", "java")


def write_sbom(wheels: list[Path], folder: Path) -> None:
    """Write the SBOM of an environment with nothing but the wheels and their dependencies."""
    run(sys.executable, "-m", "venv", folder, cwd=ROOT)
    python = folder / "bin" / "python"
    constraints = ROOT / "constraints.txt"
    run(python, "-m", "pip", "install", "-q", "--no-compile", "-c", constraints, *wheels, cwd=ROOT)
    run(python, "-m", "pip", "uninstall", "-q", "--yes", "pip", "setuptools", cwd=ROOT)
    module = (sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible")
    run(*module, "--output-file", DIST / "sbom.cdx.json", python, cwd=ROOT)


def write_sdks(folder: Path) -> None:
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
            folder,
            cwd=ROOT,
        )
        name = DIST / f"fusioninfer-sdk-{language}-{__version__}"
        shutil.make_archive(str(name), "gztar", folder / language)


def main() -> int:
    """Build everything, and list the files."""
    tag = os.environ.get("GITHUB_REF_NAME", "")
    if tag.startswith("v") and tag != f"v{__version__}":
        raise SystemExit(f"the tag is {tag}, the version is {__version__}")
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        files = [build(ROOT / name, folder / f"built-{name}") for name in ("", *PACKAGES)]
        built = [Path(shutil.copy(file, DIST)) for pair in files for file in pair]
        write_sbom([file for file in built if file.suffix == ".whl"], folder / "venv")
        if shutil.which("pulumi") or os.environ.get("CI"):
            write_sdks(folder / "sdks")
        else:
            print("skipped: SDKs, because there is no Pulumi CLI")
    print("\n".join(sorted(path.name for path in DIST.iterdir())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
