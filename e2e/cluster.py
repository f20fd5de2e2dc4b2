"""A local cluster to play with: `python -m e2e.cluster`, until Ctrl-C."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence

from e2e.harness import Cluster
from e2e.harness.stages import BEHAVIOUR


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m e2e.cluster", description=__doc__)
    parser.add_argument("--nodes", default=10, type=int, metavar="COUNT")
    parser.add_argument("--gpus", default=8, type=int, metavar="COUNT", help="of each node")
    args = parser.parse_args(argv)
    # Like Ctrl-C: the context manager below ends everything.
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

Pods become ready when they are bound. Their label or annotation {BEHAVIOUR} changes that:
slow, failing, crashing, unpullable. Gangs name schedulerName volcano.
Logs: {cluster.programs.directory}
Ctrl-C ends the cluster and removes all of it."""


if __name__ == "__main__":
    sys.exit(main())
