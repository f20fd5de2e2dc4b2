"""Programs and CRDs that the end-to-end tests use.

`tools/<module>/go.mod` pins their versions, and its go.sum verifies them.
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
    """A Go module of `tools/`; `catalog.yaml` describes the attributes."""

    name: str
    source: str
    programs: dict[str, str] = field(default_factory=dict)
    manifests: dict[str, list[str]] = field(default_factory=dict)
    ldflags: str = ""
    optional: bool = False
    title: str = ""

    @property
    def folder(self) -> Path:
        return TOOLS_DIR / self.name

    @property
    def version(self) -> str:
        """The version of the source module in go.mod."""
        text = (self.folder / "go.mod").read_text(encoding="utf-8")
        pattern = rf"^(?:require)?\s+{re.escape(self.source)} (v\S+)"
        match = re.search(pattern, text, re.MULTILINE)
        if match is None:
            raise ValueError(f"{self.folder / 'go.mod'} requires no version of {self.source}")
        return match.group(1)

    @property
    def directory(self) -> Path:
        """Folder of the built tool; its name has a hash of everything that affects the build."""
        key = hashlib.sha256()
        for path in [self.folder / "go.mod", self.folder / "go.sum", *self.folder.glob("*.go")]:
            key.update(path.read_bytes())
        recipe = [self.programs, self.manifests, self.ldflags]
        key.update(json.dumps(recipe, sort_keys=True).encode())
        return cache_root() / f"{self.name}-{self.version}-{key.hexdigest()[:12]}"

    @property
    def is_built(self) -> bool:
        """Whether the build is complete; an incomplete one has another name."""
        return self.directory.is_dir()


def cache_root() -> Path:
    """Return the folder of built tools, shared by all checkouts of a user."""
    configured = os.environ.get("FUSIONINFER_E2E_CACHE")
    return Path(configured) if configured else Path.home() / ".cache" / "fusioninfer-pulumi" / "e2e"


def _read_catalog() -> tuple[Tool, ...]:
    described = yaml.safe_load((TOOLS_DIR / "catalog.yaml").read_text(encoding="utf-8"))
    return tuple(Tool(name, **fields) for name, fields in described.items())


TOOLS = _read_catalog()


def tool(name: str) -> Tool:
    """Return a tool by its name; raise KeyError if it does not exist."""
    for candidate in TOOLS:
        if candidate.name == name:
            return candidate
    raise KeyError(f"unknown tool {name!r}; use one of {', '.join(t.name for t in TOOLS)}")


def program(tool_name: str, program_name: str) -> Path:
    """Return the path of a program; raise FileNotFoundError if its tool is not built."""
    return _built_folder(tool_name) / "bin" / program_name


def manifests(tool_name: str, group: str) -> list[Path]:
    """Return paths of a built tool's YAML files, sorted by name."""
    return sorted((_built_folder(tool_name) / group).glob("*.yaml"))


def _built_folder(name: str) -> Path:
    built = tool(name)
    if not built.is_built:
        raise FileNotFoundError(
            f"{name} is not built: run `python -m e2e.build_tools --only {name}`"
        )
    return built.directory
