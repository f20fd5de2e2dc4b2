"""The endpoint picker's ServiceAccount, and its rights at the API server."""

from __future__ import annotations

from fusioninfer_pulumi.kube import names
from fusioninfer_pulumi.kube.metadata import Manifest, ServiceMeta, metadata
from fusioninfer_pulumi.pickers.family import LLM_D_API
from fusioninfer_pulumi.routing.picker import PickerPlan

_GROUP = "rbac.authorization.k8s.io"
_API_VERSION = f"{_GROUP}/v1"
_READ = ("get", "list", "watch")


def service_account(meta: ServiceMeta, picker: PickerPlan) -> Manifest:
    """Builds the ServiceAccount; only pods that ask for its token mount it."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": metadata(meta, picker.name),
        "automountServiceAccountToken": False,
    }


def picker_role(meta: ServiceMeta, picker: PickerPlan) -> Manifest:
    """Builds the Role: read access to pools and pods; with several replicas, leader election."""
    objectives = ["inference.networking.x-k8s.io"]
    if LLM_D_API in picker.family.api_versions:
        objectives.append("llm-d.ai")
    rules = [
        _policy_rule("", ["pods"], _READ),
        _policy_rule(names.POOL_GROUP, ["inferencepools"], _READ),
        *(_policy_rule(group, ["inferenceobjectives", "inferencemodelrewrites"], _READ)
          for group in objectives),
    ]  # fmt: skip
    if picker.replicas > 1:
        verbs = (*_READ, "create", "update", "patch", "delete")
        rules.append(_policy_rule("coordination.k8s.io", ["leases"], verbs))
        rules.append(_policy_rule("", ["events"], ("create", "patch")))
    return {
        "apiVersion": _API_VERSION,
        "kind": "Role",
        "metadata": metadata(meta, picker.name),
        "rules": rules,
    }


def role_binding(meta: ServiceMeta, picker: PickerPlan) -> Manifest:
    """Builds the RoleBinding of ServiceAccount and Role."""
    return {
        "apiVersion": _API_VERSION,
        "kind": "RoleBinding",
        "metadata": metadata(meta, picker.name),
        "roleRef": {"apiGroup": _GROUP, "kind": "Role", "name": picker.name},
        "subjects": [_subject(meta, picker)],
    }


def metrics_reviewer(meta: ServiceMeta, picker: PickerPlan) -> Manifest:
    """Builds the ClusterRoleBinding with which the endpoint picker authenticates metrics readers.

    `system:auth-delegator` comes with Kubernetes and allows reviews of tokens and access only.
    """
    built = metadata(meta, names.metrics_reviewer(meta.namespace, meta.service))
    del built["namespace"]
    return {
        "apiVersion": _API_VERSION,
        "kind": "ClusterRoleBinding",
        "metadata": built,
        "roleRef": {"apiGroup": _GROUP, "kind": "ClusterRole", "name": "system:auth-delegator"},
        "subjects": [_subject(meta, picker)],
    }


def _subject(meta: ServiceMeta, picker: PickerPlan) -> Manifest:
    return {"kind": "ServiceAccount", "name": picker.name, "namespace": meta.namespace}


def _policy_rule(group: str, resources: list[str], verbs: tuple[str, ...]) -> Manifest:
    return {"apiGroups": [group], "resources": resources, "verbs": list(verbs)}
