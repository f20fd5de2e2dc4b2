"""What there is to say where the route to the pool is made elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fusioninfer_pulumi.api.role import RoleArgs
from fusioninfer_pulumi.findings import Finding, error, info
from fusioninfer_pulumi.kube import names
from fusioninfer_pulumi.kube.outputs import is_output
from fusioninfer_pulumi.routing.gateway import same
from fusioninfer_pulumi.routing.records import GrantPlan


def elsewhere_findings(service: str, position: int, args: RoleArgs) -> Iterator[Finding]:
    """Says what has to lead to the pool.

    Args:
        service: Name of the service.
        position: Index of the router in the spec.
        args: The router role.

    Yields:
        An error where that cannot be, else an `info`.
    """
    given = args.httproute
    if given is None or given.elsewhere is None:
        return
    at = ("roles", position, "httproute", given.elsewhere)
    if given.routed_by == service:
        yield error(
            "routed-by-itself",
            at,
            "is this service, and no route is made then; remove it, or name the one whose route "
            "leads here",
        )
    elif given.routed_by is not None:
        yield info(
            "external-route",
            at,
            f"no route is made: requests come once {given.routed_by} names this service "
            "in its httproute.split, or in backendRefs",
        )
    else:
        yield info(
            "external-route",
            at,
            "no route is made, and what these say is not read: requests come once their "
            f"backendRefs name {names.POOL_KIND} {names.inference_pool(service)} of group "
            f"{names.POOL_GROUP}",
        )


def elsewhere_grants(
    service: str, namespace: Any, position: int, args: RoleArgs
) -> Iterator[GrantPlan]:
    """What lets routes of other namespaces lead to the pool.

    Args:
        service: Name of the service.
        namespace: Its namespace; may be an Output.
        position: Index of the router in the spec.
        args: The router role.
    """
    at = ("roles", position, "httproute", "refs")
    for index, ref in enumerate((args.httproute and args.httproute.refs) or ()):
        if ref.namespace is None or is_output(ref.namespace) or same(ref.namespace, namespace):
            continue
        pool = names.inference_pool(service)
        yield GrantPlan(
            at=(*at, index, "namespace"),
            name=names.reference_grant(str(ref.namespace), pool),
            namespace=namespace,
            from_kind="HTTPRoute",
            from_namespace=ref.namespace,
            to_group=names.POOL_GROUP,
            to_kind=names.POOL_KIND,
            to_name=pool,
        )
