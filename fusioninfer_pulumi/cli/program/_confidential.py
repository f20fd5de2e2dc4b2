"""Values that a program marks as secret, kept out of everything that a run says.

As Pulumi's own command line does, in errors, log messages and what the program prints. What stands
in an object is masked by its mark, with any value: see `recorder`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any

from pulumi import Output

from fusioninfer_pulumi.cli.program._recording import SECRET

#: Shorter values stand in too many words, as in Pulumi's command line.
_SHORTEST = 3
_secret = Output.secret


class Confidential:
    """The texts of secret values seen so far."""

    def __init__(self) -> None:
        self._texts: dict[str, None] = {}

    def add(self, value: Any, *, keys: bool = True) -> None:
        """Keeps every text and number in a plain value, and the keys of its mappings."""
        if isinstance(value, dict):
            for key, item in value.items():
                self.add(key if keys else None)
                self.add(item, keys=keys)
        elif isinstance(value, (list, tuple)):
            for item in value:
                self.add(item, keys=keys)
        elif isinstance(value, (str, int, float)) and not isinstance(value, bool):
            text = str(value)
            quoted = (json.dumps(text)[1:-1], repr(text)[1:-1], *text.splitlines())
            for each in (text, *quoted):
                if len(each) >= _SHORTEST and each not in self._texts:
                    self._texts[each] = None

    def hide(self, text: str) -> str:
        """A text with a mask in place of each secret value, the longest first."""
        for each in sorted(self._texts, key=len, reverse=True):
            text = text.replace(each, SECRET)
        return text

    def secret(self, value: Any) -> Output[Any]:
        """`Output.secret`, which keeps the value."""
        # The keys in a Secret's data are no secret: Kubernetes shows them, and so does a plan.
        caller = sys._getframe(1).f_globals.get("__name__", "")  # noqa: SLF001  # as `warnings` does
        self.add(value, keys=not caller.startswith("pulumi_kubernetes."))
        return _secret(value)

    def watch(self, output: Output[Any], value: Any) -> Any:
        """Keeps a value that belongs to an Output, or comes of one, if that is secret.

        Mappings and lists are not kept: of all that a program computes from a secret and other
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


class HidingStream:
    """A text stream that masks secret values in what is written to another one."""

    def __init__(self, stream: Any, confidential: Confidential) -> None:
        self._stream = stream
        self._confidential = confidential

    def write(self, text: str) -> int:
        """Writes a text with masks."""
        self._stream.write(self._confidential.hide(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Writes texts with masks."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
