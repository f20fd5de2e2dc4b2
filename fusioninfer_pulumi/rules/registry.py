"""The registry of rules: what each checks, what to do about it, and an example that violates it.

One YAML file for each package that creates findings. An entry:

    accelerators-too-few:
      severity: error
      checks: The pods of a replica have the accelerators that the engine's parallel sizes need.
      do: Ask for more accelerators, or lower the parallel sizes.
      evidence: https://docs.vllm.ai/en/stable/serving/parallelism_scaling/
      example: {worker: {"roles[0].parallelism": {tensor: 2}}}

`severity` is a list where it depends on the case; `evidence` may be left out where it is that of
the package in `_evidence.yaml`. The example's key is a manifest of `_bases.yaml`, whose fields it
sets (null removes one); or `documents`, or `text`.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from fusioninfer_pulumi.findings import Severity

_FOLDER = Path(__file__).parent
#: The C parser reads the whole registry in a tenth of the time.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_PART = re.compile(r"\[([^\]]+)\]|([^.\[\]]+)")


@dataclass(frozen=True)
class Rule:
    """One rule.

    Attributes:
        id: Its id, which findings carry.
        area: The package that checks it.
        severities: How severe a finding may be, the usual severity first.
        checks: What holds where the rule is kept.
        do: What to do about a finding.
        evidence: Where it is known from; empty where that is what its package's rules follow from.
        example: An input that violates it, None where it takes more than an input.
    """

    id: str
    area: str
    severities: tuple[Severity, ...]
    checks: str
    do: str
    evidence: str = ""
    example: Mapping[str, Any] | None = None

    @property
    def known_from(self) -> str:
        """Where it is known from, by itself or as a rule of its package."""
        return self.evidence or area_evidence()[self.area]

    @property
    def documents(self) -> list[Any] | None:
        """The documents of the example, None without one or where it is a text."""
        if self.example is None or "text" in self.example:
            return None
        ((base, held),) = self.example.items()
        return list(held) if base == "documents" else [changed(base, held)]


@cache
def rules() -> dict[str, Rule]:
    """All rules by their ids, sorted."""
    return {rule.id: rule for rule in sorted(_read(), key=lambda rule: rule.id)}


def _read() -> Iterator[Rule]:
    for path in sorted(_FOLDER.glob("[a-z]*.yaml")):
        for name, entry in (_parsed(path) or {}).items():
            given = entry["severity"]
            severities = [given] if isinstance(given, str) else given
            yield Rule(
                id=name,
                area=path.stem,
                severities=tuple(map(Severity, severities)),
                **{key: entry[key] for key in entry if key != "severity"},
            )


def _parsed(path: Path) -> Any:
    return yaml.load(path.read_text(encoding="utf-8"), Loader=_LOADER)  # noqa: S506  # a safe one


@cache
def area_evidence() -> dict[str, str]:
    """What the rules of each package follow from."""
    found: dict[str, str] = _parsed(_FOLDER / "_evidence.yaml")
    return found


@cache
def bases() -> dict[str, Any]:
    """The manifests that examples change."""
    found: dict[str, Any] = _parsed(_FOLDER / "_bases.yaml")
    return found


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
