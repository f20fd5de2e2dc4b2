"""A local cluster to play with: `python -m e2e.cluster`, until Ctrl-C."""

from __future__ import annotations

import argparse
import re
import signal
import sys
from collections.abc import Sequence

from e2e.harness import Cluster
from e2e.harness.stages import BEHAVIOUR


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m e2e.cluster", description=__doc__)
    parser.add_argument(
        "--nodes", default="10x8", type=_nodes, metavar="COUNTxGPUS", help="default: 10x8"
    )
    args = parser.parse_args(argv)
    count, gpus = args.nodes
    # Like Ctrl-C: the context manager below ends everything.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        print("starting ...", flush=True)
        with Cluster() as cluster:
            cluster.add_nodes(count, gpus)
            print(_welcome(cluster, count, gpus), flush=True)
            while True:
                signal.pause()
    except KeyboardInterrupt:
        print("stopped")
    return 0


def _nodes(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d+)x(\d+)", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not like 10x8 (nodes x GPUs a node)")
    return int(match.group(1)), int(match.group(2))


def _welcome(cluster: Cluster, count: int, gpus: int) -> str:
    return f"""\
Ready after {cluster.startup_seconds:.1f} s: {count} nodes with {gpus} GPUs each; running \
{", ".join(sorted(cluster.components))}.

    export KUBECONFIG={cluster.kubeconfig}
    kubectl get nodes

Pods become ready when they are bound. Their label or annotation {BEHAVIOUR} changes that:
slow, failing, crashing, unpullable. Gangs name schedulerName volcano.
Logs: {cluster.programs.directory}
Ctrl-C ends the cluster and removes all of it."""


if __name__ == "__main__":
    sys.exit(main())
