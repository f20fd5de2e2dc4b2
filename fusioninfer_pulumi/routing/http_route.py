"""Plans and builds the HTTPRoute and the ReferenceGrants of a service."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from fusioninfer_pulumi.api.role import RoleArgs
from fusioninfer_pulumi.api.route import HttpRouteArgs
from fusioninfer_pulumi.findings import Location
from fusioninfer_pulumi.kube import object_names
from fusioninfer_pulumi.kube.object_metadata import (
    Manifest,
    ServiceMeta,
    build_metadata,
    build_object,
)
from fusioninfer_pulumi.kube.pulumi_outputs import is_known_equal, is_output
from fusioninfer_pulumi.routing.gateway_implementations import (
    GATEWAY_API_VERSION,
    GATEWAY_GROUP,
    GatewayPlan,
    Implementation,
)
from fusioninfer_pulumi.routing.pool import build_pool_reference, is_pool

# Kinds and groups that users often write by mistake when they refer to the pool.
_WRONG_POOL_REFERENCES = (
    ("Service", ""),
    (object_names.POOL_KIND, ""),
    (object_names.POOL_KIND, "inference.networking.x-k8s.io"),
)
#: No timeout, because a streamed response may take minutes.
_NO_TIMEOUT = "0s"


class ParentPlan(NamedTuple):
    """A Gateway that the route attaches to.

    Attributes:
        location: Field that references it, for findings.
        section: Name of the only listener to attach to; None means any listener.
        port: Port of the listeners to attach to; None means any port.
        listeners: The Gateway's listeners, or None if unknown.
    """

    location: Location
    name: str
    namespace: Any
    section: str | None
    port: int | None
    listeners: tuple[Mapping[str, Any], ...] | None


class RulePlan(NamedTuple):
    """One rule of the route.

    Attributes:
        has_default_backends: Whether the library adds the backends, because the user's rule has
            none and is not a redirect.
        corrected: Indexes of backends that are replaced with the service's pool.
        request_timeout: Timeout to add to the rule, or None if none is added.
    """

    spec: Mapping[str, Any]
    has_default_backends: bool
    corrected: frozenset[int]
    request_timeout: str | None

    @property
    def backends(self) -> Sequence[Mapping[str, Any]]:
        """The user's backends."""
        return self.spec.get("backendRefs") or ()


class RoutePlan(NamedTuple):
    """The HTTPRoute.

    Attributes:
        backend: Reference to the service's pool or Service.
        parent_refs: References to Gateways, or None if the field is omitted.
        hostnames: Host names; each may be an Output.
        split: Services whose pools share the requests of rules with default backends, each with
            its percentage, this service first. Empty if this service gets all requests.
    """

    name: str
    backend: Mapping[str, Any]
    parent_refs: tuple[Mapping[str, Any], ...] | None
    hostnames: tuple[Any, ...] | None
    rules: tuple[RulePlan, ...]
    use_default_gateways: str | None
    split: tuple[tuple[str, int], ...] = ()

    def has_service_backend(self, service: str) -> bool:
        """Return whether the user's backends include the service's own Kubernetes Service."""
        target = {"name": object_names.serving_service(service)}
        return any(is_same_backend(ref, target) for rule in self.rules for ref in rule.backends)

    @property
    def has_split(self) -> bool:
        """Whether other pools get a share of the requests."""
        return bool(self.split) and any(rule.has_default_backends for rule in self.rules)


def plan_parents(
    location: Location, namespace: Any, router: RoleArgs, gateway: GatewayPlan | None
) -> tuple[ParentPlan, ...]:
    """Return the route's Gateways.

    They are the first of: `httproute.parentRefs`; the service's own Gateway; `gateway.refs`.
    """
    plans = []
    for field, ref, known_listeners in _find_parents(router, gateway):
        kind, group = ref.get("kind", "Gateway"), ref.get("group", GATEWAY_GROUP)
        if (kind, group) != ("Gateway", GATEWAY_GROUP):
            continue
        parent_namespace = ref.get("namespace", namespace)
        listeners = known_listeners
        # `parentRefs` may name the service's own Gateway.
        if gateway and ref["name"] == gateway.name and is_known_equal(parent_namespace, namespace):
            listeners = gateway.listeners
        section, port = ref.get("sectionName"), ref.get("port")
        plans.append(
            ParentPlan((*location, *field), ref["name"], parent_namespace, section, port, listeners)
        )
    return tuple(plans)


