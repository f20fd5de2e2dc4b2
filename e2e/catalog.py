"""Which programs and CRDs the end-to-end tests use, and where each comes from.

Versions are pinned by `tools/<module>/go.mod` and verified by its go.sum; nothing here repeats a
version that a go.mod states.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

import yaml

TOOLS_DIR = Path(__file__).resolve().parent / "tools"


@dataclass(frozen=True)
class Tool:
    """One Go module of `tools/`: the programs built and the YAML copied from it.

    The attributes are described in `catalog.yaml`.
    """

    name: str
    source: str
    programs: dict[str, str] = field(default_factory=dict)
    manifests: dict[str, list[str]] = field(default_factory=dict)
    ldflags: str = ""
    optional: bool = False

    @property
    def folder(self) -> Path:
        return TOOLS_DIR / self.name

    @property
    def version(self) -> str:
        """The pinned version of the source module, as its go.mod says."""
        text = (self.folder / "go.mod").read_text(encoding="utf-8")
        pattern = rf"^(?:require)?\s+{re.escape(self.source)} (v\S+)"
        match = re.search(pattern, text, re.MULTILINE)
        if match is None:
            raise ValueError(f"{self.folder / 'go.mod'} requires no version of {self.source}")
        return match.group(1)

    @property
    def directory(self) -> Path:
        """Where the finished tool is kept: the name changes with whatever changes the result."""
        key = hashlib.sha256()
        for path in [self.folder / "go.mod", self.folder / "go.sum", *self.folder.glob("*.go")]:
            key.update(path.read_bytes())
        recipe = [self.programs, self.manifests, self.ldflags]
        key.update(json.dumps(recipe, sort_keys=True).encode())
        return cache_root() / f"{self.name}-{self.version}-{key.hexdigest()[:12]}"

    @property
    def is_built(self) -> bool:
        """Whether the finished tool is there; a half-built one never has this name."""
        return self.directory.is_dir()


def cache_root() -> Path:
    """The cache for built tools, shared by all checkouts of one user."""
    configured = os.environ.get("FUSIONINFER_E2E_CACHE")
    return Path(configured) if configured else Path.home() / ".cache" / "fusioninfer-pulumi" / "e2e"


def _read() -> tuple[Tool, ...]:
    described = yaml.safe_load((TOOLS_DIR / "catalog.yaml").read_text(encoding="utf-8"))
    return tuple(Tool(name, **fields) for name, fields in described.items())


TOOLS = _read()


def tool(name: str) -> Tool:
    """Return the tool of that name.

    Raises:
        KeyError: If there is none; the message lists the names.
    """
    for candidate in TOOLS:
        if candidate.name == name:
            return candidate
    raise KeyError(f"no tool {name!r}; there are {', '.join(t.name for t in TOOLS)}")


def program(tool_name: str, program_name: str) -> Path:
    """Path of a built program; FileNotFoundError if its tool was not built."""
    return _built(tool_name) / "bin" / program_name


def manifests(tool_name: str, group: str) -> list[Path]:
    """Paths of the YAML files that a built tool brought along, sorted by name."""
    return sorted((_built(tool_name) / group).glob("*.yaml"))


def _built(name: str) -> Path:
    found = tool(name)
    if not found.is_built:
        raise FileNotFoundError(
            f"{name} is not built: run `python -m e2e.build_tools --only {name}`"
        )
    return found.directory
