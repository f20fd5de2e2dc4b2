"""Run a cluster that serves tokens until Ctrl-C: `python -m e2e.serve`.

Real engines with a tiny model run behind a real endpoint picker and Envoy. No image registry or
model hub is needed.
"""

from __future__ import annotations

import argparse
import signal
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from e2e.harness.certificates import write_kubeconfig
from e2e.inputs import ROOT
from e2e.serve import engine, prerequisites, sandbox
from e2e.serve.deploy import apply, find_model_name, render_file
from e2e.serve.gateway import ROUTES, Gateway
from e2e.serve.load import complete
from e2e.serve.serving import Serving, start_serving

EXAMPLE = ROOT / "examples" / "qwen-monolithic" / "inference-service.yaml"
NAMESPACE = "default"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m e2e.serve", description=__doc__)
    parser.add_argument("service", nargs="?", type=Path, default=EXAMPLE, metavar="FILE",
                        help="an InferenceService with a router")  # fmt: skip
    parser.add_argument("--once", action="store_true", help="exit after the first response")
    args = parser.parse_args(argv)
    if sandbox.is_inside():
        return _run_inside(args.service, once=args.once)
    if status := prerequisites.main():
        return status
    if missing := [*prerequisites.list_missing_tools(), *engine.list_missing()]:
        print(*missing, sep="\n")
        return 2
    sockets = [sandbox.listen(), sandbox.listen()]
    command = [sys.executable, "-m", "e2e.serve", str(args.service.resolve())]
    return sandbox.run([*command, *(["--once"] if args.once else [])], sockets)


def _run_inside(service: Path, *, once: bool) -> int:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    gateway_socket, api_socket = sandbox.inherit_sockets()
    started = time.monotonic()
    try:
        print("starting the cluster and its node ...", flush=True)
        with start_serving() as running:
            print(f"ready after {time.monotonic() - started:.0f} s", flush=True)
            kubeconfig = _write_kubeconfig(running, api_socket)
            print(f"deploying {service} ...", flush=True)
            apply(running, service, NAMESPACE)
            model = find_model_name(render_file(service))
            (route,) = running.cluster.list(ROUTES, NAMESPACE)
            gateway = Gateway(running.cluster, NAMESPACE, route["metadata"]["name"])
            relay = sandbox.Relay(gateway_socket, ("127.0.0.1", gateway.port))
            answer = complete(gateway.url, model, "the quick brown fox", host=gateway.host)
            seconds = time.monotonic() - started
            print(_welcome(relay.port, gateway.host, model, kubeconfig, seconds), flush=True)
            print(f"First response: {answer['choices'][0]['text']!r}", flush=True)
            while not once:
                signal.pause()
    except KeyboardInterrupt:
        print("stopped")
    return 0


def _write_kubeconfig(running: Serving, listening: socket.socket) -> Path:
    plane = running.cluster.plane
    relay = sandbox.Relay(listening, ("127.0.0.1", int(plane.server.rsplit(":", 1)[1])))
    return write_kubeconfig(
        running.cluster.directory / "outside.kubeconfig",
        server=f"https://127.0.0.1:{relay.port}",
        authority=plane.certificates.authority,
        token=plane.tokens["admin"],
    )


def _welcome(port: int, host: str, model: str, kubeconfig: Path, seconds: float) -> str:
    return f"""\

Serving after {seconds:.0f} s.

    curl http://127.0.0.1:{port}/v1/completions -H 'Host: {host}' \\
      -H 'Content-Type: application/json' \\
      -d '{{"model": "{model}", "prompt": "the quick brown fox", "max_tokens": 16}}'

    export KUBECONFIG={kubeconfig}
    kubectl get pods

The weights are random, and so is the text. Ctrl-C deletes the cluster."""


if __name__ == "__main__":
    sys.exit(main())
