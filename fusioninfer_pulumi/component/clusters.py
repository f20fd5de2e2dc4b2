"""The services of one program by cluster, to be checked against each other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

import pulumi

from fusioninfer_pulumi.checks.cluster import Cluster
from fusioninfer_pulumi.component.sdk import runs_program

# Keyed by the stack, so that nothing outlives it, and by cluster, because each may
# have the same name once.
_clusters: WeakKeyDictionary[pulumi.Resource, dict[int, Cluster]] = WeakKeyDictionary()


def program_services(opts: pulumi.ResourceOptions | None) -> Cluster:
    """Return the services that the program has created so far in a component's cluster.

    `opts` are the component's, for its provider and so its cluster.
    """
    stack = pulumi.runtime.get_root_resource()
    # Unit tests with mocks may share one stack and register the same service each.
    if stack is None or not runs_program():
        return Cluster()
    return _clusters.setdefault(stack, {}).setdefault(_provider_id(opts), Cluster())


def _provider_id(opts: pulumi.ResourceOptions | None) -> int:
    """Identity of the provider that the service's objects go to, 0 for the default one."""
    provider: Any = None
    if opts is not None:
        listed: Any = opts.providers or []
        providers = listed.values() if isinstance(listed, Mapping) else listed
        candidates = [
            opts.provider,
            *(providers if isinstance(providers, Iterable) else [providers]),
        ]
        kubernetes = [item for item in candidates if item and item.package == "kubernetes"]
        if kubernetes:
            provider = kubernetes[0]
        elif opts.parent is not None:
            provider = opts.parent.get_provider("kubernetes:core/v1:Service")
    return id(provider) if provider is not None else 0
