"""Pod templates that fit their schema and that no API server takes: `rejected_pods.yaml`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from yaml_files import read

Fields = dict[str, Any]
#: Rule, fields of the template, and where the finding stands in it.
Case = tuple[str, Fields, str]


def _template(row: Fields) -> Fields:
    container = {"name": "a", "image": "example.com/a:1", **row.get("container", {})}
    template: Fields = {"spec": {"containers": [container], **row.get("spec", {})}}
    return {**template, "metadata": row["metadata"]} if "metadata" in row else template


_ROWS = read(Path(__file__).with_suffix(".yaml"))
_TOO_LONG: Fields = {"metadata": {"annotations": {"a": "x" * 300_000}}}

#: Those that are rejected offline, too.
REJECTED: list[Case] = [(row["rule"], _template(row), row["at"]) for row in _ROWS["rejected"]]

#: Those that only the API server rejects, with the field that it names.
REJECTED_BY_SERVER: list[tuple[Fields, str]] = [
    *((_template(row), row["at"]) for row in _ROWS["rejected_by_server"]),
    (_template(_TOO_LONG), "metadata.annotations"),
]

#: Unusual templates that every API server takes.
TAKEN: list[Fields] = [_template(row) for row in _ROWS["accepted"]]
