"""Runs a user's Pulumi project in a child process and records the objects that it registers.

No Pulumi CLI, engine, cluster or network: the SDK talks to a monitor that lives in that process.
Importing this package does not import pulumi; `run_program` does, when it is called.
"""

from fusioninfer_pulumi.cli.program.parent_process import run_program
from fusioninfer_pulumi.cli.program.recording import (
    ProgramError,
    ProgramService,
    Recorded,
    Recording,
    Secrets,
    no_service_finding,
    remove_marks,
)

__all__ = [
    "ProgramError",
    "ProgramService",
    "Recorded",
    "Recording",
    "Secrets",
    "no_service_finding",
    "remove_marks",
    "run_program",
]
