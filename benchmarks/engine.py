"""Times services on the real Pulumi engine and API server: `python -m benchmarks.engine`.

Needs the tools of `python -m e2e.build_tools`, and the Pulumi engine on PATH. A program by hand
registers only the same Kubernetes objects, or also a patch that waits for each LeaderWorkerSet
it. Programs take turns, each run in its own stack and namespace. The fastest run counts, and only
ratios are comparable.
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
from fusioninfer_pulumi.component import patches as waits

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
        continue
    made = kubernetes.apiextensions.CustomResource(
        name, api_version=each["apiVersion"], kind=each["kind"], metadata=metadata,
        spec=each["spec"],
    )
    if WAIT:
        identity = {key: metadata[key] for key in ("name", "namespace")}
        notes = {"pulumi.com/waitFor": AVAILABLE, "pulumi.com/patchForce": "true"}
        kubernetes.apiextensions.CustomResourcePatch(
            f"{name}-wait", api_version=each["apiVersion"], kind=each["kind"],
            metadata={**identity, "annotations": notes},
            opts=pulumi.ResourceOptions(depends_on=[made], deleted_with=made),
        )
"""

NOTHING_AWAITED: dict[str, Any] = {
    "wait": {"level": "None"},
    "rollout": {"strategy": "AllAtOnce"},
}
BY_HAND_ONLY: dict[str, tuple[str, bool]] = {
    f"{layout}, {what}": (layout, awaited)
    for layout in ("PerReplica", "PerRole")
    for what, awaited in (("objects", False), ("objects and patches", True))
}
"""Programs by hand: layout, and whether a patch waits for each LeaderWorkerSet."""
PROGRAMS: dict[str, tuple[str, dict[str, Any]]] = {
    "no wait, all at once": ("PerReplica", NOTHING_AWAITED),
    "no wait": ("PerReplica", {"wait": {"level": "None"}}),
    "default": ("PerReplica", {}),
    "PerRole, no wait": ("PerRole", NOTHING_AWAITED),
    "PerRole, default": ("PerRole", {}),
}
"""Services to compare: layout and settings."""

PREVIEWS = 3
"""Of each stack; they are cheap."""


@dataclass
class Times:
    """Seconds of each run."""

    up: list[float] = field(default_factory=list)
    preview: list[float] = field(default_factory=list)


def run(cluster: Cluster, folder: Path, wanted: Mapping[str, Any], by_hand: str = "") -> Times:
    """Creates a service, previews it without a change, and deletes it."""
    namespace = cluster.new_namespace("bench")
    wanted = {**wanted, "metadata": {**wanted["metadata"], "namespace": namespace}}
    stack = Project(folder / namespace, cluster.kubeconfig)
    if by_hand:
        (args,) = load(wanted)
        objects = json.dumps(render(plan_service(args)))
        (stack.folder / "objects.json").write_text(objects, encoding="utf-8")
        program = f"WAIT, AVAILABLE = {BY_HAND_ONLY[by_hand][1]}, {waits.AVAILABLE!r}\n{BY_HAND}"
        (stack.folder / "__main__.py").write_text(program, encoding="utf-8")
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


def measure(cluster: Cluster, folder: Path, options: argparse.Namespace) -> dict[str, Times]:
    """Returns the times of all programs, which take turns."""
    measured: dict[str, Times] = {}
    for number in range(options.runs):
        for name in (*BY_HAND_ONLY, *PROGRAMS):
            print(f"run {number + 1}: {name} ...", file=sys.stderr, flush=True)
            layout, settings = PROGRAMS.get(name) or (BY_HAND_ONLY[name][0], {})
            wanted = service("default", role(replicas=options.replicas), layout=layout, **settings)
            times = run(cluster, folder, wanted, name if name in BY_HAND_ONLY else "")
            known = measured.setdefault(name, Times())
            known.up += times.up
            known.preview += times.preview
    return measured


def table(measured: Mapping[str, Times]) -> Iterator[str]:
    """The ratios in Markdown, to the objects by hand and to the objects with their patches."""
    others = ("objects", "objects and patches")
    yield "| Service | " + " | ".join(f"{run} / {n}" for run in ("up", "preview") for n in others)
    yield "|---|" + "---:|" * 4
    for name, (layout, _) in PROGRAMS.items():
        cells = []
        for kind in ("up", "preview"):
            for other in others:
                ours = min(getattr(measured[name], kind))
                theirs = min(getattr(measured[f"{layout}, {other}"], kind))
                cells.append(f"{ours / theirs:.2f} ({ours:.1f} s / {theirs:.1f} s)")
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
        run(cluster, Path(folder), service("default", role(replicas=1)))
        measured = measure(cluster, Path(folder), options)
    print("\n".join(table(measured)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
