"""Nodes with a real kubelet, containerd, runc, network plugins and kube-proxy.

They run in a sandbox (`sandbox.py`). The first node uses the sandbox's network namespace,
and each additional node has its own.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from e2e.catalog import program
from e2e.harness import Cluster, Object
from e2e.harness.certificates import write_kubeconfig
from e2e.harness.control_plane import SERVICE_CIDR, format_arguments, wait_http
from e2e.harness.pods import is_condition_true
from e2e.harness.processes import LOOPBACK, Program, ProgramFailedError, find_ports
from e2e.harness.resources import read_objects
from e2e.serve import sandbox
from e2e.serve.engine import Environment
from e2e.serve.images import PAUSE, list_images, list_mounts, make_image, write_archive
from e2e.serve.prerequisites import find_plugin_folder
from e2e.serve.sandbox import ADDRESS

GPUS = "16"


@dataclass(frozen=True)
class NodeNetwork:
    """Network namespace and addresses of a node; `enter` is a command prefix that enters it."""

    number: int
    enter: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return "worker" if self.number == 1 else f"worker-{self.number}"

    @property
    def device(self) -> str:
        """Name of the first node's network device to this node."""
        return f"network-{self.number}"

    @property
    def address(self) -> str:
        return f"10.90.0.{self.number}"

    @property
    def pod_cidr(self) -> str:
        return f"10.244.{self.number - 1}.0/24"


