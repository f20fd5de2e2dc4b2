"""Sends the secret values to the parent process, so that it masks them in text.

Pulumi's own command line masks secrets of the stack's config in all that it writes. Here, what a
program passes to `Output.secret` is masked too, and so are the secrets of the config, which
`pulumi.Config` passes to it. What stands in an object is masked by its mark: see `recorder`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pulumi import Output

#: Shorter values occur in too many words. Pulumi's command line has the same limit.
_SHORTEST = 3


def noted(
    secret: Callable[[Any], Output[Any]], send: Callable[..., None]
) -> Callable[[Any], Output[Any]]:
    """`Output.secret`, which sends the texts and numbers in the value that it gets."""

    def note(value: Any) -> None:
        for text in _texts(value):
            send(secret=text)

    def noting(value: Any) -> Output[Any]:
        note(value)
        output = secret(value)
        if not isinstance(value, (str, int, float)):
            output.apply(note)  # other Outputs stand in it, and have their values later
        return output

    return noting


def _texts(value: Any) -> Iterator[str]:
    """The texts and numbers in a plain value, also as literals quote them. Keys are not secret."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, (str, int, float)) and not isinstance(value, bool):
        text = str(value)
        for form in (text, json.dumps(text)[1:-1], repr(text)[1:-1], *text.splitlines()):
            if len(form) >= _SHORTEST:
                yield form
