"""Where this package was installed from, so that new projects install the same version.

That is the installed tag, else the commit, else the folder, wheel or index on this machine
(PEP 610, `direct_url.json`).
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
    """Return the git tag of a version, None for development versions."""
    return None if "dev" in version else f"v{version}"


RELEASE_TAG = release_tag(__version__)
#: Packages that a project needs, with their folders. `check` estimates memory with the second.
_PACKAGES = {"fusioninfer-pulumi": "", "fusioninfer-capacity": "#subdirectory=capacity"}
# Without a version Pulumi uses the latest tag; 0.0.0 is the default branch.
_DEFAULT_BRANCH = "0.0.0"


@dataclass(frozen=True)
class Installation:
    """How a project installs this package.

    Attributes:
        requirements: Lines of requirements.txt.
        plugin: Fields of Pulumi.yaml for the plugin.
    """

    requirements: Sequence[str]
    plugin: Mapping[str, Any]


def repository(
    url: str = ADDRESS.removeprefix("git+"), revision: str | None = RELEASE_TAG
) -> Installation:
    """Describe an installation from a git repository; no `revision` means the default branch."""
    at = f"@{revision}" if revision else ""
    lines = [f"{package} @ git+{url}{at}{folder}" for package, folder in _PACKAGES.items()]
    # Pulumi supports no other protocol.
    is_https = url.startswith("https://")
    plugin = {"packages": {"fusioninfer": f"{url}@{revision or _DEFAULT_BRANCH}"}}
    return Installation(lines, plugin if is_https else _read_plugin())


def read_installation() -> Installation:
    """Describe how this package was installed."""
    record = _read_direct_url("fusioninfer-pulumi")
    if record is not None and "vcs_info" in record:
        vcs = record["vcs_info"]
        is_release = RELEASE_TAG is not None and vcs.get("requested_revision") == RELEASE_TAG
        return repository(record["url"], RELEASE_TAG if is_release else vcs["commit_id"])
    lines = []
    for package in _PACKAGES:
        record = _read_direct_url(package)
        if record is None:
            continue
        if "url" not in record:
            lines.append(f"{package}=={distribution(package).version}")
        elif record.get("dir_info", {}).get("editable"):
            lines.append(f"-e {record['url']}")
        else:
            lines.append(f"{package} @ {record['url']}")
    if any("file:" in line for line in lines):
        lines.insert(0, "# Works only on this machine; use a tag or commit to share the project.")
    return Installation(lines, _read_plugin())


def _read_plugin() -> dict[str, Any]:
    folder = sysconfig.get_path("scripts")
    return {"plugins": {"providers": [{"name": "fusioninfer", "path": folder}]}}


def _read_direct_url(package: str) -> dict[str, Any] | None:
    """Return `direct_url.json`: empty if installed from an index, None if not installed."""
    try:
        text = distribution(package).read_text("direct_url.json")
    except PackageNotFoundError:
        return None
    record: dict[str, Any] = json.loads(text or "{}")
    return record
