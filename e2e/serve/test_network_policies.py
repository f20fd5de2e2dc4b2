"""Enforced NetworkPolicies.

The pods come from rendered objects, with containers that only listen.

kube-network-policies of SIG Network gets the first packets of each connection through an NFQUEUE.
Its own rules need an nftables expression that not every kernel has, so this module adds a rule for
forwarded packets, which excludes the kubelet's.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.catalog import program, tool
from e2e.harness import Object
from e2e.harness.pods import is_ready
from e2e.harness.processes import LOOPBACK, find_ports
from e2e.harness.resources import read_objects
from e2e.serve.sandbox import ADDRESS
from e2e.serve.services import render_objects, role, router, service
from e2e.serve.serving import Serving

pytestmark = [
    pytest.mark.serve,
    pytest.mark.skipif(
        not (tool("kube-network-policies").is_built and shutil.which("iptables")),
        reason="needs iptables and python -m e2e.build_tools --only kube-network-policies",
    ),
]

GATEWAYS = "gateways-e2e"
SERVING, SIDE_CHANNEL, PICKER = 8000, 5600, 9002
LISTEN_PROGRAM = (
    "import socket, sys, threading\n"
    "def serve(port):\n"
    "    server = socket.create_server(('', port))\n"
    "    while True: server.accept()[0].close()\n"
    "for port in sys.argv[1:]: threading.Thread(target=serve, args=[int(port)]).start()\n"
)
CONNECT_PROGRAM = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 2)"


def make_container(*ports: int) -> Object:
    """Return a container that listens on these ports, with a readiness probe."""
    return {
        "name": "listens",
        "image": "python:3",
        "args": ["-c", LISTEN_PROGRAM, *map(str, ports)],
        "readinessProbe": {"tcpSocket": {"port": ports[0]}, "periodSeconds": 1,
                           "failureThreshold": 1},
    }  # fmt: skip


def replace_containers(objects: list[Object]) -> Iterator[Object]:
    for manifest in objects:
        if manifest["kind"] == "LeaderWorkerSet":
            template = manifest["spec"]["leaderWorkerTemplate"]
            for key in ("leaderTemplate", "workerTemplate"):
                if key in template:
                    template[key]["spec"] = {"containers": [make_container(SERVING, SIDE_CHANNEL)]}
        if manifest["kind"] == "Deployment":
            manifest["spec"]["template"]["spec"] = {"containers": [make_container(PICKER)]}
        if manifest["kind"] != "HTTPRoute":
            yield manifest


class Pods:
    """Pods by a short name, and connections between them."""

    def __init__(self, running: Serving, namespace: str, elsewhere: str) -> None:
        self._running = running
        listed = running.pods(namespace)
        self._pods = {"stranger": running.pods(elsewhere)[0], "proxy": running.pods(GATEWAYS)[0]}
        for pod in listed:
            labels = pod["metadata"].get("labels", {})
            name = labels.get("fusioninfer.io/role-name", pod["metadata"]["name"])
            if "leaderworkerset.sigs.k8s.io/worker-index" in labels:
                name += f"-{labels['leaderworkerset.sigs.k8s.io/worker-index']}"
            self._pods["picker" if name.startswith("svc-epp") else name] = pod

    def can_reach(self, source: str, target: str, port: int) -> bool:
        process = next(iter(self._running.processes(self._pods[source])))
        address = self._pods[target]["status"]["podIP"]
        command = ["nsenter", f"--target={process}", "--net", sys.executable, "-c", CONNECT_PROGRAM]
        output = subprocess.run([*command, address, str(port)], capture_output=True, check=False)
        return output.returncode == 0

    def are_all_ready(self) -> bool:
        return all(
            is_ready(self._running.cluster.get("v1/Pod", meta["name"], meta["namespace"]))
            for meta in (pod["metadata"] for pod in self._pods.values())
        )


_NAME = "kube-network-policies"
_QUEUE = "100"  # The default of kube-network-policies.
_RULE = ["FORWARD", "--match", "conntrack", "--ctstate", "NEW",
         "--jump", "NFQUEUE", "--queue-num", _QUEUE]  # fmt: skip
# In-cluster clients read their token from this folder.
_RUN = """\
mount -t tmpfs tmpfs /run
mkdir -p /run/secrets/kubernetes.io
cp -r "$1" /run/secrets/kubernetes.io/serviceaccount
shift
exec "$@"
"""


class NetworkPolicies:
    """kube-network-policies on a cluster's node."""

    def __init__(self, running: Serving, directory: Path) -> None:
        """Start the program; until it is ready, all connections between pods are blocked."""
        self._cluster = running.cluster
        self._cluster.apply(read_objects("account of kube-network-policies"))
        token = directory / "account"
        token.mkdir()
        account = self._cluster.token_for("kube-system", _NAME)
        (token / "token").write_text(account, encoding="utf-8")
        authority = self._cluster.plane.certificates.authority
        (token / "ca.crt").write_bytes(authority.read_bytes())
        (metrics,) = find_ports(1)
        self.program = self._cluster.programs.start(
            _NAME,
            ["unshare", "--mount", "sh", "-ec", _RUN, "sh", token, program(_NAME, _NAME),
             f"--hostname-override={running.node.name}",
             f"--metrics-bind-address={LOOPBACK}:{metrics}"],
            env={
                "KUBERNETES_SERVICE_HOST": ADDRESS,
                "KUBERNETES_SERVICE_PORT": self._cluster.server.rpartition(":")[2],
            },
        )  # fmt: skip
        _iptables("--append")

    def close(self) -> None:
        _iptables("--delete")
        self._cluster.programs.stop(_NAME)


