"""An EndpointPickerConfig that a user wrote, and the findings about its structure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeGuard

from fusioninfer_pulumi.endpoint_pickers.family import EppFamily, PluginKind, PluginType
from fusioninfer_pulumi.endpoint_pickers.rules import PICKER_CONFIG_INVALID
from fusioninfer_pulumi.findings import Finding, Location, error, shown
from fusioninfer_pulumi.rules.common import FIELD_REQUIRED

PROFILES = "schedulingProfiles"


@dataclass(frozen=True)
class Declared:
    """One entry of `plugins`.

    Attributes:
        name: What references call it; its type when it has no name.
        known: What is known about the type, None when nothing is.
    """

    index: int
    name: str
    type: str
    known: PluginType | None
    parameters: Mapping[str, Any]

    @property
    def kind(self) -> PluginKind | None:
        """What it does, None when that is not known."""
        return None if self.known is None else self.known.kind


@dataclass(frozen=True)
class WrittenConfig:
    """A configuration, and the release that will read it.

    Attributes:
        content: The first document of the text.
        own_image: Whether the image is not one of upstream's: it may register plugins of its own.
        more: Whether the text has more documents.
    """

    content: Mapping[str, Any]
    family: EppFamily
    own_image: bool
    more: bool

    @cached_property
    def plugins(self) -> tuple[Declared, ...]:
        """The entries of `plugins` that have a type."""
        entries = self.content.get("plugins")
        return tuple(
            Declared(
                index=index,
                name=name if isinstance(name := entry.get("name"), str) and name else kind,
                type=kind,
                known=self.family.plugins.get(kind),
                parameters=values if isinstance(values := entry.get("parameters"), dict) else {},
            )
            for index, entry in enumerate(entries if isinstance(entries, list) else ())
            if isinstance(entry, dict) and isinstance(kind := entry.get("type"), str) and kind
        )

    @property
    def profiles(self) -> list[Mapping[str, Any]]:
        """The entries of `schedulingProfiles` that are mappings."""
        profiles = self.content.get(PROFILES)
        listed = profiles if isinstance(profiles, list) else []
        return [profile for profile in listed if isinstance(profile, dict)]


def not_a_mapping(at: Location, value: Any, more: str = "") -> Finding:
    """That a value is no mapping."""
    return error(PICKER_CONFIG_INVALID, at, f"must be a mapping{more}, got {shown(value)}")


def not_a_list(at: Location, value: Any) -> Finding:
    """That a value is no list."""
    return error(PICKER_CONFIG_INVALID, at, f"must be a list, got {shown(value)}")


def text_findings(at: Location, value: Any, *, required: bool = True) -> Iterator[Finding]:
    """Asks for a string."""
    if value in (None, ""):
        if required:
            yield error(FIELD_REQUIRED, at, "is required")
    elif not isinstance(value, str):
        yield error(PICKER_CONFIG_INVALID, at, f"must be a string, got {shown(value)}")


def unknown_fields(
    at: Location, entry: Mapping[str, Any], allowed: Iterable[str]
) -> Iterator[Finding]:
    """The keys that an entry must not have."""
    for key in entry:
        if key not in allowed:
            message = f"no such field; allowed: {', '.join(allowed)}"
            yield error(PICKER_CONFIG_INVALID, (*at, key), message)


def is_whole(value: Any) -> TypeGuard[float]:
    """Whether Go reads a YAML value into an int."""
    if isinstance(value, bool):
        return False
    return isinstance(value, int) or (isinstance(value, float) and value.is_integer())
