"""A volume and its claim, bound as the controller would do it: nobody here binds claims."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from e2e.harness import Cluster, Object


@contextmanager
def bound_claim(cluster: Cluster, namespace: str, name: str = "shared") -> Iterator[None]:
    """A claim that pods can mount; its volume goes at the end, the claim with its namespace."""
    volume = f"{namespace}-{name}"
    access: Object = {"accessModes": ["ReadWriteMany"]}
    cluster.apply([
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume},
         "spec": {**access, "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/mnt"},
                  "claimRef": {"namespace": namespace, "name": name}}},
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim",
         "metadata": {"name": name, "namespace": namespace,
                      "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
         "spec": {**access, "volumeName": volume, "storageClassName": "",
                  "resources": {"requests": {"storage": "1Gi"}}}},
    ])  # fmt: skip
    try:
        yield
    finally:
        cluster.delete("PersistentVolume", volume)
