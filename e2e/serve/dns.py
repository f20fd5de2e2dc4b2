"""CoreDNS for pods, because workers address their leader by name."""

from __future__ import annotations

from e2e.catalog import program
from e2e.harness import Cluster
from e2e.harness.control_plane import wait_http
from e2e.harness.processes import find_ports

SETTINGS = """\
.:53 {{
    bind {address}
    errors
    ready 127.0.0.1:{ready}
    kubernetes cluster.local {{
        kubeconfig {kubeconfig}
        ttl 1
    }}
}}
"""


def start_dns(cluster: Cluster, address: str) -> None:
    (ready,) = find_ports(1)
    path = cluster.directory / "Corefile"
    kubeconfig = cluster.plane.kubeconfig("admin")
    text = SETTINGS.format(address=address, ready=ready, kubeconfig=kubeconfig)
    path.write_text(text, encoding="utf-8")
    started = cluster.programs.start("coredns", [program("coredns", "coredns"), "-conf", path])
    wait_http(started, f"http://127.0.0.1:{ready}/ready")
