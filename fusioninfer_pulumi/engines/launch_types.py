"""Command lines of containers as they are edited: what launchers return, and raise."""

from __future__ import annotations

from collections.abc import Mapping
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


def with_words(container: Mapping[str, Any], launch: Launch | None) -> dict[str, Any]:
    """A container that runs an edited command line; as it was without one.

    An empty list leaves the image's own entrypoint. The words follow name and image, where people
    look for them.
    """
    if launch is None:
        return dict(container)
    words = {"command": launch.command, "args": launch.args}
    head = {key: container[key] for key in ("name", "image") if key in container}
    tail = {key: value for key, value in container.items() if key not in {**head, **words}}
    return {**head, **{key: value for key, value in words.items() if value}, **tail}


#: The end of every refusal: how to take over.
BY_HAND = "or set launcher: none and write the leader's and the workers' commands yourself"
