"""All rules: their texts, and for each an input that violates it.

They are data in `rule_examples` of each package, one file an area, and are read only to be shown:
`rules ID`, `docs/rules.md`, SARIF, tests. An example's key is a manifest of `_bases.yaml`, whose
fields it sets (null removes one); or `documents`, or `text`. A rule whose violation takes more than
an input has a word there instead: `needs-cluster`.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml

from fusioninfer_pulumi.extras import plugin_packages
from fusioninfer_pulumi.findings import Severity

_CORE = "fusioninfer_pulumi"
#: The C parser reads the files in a tenth of the time.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_PART = re.compile(r"\[([^\]]+)\]|([^.\[\]]+)")


@dataclass(frozen=True)
class RuleEntry:
    """A rule as users see it.

    Attributes:
        severities: How severe its findings are; where it depends on the case, the usual one first.
        title: What it checks.
        remedy: What to do about a finding.
        source: Evidence for the rule, if messages and docs do not name it.
        example: An input that violates it; a word if that takes more than an input.
    """

    id: str
    area: str
    severities: tuple[Severity, ...]
    title: str
    remedy: str
    source: str
    example: Mapping[str, Any] | str


@cache
def all_rules() -> Mapping[str, RuleEntry]:
    """Return all rules by id, sorted: those of the core and of installed plugins."""
    specs = [find_spec(package) for package in (_CORE, *plugin_packages())]
    rules = [
        _entry(rule, path.stem, fields)
        for spec in specs
        for folder in (spec and spec.submodule_search_locations) or ()
        for path in Path(folder).glob("rule_examples/[a-z]*.yaml")
        for rule, fields in _parsed(path).items()
    ]
    return {rule.id: rule for rule in sorted(rules, key=lambda rule: rule.id)}


def _entry(rule: str, area: str, fields: Mapping[str, Any]) -> RuleEntry:
    severity = fields["severity"]
    levels = [severity] if isinstance(severity, str) else severity
    return RuleEntry(
        rule,
        area,
        tuple(map(Severity, levels)),
        fields["title"],
        fields["remedy"],
        fields.get("source", ""),
        fields["example"],
    )


def documents(example: Mapping[str, Any]) -> list[Any]:
    """Return the documents of an example, none if it is a text."""
    ((base, value),) = example.items()
    if base == "text":
        return []
    return list(value) if base == "documents" else [changed(base, value)]


@cache
def bases() -> Mapping[str, Any]:
    """Return the manifests that examples change."""
    manifests: dict[str, Any] = _parsed(Path(__file__).parents[1] / "rule_examples/_bases.yaml")
    return manifests


def changed(base: str, fields: Mapping[str, Any]) -> Any:
    """Set fields of a manifest; null removes one, the index after the last adds an item."""
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
    """Parse a path such as `roles[0].port`, relative to `spec`."""
    parts: list[str | int] = [
        int(index) if index.isdigit() else index or key for index, key in _PART.findall(path)
    ]
    return parts if parts[0] in ("apiVersion", "kind", "metadata") else ["spec", *parts]