def _find_parents(
    router: RoleArgs, gateway: GatewayPlan | None
) -> Iterator[tuple[Location, Mapping[str, Any], tuple[Mapping[str, Any], ...] | None]]:
    """Yield the field, the reference and the known listeners of each Gateway."""
    parent_refs = router.httproute.parent_refs if router.httproute is not None else None
    if parent_refs:
        for index, parent in enumerate(parent_refs):
            yield ("httproute", "parentRefs", index), parent, None
    elif gateway is not None:
        yield ("gateway",), {"name": gateway.name}, gateway.listeners
    else:
        for index, ref in enumerate((router.gateway and router.gateway.refs) or ()):
            fields = {
                "name": ref.name,
                "namespace": ref.namespace,
                "sectionName": ref.section_name,
                "port": ref.port,
            }
            reference = {key: value for key, value in fields.items() if value is not None}
            listeners = None if ref.listeners is None else tuple(ref.listeners)
            yield ("gateway", "refs", index), reference, listeners


def plan_route(
    service: str,
    backend: Mapping[str, Any],
    namespace: Any,
    router: RoleArgs,
    gateway: GatewayPlan | None,
    implementation: Implementation,
) -> RoutePlan | None:
    """Plan the HTTPRoute; None if it is external, or the role has neither a route nor a Gateway."""
    if (router.httproute is None and router.gateway is None) or router.is_routed_externally:
        return None
    route = router.httproute or HttpRouteArgs()
    shares = [(share.service, share.weight) for share in route.split or ()]
    own_share = 100 - sum(weight for _, weight in shares)
    return RoutePlan(
        name=object_names.http_route(service),
        backend=backend,
        parent_refs=tuple(ref for _, ref, _ in _find_parents(router, gateway)) or None,
        hostnames=None if route.hostnames is None else tuple(route.hostnames),
        rules=tuple(
            _plan_rule(backend, namespace, rule, implementation) for rule in route.rules or ({},)
        ),
        use_default_gateways=route.use_default_gateways,
        split=((service, own_share), *shares) if shares else (),
    )


