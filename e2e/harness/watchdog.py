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


def main() -> None:
    """Follow the parent's lines until it is gone, then end what it left behind."""
    # Ctrl-C reaches a whole terminal session: the parent decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    groups: list[int] = []
    for line in sys.stdin:
        pid = int(line[1:])
        if line.startswith("+"):
            groups.append(pid)
        elif pid in groups:
            groups.remove(pid)
    for pid in groups:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
    if groups:
        time.sleep(0.2)  # a process that is just dying can still create files
    for directory in sys.argv[1:]:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
