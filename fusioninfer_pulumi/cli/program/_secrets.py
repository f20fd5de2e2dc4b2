"""Sends the secret values to the parent process, so that it masks them in text.

Pulumi's own command line masks secrets of the stack's config in all that it writes. Here, what a
program makes secret is masked too. What stands in an object is masked by its mark, with any value:
see `recorder`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pulumi import Output

#: Shorter values stand in too many words, as in Pulumi's command line.
_SHORTEST = 3
_secret = Output.secret


class SecretWatch:
    """Notes secret values when a program makes them.

    Args:
        send: Sends a message to the parent process.
    """

    def __init__(self, send: Callable[..., None]) -> None:
        self._send = send
        self._sent: set[str] = set()
        #: Keys that a call of `Output.secret` was the first to make secret, by the Output's id.
        self._keys: dict[int, tuple[Output[Any], list[str]]] = {}

    def add(self, value: Any) -> list[str]:
        """Notes the texts and numbers in a plain value; returns the new texts of its keys."""
        if isinstance(value, Mapping):
            keys = [text for key in value for text in self._add_text(str(key))]
            return [*keys, *(text for item in value.values() for text in self.add(item))]
        if isinstance(value, (list, tuple)):
            return [text for item in value for text in self.add(item)]
        if isinstance(value, (str, int, float)) and not isinstance(value, bool):
            self._add_text(str(value))
        return []

    def _add_text(self, text: str) -> list[str]:
        """Notes a text, and how literals quote it; returns those that are new."""
        texts = (text, json.dumps(text)[1:-1], repr(text)[1:-1], *text.splitlines())
        new = [each for each in dict.fromkeys(texts) if len(each) >= _SHORTEST]
        new = [each for each in new if each not in self._sent]
        for each in new:
            self._sent.add(each)
            self._send(secret=each)
        return new

    def secret(self, value: Any) -> Output[Any]:
        """`Output.secret`, which notes the value."""
        keys = self.add(value)
        output = _secret(value)
        if keys:
            self._keys[id(output)] = (output, keys)
        return output

    def show_keys(self, outputs: Iterable[object]) -> None:
        """Takes back keys of mappings: those in a Secret's data are shown by Kubernetes."""
        for output in outputs:
            for key in self._keys.pop(id(output), (None, ()))[1]:
                self._sent.discard(key)
                self._send(public=key)

    def watch(self, output: Output[Any], value: Any) -> Any:
        """Notes a value that belongs to an Output, or comes of one, if that is secret.

        Mappings and lists are left out: of all that a program computes from a secret and other
        values most is not secret, and its words would be masked everywhere.
        """
        if isinstance(value, (str, int, float)) and _is_secret(output):
            self.add(value)
        return value


def _is_secret(output: Output[Any]) -> bool:
    """Whether an Output whose value is known already is secret."""
    step: Any = output.is_secret().__await__()
    try:
        next(step)
    except StopIteration as answer:
        return bool(answer.value)
    step.close()
    return True