class Node:
    """A node of a cluster."""

    def __init__(
        self,
        cluster: Cluster,
        directory: Path,
        environments: Iterable[Environment],
        network: NodeNetwork = NodeNetwork(1),
    ) -> None:
        """Start the node and wait until it is ready."""
        directory.mkdir()
        self.name = network.name
        self.cluster = cluster
        self.directory = directory
        self._network = network
        self._imported: set[str] = set()
        self._environments = list(environments)
        self._socket = directory / "containerd.sock"
        self._start_containerd()
        self._start_kubelet()
        self._start_proxy()
        self.load_images([PAUSE])
        cluster.wait(self._is_ready, 120, lambda: cluster.get("v1/Node", self.name))
        resources = {"nvidia.com/gpu": GPUS}
        status = {"status": {"capacity": resources, "allocatable": resources}}
        cluster.patch("v1/Node", self.name, status, subresource="status")

    def load_manifest_images(self, manifests: Iterable[Object]) -> None:
        self.load_images(list_images(manifests))

    @property
    def images(self) -> frozenset[str]:
        return frozenset(self._imported)

    def load_images(self, wanted: Iterable[str]) -> None:
        absent = sorted(set(wanted) - self._imported)
        if not absent:
            return
        path = self.directory / f"images-{len(self._imported)}.tar"
        write_archive(path, {name: make_image(name) for name in absent})
        self._ctr("images", "import", str(path))
        self._imported |= set(absent)

    def processes(self, pod: Object) -> dict[int, str]:
        """Return names of the processes in a pod's containers, by process ID in the sandbox."""
        processes: dict[int, str] = {}
        for status in _list_statuses(pod):
            if "running" not in status.get("state", {}):
                continue
            listed = self._ctr("tasks", "ps", status["containerID"].removeprefix("containerd://"))
            for line in listed.splitlines()[1:]:
                pid = int(line.split()[0])
                name = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8")
                processes[pid] = name.strip()
        return processes

    @contextmanager
    def drop_packets(self) -> Iterator[None]:
        """Drop all packets from and to this node, which must not be the first one."""
        rules = _make_drop_rules(self._network.device)
        subprocess.run(["nft", "-f", "-"], input=rules, text=True, check=True)
        try:
            yield
        finally:
            subprocess.run(["nft", "delete", "table", "inet", "lost"], check=True)

    def _start(self, name: str, command: Sequence[str | Path]) -> Program:
        command = [*self._network.enter, *command]
        return self.cluster.programs.start(f"{name}-{self.name}", command)

    def _kubeconfig(self, user: str) -> Path:
        plane = self.cluster.plane
        return write_kubeconfig(
            self.directory / f"{user}.kubeconfig",
            server=f"https://{ADDRESS}:{plane.server.rpartition(':')[2]}",
            authority=plane.certificates.authority,
            token=plane.tokens[user],
        )

    def _ctr(self, *arguments: str) -> str:
        command = ["ctr", f"--address={self._socket}", "--namespace=k8s.io", *arguments]
        output = subprocess.run(command, capture_output=True, text=True, check=False)
        if output.returncode != 0:
            raise ProgramFailedError(f"{' '.join(command)}: {output.stderr}")
        return output.stdout

    def _write(self, name: str, content: Any) -> Path:
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content, indent=2), encoding="utf-8")
        return path

    def _start_containerd(self) -> None:
        network = _make_cni_config(self.directory / "addresses", self._network.pod_cidr)
        self._write("cni/10-pods.conflist", network)
        default = json.loads(subprocess.run(
            ["ctr", "oci", "spec"], capture_output=True, text=True, check=True
        ).stdout)  # fmt: skip
        default["mounts"] += [_make_bind(folder) for folder in list_mounts(self._environments)]
        spec = self._write("container.json", default)
        config = self.directory / "containerd.toml"
        settings = _configure_containerd(self.directory, self._socket, spec)
        config.write_text(settings, encoding="utf-8")
        started = self._start("containerd", ["containerd", f"--config={config}"])
        deadline = time.monotonic() + 60
        while True:
            started.check()
            try:
                self._ctr("version")
            except ProgramFailedError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
            else:
                return

    def _start_kubelet(self) -> None:
        (health,) = find_ports(1)
        settings = _configure_kubelet(self.directory, self._socket, self._network, health)
        config = self._write("kubelet.json", settings)
        flags = format_arguments(
            "kubelet",
            config=config,
            kubeconfig=self._kubeconfig("kubelet"),
            address=self._network.address,
            node=self.name,
            directory=self.directory,
        )
        started = self._start("kubelet", [program("kubernetes-node", "kubelet"), *flags])
        wait_http(started, f"http://{self._network.address}:{health}/healthz", timeout=120)

    def _start_proxy(self) -> None:
        health, metrics = find_ports(2)
        (config,) = read_objects(
            "configuration of kube-proxy",
            kubeconfig=str(self._kubeconfig("kube-proxy")),
            node=self.name,
            health=f"{self._network.address}:{health}",
            metrics=f"{LOOPBACK}:{metrics}",
        )
        path = self._write("kube-proxy.json", config)
        command: list[str | Path] = [program("kubernetes-node", "kube-proxy"), f"--config={path}"]
        wait_http(
            self._start("kube-proxy", command), f"http://{self._network.address}:{health}/livez"
        )

    def _is_ready(self) -> bool:
        exists = self.cluster.exists("v1/Node", self.name)
        return exists and is_condition_true(self.cluster.get("v1/Node", self.name), "Ready")


def prepare_network() -> None:
    """Configure the sandbox's addresses, before the cluster starts."""
    sandbox.prepare([ADDRESS], [SERVICE_CIDR])


def add_network(cluster: Cluster, number: int) -> NodeNetwork:
    """Create a network namespace that is connected to the first node's."""
    name = f"network-{number}"
    holder = cluster.programs.start(name, ["unshare", "--net", "--", "sleep", "infinity"])
    current = Path("/proc/self/ns/net").readlink()
    namespace = Path(f"/proc/{holder.pid}/ns/net")
    cluster.wait(lambda: namespace.readlink() != current, 30, holder.tail)
    network = NodeNetwork(number, ("nsenter", f"--net={namespace}", "--"))

    def ip(*arguments: str, enter: Sequence[str] = ()) -> None:
        subprocess.run([*enter, "ip", *arguments], check=True)

    ip("link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", str(holder.pid))
    ip("link", "set", name, "up")
    ip("route", "add", network.address, "dev", name, "src", ADDRESS)
    ip("route", "add", network.pod_cidr, "via", network.address)
    for words in (
        ("link", "set", "lo", "up"),
        ("address", "add", f"{network.address}/32", "dev", "eth0"),
        ("link", "set", "eth0", "up"),
        ("route", "add", ADDRESS, "dev", "eth0"),
        ("route", "add", "default", "via", ADDRESS),
    ):
        ip(*words, enter=network.enter)
    forward = "echo 1 > /proc/sys/net/ipv4/ip_forward"
    subprocess.run([*network.enter, "sh", "-c", forward], check=True)
    return network


