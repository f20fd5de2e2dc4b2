"""A Kubernetes cluster on loopback, with real programs and simulated nodes."""

from __future__ import annotations

import itertools
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from http import HTTPStatus
from pathlib import Path
from typing import Any

import urllib3

from e2e.harness import components as parts
from e2e.harness.api import ApiError, Client
from e2e.harness.certificates import create_certificates, write_kubeconfig
from e2e.harness.control_plane import (
    API_SERVER_IP,
    ControlPlane,
    prepare_control_plane,
    start_api_server,
    start_controller_manager,
    start_etcd,
)
from e2e.harness.pods import is_condition_true
from e2e.harness.processes import LOOPBACK, Lifetime, Programs, find_ports
from e2e.harness.resources import Object, read_objects

LOGS_VARIABLE = "FUSIONINFER_E2E_LOGS"
"""Environment variable with a folder for logs, which are otherwise deleted with the cluster."""

CYCLES_METRIC = "volcano_e2e_scheduling_latency_milliseconds_count"


class Cluster(Lifetime, Client):
    """A cluster and its administrator's client; use it as a context manager.

    Leaving the context kills all programs; the kernel does so if this process is killed.
    """

    def __init__(
        self,
        components: Collection[str] = parts.COMPONENTS,
        *,
        lws: str = "lws-0.9",
        kubernetes: str = "kubernetes",
        plugins: Sequence[str] = (),
        gates: Mapping[str, bool] | None = None,
        arguments: Mapping[str, Mapping[str, Any]] | None = None,
        address: str | None = None,
    ) -> None:
        """Configure the cluster without starting it.

        Args:
            components: Components besides etcd, API server and controllers, from COMPONENTS and
                KUEUE.
            lws: LWS release, by its name in the tool catalog.
            kubernetes: Kubernetes release, by its name in the tool catalog.
            plugins: Additional plugins of Volcano's scheduler.
            gates: Kubernetes feature gates to set.
            arguments: Arguments of Volcano's scheduler plugins, by plugin.
            address: Address of the API server for real pods (`e2e.serve`).
        """
        known = parts.COMPONENTS | {parts.KUEUE}
        unknown = set(components) - known
        if unknown:
            raise ValueError(f"no components {sorted(unknown)}: {sorted(known)}")
        self.components = frozenset(components)
        self.startup_seconds = 0.0
        self._lws = lws
        self._kubernetes = kubernetes
        self._plugins = tuple(plugins)
        self._gates = dict(gates or {})
        self._arguments = arguments
        self._address = address
        self._counter = itertools.count(1)
        self._stack = ExitStack()

    def open(self) -> None:
        started = time.monotonic()
        with ExitStack() as stack:
            self.directory = Path(tempfile.mkdtemp(prefix="fusioninfer-e2e-"))
            stack.callback(shutil.rmtree, self.directory, ignore_errors=True)
            self._ports = iter(find_ports(10))
            addresses = [self._address, API_SERVER_IP] if self._address else []
            certificates = create_certificates(self.directory / "certificates", addresses)
            port = next(self._ports)
            self._plane = prepare_control_plane(
                self.directory, certificates, port, self._address, self._kubernetes, self._gates
            )
            super().__init__(
                self._plane.server, certificates.authority, self._plane.tokens["admin"]
            )
            self.programs = Programs(self._log_directory())
            stack.enter_context(self.programs)
            self._start()
            self._stack = stack.pop_all()  # Starting succeeded, so close() cleans up instead.
        self.startup_seconds = time.monotonic() - started

    def close(self) -> None:
        """Kill all programs and delete all files; a second call does nothing."""
        self._stack.close()

    @property
    def kubeconfig(self) -> Path:
        return self._plane.kubeconfig("admin")

    @property
    def plane(self) -> ControlPlane:
        return self._plane

    def _log_directory(self) -> Path:
        root = os.environ.get(LOGS_VARIABLE)
        folder = Path(root).resolve() / self.directory.name if root else self.directory / "logs"
        folder.mkdir(parents=True)
        return folder

    def _take_ports(self, count: int) -> list[int]:
        return list(itertools.islice(self._ports, count))

    def _start(self) -> None:
        plane, programs = self._plane, self.programs
        etcd = start_etcd(programs, self.directory, *self._take_ports(2))
        start_api_server(programs, plane, etcd)
        definitions = parts.read_definitions(self._lws)
        kueue_ports: list[int] = []
        if parts.KUEUE in self.components:
            kueue_ports = self._take_ports(2)
            authority = plane.certificates.authority.read_bytes()
            definitions += parts.read_kueue_definitions(kueue_ports[0], authority)
        self.install_kinds(definitions)
        # The garbage collector discovers new kinds only every 30 s and until then does not delete
        # the dependents of a LeaderWorkerSet, so the kinds are installed first.
        start_controller_manager(programs, plane)
        wait_functions: list[parts.Wait] = []
        if parts.LWS in self.components:
            ports = self._take_ports(2)
            wait_functions.append(parts.start_lws(programs, plane, self, ports, self._lws))
        if parts.VOLCANO in self.components:
            ports = self._take_ports(2)
            self._volcano_metrics = ports[1]
            started = parts.start_volcano(
                programs, plane, self, ports, self._plugins, self._arguments
            )
            wait_functions.append(started)
        if parts.KUEUE in self.components:
            wait_functions.append(parts.start_kueue(programs, plane, self, kueue_ports))
        if parts.KUBE_SCHEDULER in self.components:
            wait_functions.append(parts.start_kube_scheduler(programs, plane))
        if parts.KWOK in self.components:
            wait_functions.append(parts.start_kwok(programs, plane, self._take_ports(1)))
        for wait in wait_functions:
            wait()
        self._wait_for_account("default")
        programs.check()

    def install_kinds(self, definitions: Sequence[Object]) -> None:
        """Create CustomResourceDefinitions and wait until they are established."""

        def install(definition: Object) -> None:
            try:
                self.create(definition)
            except ApiError as error:
                if error.status != HTTPStatus.CONFLICT:
                    raise
                self.apply([definition])

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(install, definitions))

        def find_unestablished() -> list[str]:
            return [
                kind["metadata"]["name"]
                for kind in self.list("CustomResourceDefinition")
                if not is_condition_true(kind, "Established")
            ]

        self.wait(lambda: not find_unestablished(), message=find_unestablished)

    def _wait_for_account(self, namespace: str) -> None:
        # Admission rejects pods until the default ServiceAccount of their namespace exists.
        self.wait(
            lambda: self.exists("v1/ServiceAccount", "default", namespace),
            message=lambda: f"ServiceAccount default in {namespace}\n{self.log_tails()}",
        )

    def log_tails(self, lines: int = 25) -> str:
        """Return the last lines of each program's log."""
        return "\n".join(f"--- {p.name}\n{p.tail(lines)}" for p in self.programs.running.values())

    def new_namespace(self, prefix: str = "e2e") -> str:
        """Create a namespace with a unique name and wait until it accepts pods."""
        name = f"{prefix}-{next(self._counter)}-{secrets.token_hex(2)}"
        self.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        self._wait_for_account(name)
        return name

    def delete_namespace(self, name: str, timeout: float = 60) -> None:
        """Delete a namespace, and wait until its pods and PodGroups are deleted.

        The namespace itself disappears some seconds later.
        """
        self.delete("v1/Namespace", name)
        # A terminating namespace accepts no new objects, so controllers cannot recreate these. The
        # namespace controller would start only after 5 s.
        for kind in ("scheduling.volcano.sh/v1beta1/PodGroup", "v1/Pod"):
            self._delete_all(self.resource(kind).path(None, name), timeout)
        self.wait(lambda: not self.pods(name), timeout, lambda: f"pods left in {name}")

    def _delete_all(self, path: str, timeout: float) -> None:
        """Delete a collection, repeatedly, because the server aborts requests after a minute."""

        def is_deleted() -> bool:
            try:
                self.request("DELETE", path, {"gracePeriodSeconds": 0})
            except urllib3.exceptions.HTTPError:
                return False
            except ApiError as rejected:
                if rejected.status != HTTPStatus.GATEWAY_TIMEOUT:
                    raise
                return False
            return True

        self.wait(is_deleted, timeout, lambda: f"deletion of {path}")

    def count_cycles(self) -> int:
        """Return the number of scheduling cycles that Volcano has completed."""
        url = f"http://{LOOPBACK}:{self._volcano_metrics}/metrics"
        text = urllib3.request("GET", url, timeout=10).data.decode()
        (line,) = (line for line in text.splitlines() if line.startswith(CYCLES_METRIC))
        return int(line.split()[1])

    def wait_scheduling_cycles(self, cycles: int = 5, timeout: float = 120) -> None:
        """Wait for this many scheduling cycles of Volcano.

        Pods that are pending afterwards stay pending until the cluster changes.
        """
        target = self.count_cycles() + cycles
        self.wait(lambda: self.count_cycles() >= target, timeout, "scheduling cycles")

    def kubeconfig_for(self, subject: str) -> Path:
        """Write a kubeconfig for another user.

        Args:
            subject: The user. `system:serviceaccount:NAMESPACE:NAME` gets a token of that account
                from the API server; other users are impersonated.
        """
        token, impersonate = self._get_credentials(subject)
        return write_kubeconfig(
            self.directory / f"{next(self._counter)}.kubeconfig",
            server=self.server,
            authority=self._plane.certificates.authority,
            token=token,
            impersonate=impersonate,
        )

    def client_for(self, subject: str) -> Client:
        """Return a client for another user; see `kubeconfig_for`."""
        token, impersonate = self._get_credentials(subject)
        authority = self._plane.certificates.authority
        return Client(self.server, authority, token, impersonate=impersonate)

    def _get_credentials(self, subject: str) -> tuple[str, str | None]:
        if not subject.startswith("system:serviceaccount:"):
            return self._plane.tokens["admin"], subject
        namespace, name = subject.split(":")[2:]
        return self.token_for(namespace, name), None

    def token_for(self, namespace: str, account: str) -> str:
        path = self.resource("v1/ServiceAccount").path(account, namespace, "token")
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        return str(self.request("POST", path, request)["status"]["token"])

    def add_nodes(
        self,
        count: int,
        gpus: int = 8,
        *,
        accelerator: str = "nvidia.com/gpu",
        labels: Mapping[str, str] | None = None,
        taints: Sequence[Mapping[str, str]] = (),
        prefix: str = "node",
    ) -> list[str]:
        """Add ready nodes with `gpus` accelerators each; return their names."""
        names = [f"{prefix}-{next(self._counter)}" for _ in range(count)]
        nodes = [_make_node(name, gpus, accelerator, labels or {}, taints) for name in names]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(self.create, nodes))
        return names

    def remove_nodes(self, names: Iterable[str], *, evict: bool = True) -> None:
        """Delete nodes, if they exist.

        Args:
            names: Names of the nodes.
            evict: Also delete their pods, as the pod garbage collector does after a minute.
        """
        deleted = set(names)
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda name: self.delete("v1/Node", name), deleted))
        if evict:
            for pod in self.list("v1/Pod"):
                if pod["spec"].get("nodeName") in deleted:
                    meta = pod["metadata"]
                    self.delete("v1/Pod", meta["name"], meta["namespace"], now=True)


def _make_node(
    name: str,
    gpus: int,
    accelerator: str,
    labels: Mapping[str, str],
    taints: Sequence[Mapping[str, str]],
) -> Object:
    """Return a ready node with ample resources other than accelerators."""
    (node,) = read_objects("node", name=name, taints=[dict(taint) for taint in taints])
    node["metadata"]["labels"] |= labels
    for key in ("capacity", "allocatable"):
        node["status"][key] |= {accelerator: str(gpus)} if gpus else {}
    return node
