"""Pulumi projects in temporary folders."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest

from fusioninfer_pulumi.cli.program.parent_process import run_program
from fusioninfer_pulumi.cli.program.recording import Recording, remove_marks
from fusioninfer_pulumi.findings import InvalidServiceError
from fusioninfer_pulumi.plan.service_plan import ServicePlan

PROJECT = "name: app\nruntime: python\n"
PROGRAM = """
import json
import pulumi
import pulumi_kubernetes as k8s
config = pulumi.Config()
"""


def run_masked(root: Path, stack: str | None = None, **options: Any) -> Recording:
    """Run a project, and return its recorded resources as commands print them."""
    recording = run_program(root, stack, **options)
    return recording._replace(objects=remove_marks(recording.objects))


def messages(printed: Recording | InvalidServiceError) -> tuple[str, ...]:
    """Return the messages of a run."""
    return tuple(finding.message for finding in printed.findings)


def plans(recording: Recording) -> list[ServicePlan]:
    """Return the plans of a program's services."""
    return [service.plan for service in recording.services if service.plan is not None]


def frames(problem: InvalidServiceError) -> tuple[str, ...]:
    """Return the lines of the user's own files that led to a failure."""
    return problem.findings[-1].frames


def explain(problem: InvalidServiceError) -> str:
    """Return the findings as printed, without rules."""
    return "\n".join(map(str, problem.findings))


class Folder:
    """A project folder under construction."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, name: str, text: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return path

    def reads(self, **data: str) -> None:
        """Write a program that puts the values of expressions into a ConfigMap."""
        fields = ", ".join(f"{key!r}: {text}" for key, text in data.items())
        program = f'k8s.core.v1.ConfigMap("a", metadata={{"name": "a"}}, data={{{fields}}})\n'
        self.write("__main__.py", PROGRAM + program)

    def run(self, stack: str | None = None, **options: Any) -> Recording:
        return run_masked(self.root, stack, **options)

    def data(self, stack: str | None = None, **options: Any) -> dict[str, Any]:
        data = self.run(stack, **options).objects[0]["data"]
        assert isinstance(data, dict)
        return data

    def fails(self, stack: str | None = None) -> str:
        with pytest.raises(InvalidServiceError) as caught:
            self.run(stack)
        return explain(caught.value)
