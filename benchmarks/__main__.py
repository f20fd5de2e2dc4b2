"""Prints the library's overhead over baselines: `python -m benchmarks [--check] [--quick]`."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks import building, component, inputs, starting

_BASELINE = "import pydantic, yaml"
_SERVICES = {
    "single-node replicas": inputs.build_single_node,
    "gang of 4-node replicas": inputs.build_gang,
}


@dataclass(frozen=True)
class Result:
    """One measured ratio.

    Attributes:
        what: What was measured, and its baseline.
        detail: The absolute numbers, which are valid only for this machine and this run.
        goal: Target for the ratio, or None if the ratio is only information.
        bound: Maximum for `--check`, well above the values on a busy machine.
    """

    what: str
    detail: str
    ratio: float
    goal: float | None = None
    bound: float | None = None


def measure_component(replicas: int, runs: int) -> Iterator[Result]:
    """Yield the component's time, compared with the same resources without the library."""
    for name, build in _SERVICES.items():
        library, baseline, ratio = component.compare(build(replicas), runs)
        what = f"component / bare resources, {replicas:,} {name}"
        yield Result(what, f"{library:.2f} s / {baseline:.2f} s", ratio, goal=1.2, bound=1.5)


def measure_building(sizes: tuple[int, ...], runs: int) -> Iterator[Result]:
    """Yield time and memory of planning and building, compared with `json.dumps`."""
    for replicas in sizes:
        for name, build in _SERVICES.items():
            library, baseline = building.measure_costs(build(replicas), runs)
            what = f"plan + build / JSON, {replicas:,} {name}"
            detail = f"{library.seconds * 1000:.0f} ms / {baseline.seconds * 1000:.0f} ms"
            yield Result(f"{what}: time", detail, library.seconds / baseline.seconds, 2, 3)
            detail = f"{library.bytes / 2**20:.1f} MiB / {baseline.bytes / 2**20:.1f} MiB"
            yield Result(f"{what}: peak memory", detail, library.bytes / baseline.bytes, 2, 3)


def measure_starting(runs: int, processes: Sequence[str]) -> Iterator[Result]:
    """Yield the time of processes, compared with the import of pydantic and PyYAML."""
    medians = starting.measure_medians(runs, processes)
    base = medians[_BASELINE]
    for name, seconds in medians.items():
        if name == _BASELINE:
            continue
        detail = f"{seconds * 1000:.0f} ms / {base * 1000:.0f} ms"
        goal, bound = starting.GOALS.get(name, (None, None))
        yield Result(f"{name} / {_BASELINE}", detail, seconds / base, goal, bound)


def measure_engine(replicas: int, runs: int) -> Iterator[Result]:
    """Yield the component's overhead on the Pulumi engine, if it is on PATH."""
    # Imports packages that only the end-to-end tests require.
    from benchmarks import engine  # noqa: PLC0415

    if engine.list_missing_programs():
        return
    library, baseline = engine.measure(replicas, runs)
    what = f"{replicas} replicas of one pod, Pulumi engine"
    yield Result(
        f"{what}: resources / objects rendered",
        f"{library.resources} / {library.objects}",
        library.resources / library.objects,
        goal=1,
        bound=1,
    )
    for name, goal, times, base in (
        ("first up until all replicas are ready", 1.5, library.up, baseline.up),
        ("up without a change", 1.3, library.again, baseline.again),
        ("preview without a change", 1.3, library.preview, baseline.preview),
    ):
        detail = f"{min(times):.1f} s / {min(base):.1f} s"
        yield Result(f"{what}: {name} / by hand", detail, min(times) / min(base), goal, 2 * goal)


def measure_all(*, quick: bool) -> Iterator[Result]:
    """Yield all results; `quick` uses tiny sizes, to test the benchmarks themselves."""
    yield from measure_building((20,) if quick else (1_000, 10_000), 1 if quick else 5)
    for replicas in (20,) if quick else (100, 1_000):
        yield from measure_component(replicas, 1 if quick else 5)
    if quick:
        yield from measure_starting(0, [_BASELINE, *list(starting.GOALS)[:1]])
    else:
        yield from measure_starting(11, [*starting.PROCESSES])
        yield from measure_engine(100, 3)


def main(arguments: list[str] | None = None) -> int:
    """Print the ratios; with `--check`, fail if one is above its bound."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail if a ratio is above its bound")
    parser.add_argument(
        "--quick", action="store_true", help="use tiny sizes, to test the benchmarks"
    )
    options = parser.parse_args(arguments)
    # Warnings about the measured services are not results.
    logging.disable(logging.WARNING)
    above_bound = 0
    for result in measure_all(quick=options.quick):
        goal = "" if result.goal is None else f"goal {result.goal:g}"
        print(f"{result.ratio:6.2f}  {goal:8}  {result.what}  ({result.detail})", flush=True)
        above_bound += result.bound is not None and result.ratio > result.bound
    if options.check and above_bound:
        print(f"{above_bound} above the bound")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
