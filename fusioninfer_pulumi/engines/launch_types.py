"""What the launchers return and raise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


class LaunchError(ValueError):
    """Raised when a container's command cannot be launched on several nodes as asked.

    The message says what is in the way and what to do, with `launcher: none` as the last resort.
    """


@dataclass(frozen=True)
class Launch:
    """The command line of one pod's serving container.

    Attributes:
        command: The container's `command`; empty when it gets none, so that the image's own
            entrypoint runs.
        args: The container's `args`; None when it gets none.
        note: What was changed or is worth knowing, beyond the launcher's own arguments; else None.
    """

    command: list[Any]
    args: list[Any] | None
    note: str | None


def launched(command: list[Any], args: list[Any] | None, *notes: str) -> Launch:
    """Builds a launch from the notes that are not empty."""
    return Launch(command, args, "; ".join(note for note in notes if note) or None)


#: The end of every refusal: how to take over.
BY_HAND = "or set launcher: none and write the leader's and the workers' commands yourself"
