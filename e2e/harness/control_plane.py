"""etcd, the API server and the controller manager."""

from __future__ import annotations

import secrets
import time
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import urllib3
import yaml

from e2e.catalog import program
from e2e.harness.certificates import Certificates, write_kubeconfig
from e2e.harness.processes import LOOPBACK, Program, ProgramFailedError, Programs

USERS = (
    "admin", "kube-controller-manager", "kube-proxy", "kube-scheduler", "kubelet", "kueue", "kwok",
    "lws", "volcano",
)  # fmt: skip
"""One user for each program, so that managed fields and logs identify it. All of them are cluster
administrators, because the tests cover the permissions of generated objects only."""

PROGRAMS: Mapping[str, Sequence[str]] = yaml.safe_load(
    Path(__file__).with_name("programs.yaml").read_text(encoding="utf-8")
)

SERVICE_CIDR = "10.96.0.0/16"
"""Cluster IPs of Services; the first is the API server's."""
API_SERVER_IP = "10.96.0.1"


def format_arguments(name: str, **values: object) -> list[str]:
    """Return a program's arguments in programs.yaml, formatted with these values."""
    return [argument.format(**values) for argument in PROGRAMS[name]]


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


def prepare_control_plane(
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
    etcd = format_arguments("etcd", directory=directory, url=url, peer=peer)
    started = programs.start("etcd", [program("etcd", "etcd"), *etcd])
    wait_http(started, f"{url}/health")
    return url


def start_api_server(programs: Programs, plane: ControlPlane, etcd: str) -> None:
    """Start the API server and wait until it is ready."""
    certificates = plane.certificates
    variant = "on loopback" if plane.address is None else "for pods"
    started = programs.start(
        "kube-apiserver",
        plane.program(
            "kube-apiserver",
            *format_arguments(
                "kube-apiserver",
                etcd=etcd,
                port=plane.server.rsplit(":", 1)[1],
                certificates=certificates.directory,
                directory=plane.directory,
                token_key=certificates.token_key,
                services=SERVICE_CIDR,
            ),
            *format_arguments(f"kube-apiserver {variant}", address=plane.address),
            # Beta versions are off by default, even if their feature gate is on.
            *(["--runtime-config=scheduling.k8s.io/v1beta1=true"] if plane.has_gangs else []),
        ),
    )
    authority, token = certificates.authority, plane.tokens["admin"]
    wait_http(started, f"{plane.server}/readyz", authority=authority, token=token)


def start_controller_manager(programs: Programs, plane: ControlPlane) -> None:
    """Start the controllers, which are ready when the first default ServiceAccount exists."""
    controllers = format_arguments("controllers")
    if plane.address is not None:
        controllers += format_arguments("controllers for pods")
    if plane.has_gangs:
        controllers.append("podgroup-protection-controller")
    name = "kube-controller-manager"
    settings = format_arguments(
        name,
        kubeconfig=plane.kubeconfig(name),
        controllers=",".join(controllers),
        authority=plane.certificates.authority,
        token_key=plane.certificates.token_key,
    )
    programs.start(name, plane.program(name, *settings))


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
                response = pool.request("GET", url)
            except urllib3.exceptions.HTTPError as error:
                last = error
            else:
                if response.status in accept:
                    return
                last = f"{response.status} {response.data.decode(errors='replace')}"
            time.sleep(0.05)
    raise ProgramFailedError(
        f"{started.name} was not ready in {timeout:g} s: {last}; its log ends:\n{started.tail()}"
    )
