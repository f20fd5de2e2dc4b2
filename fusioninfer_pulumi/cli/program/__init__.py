"""Runs a user's Pulumi project in a child process and records the objects that it registers.

It needs no Pulumi CLI, engine, cluster or network, because the SDK talks to a resource monitor in
the child process. Only `run_program` imports pulumi, not this package.
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
