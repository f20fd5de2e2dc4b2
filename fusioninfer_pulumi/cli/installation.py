"""The source of this installation, so that a new project installs the same version.

A project names what is known to exist: the tag that was installed, else the commit, else the
folder, wheel or index on this machine (PEP 610, `direct_url.json`).
"""

from __future__ import annotations

import json
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from typing import Any

from fusioninfer_pulumi import __version__
from fusioninfer_pulumi.extras import ADDRESS


def release_tag(version: str) -> str | None:
    """Return the tag of a version, None for one that is not released."""
    return None if "dev" in version else f"v{version}"


RELEASE_TAG = release_tag(__version__)
#: The distributions that a project needs, with their folders: `check` reads memory with the second.
_PACKAGES = {"fusioninfer-pulumi": "", "fusioninfer-capacity": "#subdirectory=capacity"}
# Without a version Pulumi uses the latest tag; 0.0.0 is the default branch.
_DEFAULT_BRANCH = "0.0.0"


@dataclass(frozen=True)
class Installation:
    """Where a project installs this package from.

    Attributes:
        requirements: Lines of requirements.txt.
        plugin: Fields of Pulumi.yaml that name the plugin.
    """

    requirements: Sequence[str]
    plugin: Mapping[str, Any]


def repository(
    url: str = ADDRESS.removeprefix("git+"), revision: str | None = RELEASE_TAG
) -> Installation:
    """Return a git repository at a tag or commit, by default at its default branch."""
    at = f"@{revision}" if revision else ""
    lines = [f"{package} @ git+{url}{at}{folder}" for package, folder in _PACKAGES.items()]
    # Pulumi supports no other protocol.
    is_https = url.startswith("https://")
    plugin = {"packages": {"fusioninfer": f"{url}@{revision or _DEFAULT_BRANCH}"}}
    return Installation(lines, plugin if is_https else _installed_plugin())


def installed_from() -> Installation:
    """Return what this package was installed from."""
    record = _direct_url("fusioninfer-pulumi")
    if record is not None and "vcs_info" in record:
        vcs = record["vcs_info"]
        is_release = RELEASE_TAG is not None and vcs.get("requested_revision") == RELEASE_TAG
        return repository(record["url"], RELEASE_TAG if is_release else vcs["commit_id"])
    lines = []
    for package in _PACKAGES:
        record = _direct_url(package)
        if record is None:
            continue
        if "url" not in record:
            lines.append(f"{package}=={distribution(package).version}")
        elif record.get("dir_info", {}).get("editable"):
            lines.append(f"-e {record['url']}")
        else:
            lines.append(f"{package} @ {record['url']}")
    if any("file:" in line for line in lines):
        lines.insert(0, "# On this machine alone; replace it by a tag or commit to share it.")
    return Installation(lines, _installed_plugin())


def _installed_plugin() -> dict[str, Any]:
    folder = sysconfig.get_path("scripts")
    return {"plugins": {"providers": [{"name": "fusioninfer", "path": folder}]}}


def _direct_url(package: str) -> dict[str, Any] | None:
    """Return how a package was installed; empty from an index, None if it is not installed."""
    try:
        text = distribution(package).read_text("direct_url.json")
    except PackageNotFoundError:
        return None
    record: dict[str, Any] = json.loads(text or "{}")
    return record
