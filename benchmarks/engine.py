"""Compares the component with a hand-written program, on the real Pulumi engine and API server.

Requires the tools of `python -m e2e.build_tools`, and the Pulumi engine on PATH. The hand-written
program registers the same objects and does not wait for them. Runs alternate, each in a separate
stack and namespace; the fastest run counts, and only ratios are comparable.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from e2e.engine.project import list_missing_programs
from e2e.engine.services import Stack, role
from e2e.harness import Cluster
from fusioninfer_pulumi import load, plan_service, render

__all__ = ["Times", "list_missing_programs", "measure"]

HAND_WRITTEN_PROGRAM = """\
import json
from pathlib import Path

import pulumi_kubernetes as kubernetes

for item in json.loads(Path("objects.json").read_text()):
    name, metadata = f"{item['kind']}-{item['metadata']['name']}", item["metadata"]
    if item["kind"] == "Service":
        metadata["annotations"] = {"pulumi.com/skipAwait": "true"}
        kubernetes.core.v1.Service(name, metadata=metadata, spec=item["spec"])
        continue
    kubernetes.apiextensions.CustomResource(
        name, api_version=item["apiVersion"], kind=item["kind"], metadata=metadata,
        spec=item["spec"],
    )
"""
#: Seconds until a pod is ready.
READY_SECONDS = 2.0


@dataclass
class Times:
    """Seconds of each run of one program.

    Attributes:
        up: The first `up`, until all replicas are ready.
        again: An `up` without a change.
        preview: A `preview` without a change.
        resources: Number of Kubernetes resources in the stack.
        objects: Number of objects that `render` returns.
    """

    up: list[float] = field(default_factory=list)
    again: list[float] = field(default_factory=list)
    preview: list[float] = field(default_factory=list)
    resources: int = 0
    objects: int = 0


def measure(replicas: int, runs: int) -> tuple[Times, Times]:
    """Return the times of the component and of the hand-written program."""
    library, baseline = Times(), Times()
    with Cluster() as cluster, tempfile.TemporaryDirectory() as directory:
        cluster.add_nodes(4)
        _run(cluster, Path(directory), 1, Times(), by_hand=False)  # fills caches
        for _ in range(runs):
            for times, by_hand in ((library, False), (baseline, True)):
                _run(cluster, Path(directory), replicas, times, by_hand=by_hand)
    return library, baseline


def _run(cluster: Cluster, directory: Path, replicas: int, times: Times, *, by_hand: bool) -> None:
    namespace = cluster.new_namespace("bench")
    pods = role(replicas=replicas, behavior="slow", delay=f"{READY_SECONDS:g}s")
    stack = Stack(directory / namespace, cluster, namespace)
    manifest = stack.service(pods, wait={"timeout": "10m"})
    times.objects = len(_write(stack, manifest, by_hand=by_hand))

    def are_ready() -> bool:
        return stack.count_ready().get("serve") == replicas

    def up() -> None:
        stack.up().assert_succeeded()
        cluster.wait(are_ready, 600)

    times.up.append(_time(up))
    times.again.append(_time(lambda: stack.up().assert_succeeded()))
    preview = ("preview", "--expect-no-changes")
    times.preview.append(_time(lambda: stack.run(*preview).assert_succeeded()))
    kubernetes = [
        resource
        for resource in stack.read_resources()
        if resource["type"].startswith("kubernetes:")
    ]
    times.resources = len(kubernetes)
    cluster.delete_namespace(namespace, timeout=600)


def _write(stack: Stack, manifest: Mapping[str, Any], *, by_hand: bool) -> tuple[Any, ...]:
    (args,) = load(manifest)
    objects: tuple[Any, ...] = render(plan_service(args))
    if by_hand:
        (stack.folder / "objects.json").write_text(json.dumps(objects), encoding="utf-8")
        (stack.folder / "__main__.py").write_text(HAND_WRITTEN_PROGRAM, encoding="utf-8")
    else:
        stack.write(manifest)
    return objects


def _time(run: Callable[[], object]) -> float:
    started = time.monotonic()
    run()
    return time.monotonic() - started
