"""ReferenceGrants: plan and objects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fusioninfer_pulumi.findings import Finding, Location, error, warning
from fusioninfer_pulumi.kube import names
from fusioninfer_pulumi.kube.metadata import ServiceMeta
from fusioninfer_pulumi.kube.outputs import is_output
from fusioninfer_pulumi.routing.common import Manifest, router_metadata
from fusioninfer_pulumi.routing.gateway import same
from fusioninfer_pulumi.routing.records import GatewayPlan, GrantPlan, RoutePlan, RouterPlan


def needed_grants(
    namespace: Any, position: int, route: RoutePlan | None, gateway: GatewayPlan | None
) -> list[GrantPlan]:
    """The references of the route and of the service's own Gateway that need a grant.

    Args:
        namespace: Namespace of the service; may be an Output.
        position: Index of the router in the spec.
        route: The route, None where there is none.
        gateway: The Gateway, None where there is none.
    """
    at = ("roles", position)
    found: list[GrantPlan] = []
    for index, rule in enumerate(route.rules if route is not None else ()):
        for field, ref in _backends((*at, "httproute", "rules", index), rule.given):
            found += _grant(field, namespace, names_of(route), "HTTPRoute", ref, "Service")
    for index, listener in enumerate(gateway.spec["listeners"] if gateway is not None else ()):
        certificates = (listener.get("tls") or {}).get("certificateRefs") or ()
        for number, ref in enumerate(certificates):
            field = (*at, "gateway", "listeners", index, "tls", "certificateRefs", number)
            found += _grant(field, namespace, names_of(gateway), "Gateway", ref, "Secret")
    return found


def grant_findings(
    namespace: Any, needed: Sequence[GrantPlan], *, created: bool
) -> Iterator[Finding]:
    """Asks for the grants that are not created here.

    Args:
        namespace: Namespace of the service; may be an Output.
        needed: The grants.
        created: Whether they are created.

    Yields:
        One warning for each, or an error where they cannot be named.
    """
    for grant in needed:
        if grant.from_namespace is not namespace:
            if not created:
                yield warning(
                    "reference-grant-missing",
                    grant.at,
                    f"routes of namespace {grant.from_namespace} may not lead to {grant.to_kind} "
                    f"{grant.to_name} without a ReferenceGrant beside it; referenceGrants: true "
                    "creates it",
                )
        elif created and is_output(namespace):
            yield error(
                "namespace-output-in-name",
                grant.at,
                "the ReferenceGrant's name is made of the service's namespace, which must be a "
                "plain value for that, got a pulumi Output",
            )
        elif not created:
            yield warning(
                "reference-grant-missing",
                grant.at,
                f"{grant.to_kind} {grant.to_name} is in namespace {grant.namespace}: that needs a "
                f"ReferenceGrant there, from {grant.from_kind} in the service's namespace; "
                "referenceGrants: true creates it",
            )


def names_of(owner: RoutePlan | GatewayPlan | None) -> str:
    """Name of what makes a reference."""
    return owner.name if owner is not None else ""


def _backends(
    at: Location, rule: Mapping[str, Any]
) -> Iterator[tuple[Location, Mapping[str, Any]]]:
    for number, ref in enumerate(rule.get("backendRefs") or ()):
        yield (*at, "backendRefs", number), ref
    for number, item in enumerate(rule.get("filters") or ()):
        mirror = item.get("requestMirror")
        if isinstance(mirror, Mapping) and isinstance(mirror.get("backendRef"), Mapping):
            yield (*at, "filters", number, "requestMirror", "backendRef"), mirror["backendRef"]


def _grant(
    at: Location, namespace: Any, owner: str, kind: str, ref: Mapping[str, Any], default: str
) -> list[GrantPlan]:
    foreign = ref.get("namespace", namespace)
    if same(foreign, namespace) or is_output(foreign):
        return []
    text = "" if is_output(namespace) else str(namespace)
    target = str(ref.get("kind", default))
    return [
        GrantPlan(
            at=at,
            name=names.reference_grant(text, owner),
            namespace=foreign,
            from_kind=kind,
            from_namespace=namespace,
            to_group=str(ref.get("group", "")),
            to_kind=target,
            to_name=str(ref["name"]),
        )
    ]


_GROUP = "gateway.networking.k8s.io"


def reference_grants(plan: ServiceMeta, router: RouterPlan) -> Iterator[Manifest]:
    """Builds one ReferenceGrant for each namespace that is referred to, or from."""
    together: dict[tuple[str, str], list[GrantPlan]] = {}
    for grant in router.grants:
        together.setdefault((grant.namespace, grant.name), []).append(grant)
    for (namespace, name), grants in together.items():
        targets = {(grant.to_group, grant.to_kind, grant.to_name) for grant in grants}
        yield {
            "apiVersion": f"{_GROUP}/v1beta1",
            "kind": "ReferenceGrant",
            "metadata": {**router_metadata(plan, router, name), "namespace": namespace},
            "spec": {
                "from": [
                    {
                        "group": _GROUP,
                        "kind": grants[0].from_kind,
                        "namespace": grants[0].from_namespace,
                    }
                ],
                "to": [
                    {"group": group, "kind": kind, "name": target}
                    for group, kind, target in sorted(targets)
                ],
            },
        }
