"""Build the programs of the end-to-end tests from the Go modules pinned in `tools/`.

`python -m e2e.build_tools` builds missing tools into a cache outside the repository. It needs Go
and access to a Go module proxy.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from e2e.catalog import TOOLS, Tool, cache_root, tool

HEARTBEAT_SECONDS = 30.0
"""Interval of progress lines, because CI cancels jobs without output."""


class BuildError(Exception):
    """A tool could not be built."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m e2e.build_tools", description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=[t.name for t in TOOLS])
    parser.add_argument("--list", action="store_true", help="list tools and exit")
    args = parser.parse_args(argv)
    chosen = [tool(n) for n in args.only] if args.only else [t for t in TOOLS if not t.optional]
    if args.list:
        for item in TOOLS:
            state = "built" if item.is_built else "optional" if item.optional else "missing"
            print(f"{item.name:12} {item.version:10} {state:9} {item.directory}")
        return 0
    # As Ctrl-C: stop the compiler and remove the incomplete tool.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    started = time.monotonic()
    missing = [t for t in chosen if not t.is_built]
    try:
        for number, item in enumerate(missing, start=1):
            build(item, f"[{number}/{len(missing)}]")
    except BuildError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    present = len(chosen) - len(missing)
    print(
        f"{len(missing)} built, {present} up to date, "
        f"{time.monotonic() - started:.0f} s: {cache_root()}"
    )
    return 0


def build(wanted: Tool, progress: str) -> None:
    """Build a tool into the cache unless another process already has.

    Raises:
        BuildError: If Go is missing, or if a download or the compiler fails.
    """
    with _locked(wanted):
        if wanted.is_built:
            return
        started = time.monotonic()
        prefix = f".{wanted.name}.build-"
        # The lock is ours, so these are from killed builds.
        for old in cache_root().glob(f"{prefix}*"):
            shutil.rmtree(old)
        with tempfile.TemporaryDirectory(dir=cache_root(), prefix=prefix) as scratch:
            result = Path(scratch) / "result"
            result.mkdir()
            for name, package in wanted.programs.items():
                label = f"{progress} {name} {wanted.version}"
                ldflags = f"-s -w {wanted.ldflags.format(version=wanted.version)}".strip()
                target = str(result / "bin" / name)
                command = ["build", "-trimpath", "-mod=readonly", "-buildvcs=false"]
                # The linker drops DWARF anyway; not generating it saves a tenth of the build time.
                command.append("-gcflags=all=-dwarf=false")
                _go(wanted, [*command, "-ldflags", ldflags, "-o", target, package], label)
            if wanted.manifests:
                _copy_manifests(wanted, result, f"{progress} manifests of {wanted.name}")
            # Renaming is atomic, so that a killed build leaves no incomplete tool.
            result.rename(wanted.directory)
        print(f"{progress} {wanted.name} done in {time.monotonic() - started:.0f} s", flush=True)


def _copy_manifests(wanted: Tool, result: Path, label: str) -> None:
    output = _go(wanted, ["mod", "download", "-json", wanted.source], label)
    source = Path(json.loads(output)["Dir"])
    for group, patterns in wanted.manifests.items():
        (result / group).mkdir()
        for pattern in patterns:
            paths = sorted(source.glob(pattern))
            if not paths:
                raise BuildError(f"{wanted.source} {wanted.version} has no file {pattern}")
            for path in paths:
                # copyfile omits the read-only mode, so that the copy can be deleted.
                shutil.copyfile(path, result / group / path.name)


def _go(wanted: Tool, arguments: list[str], label: str) -> str:
    """Run a go command in the tool's module and print progress lines."""
    environment = os.environ | {
        "CGO_ENABLED": "0",  # The result does not depend on a C compiler.
        "GOFLAGS": "",  # The caller's -mod or -tags must not change the result.
        "GOTOOLCHAIN": "local",  # Do not download another toolchain.
        "GOWORK": "off",
    }
    if shutil.which("go") is None:
        raise BuildError("go is not on PATH; install Go")
    with subprocess.Popen(
        ["go", *arguments], cwd=wanted.folder, env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        while True:
            print(f"{label} ...", flush=True)
            try:
                output, _ = process.communicate(timeout=HEARTBEAT_SECONDS)
                break
            except subprocess.TimeoutExpired:
                continue
    if process.returncode != 0:
        raise BuildError(f"{label} failed {output}")
    return output


@contextmanager
def _locked(wanted: Tool) -> Iterator[None]:
    """Lock a tool; the kernel releases the lock when the process exits."""
    cache_root().mkdir(parents=True, exist_ok=True)
    with (cache_root() / f".{wanted.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    sys.exit(main())
