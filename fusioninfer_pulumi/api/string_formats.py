"""Forms that strings have to have, each with the words that tell it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import StringConstraints

_WORDS: dict[str, str] = {}


def form(pattern: str, words: str, **limits: Any) -> StringConstraints:
    """A constraint on strings that errors can tell in words.

    Args:
        pattern: Regular expression of the whole string.
        words: What the string must be, such as `a path that starts with /`.
        **limits: Further limits of the string, as `StringConstraints` takes them.
    """
    _WORDS[pattern] = words
    return StringConstraints(pattern=pattern, **limits)


def words_of(pattern: str) -> str:
    """What a string must be to match a pattern of `form`."""
    return _WORDS[pattern]


#: A name that becomes part of DNS-1035 names.
Name = Annotated[
    str,
    form(
        r"^[a-z]([-a-z0-9]*[a-z0-9])?$",
        "a name of a-z, 0-9 and - that starts with a letter and ends with a letter or digit",
        min_length=1,
        max_length=63,
    ),
]

#: A name that stands behind another one in DNS-1035 names, and may begin with a digit.
PartName = Annotated[
    str,
    form(
        r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
        "a name of a-z, 0-9 and - that starts and ends with a letter or digit",
        min_length=1,
        max_length=63,
    ),
]

#: Name of any object (DNS-1123 subdomain).
ObjectName = Annotated[
    str,
    form(
        r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$",
        "a name of at most 253 of a-z, 0-9, - and . that starts and ends with a letter or digit",
    ),
]

#: Name of a scheduler.
SchedulerName = Annotated[str, form(r"^\S+$", "the name of a scheduler")]

#: A web address.
WebAddress = Annotated[
    str, form(r"^https?://\S+$", "an address that starts with http:// or https://")
]
