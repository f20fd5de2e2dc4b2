"""What the sidecars may ask the API server, where they protect the prefill pods from clients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fusioninfer_pulumi import labels, names
from fusioninfer_pulumi.manifests.metadata import metadata
from fusioninfer_pulumi.plan.records import Topology

_GROUP = "rbac.authorization.k8s.io"
_READ = ["get", "list", "watch"]


def sidecar_access(plan: Topology) -> Iterator[dict[str, Any]]:
    """Builds a ServiceAccount, a Role and its RoleBinding, if any sidecar uses them.

    A template's own ServiceAccount is bound in place of ours. A sidecar watches the service's pool
    and the pods that it selects (`pkg/sidecar/proxy/allowlist.go`).
    """
    sidecars = [
        role.wiring.sidecar
        for role in plan.roles
        if role.replicas and role.wiring is not None and role.wiring.sidecar is not None
    ]
    used = {each.account: each.own_account for each in sidecars if each.account is not None}
    if not used:
        return
    name = names.sidecar(plan.service)
    own = {labels.SERVICE: plan.service}
    if not used.get(name, True):
        yield {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": metadata(plan, name, own),
            "automountServiceAccountToken": False,
        }
    yield {
        "apiVersion": f"{_GROUP}/v1",
        "kind": "Role",
        "metadata": metadata(plan, name, own),
        "rules": [
            {"apiGroups": [""], "resources": ["pods"], "verbs": _READ},
            {"apiGroups": [names.POOL_GROUP], "resources": ["inferencepools"], "verbs": _READ},
        ],
    }
    yield {
        "apiVersion": f"{_GROUP}/v1",
        "kind": "RoleBinding",
        "metadata": metadata(plan, name, own),
        "roleRef": {"apiGroup": _GROUP, "kind": "Role", "name": name},
        "subjects": [
            {"kind": "ServiceAccount", "name": account, "namespace": plan.namespace}
            for account in sorted(used)
        ],
    }
