"""Compares the component with an empty component that has the same resources, with mocks."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import gc
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pulumi
from pulumi.runtime import mocks, stack

from fusioninfer_pulumi import InferenceServiceArgs, plan_service, render
from fusioninfer_pulumi.component.inference_service import InferenceService
from fusioninfer_pulumi.component.kubernetes_objects import (
    KubernetesObject,
    LeaderWorkerSet,
    PodGroup,
)


class _Cluster(pulumi.runtime.Mocks):
    """Mocks that return the inputs of each resource as its outputs, and count resources."""

    def __init__(self) -> None:
        self.registered = 0

    def new_resource(self, args: pulumi.runtime.MockResourceArgs) -> tuple[str | None, Any]:
        self.registered += 1
        return args.name, args.inputs

    def call(self, args: pulumi.runtime.MockCallArgs) -> Any:
        raise NotImplementedError(args.token)


@contextlib.contextmanager
def _open_loops() -> Iterator[asyncio.AbstractEventLoop]:
    """Yield an event loop whose threads have loops too, as Pulumi's mocks need, and close all."""
    loops = [asyncio.new_event_loop()]

    def start() -> None:
        loops.append(asyncio.new_event_loop())
        asyncio.set_event_loop(loops[-1])

    executor = ThreadPoolExecutor(max_workers=4, initializer=start)
    loops[0].set_default_executor(executor)
    asyncio.set_event_loop(loops[0])
    try:
        yield loops[0]
    finally:
        executor.shutdown()
        asyncio.set_event_loop(None)
        for loop in loops:
            loop.close()


def time_program(program: Callable[[], object]) -> tuple[float, int]:
    """Run a program with mocks.

    Returns:
        Processor time of the whole run, and the number of registered resources.
    """
    cluster = _Cluster()

    def session() -> float:
        def body() -> None:
            program()

        async def main() -> None:
            mocks.set_mocks(cluster, project="bench", stack="bench")
            await stack.run_pulumi_func(body)
            while other_tasks := asyncio.all_tasks() - {asyncio.current_task()}:
                await asyncio.gather(*other_tasks)

        with _open_loops() as loop:
            gc.collect()
            began = time.process_time()
            loop.run_until_complete(main())
            return time.process_time() - began

    return contextvars.copy_context().run(session), cluster.registered


def build_baseline(args: InferenceServiceArgs) -> Callable[[], object]:
    """Return a program that registers the same resources under an empty component.

    They have no `depends_on`, whose resolution takes the SDK time.
    """
    manifests = render(plan_service(args))
    kinds: dict[str, type[KubernetesObject]] = {
        "LeaderWorkerSet": LeaderWorkerSet,
        "PodGroup": PodGroup,
    }

    def program() -> None:
        parent = pulumi.ComponentResource("bench:index:Empty", "bench")
        for manifest in manifests:
            resource_class = kinds.get(manifest["kind"], KubernetesObject)
            resource_class(
                manifest["metadata"]["name"], manifest, pulumi.ResourceOptions(parent=parent)
            )
        parent.register_outputs({})

    return program


def compare(args: InferenceServiceArgs, runs: int) -> tuple[float, float, float]:
    """Compare the two programs.

    Args:
        args: The service.
        runs: Runs of each, in alternation.

    Returns:
        Minimum seconds of the component and of the empty one, and their ratio.
    """
    library: list[float] = []
    baseline: list[float] = []
    for _ in range(runs):
        for program, times in (
            (lambda: InferenceService("bench", args), library),
            (build_baseline(args), baseline),
        ):
            used, registered = time_program(program)
            assert registered == _count_resources(args), "both register the same"
            times.append(used)
    return min(library), min(baseline), min(library) / min(baseline)


def _count_resources(args: InferenceServiceArgs) -> int:
    """Count the objects and the component itself."""
    return len(render(plan_service(args))) + 1
