"""Writes `docs/llms.txt`, the index of the documentation for language models (llmstxt.org)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "llms.txt"
RAW = "https://raw.githubusercontent.com/fusioninfer/fusioninfer-pulumi/main/docs/"
USAGE = """\
Start with `InferenceService` and `model_service` in Python, or a manifest of kind
`InferenceService`. Run `fusioninfer-pulumi check` on every change, `plan --explain` to see
generated values, `diff` to see which replicas restart, and `rules ID` for the fix of a finding.
`--output json` is machine-readable. The schema of manifests is
inference-service.schema.json in the same directory.
"""


def text() -> str:
    """Return the text: what the library is, how to use it, and the title of every page."""
    summary = (ROOT / "docs" / "index.md").read_text(encoding="utf-8").split("\n\n")[1]
    # Ignore custom YAML tags for Python objects in the settings.
    yaml.SafeLoader.add_multi_constructor("tag:yaml.org,2002:python/", lambda *_: None)
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    lines = [f"# {settings['site_name']}", "", f"> {' '.join(summary.split())}", "", USAGE]
    for entry in settings["nav"]:
        ((section, pages),) = entry.items()
        if isinstance(pages, list):
            lines += [f"## {section}", "", *map(_render_link, _list_paths(pages)), ""]
        elif pages != "index.md":
            lines += [_render_link(pages), ""]
    return "\n".join(lines)


def write() -> None:
    """Write the file."""
    TARGET.write_text(text(), encoding="utf-8")


def _list_paths(pages: list[Any]) -> Iterator[str]:
    for page in pages:
        yield from page.values()


def _render_link(path: str) -> str:
    title = (ROOT / "docs" / path).read_text(encoding="utf-8").partition("\n")[0]
    return f"- [{title.removeprefix('# ')}]({RAW}{path})"
