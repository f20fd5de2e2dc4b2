"""The forms of what a cluster must have; what it must have stands in `table`."""

from __future__ import annotations

from dataclasses import dataclass

Release = tuple[int, int, int]


@dataclass(frozen=True)
class Minimum:
    """One kind that has to be there.

    Attributes:
        product: What brings the kind.
        definition: Name of its CustomResourceDefinition.
        served: API version that our objects have.
        least: First release that works, None where releases are nobody's to choose.
        field: A field of the kind that our objects need, None where any release has them.
        tells: Whether no release before `least` has that field.
        broken: Releases after `least` that do not work all the same.
        last: Last release whose bundle has the kind, None where none dropped it.
        install: What installs it: a file to apply, or a command.
    """

    product: str
    definition: str
    served: str
    least: Release | None
    install: str
    field: str | None = None
    tells: bool = False
    broken: tuple[Release, ...] = ()
    last: Release | None = None


@dataclass(frozen=True)
class Served:
    """An API of Kubernetes itself, or one that an adapter serves through it.

    Attributes:
        product: What it is for.
        group: Its group.
        versions: Versions of which one has to be served.
        install: What brings it.
    """

    product: str
    group: str
    versions: tuple[str, ...]
    install: str


@dataclass(frozen=True)
class Feature:
    """A feature of Kubernetes that shows in no API; its release does.

    Attributes:
        product: What it is.
        gate: The feature gate.
        least: First release that knows it.
        on: First release that has it on by default.
    """

    product: str
    gate: str
    least: Release
    on: Release


def written(release: Release) -> str:
    """A release as its product writes it."""
    return "v" + ".".join(str(part) for part in release)
