"""Fake GPU nodes, as their kubelets would register them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from e2e.harness.resources import Object


def node(
    name: str,
    gpus: int,
    accelerator: str,
    labels: Mapping[str, str],
    taints: Sequence[Mapping[str, str]],
) -> Object:
    """A node that is ready and has plenty of everything but accelerators."""
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
