"""Builds the metadata of a service's objects, and ServiceAccounts, Roles and role bindings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

#: A Kubernetes object, or a part of one, that the caller may change.
Manifest = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class ServiceMeta:
    """Metadata that all objects of a service share.

    Attributes:
        service: Kubernetes name of the service.
        namespace: Namespace of every object; may be an Output.
        labels: Labels of every object.
        annotations: Annotations of every object.
    """

    service: str
    namespace: Any
    labels: Mapping[str, str]
    annotations: Mapping[str, Any]


def lookup(value: Any, *keys: str) -> Any:
    """Return a nested value, or None if a key on the path is missing."""
    for key in keys:
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value


def list_items(value: Any, *keys: str) -> list[Mapping[str, Any]]:
    """Return the mappings in a nested list; no mappings if the list is missing or malformed."""
    items = lookup(value, *keys)
    if not isinstance(items, (list, tuple)):
        return []
    return [item for item in items if isinstance(item, Mapping)]


def build_metadata(
    meta: ServiceMeta, name: str, more_labels: Mapping[str, str] | None = None
) -> Manifest:
    """Return the `metadata` of one object; `more_labels` override the service's labels."""
    object_meta: Manifest = {
        "name": name,
        "namespace": meta.namespace,
        "labels": {**meta.labels, **(more_labels or {})},
    }
    if meta.annotations:
        object_meta["annotations"] = dict(meta.annotations)
    return object_meta


def build_object(api_version: str, kind: str, object_meta: Manifest, **fields: Any) -> Manifest:
    """Return an object with this metadata, and with `spec` or other fields."""
    return {"apiVersion": api_version, "kind": kind, "metadata": object_meta, **fields}


#: Verbs of read access.
READ: tuple[str, ...] = ("get", "list", "watch")
_RBAC = "rbac.authorization.k8s.io"


def build_service_account(
    meta: ServiceMeta, name: str, more_labels: Mapping[str, str] | None = None
) -> Manifest:
    """Return a ServiceAccount; pods mount its token only if they ask for it."""
    object_meta = build_metadata(meta, name, more_labels)
    return build_object("v1", "ServiceAccount", object_meta, automountServiceAccountToken=False)


def build_role_and_binding(
    meta: ServiceMeta,
    name: str,
    rules: Iterable[tuple[str, list[str], Iterable[str]]],
    accounts: Iterable[Any],
    more_labels: Mapping[str, str] | None = None,
) -> Iterator[Manifest]:
    """Yield a Role and its RoleBinding to ServiceAccounts.

    Each rule has an API group, resources and verbs.
    """
    rbac_rules = [
        {"apiGroups": [group], "resources": resources, "verbs": list(verbs)}
        for group, resources, verbs in rules
    ]
    role_meta = build_metadata(meta, name, more_labels)
    binding_meta = build_metadata(meta, name, more_labels)
    yield build_object(f"{_RBAC}/v1", "Role", role_meta, rules=rbac_rules)
    yield build_role_binding(meta, binding_meta, ("Role", name), accounts)


def build_role_binding(
    meta: ServiceMeta, object_meta: Manifest, role: tuple[str, str], accounts: Iterable[Any]
) -> Manifest:
    """Return the binding of ServiceAccounts to a Role or ClusterRole (its kind and name)."""
    kind, name = role
    reference = {"apiGroup": _RBAC, "kind": kind, "name": name}
    subjects = [
        {"kind": "ServiceAccount", "name": account, "namespace": meta.namespace}
        for account in accounts
    ]
    return build_object(
        f"{_RBAC}/v1", f"{kind}Binding", object_meta, roleRef=reference, subjects=subjects
    )
