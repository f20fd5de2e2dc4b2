"""Regenerates committed files: the JSON Schema, docs/rules.md and the examples' expected.yaml."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from fusioninfer_pulumi.api.schema import PACKAGED, schema_text
from fusioninfer_pulumi.cli.rule_texts import page

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    """Regenerates everything, never in CI, where tests compare the committed files."""
    if os.environ.get("CI"):
        print("not in CI: tests compare the committed files")
        return 1
    (ROOT / "fusioninfer_pulumi" / PACKAGED).write_text(schema_text(), encoding="utf-8")
    (ROOT / "docs" / "inference-service.schema.json").write_text(schema_text(), encoding="utf-8")
    (ROOT / "docs" / "rules.md").write_text(page(), encoding="utf-8")
    for project in sorted((ROOT / "examples").rglob("Pulumi.yaml")):
        command = [sys.executable, "-m", "fusioninfer_pulumi.cli.main", "render"]
        done = subprocess.run(
            [*command, str(project.parent)], capture_output=True, text=True, check=True
        )
        (project.parent / "expected.yaml").write_text(done.stdout, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
