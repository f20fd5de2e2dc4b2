"""Times services on the real Pulumi engine and API server: `python -m benchmarks.engine`.

Needs the tools of `python -m e2e.build_tools`, and the Pulumi engine on PATH. A program by hand
registers the same Kubernetes objects and nothing else. Programs take turns, each run on a stack and
in a namespace of its own; the fastest run counts, and only ratios mean something.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from e2e.engine.project import Project, missing
from e2e.engine.services import role, service
from e2e.harness import Cluster
from fusioninfer_pulumi import load, plan_service, render

BY_HAND = """\
import json
from pathlib import Path

import pulumi
import pulumi_kubernetes as kubernetes

for each in json.loads(Path("objects.json").read_text()):
    name, metadata = f"{each['kind']}-{each['metadata']['name']}", each["metadata"]
    if each["kind"] == "Service":
        metadata["annotations"] = {"pulumi.com/skipAwait": "true"}
        kubernetes.core.v1.Service(name, metadata=metadata, spec=each["spec"])
    else:
        kubernetes.apiextensions.CustomResource(
            name, api_version=each["apiVersion"], kind=each["kind"], metadata=metadata,
            spec=each["spec"],
        )
"""

NOTHING_AWAITED: dict[str, Any] = {
    "wait": {"level": "None"},
    "rollout": {"strategy": "AllAtOnce"},
}
PROGRAMS: dict[str, tuple[str, dict[str, Any]]] = {
    "no wait, no pace": ("PerReplica", NOTHING_AWAITED),
    "no wait": ("PerReplica", {"wait": {"level": "None"}}),
    "default": ("PerReplica", {}),
    "PerRole, no wait": ("PerRole", NOTHING_AWAITED),
    "PerRole, default": ("PerRole", {}),
}
"""What is compared with the objects by hand: layout and settings of the service."""

PREVIEWS = 3
"""Of each stack; they are cheap."""


@dataclass
class Times:
    """Seconds of each run."""

    up: list[float] = field(default_factory=list)
    preview: list[float] = field(default_factory=list)


def run(cluster: Cluster, folder: Path, wanted: Mapping[str, Any], *, by_hand: bool) -> Times:
    """Bring a service up once, preview it without a change, and clear it away."""
    namespace = cluster.new_namespace("bench")
    wanted = {**wanted, "metadata": {**wanted["metadata"], "namespace": namespace}}
    stack = Project(folder / namespace, cluster.kubeconfig)
    if by_hand:
        (args,) = load(wanted)
        objects = json.dumps(render(plan_service(args)))
        (stack.folder / "objects.json").write_text(objects, encoding="utf-8")
        (stack.folder / "__main__.py").write_text(BY_HAND, encoding="utf-8")
    else:
        stack.write(wanted)
    times = Times()
    started = time.monotonic()
    stack.up().assert_fine()
    times.up.append(time.monotonic() - started)
    for _ in range(PREVIEWS):
        started = time.monotonic()
        stack.run("preview", "--expect-no-changes").assert_fine()
        times.preview.append(time.monotonic() - started)
    cluster.delete_namespace(namespace, timeout=600)
    return times


def measure(cluster: Cluster, folder: Path, replicas: int, runs: int) -> dict[str, Times]:
    """All programs in turns; those by hand are named by their layout."""
    measured: dict[str, Times] = {}
    for number in range(runs):
        for name, (layout, settings) in [
            *((layout, (layout, {})) for layout in ("PerReplica", "PerRole")),
            *PROGRAMS.items(),
        ]:
            print(f"run {number + 1}: {name} ...", file=sys.stderr, flush=True)
            wanted = service("default", role(replicas=replicas), layout=layout, **settings)
            times = run(cluster, folder, wanted, by_hand=name not in PROGRAMS)
            known = measured.setdefault(name, Times())
            known.up += times.up
            known.preview += times.preview
    return measured


def table(measured: Mapping[str, Times]) -> Iterator[str]:
    """The ratios in Markdown."""
    yield "| Service | `up` / by hand | no-op `preview` / by hand |"
    yield "|---|---:|---:|"
    for name, (layout, _) in PROGRAMS.items():
        ours, theirs = measured[name], measured[layout]
        cells = [
            f"{min(mine) / min(other):.2f} ({min(mine):.1f} s / {min(other):.1f} s)"
            for mine, other in ((ours.up, theirs.up), (ours.preview, theirs.preview))
        ]
        yield f"| {name} | {' | '.join(cells)} |"


def main(arguments: list[str] | None = None) -> int:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engine", description=__doc__)
    parser.add_argument("--replicas", type=int, default=100)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args(arguments)
    if missing():
        print(f"not on PATH: {', '.join(missing())}", file=sys.stderr)
        return 1
    with Cluster() as cluster, tempfile.TemporaryDirectory() as folder:
        cluster.add_nodes(4)
        run(cluster, Path(folder), service("default", role(replicas=1)), by_hand=False)
        measured = measure(cluster, Path(folder), options.replicas, options.runs)
    print("\n".join(table(measured)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
