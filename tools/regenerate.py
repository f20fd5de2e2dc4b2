"""Regenerates committed files: dictionaries, schemas, pages, pictures, expected.yaml."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import args_dicts
import pictures
import reference

from fusioninfer_pulumi.api.schema import PACKAGED, schema_text
from fusioninfer_pulumi.cli import rule_texts
from fusioninfer_pulumi.provider import schema as package_schema

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    """Regenerates everything, never in CI, where tests compare the committed files."""
    if os.environ.get("CI"):
        print("not in CI: tests compare the committed files")
        return 1
    (ROOT / "fusioninfer_pulumi" / PACKAGED).write_text(schema_text(), encoding="utf-8")
    (ROOT / "docs" / "inference-service.schema.json").write_text(schema_text(), encoding="utf-8")
    (ROOT / "docs" / "rules.md").write_text(rule_texts.page(), encoding="utf-8")
    package = ROOT / "fusioninfer_pulumi" / package_schema.PACKAGED
    package.write_text(package_schema.schema_text(), encoding="utf-8")
    args_dicts.TARGET.write_text(args_dicts.text(), encoding="utf-8")
    for page, text in reference.pages().items():
        (ROOT / "docs" / "reference" / page).write_text(text, encoding="utf-8")
    for name, text in pictures.pictures().items():
        (ROOT / "docs" / "pictures" / name).write_text(text, encoding="utf-8")
    for project in sorted((ROOT / "examples").rglob("__main__.py")):
        command = [sys.executable, "-m", "fusioninfer_pulumi.cli.main", "render"]
        done = subprocess.run(
            [*command, str(project.parent)], capture_output=True, text=True, check=True
        )
        (project.parent / "expected.yaml").write_text(done.stdout, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
