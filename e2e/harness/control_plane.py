"""etcd, the API server and the controller manager."""

from __future__ import annotations

import secrets
import time
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import urllib3

from e2e.catalog import program
from e2e.harness.certificates import Certificates, write_kubeconfig
from e2e.harness.processes import LOOPBACK, Program, ProgramFailedError, Programs

USERS = (
    "admin", "kube-controller-manager", "kube-proxy", "kube-scheduler", "kubelet", "kueue", "kwok",
    "lws", "volcano",
)  # fmt: skip
"""One user for each program, so that managed fields and logs identify it. All of them are cluster
administrators, because the tests cover the permissions of generated objects only."""

CONTROLLERS = (
    "clusterrole-aggregation-controller",
    "deployment-controller",
    "disruption-controller",
    "garbage-collector-controller",
    "job-controller",
    "horizontal-pod-autoscaler-controller",
    "namespace-controller",
    "pod-garbage-collector-controller",
    "replicaset-controller",
    "resourceclaim-controller",
    "resourcequota-controller",
    "serviceaccount-controller",
    "serviceaccount-token-controller",
    "statefulset-controller",
)
"""Controllers that generated objects need. EndpointSlices do not allow the pods' loopback addresses
(components.py), and simulated nodes send no heartbeats to the node-lifecycle controller."""


NETWORK_CONTROLLERS = (
    "endpoints-controller",
    "endpointslice-controller",
    "ephemeral-volume-controller",
    "node-lifecycle-controller",
    "persistentvolume-binder-controller",
    "root-ca-certificate-publisher-controller",
    "taint-eviction-controller",
)
"""Additional controllers for real pods and nodes."""

SERVICES = "10.96.0.0/16"
"""Cluster IPs of Services; the first is the API server's."""

FIRST_SERVICE = "10.96.0.1"


@dataclass(frozen=True)
class ControlPlane:
    """Settings that a cluster's programs share.

    Attributes:
        directory: Folder for the cluster's files.
        server: URL of the API server.
        certificates: Certificates of all servers of the cluster.
        tokens: Bearer tokens by user.
        address: Address of the API server for real pods; None if pods are simulated.
        kubernetes: Kubernetes release, by its name in the tool catalog.
        gates: Kubernetes feature gates to set.
    """

    directory: Path
    server: str
    certificates: Certificates
    tokens: dict[str, str]
    address: str | None = None
    kubernetes: str = "kubernetes"
    gates: Mapping[str, bool] = field(default_factory=dict)

    @property
    def has_gangs(self) -> bool:
        """Whether Kubernetes has its own PodGroups."""
        return self.gates.get("GenericWorkload", False)

    def program(self, name: str, *arguments: str) -> list[str | Path]:
        enabled = ",".join(f"{gate}={str(on).lower()}" for gate, on in self.gates.items())
        gates = [f"--feature-gates={enabled}"] if enabled else []
        return [program(self.kubernetes, name), *arguments, *gates]

    def kubeconfig(self, user: str) -> Path:
        path = self.directory / f"{user}.kubeconfig"
        if not path.exists():
            write_kubeconfig(
                path,
                server=self.server,
                authority=self.certificates.authority,
                token=self.tokens[user],
            )
        return path


def prepare(
    directory: Path,
    certificates: Certificates,
    port: int,
    address: str | None = None,
    kubernetes: str = "kubernetes",
    gates: Mapping[str, bool] | None = None,
) -> ControlPlane:
    tokens = {user: secrets.token_urlsafe(24) for user in USERS}
    lines = [f'{token},{user},{user},"system:masters"' for user, token in tokens.items()]
    tokens_file = directory / "tokens.csv"
    tokens_file.touch(mode=0o600)
    tokens_file.write_text("\n".join(lines), encoding="utf-8")
    server = f"https://{LOOPBACK}:{port}"
    return ControlPlane(
        directory, server, certificates, tokens, address, kubernetes, dict(gates or {})
    )


