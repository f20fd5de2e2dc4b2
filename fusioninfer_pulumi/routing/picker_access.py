"""Whom the endpoint picker is to the API server, and what it may do there."""

from __future__ import annotations

from fusioninfer_pulumi.kube import names
from fusioninfer_pulumi.kube.metadata import ServiceMeta
from fusioninfer_pulumi.pickers.family import LLM_D_API
from fusioninfer_pulumi.routing.common import Manifest, router_metadata
from fusioninfer_pulumi.routing.records import RouterPlan

_GROUP = "rbac.authorization.k8s.io"
_API_VERSION = f"{_GROUP}/v1"
_READ = ("get", "list", "watch")


def service_account(plan: ServiceMeta, router: RouterPlan) -> Manifest:
    """Builds the picker's ServiceAccount; its token is mounted by the pods that ask for it."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": router_metadata(plan, router, router.picker.name),
        "automountServiceAccountToken": False,
    }


def role(plan: ServiceMeta, router: RouterPlan) -> Manifest:
    """Builds the picker's Role: to watch pools and pods, and no more than that with one replica."""
    objectives = ["inference.networking.x-k8s.io"]
    if LLM_D_API in router.picker.family.api_versions:
        objectives.append("llm-d.ai")
    rules = [
        _rule("", ["pods"], _READ),
        _rule(names.POOL_GROUP, ["inferencepools"], _READ),
        *(_rule(group, ["inferenceobjectives", "inferencemodelrewrites"], _READ)
          for group in objectives),
    ]  # fmt: skip
    if router.picker.replicas > 1:
        verbs = ("get", "list", "watch", "create", "update", "patch", "delete")
        rules.append(_rule("coordination.k8s.io", ["leases"], verbs))
        rules.append(_rule("", ["events"], ("create", "patch")))
    return {
        "apiVersion": _API_VERSION,
        "kind": "Role",
        "metadata": router_metadata(plan, router, router.picker.name),
        "rules": rules,
    }


def role_binding(plan: ServiceMeta, router: RouterPlan) -> Manifest:
    """Builds the RoleBinding of the two."""
    name = router.picker.name
    return {
        "apiVersion": _API_VERSION,
        "kind": "RoleBinding",
        "metadata": router_metadata(plan, router, name),
        "roleRef": {"apiGroup": _GROUP, "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": plan.namespace}],
    }


def metrics_reviewer(plan: ServiceMeta, router: RouterPlan) -> Manifest:
    """Builds the ClusterRoleBinding by which the picker asks who reads its metrics.

    Kubernetes brings the ClusterRole: it may review tokens and access, nothing else.
    """
    metadata = router_metadata(plan, router, names.metrics_reviewer(plan.namespace, plan.service))
    del metadata["namespace"]
    return {
        "apiVersion": _API_VERSION,
        "kind": "ClusterRoleBinding",
        "metadata": metadata,
        "roleRef": {"apiGroup": _GROUP, "kind": "ClusterRole", "name": "system:auth-delegator"},
        "subjects": [
            {
                "kind": "ServiceAccount",
                "name": router.picker.name,
                "namespace": plan.namespace,
            }
        ],
    }


def _rule(group: str, resources: list[str], verbs: tuple[str, ...]) -> Manifest:
    return {"apiGroups": [group], "resources": resources, "verbs": list(verbs)}
