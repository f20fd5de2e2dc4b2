r"""Messages of the child process to its parent: plain JSON, in the order of the events.

| Message | Meaning |
|---|---|
| `{"secret": TEXT}` | a secret value: masked in all text |
| `{"recording": ...}` | what the program registered |
| `{"findings": ...}` | why it failed |

The last recording or list of findings counts. An Output in a spec is `{"\0output": NUMBER}`, the
same number wherever the same Output stands.
"""

from __future__ import annotations

import enum
import json
import threading
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from multiprocessing.connection import Connection
from typing import Any

from fusioninfer_pulumi.api.base import SpecModel
from fusioninfer_pulumi.findings import Finding, Severity
from fusioninfer_pulumi.kube.outputs import UnknownOutput, is_output

_OUTPUT = "\0output"


class Channel:
    """The child's end of the connection; its threads may share it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()

    def send(self, **message: Any) -> None:
        """Sends one message."""
        data = json.dumps(message).encode()
        with self._lock:
            self._connection.send_bytes(data)


def findings_to_json(findings: Iterable[Finding]) -> list[dict[str, Any]]:
    """Findings as plain mappings."""
    return [asdict(finding) for finding in findings]


def findings_from_json(values: Iterable[Mapping[str, Any]]) -> tuple[Finding, ...]:
    """The findings of plain mappings."""
    return tuple(
        Finding(
            rule=value["rule"],
            severity=Severity(value["severity"]),
            location=tuple(value["location"]),
            message=value["message"],
            frames=tuple(value["frames"]),
            converted=tuple(value["converted"]),
        )
        for value in values
    )


class SpecWriter:
    """Writes specs as plain JSON values, with a number for each Output."""

    def __init__(self) -> None:
        self._outputs: list[Any] = []

    def plain(self, value: Any) -> Any:
        """A spec, or a value in it."""
        if isinstance(value, SpecModel):
            fields = type(value).model_fields
            return {
                fields[name].alias or name: self.plain(getattr(value, name))
                for name in fields
                if name in value.model_fields_set
            }
        if isinstance(value, enum.Enum):
            return value.value
        if isinstance(value, Mapping):
            return {str(key): self.plain(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.plain(item) for item in value]
        return {_OUTPUT: self._number(value)} if is_output(value) else value

    def _number(self, output: Any) -> int:
        for number, known in enumerate(self._outputs):
            if known is output:
                return number
        self._outputs.append(output)
        return len(self._outputs) - 1


class SpecReader:
    """Reads specs of plain JSON values, with an unknown Output for each number."""

    def __init__(self) -> None:
        self._outputs: dict[int, UnknownOutput] = {}

    def spec(self, value: Any) -> Any:
        """A spec, or a value in it."""
        if isinstance(value, dict):
            if value.keys() == {_OUTPUT}:
                return self._outputs.setdefault(value[_OUTPUT], UnknownOutput())
            return {key: self.spec(item) for key, item in value.items()}
        return [self.spec(item) for item in value] if isinstance(value, list) else value