def _iptables(command: str) -> None:
    subprocess.run(["iptables", "--table", "mangle", command, *_RULE], check=True)


ALLOWED = [
    ("proxy", "decode-0", SERVING),
    ("proxy", "picker", PICKER),
    ("picker", "decode-0", SERVING),
    ("picker", "prefill-0", SERVING),
    # KV cache transfer in both directions, and the nodes of a replica.
    ("decode-0", "prefill-0", SIDE_CHANNEL),
    ("prefill-0", "decode-0", SIDE_CHANNEL),
    ("decode-0", "decode-1", SIDE_CHANNEL),
    ("decode-1", "decode-0", SIDE_CHANNEL),
]
BLOCKED = [
    ("stranger", "decode-0", SERVING),
    ("stranger", "prefill-0", SERVING),
    ("stranger", "picker", PICKER),
    ("neighbour", "decode-0", SERVING),
    ("neighbour", "prefill-0", SIDE_CHANNEL),
    ("neighbour", "decode-1", SIDE_CHANNEL),
    ("proxy", "prefill-0", SERVING),
    ("proxy", "decode-0", SIDE_CHANNEL),
]


@pytest.mark.verifies(
    "Enforced NetworkPolicies admit only gateway, picker, replica, KV cache peers and kubelet"
)
def test_network_policies_block_strangers(
    running: Serving, tmp_path_factory: pytest.TempPathFactory
) -> None:
    cluster = running.cluster
    namespace, elsewhere = cluster.new_namespace(), cluster.new_namespace()
    cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": GATEWAYS}})
    roles = [
        router("pd-disaggregation", networkPolicy={"gatewayNamespace": GATEWAYS}),
        role("prefill", "prefiller", kvTransfer={}),
        role("decode", "decoder", kvTransfer={}, multinode={"nodeCount": 2}),
    ]
    gangless = {"gangPolicy": {"mode": "Off"}}
    manifest = service(namespace, *roles, schedulingStrategy=gangless)
    objects = list(replace_containers(render_objects(manifest)))
    policies = [item for item in objects if item["kind"] == "NetworkPolicy"]
    assert len(policies) == 3
    strangers = (("stranger", elsewhere), ("neighbour", namespace), ("proxy", GATEWAYS))
    # kube-network-policies runs on the first node and knows only the pods there.
    with running.use_first_node_only():
        running.apply([item for item in objects if item not in policies])
        for name, home in strangers:
            listener = {"name": name, "namespace": home, "container": make_container(SERVING)}
            running.apply(read_objects("listening pod", **listener))
        running.wait_ready(namespace, 5, timeout=120)
        running.wait_ready(elsewhere, 1, timeout=120)
        running.wait_ready(GATEWAYS, 1, timeout=120)
    pods = Pods(running, namespace, elsewhere)
    enforced = NetworkPolicies(running, tmp_path_factory.mktemp("network-policies"))
    cluster.wait(lambda: pods.can_reach(*ALLOWED[0]), 60, enforced.program.tail)
    # Without policies, all connections are possible.
    assert [item for item in (*ALLOWED, *BLOCKED) if not pods.can_reach(*item)] == []
    cluster.apply(policies)
    cluster.wait(lambda: not pods.can_reach(*BLOCKED[0]), 60, enforced.program.tail)
    assert [item for item in BLOCKED if pods.can_reach(*item)] == []
    assert [item for item in ALLOWED if not pods.can_reach(*item)] == []
    assert pods.are_all_ready()
    enforced.close()
    for item in (namespace, elsewhere, GATEWAYS):
        cluster.delete_namespace(item)
