"""What a run of a program hands back, and how it says that it failed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

#: Printed in place of a secret value.
SECRET = "<secret>"  # noqa: S105  # the mask, not a password


@dataclass(frozen=True)
class Recorded:
    """One Kubernetes object that a program registered.

    Attributes:
        urn_name: Its logical (Pulumi) name.
        type_token: Its Pulumi type, such as `kubernetes:apps/v1:Deployment`.
        manifest: The object: `apiVersion`, `kind`, `metadata`, then its other fields in
            alphabetical order, as the keys of every mapping inside are (the SDK hands properties
            over as a protobuf map, which has no order). `metadata` is always a mapping.
    """

    urn_name: str
    type_token: str
    manifest: dict[str, Any]


@dataclass(frozen=True)
class Recording:
    """Everything that one run of a program brought to light.

    Attributes:
        resources: The objects, in the order in which the program constructed them; what an object
            depends on comes before it.
        plans: The plan of each InferenceService component, in the same order.
        warnings: What is missing here because only the engine can expand it, and what the program
            itself warned about; no text twice.
        encrypted: Of each encrypted value of the stack's config what is written there.
    """

    resources: tuple[Recorded, ...]
    plans: tuple[Any, ...]
    warnings: tuple[str, ...]
    encrypted: Mapping[str, str] = field(default_factory=dict)


class ProgramError(Exception):
    """A project that cannot be run, or a program that failed.

    Attributes:
        problems: What is wrong, one line each.
        frames: The lines of the user's own files that led there, outermost first.
    """

    def __init__(self, *problems: str, frames: tuple[str, ...] = ()) -> None:
        self.problems = tuple(line for text in problems for line in text.splitlines() if line)
        self.frames = frames
        super().__init__("\n".join((*self.problems, *(f"  {frame}" for frame in frames))))