def compute_pool_shares(rules: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Return the percentage of a rule's requests for each backend; if rules differ, the largest."""
    shares: dict[str, float] = {}
    for rule in rules:
        weights = {ref["name"]: ref.get("weight", 1) for ref in rule.get("backendRefs") or ()}
        total = sum(weights.values()) or 1
        for name, weight in weights.items():
            shares[name] = max(shares.get(name, 0), 100 * weight / total)
    return shares


def _plan_rule(
    backend: Mapping[str, Any],
    namespace: Any,
    rule: Mapping[str, Any],
    implementation: Implementation,
) -> RulePlan:
    backends: Sequence[Mapping[str, Any]] = rule.get("backendRefs") or ()
    # The Gateway API allows no backend in a rule that redirects.
    redirects = any(item.get("type") == "RequestRedirect" for item in rule.get("filters") or ())
    has_default_backends = not backends and not redirects
    # FusionInfer's design documents reference the pool as a Service, or by another group.
    corrected = frozenset(
        index
        for index, ref in enumerate(backends)
        if is_pool(backend)
        and ref["name"] == backend["name"]
        and is_known_equal(ref.get("namespace", namespace), namespace)
        and (ref.get("kind", "Service"), ref.get("group") or "") in _WRONG_POOL_REFERENCES
    )
    leads_to_pods = has_default_backends or any(
        index in corrected or is_same_backend(ref, backend) for index, ref in enumerate(backends)
    )
    has_timeout = "request" in (rule.get("timeouts") or {})
    sets_timeout = leads_to_pods and implementation.accepts_timeouts and not has_timeout
    return RulePlan(rule, has_default_backends, corrected, _NO_TIMEOUT if sets_timeout else None)


def is_same_backend(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    """Return whether two references have the same target, apart from namespace and port."""
    defaults = {"group": "", "kind": "Service", "name": None}
    return all(first.get(key, value) == second.get(key, value) for key, value in defaults.items())


def build_http_route(meta: ServiceMeta, route: RoutePlan) -> Manifest:
    """Build the HTTPRoute."""
    fields = {
        "parentRefs": None if route.parent_refs is None else list(route.parent_refs),
        "useDefaultGateways": route.use_default_gateways,
        "hostnames": None if route.hostnames is None else list(route.hostnames),
        "rules": [_build_rule(rule, route) for rule in route.rules],
    }
    spec = {key: value for key, value in fields.items() if value is not None}
    object_meta = build_metadata(meta, route.name)
    return build_object(GATEWAY_API_VERSION, "HTTPRoute", object_meta, spec=spec)


def _build_rule(rule: RulePlan, route: RoutePlan) -> Manifest:
    built = dict(rule.spec)
    if rule.has_default_backends:
        shares = [
            {**build_pool_reference(object_names.inference_pool(service)), "weight": weight}
            for service, weight in route.split
        ]
        built["backendRefs"] = shares or [dict(route.backend)]
    elif rule.corrected:
        built["backendRefs"] = [
            # Other fields are dropped: the user's port and kind describe a Service, not a pool.
            {**route.backend, **{key: ref[key] for key in ("weight", "filters") if key in ref}}
            if index in rule.corrected
            else ref
            for index, ref in enumerate(rule.backends)
        ]
    if rule.request_timeout is not None:
        timeouts = rule.spec.get("timeouts") or {}
        built["timeouts"] = {"request": rule.request_timeout, **timeouts}
    return built


class GrantPlan(NamedTuple):
    """A reference into another namespace, which needs a ReferenceGrant there.

    Attributes:
        location: Field with the reference, for findings.
        namespace: Namespace of the target; an Output only if it is the service's.
        from_namespace: Namespace of the referrer; an Output only if it is the service's.
        to_group: API group of the target, or empty for the core group.
    """

    location: Location
    name: str
    namespace: Any
    from_kind: str
    from_namespace: Any
    to_group: str
    to_kind: str
    to_name: str


def plan_grants(
    backend: Mapping[str, Any],
    namespace: Any,
    location: Location,
    router: RoleArgs,
    route: RoutePlan | None,
    gateway: GatewayPlan | None,
) -> Iterator[GrantPlan]:
    """Yield the grants that route, Gateway and external routes need for other namespaces."""
    for field, name, from_kind, from_namespace, ref in _find_references(
        backend, namespace, router, route, gateway
    ):
        to_namespace = ref.get("namespace", namespace)
        # At least one of the two namespaces is the service's.
        other_namespace = to_namespace if from_namespace is namespace else from_namespace
        if is_output(other_namespace) or is_known_equal(other_namespace, namespace):
            continue
        # If grants are created, a check rejects a service's namespace that is an Output.
        referrer_namespace = "" if is_output(from_namespace) else str(from_namespace)
        yield GrantPlan(
            location=(*location, *field),
            name=object_names.reference_grant(referrer_namespace, name),
            namespace=to_namespace,
            from_kind=from_kind,
            from_namespace=from_namespace,
            to_group=str(ref.get("group", "")),
            to_kind=str(ref["kind"]),
            to_name=str(ref["name"]),
        )


def _find_references(
    backend: Mapping[str, Any],
    namespace: Any,
    router: RoleArgs,
    route: RoutePlan | None,
    gateway: GatewayPlan | None,
) -> Iterator[tuple[Location, str, str, Any, Mapping[str, Any]]]:
    """Yield field, name for the grant, kind and namespace of the referrer, and the reference."""
    for index, rule in enumerate(route.rules if route is not None else ()):
        assert route is not None
        location: Location = ("httproute", "rules", index)
        refs = [
            ((*location, "backendRefs", number), ref) for number, ref in enumerate(rule.backends)
        ]
        for number, item in enumerate(rule.spec.get("filters") or ()):
            mirror = item.get("requestMirror")
            if isinstance(mirror, Mapping) and isinstance(mirror.get("backendRef"), Mapping):
                field = (*location, "filters", number, "requestMirror", "backendRef")
                refs.append((field, mirror["backendRef"]))
        for field, ref in refs:
            yield field, route.name, "HTTPRoute", namespace, {"kind": "Service", **ref}
    for index, listener in enumerate(gateway.listeners if gateway is not None else ()):
        assert gateway is not None
        for number, ref in enumerate((listener.get("tls") or {}).get("certificateRefs") or ()):
            field = ("gateway", "listeners", index, "tls", "certificateRefs", number)
            yield field, gateway.name, "Gateway", namespace, {"kind": "Secret", **ref}
    for index, external in enumerate((router.httproute and router.httproute.refs) or ()):
        if external.namespace is not None:
            field = ("httproute", "refs", index, "namespace")
            yield field, backend["name"], "HTTPRoute", external.namespace, backend


def build_reference_grants(meta: ServiceMeta, grants: Sequence[GrantPlan]) -> Iterator[Manifest]:
    """Build one ReferenceGrant for each name and namespace of the planned grants."""
    by_name: dict[tuple[str, str], list[GrantPlan]] = {}
    for grant in grants:
        by_name.setdefault((grant.namespace, grant.name), []).append(grant)
    for (namespace, name), merged in by_name.items():
        targets = {(grant.to_group, grant.to_kind, grant.to_name) for grant in merged}
        from_kind, from_namespace = merged[0].from_kind, merged[0].from_namespace
        spec = {
            "from": [{"group": GATEWAY_GROUP, "kind": from_kind, "namespace": from_namespace}],
            "to": [
                {"group": group, "kind": kind, "name": target}
                for group, kind, target in sorted(targets)
            ],
        }
        object_meta = {**build_metadata(meta, name), "namespace": namespace}
        yield build_object(f"{GATEWAY_GROUP}/v1beta1", "ReferenceGrant", object_meta, spec=spec)
