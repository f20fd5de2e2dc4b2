"""Ends the programs of a cluster when the process that started them is gone, however it ended.

Run as a program, one for each cluster. Its standard input is a pipe that only the parent holds: the
kernel closes it when the parent exits, crashes or is killed, which no signal handler in the parent
could notice. Lines `+PID` and `-PID` say which process groups to end then. It imports nothing of
the project, so that it starts in a moment and survives whatever broke the parent.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import time
from pathlib import Path


def main() -> None:
    """Follow the parent's lines until it is gone, then end what it left behind."""
    # Ctrl-C reaches a whole terminal session: the parent decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    started: dict[int, str] = {}
    for line in sys.stdin:
        pid = int(line[1:])
        if line.startswith("+"):
            started[pid] = start_time(pid)
        else:
            started.pop(pid, None)
    for pid, moment in started.items():
        # A program may have ended long ago, and its id may be someone else's by now.
        if moment and start_time(pid) == moment:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
    if started:
        time.sleep(0.2)  # a process that is just dying can still create files
    for directory in sys.argv[1:]:
        shutil.rmtree(directory, ignore_errors=True)


def start_time(pid: int) -> str:
    """When a process was started, in the kernel's ticks; empty if it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return fields[19]


if __name__ == "__main__":
    main()
