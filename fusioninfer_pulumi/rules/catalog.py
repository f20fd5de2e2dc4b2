"""Texts of all rules, each with an example input that violates the rule.

The texts are in directory `rule_examples` of each package, in one YAML file for each area. The
command `rules`, the check of ignored rules, the documentation and tests read them.

An example is one of:

- `{BASE: {"roles[0].port": 80}}`: sets fields of a manifest in `_bases.yaml`; null removes a field
- `{documents: [...]}` or `{text: ...}`: a complete input
- a word such as `needs-cluster`: no manifest alone can violate the rule
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml

from fusioninfer_pulumi.extras import list_plugin_packages
from fusioninfer_pulumi.findings import (
    Finding,
    Location,
    Severity,
    closest_name,
    parse_path,
    warning,
)
from fusioninfer_pulumi.kube.labels import IGNORE_RULES
from fusioninfer_pulumi.rules.common import UNKNOWN_VALUE

_CORE = "fusioninfer_pulumi"
#: File with the base manifests of examples.
_BASES = Path(__file__).parents[1] / "rule_examples/_bases.yaml"
#: The C parser is ten times faster.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class RuleEntry:
    """The texts of a rule.

    Attributes:
        area: Name of the rule's YAML file, without suffix.
        severities: Severities of the rule's findings, the usual severity first.
        title: The problem.
        remedy: How to fix the problem.
        source: Evidence for the rule, or empty if messages or the documentation contain it.
        example: An input that violates the rule, or a word if no manifest alone can.
    """

    id: str
    area: str
    severities: tuple[Severity, ...]
    title: str
    remedy: str
    source: str
    example: Mapping[str, Any] | str


@cache
def load_rules() -> Mapping[str, RuleEntry]:
    """Return the rules of the core and of installed companion packages, keyed and sorted by id."""
    rules = {}
    for package in (_CORE, *list_plugin_packages()):
        spec = find_spec(package)
        directories = None if spec is None else spec.submodule_search_locations
        for directory in directories or ():
            for path in Path(directory).glob("rule_examples/[a-z]*.yaml"):
                for rule_id, fields in _load_yaml(path).items():
                    rules[rule_id] = _build_entry(rule_id, path.stem, fields)
    return dict(sorted(rules.items()))


def explain_unknown_rule(rule_id: str) -> str | None:
    """Return the message about an unknown rule id, or None if the rule exists."""
    if rule_id in load_rules():
        return None
    closest = closest_name(rule_id, load_rules())
    hint = f"did you mean {closest}?" if closest else "`fusioninfer-pulumi rules` lists all"
    return f"unknown rule {rule_id!r}; {hint}"


def check_ignored_rules(ignored: Collection[str]) -> list[Finding]:
    """Return a warning for each unknown rule that a service's annotation ignores."""
    location = ("metadata", "annotations", IGNORE_RULES)
    messages = [explain_unknown_rule(rule_id) for rule_id in sorted(ignored)]
    return [warning(UNKNOWN_VALUE, location, text) for text in messages if text is not None]


def _build_entry(rule_id: str, area: str, fields: Mapping[str, Any]) -> RuleEntry:
    severity = fields["severity"]
    severities = [severity] if isinstance(severity, str) else severity
    return RuleEntry(
        id=rule_id,
        area=area,
        severities=tuple(map(Severity, severities)),
        title=fields["title"],
        remedy=fields["remedy"],
        source=fields.get("source", ""),
        example=fields["example"],
    )


def list_documents(example: Mapping[str, Any]) -> list[Any]:
    """Return the documents of an example; empty for a `text`, which may not be YAML."""
    if "text" in example:
        return []
    if "documents" in example:
        return list(example["documents"])
    return [change_base(base, fields) for base, fields in example.items()]


def change_base(base: str, fields: Mapping[str, Any]) -> Any:
    """Return a base manifest with `fields` set; an index equal to a list's length appends to it."""
    # YAML aliases refer to one object. JSON makes copies, so that each change affects one place.
    manifest: dict[str, Any] = json.loads(json.dumps(_load_yaml(_BASES)[base]))
    for path, value in fields.items():
        *parents, last = _parse_path(path)
        parent: Any = manifest
        next_parts = [*parents[1:], last]
        for part, next_part in zip(parents, next_parts, strict=True):
            existing_keys = range(len(parent)) if isinstance(parent, list) else parent
            if part not in existing_keys:
                _set_item(parent, part, [] if isinstance(next_part, int) else {})
            parent = parent[part]
        if value is None:
            del parent[last]
        else:
            _set_item(parent, last, value)
    return manifest


@cache
def _load_yaml(path: Path) -> Any:
    return yaml.load(path.read_text(encoding="utf-8"), Loader=_LOADER)  # noqa: S506  # safe loader


def _set_item(parent: Any, part: str | int, value: Any) -> None:
    if isinstance(parent, list) and part == len(parent):
        parent.append(value)
    else:
        parent[part] = value


def _parse_path(path: str) -> Location:
    """Return the location in the manifest of a path such as `roles[0].port`, relative to `spec`."""
    parts = parse_path(path)
    return parts if parts[0] in ("apiVersion", "kind", "metadata") else ("spec", *parts)
