"""Runs a user's Pulumi project in a child process and records the objects that it registers.

No Pulumi CLI, engine, cluster or network: the SDK talks to a monitor that lives in that process.
Importing this package does not import pulumi; `run_program` does, when it is called.
"""

from fusioninfer_pulumi.cli.program.parent_process import run_program
from fusioninfer_pulumi.cli.program.recording import (
    PROGRAM_WITHOUT_SERVICE,
    ProgramError,
    Recording,
    Secrets,
    remove_marks,
)

__all__ = [
    "PROGRAM_WITHOUT_SERVICE",
    "ProgramError",
    "Recording",
    "Secrets",
    "remove_marks",
    "run_program",
]
