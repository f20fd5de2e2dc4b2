"""KEDA's operator and its metrics adapter, and a Prometheus that reads what the test says."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import yaml

from e2e.catalog import manifests, program, tool
from e2e.harness import Cluster
from e2e.harness.control_plane import wait_http
from e2e.harness.processes import LOOPBACK, free_ports
from e2e.metrics import EXTERNAL, served


def absent() -> str | None:
    """Why KEDA cannot run here, None where it can."""
    if not tool("keda-operator").is_built:
        return "KEDA is not built: python -m e2e.build_tools --only keda-operator"
    if shutil.which("prometheus") is None:
        return "needs prometheus on PATH (Debian: apt-get install prometheus)"
    return None


@contextmanager
def keda(cluster: Cluster) -> Iterator[None]:
    """Runs KEDA's operator and its adapter, which the API server asks for external metrics."""
    grpc, health, metrics, adapter = free_ports(4)
    cluster.install_kinds([
        yaml.safe_load(path.read_text(encoding="utf-8"))
        for path in manifests("keda-operator", "crds")
    ])  # fmt: skip
    # The API server asks without a certificate of its own, which makes it anonymous to the adapter.
    cluster.apply(_anonymous())
    plane, programs = cluster.plane, cluster.programs
    common = {"KUBECONFIG": str(plane.kubeconfig("admin")), "POD_NAMESPACE": "default"}
    common |= {"WATCH_NAMESPACE": "", "KEDA_CLUSTER_OBJECT_NAMESPACE": "default"}
    operator = programs.start(
        "keda-operator",
        [
            program("keda-operator", "operator"),
            f"--kubeconfig={plane.kubeconfig('admin')}",
            f"--cert-dir={plane.certificates.directory}",
            f"--metrics-service-bind-address={LOOPBACK}:{grpc}",
            f"--health-probe-bind-address={LOOPBACK}:{health}",
            "--metrics-bind-address=0",
            "--enable-prometheus-metrics=false",
            "--zap-log-level=info",
        ],
        env=common,
    )
    served_by = programs.start(
        "keda-adapter",
        [
            program("keda-operator", "adapter"),
            f"--kubeconfig={plane.kubeconfig('admin')}",
            f"--authentication-kubeconfig={plane.kubeconfig('admin')}",
            f"--authorization-kubeconfig={plane.kubeconfig('admin')}",
            f"--lister-kubeconfig={plane.kubeconfig('admin')}",
            "--authentication-tolerate-lookup-failure",
            f"--cert-dir={plane.certificates.directory}",
            f"--tls-cert-file={plane.certificates.certificate}",
            f"--tls-private-key-file={plane.certificates.key}",
            f"--metrics-service-address={LOOPBACK}:{grpc}",
            f"--secure-port={adapter}",
            f"--bind-address={LOOPBACK}",
            f"--port={metrics}",
        ],
        env=common,
    )
    try:
        wait_http(operator, f"http://{LOOPBACK}:{health}/readyz", timeout=60)
        wait_http(
            served_by,
            f"https://{LOOPBACK}:{adapter}/healthz",
            authority=plane.certificates.authority,
            timeout=60,
        )
        with served(cluster, adapter, EXTERNAL):
            yield
    finally:
        programs.stop("keda-adapter")
        programs.stop("keda-operator")


def _anonymous() -> list[dict[str, object]]:
    rules = [
        {"apiGroups": ["external.metrics.k8s.io"], "resources": ["*"], "verbs": ["*"]},
        {"nonResourceURLs": ["/apis/*", "/openapi/*"], "verbs": ["get"]},
    ]
    head = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "e2e-metrics"}}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "e2e-metrics"}
    nobody = {
        "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:anonymous",
    }  # fmt: skip
    return [
        {**head, "kind": "ClusterRole", "rules": rules},
        {**head, "kind": "ClusterRoleBinding", "roleRef": role, "subjects": [nobody]},
    ]
