"""The component against an empty one that registers the same typed resources, under mocks."""

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
from fusioninfer_pulumi.component import (
    InferenceService,
    KubernetesObject,
    LeaderWorkerSet,
    PodGroup,
)


class _Cluster(pulumi.runtime.Mocks):
    """Mocks that store every object unchanged."""

    def __init__(self) -> None:
        self.registered = 0

    def new_resource(self, args: pulumi.runtime.MockResourceArgs) -> tuple[str | None, Any]:
        self.registered += 1
        return args.name, args.inputs

    def call(self, args: pulumi.runtime.MockCallArgs) -> Any:
        raise NotImplementedError(args.token)


@contextlib.contextmanager
def _loops() -> Iterator[asyncio.AbstractEventLoop]:
    """Yields an event loop whose threads have loops too, as Pulumi's mocks need, and closes all."""
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


def seconds(program: Callable[[], object]) -> tuple[float, int]:
    """Runs a program under mocks.

    Returns:
        Processor time of the whole run, and how many resources it registered.
    """
    cluster = _Cluster()

    def session() -> float:
        def body() -> None:
            program()

        async def main() -> None:
            mocks.set_mocks(cluster, project="bench", stack="bench")
            await stack.run_pulumi_func(body)
            while others := asyncio.all_tasks() - {asyncio.current_task()}:
                await asyncio.gather(*others)

        with _loops() as loop:
            gc.collect()
            began = time.process_time()
            loop.run_until_complete(main())
            return time.process_time() - began

    return contextvars.copy_context().run(session), cluster.registered


def empty(args: InferenceServiceArgs) -> Callable[[], object]:
    """Returns a program that registers the same resources under an empty component.

    Without dependencies between them, which the SDK looks up one by one.
    """
    manifests = render(plan_service(args))
    kinds: dict[str, type[KubernetesObject]] = {
        "LeaderWorkerSet": LeaderWorkerSet,
        "PodGroup": PodGroup,
    }

    def program() -> None:
        parent = pulumi.ComponentResource("bench:index:Empty", "bench")
        for manifest in manifests:
            make = kinds.get(manifest["kind"], KubernetesObject)
            make(manifest["metadata"]["name"], manifest, pulumi.ResourceOptions(parent=parent))
        parent.register_outputs({})

    return program


def ratio(args: InferenceServiceArgs, runs: int) -> tuple[float, float, float]:
    """Compares the two programs.

    Args:
        args: The service.
        runs: Runs of each, which take turns.

    Returns:
        Fastest seconds of the component, of the empty one, and their ratio.
    """
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(runs):
        for program, times in (
            (lambda: InferenceService("bench", args), ours),
            (empty(args), theirs),
        ):
            taken, registered = seconds(program)
            assert registered == _registered(args), "both register the same"
            times.append(taken)
    return min(ours), min(theirs), min(ours) / min(theirs)


def _registered(args: InferenceServiceArgs) -> int:
    """Counts the objects and the component itself."""
    return len(render(plan_service(args))) + 1
