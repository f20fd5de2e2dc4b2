"""Tells apart what a program registers: objects, patches, things that only the engine expands."""

from __future__ import annotations

from typing import Any

from fusioninfer_pulumi.cli.program.values import plain, type_of
from fusioninfer_pulumi.cli.program.wire import struct_pb2

_PROVIDER = "pulumi:providers:kubernetes"
#: Custom resources that stand for many objects.
EXPANDED_BY_ENGINE = frozenset({"kubernetes:helm.sh/v3:Release", "kubernetes:helm.sh/v4:Chart"})
#: Kinds without a namespace that programs commonly register.
_CLUSTER_WIDE = frozenset(
    {
        "APIService",
        "ClusterRole",
        "ClusterRoleBinding",
        "CustomResourceDefinition",
        "GatewayClass",
        "IngressClass",
        "MutatingWebhookConfiguration",
        "Namespace",
        "Node",
        "PersistentVolume",
        "PriorityClass",
        "Queue",
        "RuntimeClass",
        "StorageClass",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "ValidatingWebhookConfiguration",
    }
)


def is_object(token: str, properties: struct_pb2.Struct, *, custom: bool) -> bool:
    """Tells whether a resource is a Kubernetes object of the program's own."""
    if not custom or not token.startswith("kubernetes:") or token.count(":") < 2:
        return False
    name = token.rpartition(":")[2]
    # A patch's token ends in Patch while its kind is the patched object's; a user's own kind
    # may end in Patch too.
    return not name.endswith("Patch") or type_of("::", properties.fields)[1] == name


class ProviderNamespaces:
    """Namespaces that explicit providers give to objects without one."""

    def __init__(self) -> None:
        self._by_urn: dict[str, str] = {}

    def provider(self, urn: str, token: str, properties: struct_pb2.Struct) -> None:
        """Notes a provider's namespace."""
        if token == _PROVIDER and "namespace" in properties.fields:
            self._by_urn[urn] = plain(properties.fields["namespace"])

    def note(self, provider: str, manifest: dict[str, Any]) -> str | None:
        """What has to be said about an object that its provider moves to a namespace."""
        urn = provider.rpartition("::")[0]
        namespace = self._by_urn.get(urn)
        if (
            namespace is None
            or "namespace" in manifest["metadata"]
            or manifest["kind"] in _CLUSTER_WIDE
        ):
            return None
        return (
            f'provider "{urn.rpartition("::")[2]}" puts objects without metadata.namespace in '
            f"namespace {namespace}; it is not written into them here"
        )
