"""The source of this installation, so that a new project installs the same version.

A project names what is known to exist: the tag that was installed, else the commit, else the
folder, wheel or index on this machine (PEP 610, `direct_url.json`).
"""

from __future__ import annotations

import json
import sysconfig
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from typing import Any

from fusioninfer_pulumi import __version__
from fusioninfer_pulumi.extras import ADDRESS


def release_tag(version: str) -> str | None:
    """Return the tag of a version, None for one that is not released."""
    return None if "dev" in version else f"v{version}"


RELEASE_TAG = release_tag(__version__)
#: The distributions that a project needs: `check` reads memory with the second.
_PACKAGES = ("pulumi", "capacity")
# Without a version Pulumi uses the latest tag; 0.0.0 is the default branch.
_DEFAULT_BRANCH = "0.0.0"


@dataclass(frozen=True)
class Repository:
    """A git repository.

    Attributes:
        url: Its address.
        revision: Tag or commit, None for the default branch.
    """

    url: str = ADDRESS.removeprefix("git+")
    revision: str | None = RELEASE_TAG

    def requirements(self) -> list[str]:
        """Return the lines of requirements.txt."""
        revision = f"@{self.revision}" if self.revision else ""
        return [
            f"fusioninfer-{package} @ git+{self.url}{revision}{folder}"
            for package, folder in zip(_PACKAGES, ("", "#subdirectory=capacity"), strict=True)
        ]

    def plugin(self) -> dict[str, Any]:
        """Return the fields of Pulumi.yaml that name the plugin."""
        if not self.url.startswith("https://"):  # Pulumi supports no other protocol
            return Environment().plugin()
        return {"packages": {"fusioninfer": f"{self.url}@{self.revision or _DEFAULT_BRANCH}"}}


@dataclass(frozen=True)
class Environment:
    """This Python environment, into which a folder, a wheel or an index was installed."""

    def requirements(self) -> list[str]:
        """Return the lines of requirements.txt, without packages that are not installed."""
        lines = []
        for package in _PACKAGES:
            name = f"fusioninfer-{package}"
            try:
                record = _direct_url(name)
            except PackageNotFoundError:
                continue
            if "url" not in record:
                lines.append(f"{name}=={distribution(name).version}")
            elif record.get("dir_info", {}).get("editable"):
                lines.append(f"-e {record['url']}")
            else:
                lines.append(f"{name} @ {record['url']}")
        if any("file:" in line for line in lines):
            lines.insert(0, "# On this machine alone; replace it by a tag or commit to share it.")
        return lines

    def plugin(self) -> dict[str, Any]:
        """Return the fields of Pulumi.yaml that name the plugin."""
        folder = sysconfig.get_path("scripts")
        return {"plugins": {"providers": [{"name": "fusioninfer", "path": folder}]}}


def installed_from() -> Repository | Environment:
    """Return what this package was installed from."""
    record = _direct_url("fusioninfer-pulumi")
    if "vcs_info" not in record:
        return Environment()
    vcs = record["vcs_info"]
    is_release = RELEASE_TAG is not None and vcs.get("requested_revision") == RELEASE_TAG
    return Repository(record["url"], RELEASE_TAG if is_release else vcs["commit_id"])


def _direct_url(name: str) -> dict[str, Any]:
    """Return the record of an installation; it is empty for a package from an index."""
    record: dict[str, Any] = json.loads(distribution(name).read_text("direct_url.json") or "{}")
    return record
