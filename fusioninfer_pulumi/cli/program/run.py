"""Runs the program of a project folder."""

from __future__ import annotations

from pathlib import Path

from fusioninfer_pulumi.cli.program.config import stack_config
from fusioninfer_pulumi.cli.program.masks import Secrets
from fusioninfer_pulumi.cli.program.project import load_project
from fusioninfer_pulumi.cli.program.records import Recording


def run_program(
    folder: Path, stack: str | None = None, secrets: Secrets = Secrets.MASKED
) -> Recording:
    """Runs a project's program as a first `pulumi preview` would, without engine and cluster.

    The process is as before when this returns, so programs can be run one after another; programs
    of several threads wait for each other, because a process has one working directory.

    Args:
        folder: The folder that holds `Pulumi.yaml`.
        stack: The stack whose configuration is used; without one, the only stack there is, else
            `dev`.
        secrets: What stands in place of secret values. Encrypted configuration reads `<secret>`
            in any case: only the stack's key could open it.

    Returns:
        The Kubernetes objects, the plans of InferenceService components, and the warnings.

    Raises:
        ProgramError: The folder is no Python project, the stack does not exist, or the program
            failed.
    """
    project = load_project(folder)
    config = stack_config(project, stack)
    # Only now: the command line must not import pulumi before it needs it.
    from fusioninfer_pulumi.cli.program.session import record

    return record(project, config, secrets)