def start_etcd(programs: Programs, directory: Path, client_port: int, peer_port: int) -> str:
    url, peer = f"http://{LOOPBACK}:{client_port}", f"http://{LOOPBACK}:{peer_port}"
    started = programs.start(
        "etcd",
        [
            program("etcd", "etcd"),
            f"--data-dir={directory / 'etcd'}",
            f"--listen-client-urls={url}",
            f"--advertise-client-urls={url}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",  # The data need not survive a power failure.
            "--log-level=warn",
        ],
    )
    wait_http(started, f"{url}/health")
    return url


def start_api_server(programs: Programs, plane: ControlPlane, etcd: str) -> None:
    """Start the API server and wait until it is ready."""
    certificates = plane.certificates
    started = programs.start(
        "kube-apiserver",
        plane.program(
            "kube-apiserver",
            f"--etcd-servers={etcd}",
            *_addresses(plane.address),
            f"--secure-port={plane.server.rsplit(':', 1)[1]}",
            f"--tls-cert-file={certificates.certificate}",
            f"--tls-private-key-file={certificates.key}",
            "--authorization-mode=RBAC",
            f"--token-auth-file={plane.directory / 'tokens.csv'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={certificates.token_key}",
            f"--service-account-signing-key-file={certificates.token_key}",
            f"--service-cluster-ip-range={SERVICES}",
            "--allow-privileged=true",
            # Only the node-lifecycle controller removes this taint, and it may not run.
            "--disable-admission-plugins=TaintNodesByCondition",
            "--enable-priority-and-fairness=false",
            "--profiling=false",
            # Beta versions are off by default, even if their feature gate is on.
            *(["--runtime-config=scheduling.k8s.io/v1beta1=true"] if plane.has_gangs else []),
        ),
    )
    authority, token = certificates.authority, plane.tokens["admin"]
    wait_http(started, f"{plane.server}/readyz", authority=authority, token=token)


def _addresses(address: str | None) -> list[str]:
    if address is None:
        # The Service `kubernetes` cannot have a loopback endpoint, and no program here uses it.
        listening = [f"--bind-address={LOOPBACK}", f"--advertise-address={LOOPBACK}"]
        return [*listening, "--endpoint-reconciler-type=none"]
    # All addresses of a network namespace that is unreachable from outside.
    return ["--bind-address=0.0.0.0", f"--advertise-address={address}"]


def start_controller_manager(programs: Programs, plane: ControlPlane) -> None:
    """Start the controllers, which are ready when the first default ServiceAccount exists."""
    controllers = [*CONTROLLERS, *(() if plane.address is None else NETWORK_CONTROLLERS)]
    if plane.has_gangs:
        controllers.append("podgroup-protection-controller")
    programs.start(
        "kube-controller-manager",
        plane.program(
            "kube-controller-manager",
            f"--kubeconfig={plane.kubeconfig('kube-controller-manager')}",
            f"--controllers={','.join(controllers)}",
            f"--root-ca-file={plane.certificates.authority}",
            f"--service-account-private-key-file={plane.certificates.token_key}",
            "--leader-elect=false",
            "--secure-port=0",
            # At the default of 20 requests per second, a hundred replicas take minutes.
            "--kube-api-qps=1000",
            "--kube-api-burst=2000",
            "--concurrent-statefulset-syncs=20",
            # The default is 15 s.
            "--horizontal-pod-autoscaler-sync-period=1s",
        ),
    )


def wait_http(
    started: Program,
    url: str,
    *,
    authority: Path | None = None,
    token: str = "",
    accept: Container[int] = (200,),
    timeout: float = 180,
) -> None:
    """Wait until a GET returns one of the status codes in `accept`.

    Raises:
        ProgramFailedError: If the program exits, or does not respond within `timeout` seconds.
    """
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    deadline = time.monotonic() + timeout
    with urllib3.PoolManager(
        ca_certs=str(authority) if authority else None, headers=headers, retries=False, timeout=5
    ) as pool:
        last: object = "no answer"
        while time.monotonic() < deadline:
            started.check()
            try:
                answer = pool.request("GET", url)
            except urllib3.exceptions.HTTPError as error:
                last = error
            else:
                if answer.status in accept:
                    return
                last = f"{answer.status} {answer.data.decode(errors='replace')}"
            time.sleep(0.05)
    raise ProgramFailedError(
        f"{started.name} was not ready in {timeout:g} s: {last}; its log ends:\n{started.tail()}"
    )
