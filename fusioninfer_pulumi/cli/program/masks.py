"""How secret values are written: masked, masked so that they can be compared, or shown.

A marked mask ends in a keyed hash of the value. The key is drawn anew by each process and never
written anywhere, so that a mark that should get out by mistake tells nothing about the value.
"""

from __future__ import annotations

import enum
import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar, cast

from fusioninfer_pulumi.cli.program.records import SECRET

T = TypeVar("T")
_KEY = os.urandom(32)
# No Kubernetes name and no YAML text holds a control character.
_MARK = re.compile(re.escape(SECRET[:-1]) + r"\0[0-9a-f]{64}" + re.escape(SECRET[-1]))


class Secrets(enum.Enum):
    """What stands in place of a secret value."""

    MASKED = enum.auto()  #: `<secret>`
    MARKED = enum.auto()  #: the same, with a mark of the value: see `unmarked`
    SHOWN = enum.auto()  #: the value

    def hides(self) -> bool:
        """Tells whether anything stands in place of the value."""
        return self is not Secrets.SHOWN

    def mask(self, value: bytes) -> str:
        """What stands in place of a value.

        Args:
            value: The value, in a form that is equal for equal values.
        """
        if self is Secrets.MASKED:
            return SECRET
        mark = hashlib.blake2b(value, key=_KEY, digest_size=32).hexdigest()
        return f"{SECRET[:-1]}\0{mark}{SECRET[-1]}"


def unmarked(value: T) -> T:
    """Removes the marks in all texts of plain values and records.

    Args:
        value: The value, which may hold mappings, sequences and records.

    Returns:
        A copy in which every mask is `<secret>`.
    """
    return cast("T", _unmarked(value))


def _unmarked(value: Any) -> Any:
    if isinstance(value, str):
        return _MARK.sub(SECRET, value) if "\0" in value else value
    if isinstance(value, Mapping):
        return {_unmarked(key): _unmarked(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_unmarked(item) for item in value)
    if is_dataclass(value) and not isinstance(value, type):
        held = {each.name: _unmarked(getattr(value, each.name)) for each in fields(value)}
        return type(value)(**held)
    return value
