"""Times a service on real components, from apply to scheduled: `python -m benchmarks.cluster`.

Requires the tools of `python -m e2e.build_tools`. All sizes run one after the other on one cluster,
because only their ratios are comparable between machines.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from e2e import inputs
from e2e.harness import Cluster
from fusioninfer_pulumi.component.status import is_ready

SIZES = (1, 10, 100, 500)
#: `minRoleReplicas` of the service: None requires all replicas.
GANGS: dict[str, dict[str, int] | None] = {"all-or-nothing": None, "partial": {"inference": 1}}
PODS = 2
"""Pods of a replica: a leader and a worker, one accelerator each."""
ACCELERATORS = 100
"""Accelerators of a node: many, so that there are few nodes and mainly pods are measured."""
BUSY = ("kube-apiserver", "volcano", "lws", "kube-controller-manager")
PARALLEL = 8
"""Parallel requests: Pulumi's default on two cores."""
POLL_SECONDS = 0.5


@dataclass(frozen=True)
class Measurement:
    """The measurement of one service.

    Attributes:
        gang: Key of GANGS.
        replicas: Number of replicas.
        stored: Seconds until the API server has stored all rendered objects.
        created: Seconds until all pods exist.
        scheduled: Seconds until all pods have a node.
        available: Seconds until all LeaderWorkerSets are ready.
        requests: Requests to the API server, by all clients.
        cpu: Seconds of processor time of each program in BUSY.
    """

    gang: str
    replicas: int
    stored: float
    created: float
    scheduled: float
    available: float
    requests: int
    cpu: dict[str, float]


def measure(cluster: Cluster, gang: str, replicas: int) -> Measurement:
    """Create one service, measure it and delete it.

    Args:
        cluster: The cluster.
        gang: Key of GANGS.
        replicas: Number of replicas, each of PODS pods.

    Returns:
        The measurement.
    """
    role = inputs.role("inference", "worker", replicas, PODS, gpus=1)
    plan = inputs.build_plan(inputs.service("bench", role, minimum=GANGS[gang]))
    namespace = cluster.new_namespace("bench")
    objects = inputs.with_namespace(inputs.render_objects(plan), namespace)
    nodes = cluster.add_nodes(-(-replicas * PODS // ACCELERATORS) + 1, gpus=ACCELERATORS)
    cluster.wait_scheduling_cycles(3)
    cpu, requests, started = _read_cpu(cluster), _count_requests(cluster), time.monotonic()

    def wait_until(done: Callable[[], bool]) -> float:
        while not done():
            time.sleep(POLL_SECONDS)
        return time.monotonic() - started

    first, *rest = objects  # the PodGroup must exist before objects that refer to it
    cluster.apply([first])
    with ThreadPoolExecutor(PARALLEL) as pool:
        list(pool.map(lambda manifest: cluster.apply([manifest]), rest))
    measured = Measurement(
        gang,
        replicas,
        stored=time.monotonic() - started,
        created=wait_until(lambda: len(cluster.pods(namespace)) == plan.total_pods),
        scheduled=wait_until(lambda: len(cluster.bound_pods(namespace)) == plan.total_pods),
        available=wait_until(lambda: _count_available(cluster, namespace) == replicas),
        requests=_count_requests(cluster) - requests,
        cpu={name: used - cpu[name] for name, used in _read_cpu(cluster).items()},
    )
    cluster.delete_namespace(namespace, timeout=600)
    cluster.remove_nodes(nodes, evict=False)
    cluster.wait(lambda: not cluster.exists("v1/Namespace", namespace), 600)
    return measured


def _count_available(cluster: Cluster, namespace: str) -> int:
    return sum(map(is_ready, cluster.list("LeaderWorkerSet", namespace)))


def _count_requests(cluster: Cluster) -> int:
    """Return the requests so far, without watches and without this program's own lists."""
    own_lists = ('resource="pods"', 'resource="leaderworkersets"')
    total = 0.0
    for line in cluster.text("/metrics").splitlines():
        if not line.startswith("apiserver_request_total{") or 'verb="WATCH"' in line:
            continue
        if 'verb="LIST"' in line and any(resource in line for resource in own_lists):
            continue
        total += float(line.rpartition(" ")[2])
    return int(total)


def _read_cpu(cluster: Cluster) -> dict[str, float]:
    ticks = os.sysconf("SC_CLK_TCK")
    used = {}
    for name in BUSY:
        stat = Path(f"/proc/{cluster.programs.running[name].pid}/stat").read_text(encoding="ascii")
        user, system = stat.rpartition(")")[2].split()[11:13]
        used[name] = (int(user) + int(system)) / ticks
    return used


def render_table(results: list[Measurement]) -> Iterator[str]:
    """Yield the results as a Markdown table."""
    yield (
        "| Gang | Replicas | Pods | Stored | Pods exist | Scheduled | Available | Requests "
        "| per replica | API server | Volcano | LWS | Controllers |"
    )
    yield "|---|" + "---:|" * 12
    for result in results:
        seconds = (result.stored, result.created, result.scheduled, result.available)
        cells = [result.gang, f"{result.replicas}", f"{result.replicas * PODS}"]
        cells += [f"{value:.1f} s" for value in seconds]
        cells += [f"{result.requests}", f"{result.requests / result.replicas:.0f}"]
        cells += [f"{result.cpu[name]:.1f} s" for name in BUSY]
        yield f"| {' | '.join(cells)} |"


def render_growth(results: list[Measurement]) -> Iterator[str]:
    """Yield how costs per replica change with the number of replicas; x1.00 is linear growth."""
    for gang in GANGS:
        rows = [row for row in results if row.gang == gang and row.replicas > 1]
        for small, large in itertools.pairwise(rows):
            factor = large.replicas / small.replicas
            ratios = {
                "requests": large.requests / small.requests,
                "time to scheduled": large.scheduled / small.scheduled,
                "API server": large.cpu[BUSY[0]] / max(small.cpu[BUSY[0]], 0.01),
                "Volcano": large.cpu[BUSY[1]] / max(small.cpu[BUSY[1]], 0.01),
            }
            text = ", ".join(f"{name} x{ratio / factor:.2f}" for name, ratio in ratios.items())
            yield f"- {gang}, {small.replicas} to {large.replicas} replicas, per replica: {text}"


def main(arguments: list[str] | None = None) -> int:
    """Measure all sizes and print them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster", description=__doc__)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="replicas, by commas")
    options = parser.parse_args(arguments)
    sizes = [int(size) for size in options.sizes.split(",")]
    results: list[Measurement] = []
    with Cluster() as cluster:
        measure(cluster, "all-or-nothing", 1)  # the first service is slow: caches are empty
        for gang in GANGS:
            for replicas in sizes:
                print(f"{gang}, {replicas} replicas ...", file=sys.stderr, flush=True)
                results.append(measure(cluster, gang, replicas))
    print("\n".join([*render_table(results), "", *render_growth(results)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
