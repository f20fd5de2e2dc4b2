"""A Kubernetes cluster on loopback, made of the real programs and fake nodes."""

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
    FIRST_SERVICE,
    ControlPlane,
    prepare,
    start_api_server,
    start_controller_manager,
    start_etcd,
)
from e2e.harness.pods import is_condition_true
from e2e.harness.processes import LOOPBACK, Lifetime, Programs, free_ports
from e2e.harness.resources import Object

LOGS_VARIABLE = "FUSIONINFER_E2E_LOGS"
"""Names a folder that keeps the logs of every cluster; without it they go with the cluster."""

CYCLES = "volcano_e2e_scheduling_latency_milliseconds_count"


class Cluster(Lifetime, Client):
    """A running cluster: a client in the name of its administrator, and its life.

    Use it as a context manager. Leaving the context ends every program by its process id; the
    kernel does so if this process is killed.
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
        """Decide what will run; nothing is started yet.

        Args:
            components: Which of COMPONENTS, and Kueue, to start with etcd, API server and
                controllers.
            lws: Which LWS of the tool catalog to run.
            kubernetes: Which Kubernetes of the tool catalog to run.
            plugins: Plugins of Volcano's scheduler in addition to the usual ones.
            gates: Feature gates of Kubernetes that are not as they are by default.
            arguments: Arguments of the plugins of Volcano's scheduler, by plugin.
            address: Where pods reach the API server, if any run; see `e2e.serve`.
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
            self._ports = iter(free_ports(10))
            reached = [self._address, FIRST_SERVICE] if self._address else []
            certificates = create_certificates(self.directory / "certificates", reached)
            port = next(self._ports)
            self._plane = prepare(
                self.directory, certificates, port, self._address, self._kubernetes, self._gates
            )
            super().__init__(
                self._plane.server, certificates.authority, self._plane.tokens["admin"]
            )
            self.programs = Programs(self._log_directory())
            stack.enter_context(self.programs)
            self._start()
            self._stack = stack.pop_all()  # all went well: what was begun ends with close()
        self.startup_seconds = time.monotonic() - started

    def close(self) -> None:
        """End all programs and remove all files; a second call does nothing."""
        self._stack.close()

    @property
    def kubeconfig(self) -> Path:
        return self._plane.kubeconfig("admin")

    @property
    def plane(self) -> ControlPlane:
        """What other programs need to know to join."""
        return self._plane

    def _log_directory(self) -> Path:
        kept = os.environ.get(LOGS_VARIABLE)
        folder = Path(kept).resolve() / self.directory.name if kept else self.directory / "logs"
        folder.mkdir(parents=True)
        return folder

    def _take_ports(self, count: int) -> list[int]:
        return list(itertools.islice(self._ports, count))

    def _start(self) -> None:
        plane, programs = self._plane, self.programs
        etcd = start_etcd(programs, self.directory, *self._take_ports(2))
        start_api_server(programs, plane, etcd)
        definitions = parts.custom_resource_definitions(self._lws)
        kueue_ports: list[int] = []
        if parts.KUEUE in self.components:
            kueue_ports = self._take_ports(2)
            authority = plane.certificates.authority.read_bytes()
            definitions += parts.kueue_definitions(kueue_ports[0], authority)
        self.install_kinds(definitions)
        # After the kinds: the garbage collector looks for new ones every 30 s only, and until then
        # leaves behind what a deleted LeaderWorkerSet owned.
        start_controller_manager(programs, plane)
        waits: list[parts.Ready] = []
        if parts.LWS in self.components:
            ports = self._take_ports(2)
            waits.append(parts.start_lws(programs, plane, self, ports, self._lws))
        if parts.VOLCANO in self.components:
            ports = self._take_ports(2)
            self._volcano_metrics = ports[1]
            started = parts.start_volcano(
                programs, plane, self, ports, self._plugins, self._arguments
            )
            waits.append(started)
        if parts.KUEUE in self.components:
            waits.append(parts.start_kueue(programs, plane, self, kueue_ports))
        if parts.KUBE_SCHEDULER in self.components:
            waits.append(parts.start_kube_scheduler(programs, plane))
        if parts.KWOK in self.components:
            waits.append(parts.start_kwok(programs, plane, self._take_ports(1)))
        for wait in waits:
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

        def missing() -> list[str]:
            return [
                each["metadata"]["name"]
                for each in self.list("CustomResourceDefinition")
                if not is_condition_true(each, "Established")
            ]

        self.wait(lambda: not missing(), message=missing)

    def _wait_for_account(self, namespace: str) -> None:
        # Admission rejects pods in a namespace until its default ServiceAccount is there.
        self.wait(
            lambda: self.exists("v1/ServiceAccount", "default", namespace),
            message=lambda: f"ServiceAccount default in {namespace}\n{self.log_tails()}",
        )

    def log_tails(self, lines: int = 25) -> str:
        """The end of every program's log, for a failure's report."""
        return "\n".join(f"--- {p.name}\n{p.tail(lines)}" for p in self.programs.running.values())

    def new_namespace(self, prefix: str = "e2e") -> str:
        """Create a namespace that nothing else uses and wait until pods can be made there."""
        name = f"{prefix}-{next(self._counter)}-{secrets.token_hex(2)}"
        self.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        self._wait_for_account(name)
        return name

    def delete_namespace(self, name: str, timeout: float = 60) -> None:
        """Delete a namespace; on return its pods and PodGroups hold no accelerators any more.

        The namespace itself goes some seconds later.
        """
        self.delete("v1/Namespace", name)
        # From here on nothing can be created in it, so what is deleted now does not come back. The
        # namespace controller would wait 5 s before it begins.
        for kind in ("scheduling.volcano.sh/v1beta1/PodGroup", "v1/Pod"):
            self._delete_all(self.resource(kind).path(None, name), timeout)
        self.wait(lambda: not self.pods(name), timeout, lambda: f"pods left in {name}")

    def _delete_all(self, path: str, timeout: float) -> None:
        """Delete every object of a kind; the server breaks off what takes longer than a minute."""

        def deleted() -> bool:
            try:
                self.request("DELETE", path, {"gracePeriodSeconds": 0})
            except urllib3.exceptions.HTTPError:
                return False
            except ApiError as rejected:
                if rejected.status != HTTPStatus.GATEWAY_TIMEOUT:
                    raise
                return False
            return True

        self.wait(deleted, timeout, lambda: f"deletion of {path}")

    def scheduler_cycles(self) -> int:
        """How often Volcano has looked at the whole cluster so far."""
        url = f"http://{LOOPBACK}:{self._volcano_metrics}/metrics"
        text = urllib3.request("GET", url, timeout=10).data.decode()
        (line,) = (line for line in text.splitlines() if line.startswith(CYCLES))
        return int(line.split()[1])

    def settle(self, cycles: int = 5, timeout: float = 120) -> None:
        """Wait until Volcano has looked at the whole cluster so many times more.

        What it has not bound by then, it does not bind as things stand.
        """
        enough = self.scheduler_cycles() + cycles
        self.wait(lambda: self.scheduler_cycles() >= enough, timeout, "scheduling cycles")

    def kubeconfig_for(self, subject: str) -> Path:
        """Write a kubeconfig for someone else.

        Args:
            subject: `system:serviceaccount:NAMESPACE:NAME` gets a token of that account from the
                API server; any other name is impersonated, and has the rights bound to it.
        """
        token, impersonate = self._identity(subject)
        return write_kubeconfig(
            self.directory / f"{next(self._counter)}.kubeconfig",
            server=self.server,
            authority=self._plane.certificates.authority,
            token=token,
            impersonate=impersonate,
        )

    def client_for(self, subject: str) -> Client:
        """A client in the name of someone else; see `kubeconfig_for`."""
        token, impersonate = self._identity(subject)
        authority = self._plane.certificates.authority
        return Client(self.server, authority, token, impersonate=impersonate)

    def _identity(self, subject: str) -> tuple[str, str | None]:
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
        """Add ready nodes with that many accelerators each; return their names."""
        names = [f"{prefix}-{next(self._counter)}" for _ in range(count)]
        made = [_node(name, gpus, accelerator, labels or {}, taints) for name in names]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(self.create, made))
        return names

    def remove_nodes(self, names: Iterable[str], *, evict: bool = True) -> None:
        """Take nodes away.

        Args:
            names: Those that are gone already are passed over.
            evict: End their pods at once, as the pod garbage collector does after a minute.
        """
        gone = set(names)
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda name: self.delete("v1/Node", name), gone))
        if evict:
            for pod in self.list("v1/Pod"):
                if pod["spec"].get("nodeName") in gone:
                    meta = pod["metadata"]
                    self.delete("v1/Pod", meta["name"], meta["namespace"], now=True)


def _node(
    name: str,
    gpus: int,
    accelerator: str,
    labels: Mapping[str, str],
    taints: Sequence[Mapping[str, str]],
) -> Object:
    """Build a fake node that is ready and has plenty of everything but accelerators."""
    resources = {"cpu": "192", "memory": "2Ti", "ephemeral-storage": "10Ti", "pods": "110"}
    if gpus:
        resources[accelerator] = str(gpus)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                **labels,
            },
        },
        "spec": {"taints": [dict(taint) for taint in taints]} if taints else {},
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            "phase": "Running",
        },
    }
