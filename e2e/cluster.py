"""Run a local cluster until Ctrl-C: `python -m e2e.cluster`."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence

from e2e.harness import Cluster
from e2e.harness.stages import BEHAVIOR


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m e2e.cluster", description=__doc__)
    parser.add_argument("--nodes", default=10, type=int, metavar="COUNT")
    parser.add_argument("--gpus", default=8, type=int, metavar="COUNT", help="per node")
    args = parser.parse_args(argv)
    # As Ctrl-C: leave the context manager below.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        print("starting ...", flush=True)
        with Cluster() as cluster:
            cluster.add_nodes(args.nodes, args.gpus)
            print(_welcome(cluster, args.nodes, args.gpus), flush=True)
            while True:
                signal.pause()
    except KeyboardInterrupt:
        print("stopped")
    return 0


def _welcome(cluster: Cluster, count: int, gpus: int) -> str:
    return f"""\
Ready after {cluster.startup_seconds:.1f} s: {count} nodes with {gpus} GPUs each; running \
{", ".join(sorted(cluster.components))}.

    export KUBECONFIG={cluster.kubeconfig}
    kubectl get nodes

Bound pods become ready unless their label or annotation {BEHAVIOR} is
slow, failing, crashing or unpullable. Gangs need schedulerName volcano.
Logs: {cluster.programs.directory}
Ctrl-C deletes the cluster."""


if __name__ == "__main__":
    sys.exit(main())
