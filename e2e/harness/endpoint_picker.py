"""A real endpoint picker with only the permissions of its ServiceAccount."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import grpc
import urllib3

from e2e.catalog import program
from e2e.harness.cluster import Cluster
from e2e.harness.control_plane import PROGRAMS, format_arguments
from e2e.harness.processes import LOOPBACK, Lifetime, Program, ProgramFailedError, find_ports

HEALTH_METHOD = "/grpc.health.v1.Health/Check"
SERVING = b"\x08\x01"
"""The encoded response `status: SERVING`; the request is an empty message. Generated code would
need the protobuf version that Pulumi's SDK allows."""


class EndpointPicker(Lifetime):
    """Context manager that starts an endpoint picker without waiting for it.

    `wait_serving` raises if the picker rejects its configuration.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        version: str,
        namespace: str,
        pool: str,
        account: str,
        config: str,
        flags: Sequence[str] = (),
        executable: Path | None = None,
    ) -> None:
        self.grpc_port, self.health_port, self.metrics_port = find_ports(3)
        self._cluster = cluster
        self._tool = f"epp-{version}"
        self._namespace = namespace
        self._pool = pool
        self._account = account
        self._config = config
        self._flags = flags
        self._executable = executable
        self._program: Program | None = None

    def open(self) -> None:
        name = f"{self._tool}-{self._namespace}-{self._pool}-{self.grpc_port}"
        config = self._cluster.directory / f"{name}.yaml"
        config.write_text(self._config, encoding="utf-8")
        subject = f"system:serviceaccount:{self._namespace}:{self._account}"
        self._program = self._cluster.programs.start(
            name,
            [
                self._executable or program(self._tool, "epp"),
                *format_arguments(
                    "epp",
                    pool=self._pool,
                    namespace=self._namespace,
                    config=config,
                    grpc=self.grpc_port,
                    health=self.health_port,
                    metrics=self.metrics_port,
                ),
                *PROGRAMS["epp defaults"],
                *self._flags,
            ],
            env={"KUBECONFIG": str(self._cluster.kubeconfig_for(subject))},
        )

    def close(self) -> None:
        self._cluster.programs.stop(self.program.name)

    @property
    def program(self) -> Program:
        if self._program is None:
            raise ValueError("the endpoint picker is not running; use it as a context manager")
        return self._program

    def is_serving(self) -> bool:
        """Return whether the picker has synced its pool and its health service reports SERVING."""
        with grpc.insecure_channel(f"{LOOPBACK}:{self.health_port}") as channel:
            check: Any = channel.unary_unary(HEALTH_METHOD)
            try:
                return bytes(check(b"", timeout=2)) == SERVING
            except grpc.RpcError:
                return False

    def wait_serving(self, timeout: float = 60) -> None:
        """Wait until the picker is serving.

        Raises:
            ProgramFailedError: If it exits, or is not serving within `timeout` seconds.
        """
        deadline = time.monotonic() + timeout
        while not self.is_serving():
            self.program.check()
            if time.monotonic() >= deadline:
                raise ProgramFailedError(
                    f"{self.program.name} was not serving in {timeout:g} s; "
                    f"its log ends:\n{self.program.tail()}"
                )
            time.sleep(0.1)

    def metrics(self) -> str:
        url = f"http://{LOOPBACK}:{self.metrics_port}/metrics"
        with urllib3.PoolManager(retries=False, timeout=5) as pool:
            return pool.request("GET", url).data.decode()
