"""Names of the objects that KServe's controller creates for a service."""

from __future__ import annotations

import hashlib

_MAX_LENGTH, _SHORT_LENGTH = 63, 31
#: Suffixes of the names of the InferencePool, and of the Service that selects the pods.
POOL, SERVICE = "-inference-pool", "-kserve-workload-svc"
#: Suffixes of the names of Deployments and LeaderWorkerSets, the longer ones first.
WORKLOADS = ("-kserve-mn-prefill", "-kserve-mn", "-kserve-prefill", "-kserve")


def name_child(parent: str, suffix: str) -> str:
    """Return the name of a child object, shortened like knative's `kmeta.ChildName`."""
    if len(parent) > _MAX_LENGTH - len(suffix):
        digest = hashlib.md5(parent.encode(), usedforsecurity=False).hexdigest()
        parent = f"{parent[: _SHORT_LENGTH - len(suffix)]}{digest}"
    return f"{parent}{suffix}"
