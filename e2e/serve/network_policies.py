"""A real implementation of NetworkPolicies on the node: kube-network-policies of SIG Network.

It decides about the first packets of each connection, which the kernel hands to it by a queue. Its
own rules need an expression of nftables that not every kernel has, so the rule that fills the queue
is made here: forwarded packets, which are those of other pods and not the kubelet's.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from e2e.catalog import program
from e2e.harness import Object
from e2e.harness.processes import LOOPBACK, free_ports
from e2e.serve.enclosure import ADDRESS
from e2e.serve.serving import Serving

_NAME = "kube-network-policies"
_QUEUE = "100"  # its default
_RULE = ["FORWARD", "--match", "conntrack", "--ctstate", "NEW",
         "--jump", "NFQUEUE", "--queue-num", _QUEUE]  # fmt: skip
_GROUP = "rbac.authorization.k8s.io"
# Programs in a pod find their token there; the folder is this program's alone.
_RUN = """\
mount -t tmpfs tmpfs /run
mkdir -p /run/secrets/kubernetes.io
cp -r "$1" /run/secrets/kubernetes.io/serviceaccount
shift
exec "$@"
"""


class NetworkPolicies:
    """Enforces the NetworkPolicies of a cluster on its node, until it is closed."""

    def __init__(self, running: Serving, directory: Path) -> None:
        """Start it; until it listens, no pod reaches another one."""
        self._cluster = running.cluster
        self._cluster.apply(_rights())
        subject = f"system:serviceaccount:kube-system:{_NAME}"
        config = json.loads(self._cluster.kubeconfig_for(subject).read_text(encoding="utf-8"))
        token = directory / "account"
        token.mkdir()
        (token / "token").write_text(config["users"][0]["user"]["token"], encoding="utf-8")
        authority = self._cluster.plane.certificates.authority
        (token / "ca.crt").write_bytes(authority.read_bytes())
        (metrics,) = free_ports(1)
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


def _rights() -> list[Object]:
    meta = {"name": _NAME}
    read = {"verbs": ["get", "list", "watch"]}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount",
         "metadata": {**meta, "namespace": "kube-system"}},
        {"apiVersion": f"{_GROUP}/v1", "kind": "ClusterRole", "metadata": meta,
         "rules": [{"apiGroups": [""], "resources": ["pods", "namespaces", "nodes"], **read},
                   {"apiGroups": ["networking.k8s.io"], "resources": ["networkpolicies"], **read}]},
        {"apiVersion": f"{_GROUP}/v1", "kind": "ClusterRoleBinding", "metadata": meta,
         "roleRef": {"apiGroup": _GROUP, "kind": "ClusterRole", "name": _NAME},
         "subjects": [{"kind": "ServiceAccount", "name": _NAME, "namespace": "kube-system"}]},
    ]  # fmt: skip
