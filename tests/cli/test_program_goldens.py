"""Programs and their golden objects, warnings and failures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from cli.projects import PROJECT, Folder, explain, frames, messages, plans
from profiles import slow_unless
from yaml_files import read

from fusioninfer_pulumi.cli.program.recording import Recording
from fusioninfer_pulumi.findings import InvalidServiceError

Golden = Callable[[str, Sequence[dict[str, Any]]], None]

Run = Callable[[str], Recording]

CASES = read(Path(__file__).with_name("programs.yaml"))
PROGRAMS = Path(__file__).parent.parent / "fixtures" / "programs"
STACKS = {
    "dev": """
        encryptionsalt: v1:abc
        config:
          app:token: hunter2
          app:number: "7"
          app:database: {host: db, password: {secure: v1:xyz}}
          app:encrypted: {secure: v1:xyz}
        """,
    "prod": """
        config:
          app:token: other
          app:number: "8"
          app:database: {host: prod-db, password: open}
          app:encrypted: readable
        """,
}


def outcome(folder: Folder, stack: str) -> list[dict[str, Any]]:
    """Return the objects that a program registers, then its warnings and failures."""
    try:
        recording = folder.run(stack)
    except InvalidServiceError as exc:
        return [{"problems": list(messages(exc)), "frames": list(frames(exc))}]
    return [
        *recording.objects,
        {
            "plans": [plan.service for plan in plans(recording)],
            "warnings": list(messages(recording)),
        },
    ]


RUNS = [(path.stem, "dev") for path in sorted(PROGRAMS.glob("*.py"))] + [
    ("hidden", "prod"),
    ("talking", "prod"),
]


@pytest.mark.parametrize(
    ("program", "stack"),
    slow_unless(lambda row: row[0] in ("hidden", "options", "services", "unknown"), RUNS),
)
def test_program_registers_the_golden_objects(
    folder: Folder, golden: Golden, program: str, stack: str
) -> None:
    (folder.root / "__main__.py").write_bytes((PROGRAMS / f"{program}.py").read_bytes())
    folder.write("Pulumi.yaml", PROJECT)
    for name, text in STACKS.items():
        folder.write(f"Pulumi.{name}.yaml", text)
    golden(f"programs/{program}-{stack}", outcome(folder, stack))


def test_findings_have_rules(folder: Folder) -> None:
    folder.write("Pulumi.dev.yaml", STACKS["dev"])
    rules: dict[str, set[str]] = {}
    for program in ("unknown", "talking", "options", "fails_below"):
        (folder.root / "__main__.py").write_bytes((PROGRAMS / f"{program}.py").read_bytes())
        try:
            findings = folder.run().findings
        except InvalidServiceError as exc:
            findings = exc.findings
        rules[program] = {finding.rule for finding in findings}
    assert rules == {
        "unknown": {"unknown-without-pulumi"},
        "talking": {"program-message", "unknown-without-pulumi"},
        "options": {"unknown-without-pulumi"},
        "fails_below": {"program-failed", "unknown-without-pulumi"},
    }


#: One program of each kind; the others run in `make test-long`.
FAST = (
    "components nest and are not objects",
    "transformations and transforms apply",
    "function results are unknown",
    "remote components and releases",
    "what only the cluster knows is unknown",
    "all lines of a message are kept",
    "failure in an apply",
    "missing package says where it is missing",
    "keys of secret mappings are masked in objects but for those of secrets",
)


@pytest.mark.parametrize(
    "row", slow_unless(lambda row: row["case"] in FAST, CASES), ids=lambda row: row["case"]
)
def test_program_has_objects_and_messages(run: Run, row: dict[str, Any]) -> None:
    try:
        recording = run(row["program"])
    except InvalidServiceError as exc:
        actual: dict[str, Any] = {"error": explain(exc).splitlines()}
    else:
        objects = list(recording.objects)
        actual = {"objects": objects, "messages": list(messages(recording))}
    expected = {key: row[key] for key in ("objects", "messages", "error") if key in row}
    assert actual == ({"messages": []} if "objects" in row else {}) | expected
