"""Writes the committed files that are generated from the code: `make regenerate`."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import args_dicts
import capacity_accuracy
import dashboards
import llms
import model_catalogue
import package_schema
import pictures
import reference
import rule_page
from json_schema import schema_text

from fusioninfer_pulumi.cli.new_project import TEMPLATE
from fusioninfer_pulumi.generated import DIRECTORY
from fusioninfer_pulumi.provider.server import PACKAGE_SCHEMA

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests"
#: Directories whose files are all written by tests, with the fixture `regenerate`.
GOLDENS = (
    TESTS / "fixtures" / "golden",
    TESTS / "cli" / "transcripts",
)


def main() -> int:
    """Regenerate everything, except in CI, where tests compare the committed files."""
    if os.environ.get("CI"):
        print("skipped in CI, where tests compare the committed files")
        return 1
    model_catalogue.write(model_catalogue.read_committed())
    (ROOT / "docs" / "inference-service.schema.json").write_text(schema_text(), encoding="utf-8")
    (ROOT / "docs" / "rules.md").write_text(rule_page.page(), encoding="utf-8")
    (DIRECTORY / PACKAGE_SCHEMA).write_text(package_schema.schema_text(), encoding="utf-8")
    args_dicts.write()
    for page, text in reference.pages().items():
        (ROOT / "docs" / "reference" / page).write_text(text, encoding="utf-8")
    llms.write()
    capacity_accuracy.main()
    dashboards.write()
    for name, text in pictures.pictures().items():
        (ROOT / "docs" / "pictures" / name).write_text(text, encoding="utf-8")
    for language in ("python", "yaml"):
        for name, text in TEMPLATE.render_files(language).items():
            (ROOT / "templates" / language / name).write_text(text, encoding="utf-8")
    for project in sorted((ROOT / "examples").rglob("expected.yaml")):
        command = [sys.executable, "-m", "fusioninfer_pulumi.cli.main", "render"]
        done = subprocess.run(
            [*command, str(project.parent)], capture_output=True, text=True, check=True
        )
        (project.parent / "expected.yaml").write_text(done.stdout, encoding="utf-8")
    return regenerate_goldens()


def regenerate_goldens() -> int:
    """Run the tests that write golden files; report files that none of them wrote."""
    start = time.time_ns()
    command = [sys.executable, "-m", "pytest", "-q", "-m", "", "--regenerate"]
    status = subprocess.run(command, cwd=ROOT, check=False).returncode
    files = [path for directory in GOLDENS for path in directory.rglob("*") if path.is_file()]
    missed = [path for path in files if path.stat().st_mtime_ns < start]
    for path in missed:
        print(
            f"no test writes {path.relative_to(ROOT)}: remove it, or use `regenerate` in its test"
        )
    return status or bool(missed)


if __name__ == "__main__":
    sys.exit(main())
