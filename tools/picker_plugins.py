"""Writes the flags and plugins of each endpoint picker release.

`python tools/picker_plugins.py` reads the releases of the inference extension from the Go module
proxy, and writes `fusioninfer_pulumi/generated/endpoint_pickers/FAMILY.json`. A family is a key of
`releases` in `picker_plugins.yaml`. llm-d's releases are read from a checkout:
`python tools/picker_plugins.py llm-d-0.10=CHECKOUT`. It needs Go; sources are only parsed
(`picker_plugins.go`), never built or run.

Facts that the sources do not contain are in `picker_plugins.yaml`, with their origin. A table has:

- `source`: the module and its version
- `flags`: of its command line, without the flags that it rejects
- `sidecarConnectors`, `sidecarFlags`: of the P/D sidecar; the first connector is the default
- `plugins`: the plugin types that it registers
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
TABLES = ROOT / "fusioninfer_pulumi" / "generated" / "endpoint_pickers"
_READER = Path(__file__).with_suffix(".go")
_ENVIRONMENT = {"GOFLAGS": "", "GOTOOLCHAIN": "local", "GOWORK": "off"}


@cache
def notes() -> dict[str, Any]:
    """Return the facts in `picker_plugins.yaml`."""
    text = _READER.with_suffix(".yaml").read_text(encoding="utf-8")
    loaded: dict[str, Any] = yaml.safe_load(text)
    return loaded


def main(arguments: Sequence[str] | None = None) -> int:
    """Write tables; with `--check` print the names of those that differ from the committed ones."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail if tables differ")
    parser.add_argument("family", nargs="*", help="a family, or FAMILY=CHECKOUT; default: gaie-*")
    options = parser.parse_args(arguments)
    families = options.family or [name for name in notes()["releases"] if name.startswith("gaie-")]
    differing = 0
    for argument in families:
        family, _, checkout = argument.partition("=")
        text = table_text(table(family, read(family, checkout)))
        target = TABLES / f"{family}.json"
        if options.check and text != target.read_text(encoding="utf-8"):
            print(f"{target.name} differs from the sources of {family}")
            differing += 1
        elif not options.check:
            target.write_text(text, encoding="utf-8")
    return 1 if differing else 0


def read(family: str, checkout: str = "") -> dict[str, Any]:
    """Return plugins and flags of a release, from a checkout or the module proxy."""
    release = notes()["releases"][family]
    directory = str(Path(checkout).resolve()) if checkout else _download(release)
    data: dict[str, Any] = json.loads(
        _run_go("run", str(_READER), f"{release['module']}={directory}")
    )
    return data


def _download(release: Mapping[str, str]) -> str:
    """Return the directory of a module; download it if it is not in the module cache."""
    source = f"{release['module']}@{release['version']}"
    directory: str = json.loads(_run_go("mod", "download", "-json", source))["Dir"]
    return directory


def _run_go(*arguments: str) -> str:
    done = subprocess.run(
        ["go", *arguments],  # noqa: S607  # as the developer has installed it
        cwd=_READER.parent,
        env={**os.environ, **_ENVIRONMENT},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout


def table(family: str, release: Mapping[str, Any]) -> dict[str, Any]:
    """Return the table of a release: facts from its sources and from `picker_plugins.yaml`."""
    known = notes()["releases"][family]
    lists = {
        key: sorted({*release[key], *_list_common_flags(family, key)})
        for key in ("flags", "sidecarFlags")
        if release.get(key)
    }
    if "sidecarConnectors" in release:
        lists["sidecarConnectors"] = release["sidecarConnectors"]
    return {
        "source": f"{known['module']}@{known['version']}",
        **lists,
        "plugins": sorted(release["plugins"]),
    }


def _list_common_flags(family: str, key: str) -> Iterator[str]:
    """Yield the flags from controller-runtime, which the release's own sources do not contain."""
    yield from notes()["logFlags"]
    if family in notes()["kubeconfig"].get(key, ()):
        yield "kubeconfig"


def table_text(content: Mapping[str, Any]) -> str:
    """Return the text of a table."""
    return json.dumps(content, indent=1) + "\n"


if __name__ == "__main__":
    sys.exit(main())
