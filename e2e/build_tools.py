"""Build the programs of the end-to-end tests from the Go modules pinned in `tools/`.

`python -m e2e.build_tools` builds what is missing into a cache outside the repository and says what
it does; a second run builds nothing. It needs Go and access to a Go module proxy, nothing else.
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
"""How often a long build says that it is alive: CI takes silence for a hang."""


class BuildError(Exception):
    """A tool could not be built."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m e2e.build_tools", description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=[t.name for t in TOOLS])
    parser.add_argument("--list", action="store_true", help="say what there is and stop")
    args = parser.parse_args(argv)
    chosen = [tool(n) for n in args.only] if args.only else [t for t in TOOLS if not t.optional]
    if args.list:
        for each in TOOLS:
            state = "built" if each.is_built else "optional" if each.optional else "missing"
            print(f"{each.name:12} {each.version:10} {state:9} {each.directory}")
        return 0
    # Like Ctrl-C: the compiler is ended and the half-built tool removed.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    started = time.monotonic()
    missing = [t for t in chosen if not t.is_built]
    try:
        for number, each in enumerate(missing, start=1):
            build(each, f"[{number}/{len(missing)}]")
    except BuildError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    there = len(chosen) - len(missing)
    print(
        f"{len(missing)} built, {there} already there, "
        f"{time.monotonic() - started:.0f} s: {cache_root()}"
    )
    return 0


def build(wanted: Tool, progress: str) -> None:
    """Build one tool into its place in the cache; at once if another process just did.

    Raises:
        BuildError: If Go is missing, a download is rejected or the compiler fails.
    """
    with _locked(wanted):
        if wanted.is_built:
            return
        started = time.monotonic()
        prefix = f".{wanted.name}.build-"
        for left in cache_root().glob(f"{prefix}*"):  # by a build that was killed: we hold its lock
            shutil.rmtree(left)
        with tempfile.TemporaryDirectory(dir=cache_root(), prefix=prefix) as scratch:
            result = Path(scratch) / "result"
            result.mkdir()
            for name, package in wanted.programs.items():
                label = f"{progress} {name} {wanted.version}"
                ldflags = f"-s -w {wanted.ldflags.format(version=wanted.version)}".strip()
                target = str(result / "bin" / name)
                command = ["build", "-trimpath", "-mod=readonly", "-buildvcs=false"]
                # The linker drops it anyway: not to make it saves a tenth of the compiler's time.
                command.append("-gcflags=all=-dwarf=false")
                _go(wanted, [*command, "-ldflags", ldflags, "-o", target, package], label)
            if wanted.manifests:
                _copy_manifests(wanted, result, f"{progress} manifests of {wanted.name}")
            # The rename makes a tool appear whole or not at all, also when the build is killed.
            result.rename(wanted.directory)
        print(f"{progress} {wanted.name} done in {time.monotonic() - started:.0f} s", flush=True)


def _copy_manifests(wanted: Tool, result: Path, label: str) -> None:
    output = _go(wanted, ["mod", "download", "-json", wanted.source], label)
    source = Path(json.loads(output)["Dir"])
    for group, patterns in wanted.manifests.items():
        (result / group).mkdir()
        for pattern in patterns:
            found = sorted(source.glob(pattern))
            if not found:
                raise BuildError(f"{wanted.source} {wanted.version} has no file {pattern}")
            for path in found:
                # copyfile leaves out the module cache's read-only mode, so the cache can be deleted
                shutil.copyfile(path, result / group / path.name)


def _go(wanted: Tool, arguments: list[str], label: str) -> str:
    """Run one go command in the tool's module, telling from time to time that it is alive."""
    environment = os.environ | {
        "CGO_ENABLED": "0",  # a C compiler is not needed, and the result does not depend on one
        "GOFLAGS": "",  # a caller's -mod or -tags must not change what is built
        "GOTOOLCHAIN": "local",  # a toolchain is installed by the user, never downloaded here
        "GOWORK": "off",
    }
    if shutil.which("go") is None:
        raise BuildError("the go command is needed to build the tools; install Go")
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
    """Let one process at a time build a tool; the kernel drops the lock when its holder dies."""
    cache_root().mkdir(parents=True, exist_ok=True)
    with (cache_root() / f".{wanted.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    sys.exit(main())
