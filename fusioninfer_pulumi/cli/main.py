"""Entry point of `fusioninfer-pulumi`."""

from __future__ import annotations

import argparse
import gc
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from fusioninfer_pulumi.cli.arguments import parser

#: Exit statuses, part of the contract with CI jobs.
OK, DIFFERENT, INVALID = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command.

    Args:
        arguments: Command line without the program's name; by default the process's own.

    Returns:
        0 when all is well (`diff`: no difference), 1 when `diff` found one, 2 for invalid input
        or usage.
    """
    _prepare_streams()
    if arguments is None:
        _prepare_process()
    try:
        options = parser().parse_args(arguments)
    except SystemExit as stopped:
        return int(stopped.code or 0)
    try:
        status = _run(options)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read our output has had enough.
        _discard_output()
        return OK
    except OSError as problem:
        # Sources report their own: only the output is left.
        _discard_output()
        sys.stderr.write(f"<stdout>: cannot be written: {problem.strerror or problem}\n")
        return INVALID
    except KeyboardInterrupt:
        return 130
    return status


def _prepare_streams() -> None:
    """Gives every stream a place to go, and the encoding that YAML and JSON have."""
    sys.stdout = sys.stdout or Path(os.devnull).open("w")  # noqa: SIM115  # as long as the process
    sys.stderr = sys.stderr or Path(os.devnull).open("w")  # noqa: SIM115  # likewise
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def _prepare_process() -> None:
    """Spares a process that ends with the command what costs a tenth of its time."""
    # Hundreds of collections while modules are loaded find nothing.
    gc.set_threshold(100_000)
    # Looking for pydantic's plugins reads the metadata of every installed package, and none of
    # them has a say in what a manifest means.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")


def _discard_output() -> None:
    """Python would complain once more when it flushes the stream at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(options: argparse.Namespace) -> int:
    from fusioninfer_pulumi.cli import commands

    command = {
        "render": commands.render,
        "plan": commands.plan,
        "check": commands.check,
        "convert": commands.convert,
        "diff": commands.diff,
    }[options.command]
    return command(options)


if __name__ == "__main__":
    sys.exit(main())
