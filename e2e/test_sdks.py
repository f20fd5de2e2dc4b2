"""Programs of docs/languages.md with SDKs that Pulumi generates."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from e2e.catalog import program, tool
from fusioninfer_pulumi.generated import DIRECTORY
from fusioninfer_pulumi.provider.server import PACKAGE_SCHEMA
from tests.page_blocks import ROOT, blocks

SDKS = tool("pulumi-sdks")
MODULE = "github.com/fusioninfer/fusioninfer-pulumi/sdk/go"
NPM_PACKAGE = "@pulumi/pulumi@3.246.0"

pytestmark = pytest.mark.skipif(not SDKS.is_built, reason="no SDK generator")


@pytest.fixture(scope="module")
def sdks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Generate the SDKs, and write the page's programs next to them."""
    folder = tmp_path_factory.mktemp("sdks")
    run(folder, program("pulumi-sdks", "pulumi-sdks"), DIRECTORY / PACKAGE_SCHEMA, folder)
    for block in blocks(ROOT / "docs" / "languages.md"):
        if block.language in ("typescript", "go"):
            (folder / block.title).write_text(block.text, encoding="utf-8")
    return folder


def run(folder: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    ended = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, (ended.stdout + ended.stderr)[-4000:]
    return ended


@pytest.mark.skipif(not shutil.which("npm"), reason="no npm")
@pytest.mark.verifies("A TypeScript program compiles with the generated SDK", needs="npm")
def test_typescript_compiles(sdks: Path) -> None:
    folder = sdks / "nodejs"
    run(folder, "npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", NPM_PACKAGE)
    text = (sdks / "index.ts").read_text(encoding="utf-8")
    source = text.replace('"@pulumi/fusioninfer"', '"./index"')
    # The settings list the source files. They are JSON with comments, so edit them as text.
    settings = (folder / "tsconfig.json").read_text(encoding="utf-8")
    settings = settings.replace('"utilities.ts"', '"utilities.ts", "program.ts"')
    (folder / "tsconfig.json").write_text(settings, encoding="utf-8")
    (folder / "program.ts").write_text(source, encoding="utf-8")
    run(folder, "npx", "tsc", "--noEmit")
    # Outputs are typed, and plain inputs accept no outputs.
    bad = re.sub("replicas: 2", "replicas: pulumi.output(2)", source)
    bad += 'import * as pulumi from "@pulumi/pulumi";\nconst pool: number = qwen.inferencePool;\n'
    (folder / "program.ts").write_text(bad, encoding="utf-8")
    ended = subprocess.run(
        ["npx", "tsc", "--noEmit"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert ended.stdout.count("error TS2322") == 2, ended.stdout


@pytest.mark.skipif(not shutil.which("go"), reason="no Go")
@pytest.mark.verifies("A Go program compiles with the generated SDK", needs="go")
def test_go_compiles(sdks: Path) -> None:
    folder = sdks / "go"
    # The module versions are those of the generator.
    text = (SDKS.folder / "go.mod").read_text(encoding="utf-8")
    text = text.replace("module fusioninfer-e2e/pulumi-sdks", f"module {MODULE}")
    (folder / "go.mod").write_text(text, encoding="utf-8")
    shutil.copy(SDKS.folder / "go.sum", folder)
    (folder / "program").mkdir()
    shutil.copy(sdks / "main.go", folder / "program")
    run(folder, "go", "build", "-mod=mod", "-o", sdks / "program", "./program")
