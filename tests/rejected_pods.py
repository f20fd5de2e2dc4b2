"""Pod templates of `rejected_pods.yaml`: valid by schema but invalid by other rules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from yaml_files import read

Fields = dict[str, Any]
#: Rule, pod template, and path of the finding in it.
Case = tuple[str, Fields, str]


def _template(row: Fields) -> Fields:
    container = {"name": "a", "image": "example.com/a:1", **row.get("container", {})}
    template: Fields = {"spec": {"containers": [container], **row.get("spec", {})}}
    return {**template, "metadata": row["metadata"]} if "metadata" in row else template


_ROWS = read(Path(__file__).with_suffix(".yaml"))
_TOO_LONG: Fields = {"metadata": {"annotations": {"a": "x" * 300_000}}}

#: Templates that the library rejects, like the API server.
REJECTED: list[Case] = [(row["rule"], _template(row), row["at"]) for row in _ROWS["rejected"]]

#: Templates that only the API server rejects, with the field in its error.
REJECTED_BY_SERVER: list[tuple[Fields, str]] = [
    *((_template(row), row["at"]) for row in _ROWS["rejected_by_server"]),
    (_template(_TOO_LONG), "metadata.annotations"),
]

#: Unusual templates that every API server accepts.
ACCEPTED: list[Fields] = [_template(row) for row in _ROWS["accepted"]]
