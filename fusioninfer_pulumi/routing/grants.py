"""ReferenceGrants: plan and objects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fusioninfer_pulumi.api.role import RoleArgs
from fusioninfer_pulumi.findings import Location
from fusioninfer_pulumi.kube import object_names
from fusioninfer_pulumi.kube.object_metadata import Manifest, ServiceMeta, build_object, metadata
from fusioninfer_pulumi.kube.pulumi_outputs import is_known_equal, is_output
from fusioninfer_pulumi.routing.http_route import RoutePlan
from fusioninfer_pulumi.routing.service_gateway import GROUP, GatewayPlan


@dataclass(frozen=True)
class GrantPlan:
    """A reference into another namespace, which needs a ReferenceGrant there.

    Attributes:
        at: Field that makes the reference, for findings.
        namespace: Namespace that is referred to; may be an Output where it is the service's.
        from_namespace: Namespace of what refers; may be an Output where it is the service's.
        to_group: API group of what is referred to; empty for the core group.
    """

    at: Location
    name: str
    namespace: Any
    from_kind: str
    from_namespace: Any
    to_group: str
    to_kind: str
    to_name: str


def needed_grants(
    backend: Mapping[str, Any],
    namespace: Any,
    at: Location,
    args: RoleArgs,
    route: RoutePlan | None,
    gateway: GatewayPlan | None,
) -> Iterator[GrantPlan]:
    """Return the grants for references of the route and of the Gateway, and of external routes.

    `backend` is what external routes have to lead to.
    """
    prefix = "" if is_output(namespace) else str(namespace)
    for owner, kind, default_kind, field, ref in _references(route, gateway):
        target = ref.get("namespace", namespace)
        if not is_known_equal(target, namespace) and not is_output(target):
            yield GrantPlan(
                at=(*at, *field),
                name=object_names.reference_grant(prefix, owner),
                namespace=target,
                from_kind=kind,
                from_namespace=namespace,
                to_group=str(ref.get("group", "")),
                to_kind=str(ref.get("kind", default_kind)),
                to_name=str(ref["name"]),
            )
    for index, external in enumerate((args.httproute and args.httproute.refs) or ()):
        origin = external.namespace
        if origin is None or is_output(origin) or is_known_equal(origin, namespace):
            continue
        yield GrantPlan(
            at=(*at, "httproute", "refs", index, "namespace"),
            name=object_names.reference_grant(str(origin), backend["name"]),
            namespace=namespace,
            from_kind="HTTPRoute",
            from_namespace=origin,
            to_group=backend.get("group", ""),
            to_kind=backend["kind"],
            to_name=backend["name"],
        )


def _references(
    route: RoutePlan | None, gateway: GatewayPlan | None
) -> Iterator[tuple[str, str, str, Location, Mapping[str, Any]]]:
    """Yield source name and kind, default kind of the target, field and reference."""
    for index, rule in enumerate(route.rules if route is not None else ()):
        assert route is not None
        named = (route.name, "HTTPRoute", "Service")
        at: Location = ("httproute", "rules", index)
        for number, ref in enumerate(rule.backends):
            yield *named, (*at, "backendRefs", number), ref
        for number, item in enumerate(rule.written.get("filters") or ()):
            mirror = item.get("requestMirror")
            if isinstance(mirror, Mapping) and isinstance(mirror.get("backendRef"), Mapping):
                field = (*at, "filters", number, "requestMirror", "backendRef")
                yield *named, field, mirror["backendRef"]
    for index, listener in enumerate(gateway.listeners if gateway is not None else ()):
        assert gateway is not None
        for number, ref in enumerate((listener.get("tls") or {}).get("certificateRefs") or ()):
            field = ("gateway", "listeners", index, "tls", "certificateRefs", number)
            yield gateway.name, "Gateway", "Secret", field, ref


def reference_grants(meta: ServiceMeta, grants: Sequence[GrantPlan]) -> Iterator[Manifest]:
    """Build one ReferenceGrant for each namespace that is referred to, or from."""
    by_name: dict[tuple[str, str], list[GrantPlan]] = {}
    for grant in grants:
        by_name.setdefault((grant.namespace, grant.name), []).append(grant)
    for (namespace, name), merged in by_name.items():
        targets = {(grant.to_group, grant.to_kind, grant.to_name) for grant in merged}
        kind, origin = merged[0].from_kind, merged[0].from_namespace
        spec = {
            "from": [{"group": GROUP, "kind": kind, "namespace": origin}],
            "to": [
                {"group": group, "kind": kind, "name": target}
                for group, kind, target in sorted(targets)
            ],
        }
        named = {**metadata(meta, name), "namespace": namespace}
        yield build_object(f"{GROUP}/v1beta1", "ReferenceGrant", named, spec=spec)
