"""All rules, and for each an input that violates it.

Rules are declared beside the checks that hold them. The inputs stand in `rule_examples` of each
package, one file an area, and are read only to be shown: `rules ID`, `docs/rules.md`, tests. A rule
whose violation takes more than an input has a word there that says what: `needs-cluster`.

The example's key is a manifest of `_bases.yaml`, whose fields it sets (null removes one); or
`documents`, or `text`.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml

from fusioninfer_pulumi.extras import plugin_packages
from fusioninfer_pulumi.findings import Rule, declared_rules

_CORE = "fusioninfer_pulumi"
_CORE_EXAMPLES = Path(__file__).parents[1] / "rule_examples"
#: Packages that import Pulumi. Their rules are declared elsewhere.
_WITHOUT_RULES = tuple(f"{_CORE}.{name}." for name in ("component", "provider", "cli.program"))
_RULES_OF_PROGRAMS = f"{_CORE}.cli.program.recording"
#: The C parser reads the examples in a tenth of the time.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_PART = re.compile(r"\[([^\]]+)\]|([^.\[\]]+)")


@cache
def all_rules() -> Mapping[str, Rule]:
    """All rules by their ids, sorted; imports every module that declares any."""
    import_module(_RULES_OF_PROGRAMS)
    for folder in _folders():
        for path in sorted(folder.rglob("*.py")):
            module = ".".join(path.relative_to(folder.parent).with_suffix("").parts)
            if not f"{module}.".startswith(_WITHOUT_RULES) and path.stem != "__main__":
                import_module(module.removesuffix(".__init__"))
    return dict(sorted(declared_rules().items()))


def _folders() -> Iterator[Path]:
    """The core, and the installed packages beside it."""
    for package in (_CORE, *plugin_packages()):
        spec = find_spec(package)
        yield from map(Path, (spec and spec.submodule_search_locations) or ())


@cache
def areas() -> Mapping[str, Mapping[str, Any]]:
    """By area and rule: the input that violates the rule, or the word that says what it takes."""
    files = [path for folder in _folders() for path in folder.glob("rule_examples/[a-z]*.yaml")]
    return {path.stem: _parsed(path) for path in sorted(files, key=lambda path: path.stem)}


def area_of(rule: Rule) -> str:
    """The area that a rule is listed under."""
    return next((area for area, entries in areas().items() if rule.id in entries), "")


def example_of(rule: Rule) -> Mapping[str, Any] | None:
    """The input that violates a rule, None where it takes more than an input."""
    entry = areas().get(area_of(rule), {}).get(rule.id)
    return entry if isinstance(entry, dict) else None


def documents(example: Mapping[str, Any]) -> list[Any]:
    """The documents of an example, none where it is a text."""
    ((base, value),) = example.items()
    if base == "text":
        return []
    return list(value) if base == "documents" else [changed(base, value)]


@cache
def bases() -> Mapping[str, Any]:
    """The manifests that examples change."""
    manifests: dict[str, Any] = _parsed(_CORE_EXAMPLES / "_bases.yaml")
    return manifests


def changed(base: str, fields: Mapping[str, Any]) -> Any:
    """A manifest with fields set; null removes one, and the index after the last adds an item."""
    # Aliases of YAML are one object in several places.
    manifest = copy.deepcopy({key: _unshared(value) for key, value in bases()[base].items()})
    for path, value in fields.items():
        *parents, last = _location(path)
        holder: Any = manifest
        for part, following in zip(parents, [*parents[1:], last], strict=True):
            if part not in (range(len(holder)) if isinstance(holder, list) else holder):
                _set(holder, part, [] if isinstance(following, int) else {})
            holder = holder[part]
        if value is None:
            del holder[last]
        else:
            _set(holder, last, value)
    return manifest


def _parsed(path: Path) -> Any:
    return yaml.load(path.read_text(encoding="utf-8"), Loader=_LOADER)  # noqa: S506  # a safe one


def _unshared(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _unshared(item) for key, item in value.items()}
    return [_unshared(item) for item in value] if isinstance(value, list) else value


def _set(holder: Any, part: str | int, value: Any) -> None:
    if isinstance(holder, list) and part == len(holder):
        holder.append(value)
    else:
        holder[part] = value


def _location(path: str) -> list[str | int]:
    """The parts of a path as findings show it: `roles[0].port`, relative to `spec`."""
    parts: list[str | int] = [
        int(index) if index.isdigit() else index or key for index, key in _PART.findall(path)
    ]
    return parts if parts[0] in ("apiVersion", "kind", "metadata") else ["spec", *parts]