def _make_drop_rules(device: str) -> str:
    return f"""\
table inet lost {{
  chain to {{ type filter hook output priority 0; oifname "{device}" drop; }}
  chain from {{ type filter hook input priority 0; iifname "{device}" drop; }}
  chain through {{
    type filter hook forward priority 0; iifname "{device}" drop; oifname "{device}" drop;
  }}
}}
"""


def _make_cni_config(addresses: Path, pods: str) -> Object:
    """Return a CNI configuration with a veth pair per pod, so that kube-proxy's rules apply."""
    ipam = {
        "type": "host-local",
        "ranges": [[{"subnet": pods}]],
        "routes": [{"dst": "0.0.0.0/0"}],
        "dataDir": str(addresses),
    }
    return {"cniVersion": "0.4.0", "name": "pods", "plugins": [{"type": "ptp", "ipam": ipam}]}


def _make_bind(folder: Path) -> Object:
    options = ["rbind", "ro", "nosuid"]
    return {"type": "bind", "source": str(folder), "destination": str(folder), "options": options}


def _configure_containerd(directory: Path, socket: Path, spec: Path) -> str:
    return Path(__file__).with_name("containerd.toml").read_text(encoding="utf-8").format(
        directory=directory, socket=socket, spec=spec, pause=PAUSE, loopback=LOOPBACK,
        plugins=find_plugin_folder(),
    )  # fmt: skip


def _configure_kubelet(
    directory: Path, socket: Path, network: NodeNetwork, health: int
) -> Mapping[str, Any]:
    settings = yaml.safe_load(Path(__file__).with_name("kubelet.yaml").read_text(encoding="utf-8"))
    return {
        **settings,
        "address": network.address,
        "healthzBindAddress": network.address,
        "healthzPort": health,
        "containerRuntimeEndpoint": f"unix://{socket}",
        "podLogsDir": str(directory / "pod-logs"),
        "volumePluginDir": str(directory / "volume-plugins"),
        "clusterDNS": [ADDRESS],
    }


def read_logs(node: Node, namespace: str, pod: str, lines: int = 40) -> str:
    parts: list[str] = []
    for folder in sorted((node.directory / "pod-logs").glob(f"{namespace}_{pod}_*")):
        for file in sorted(folder.glob("*/*.log")):
            text = file.read_text(encoding="utf-8", errors="replace").splitlines()
            parts.append("\n".join([f"--- {pod}/{file.parent.name}", *text[-lines:]]))
    return "\n".join(parts)


def describe(pods: Sequence[Object]) -> str:
    return yaml.safe_dump({
        pod["metadata"]["name"]: {
            status["name"]: status.get("state") for status in _list_statuses(pod)
        }
        for pod in pods
    })  # fmt: skip


FATAL = {
    "CrashLoopBackOff",
    "CreateContainerConfigError",
    "CreateContainerError",
    "ErrImageNeverPull",
    "ErrImagePull",
    "ImagePullBackOff",
    "RunContainerError",
}
"""Reasons of waiting containers that do not recover."""


def find_stuck(pods: Iterable[Object]) -> list[str]:
    """Return containers that wait for one of these reasons."""
    return [
        f"{pod['metadata']['name']}/{status['name']}: {waiting['reason']}"
        for pod in pods
        for status in _list_statuses(pod)
        if (waiting := status.get("state", {}).get("waiting") or {}).get("reason") in FATAL
    ]


def _list_statuses(pod: Object) -> list[Object]:
    status = pod.get("status", {})
    keys = ("initContainerStatuses", "containerStatuses")
    return [container_status for key in keys for container_status in status.get(key) or ()]
