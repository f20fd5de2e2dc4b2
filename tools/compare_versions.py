"""Compares the package of this checkout with another checkout's on random services.

Both plan and render the same services (`tests/random_services`). Objects, exit codes and plans must
be equal. Different findings are only counted and shown, because messages may change on purpose.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from random_services import generate_service  # noqa: E402  # found by the line above
from random_services.coverage import schema_features, used_features  # noqa: E402  # likewise

SCHEMA = json.loads((ROOT / "docs" / "inference-service.schema.json").read_text(encoding="utf-8"))
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass
class Comparison:
    """Results of the comparison.

    Attributes:
        generated: Number of services.
        rendered: Number of services that both versions render.
        differing: Differences of objects, statuses and plans, by seed.
        rewritten: Seeds whose objects are equal, but whose YAML differs (order of keys, style).
        findings: Differences of findings, by seed.
        features: Rendered services that use each feature.
    """

    generated: int = 0
    rendered: int = 0
    differing: dict[int, list[str]] = field(default_factory=dict)
    rewritten: list[int] = field(default_factory=list)
    findings: dict[int, list[str]] = field(default_factory=dict)
    features: Counter[str] = field(default_factory=Counter)

    def add(self, seed: int, old: dict[str, Any], new: dict[str, Any]) -> None:
        """Compare the results of one seed."""
        self.generated += 1
        differences = list(find_differences("status", old["status"], new["status"]))
        if old["objects"] != new["objects"]:
            parsed = [
                list(yaml.load_all(outcome["objects"], Loader=_LOADER)) for outcome in (old, new)
            ]
            object_differences = list(find_differences("objects", *parsed))
            differences += object_differences
            self.rewritten += [] if object_differences else [seed]
        differences += find_differences("plan", old["plans"], new["plans"])
        if differences:
            self.differing[seed] = differences
        before, now = set(old["findings"]), set(new["findings"])
        if before != now:
            lines = [f"- {line}" for line in sorted(before - now)]
            self.findings[seed] = lines + [f"+ {line}" for line in sorted(now - before)]
        if old["status"] == new["status"] == 0:
            self.rendered += 1
            self.features.update(self._list_features(seed, new["objects"]))

    def _list_features(self, seed: int, objects: str) -> set[str]:
        service = generate_service(seed)
        kinds = {line for line in objects.splitlines() if line.startswith("kind: ")}
        by_document = (used_features(SCHEMA, document) for document in service.documents)
        return set().union(kinds, service.features, *by_document)


def find_differences(at: str, old: Any, new: Any) -> Iterator[str]:
    """Yield a line for each place where two values differ."""
    if type(old) is not type(new):
        yield f"{at}: {_shorten(old)} -> {_shorten(new)}"
    elif isinstance(old, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            yield from find_differences(f"{at}.{key}", old.get(key), new.get(key))
    elif isinstance(old, list):
        for index, (one, other) in enumerate(zip_longest(old, new)):
            yield from find_differences(f"{at}[{index}]", one, other)
    elif old != new:
        yield f"{at}: {_shorten(old)} -> {_shorten(new)}"


def _shorten(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 120 else f"{text[:119]}…"


def run_seeds(checkout: Path, first: int, count: int) -> Iterator[dict[str, Any]]:
    """Yield the outcome of each seed with the package of a checkout."""
    packages = (checkout, checkout / "importers", checkout / "capacity", ROOT / "tests")
    child = subprocess.Popen(
        [sys.executable, "-m", "random_services", str(first), str(count)],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, packages))},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None, "it is a pipe"
    with child:
        package = json.loads(child.stdout.readline() or "null")
        if package is None or checkout not in Path(package).resolve().parents:
            raise SystemExit(f"{checkout}: its package could not be used, got {package}")
        yield from map(json.loads, child.stdout)
    if child.returncode:
        raise SystemExit(f"{checkout}: ended with status {child.returncode}")


def report(comparison: Comparison, show: int) -> None:
    """Print the differences."""
    percent = 100 * comparison.rendered // max(comparison.generated, 1)
    print(f"generated  {comparison.generated}\nrendered   {comparison.rendered} ({percent} %)")
    print(f"equal      {comparison.generated - len(comparison.differing)}")
    print(f"differing  {len(comparison.differing)}")
    _print_examples(comparison.differing, show)
    if comparison.rewritten:
        seeds = _format_list(comparison.rewritten)
        print(f"equal objects, different YAML  {len(comparison.rewritten)}: {seeds}")
    different = len(comparison.findings)
    print(f"findings   {comparison.generated - different} equal, {different} different")
    _print_examples(comparison.findings, show)
    known = schema_features(SCHEMA)
    other_features = sorted(set(comparison.features) - known)
    print(f"\nfields and values of the schema ({len(known)}), with the services that use each")
    _print_counts(comparison.features, known)
    print("kinds and other features, with the services that use each")
    _print_counts(comparison.features, other_features)
    missing = sorted(known - set(comparison.features))
    print(f"fields and values that no service uses: {', '.join(missing) or 'none'}")


def _print_examples(differing: dict[int, list[str]], show: int) -> None:
    if differing:
        print(f"  seeds {_format_list(differing)}")
    for seed in list(differing)[:show]:
        lines = differing[seed]
        ellipsis = [f"... {len(lines) - 8} more"] if len(lines) > 8 else []
        print(f"  seed {seed}", *lines[:8], *ellipsis, sep="\n    ")


def _format_list(seeds: Iterable[int]) -> str:
    texts = list(map(str, seeds))
    return " ".join(texts[:40]) + (" ..." if len(texts) > 40 else "")


def _print_counts(features: Counter[str], names: Iterable[str]) -> None:
    for name in sorted(names, key=lambda name: (features[name], name)):
        print(f"  {features[name]:5}  {name}")


def main() -> int:
    """Compare the versions; return 1 if anything except findings differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("old", metavar="OLD_CHECKOUT", type=Path)
    parser.add_argument("--count", type=int, default=2500, help="services; default: 2500")
    parser.add_argument("--seed", type=int, default=0, help="the first one's seed; default: 0")
    parser.add_argument("--show", type=int, default=5, help="differing seeds shown; default: 5")
    options = parser.parse_args()
    comparison = Comparison()
    outcomes = [
        run_seeds(path, options.seed, options.count) for path in (options.old.resolve(), ROOT)
    ]
    for seed, (old, new) in enumerate(zip(*outcomes, strict=True), start=options.seed):
        comparison.add(seed, old, new)
    report(comparison, options.show)
    return 1 if comparison.differing else 0


if __name__ == "__main__":
    sys.exit(main())
