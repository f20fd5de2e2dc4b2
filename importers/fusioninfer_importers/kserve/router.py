"""Converts KServe's router block to a router role."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fusioninfer_importers.conversion import ServiceBuilder
from fusioninfer_importers.kserve._child_names import POOL, SERVICE, name_child
from fusioninfer_importers.kserve._nodes import Node, copy_node, set_fields
from fusioninfer_importers.kserve.container import name_serving_preset
from fusioninfer_importers.kserve.scheduler import IMAGE, Objects, convert_scheduler
from fusioninfer_importers.kserve.served_model import list_adapters, qualify_name
from fusioninfer_importers.objects import MODEL_HEADER, make_pool_ref
from fusioninfer_importers.rules import REFERENCE_MISSING
from fusioninfer_pulumi.plugins.importers import Location, Rule, labels, object_names

EXTERNAL_ROUTE_BACKEND = Rule("external-route-backend")

#: Suffixes of the objects that KServe's controller creates for each service, by kind (in Go:
#: `InferencePoolName()` and `workloadServiceName()`). KServe's own route leads to both.
_SUFFIXES = {object_names.POOL_KIND: POOL, "Service": SERVICE}
#: Our backend in place of each such object, by the object's namespace, kind and name.
Backends = Mapping[tuple[Any, str, str], Mapping[str, Any]]
#: Port of KServe's Service, and of its presets' engines.
_PORT = 8000
#: Gateway that KServe attaches its routes to.
GATEWAY = {"name": "kserve-ingress-gateway", "namespace": "kserve"}
#: Endpoints with separate rules in KServe's preset (config-llm-router-route.yaml).
_ENDPOINTS = ("/v1/completions", "/v1/chat/completions", "/v1/responses", "/v1/messages")
#: Streams have no timeout.
_NO_TIMEOUT = {"request": "0s", "backendRequest": "0s"}
#: Annotation of a workload whose engine also serves its model under the qualified name.
MODEL_ROUTING = "serving.kserve.io/model-based-routing-enabled"


@dataclass(frozen=True)
class Member:
    """A service of a routing group.

    Attributes:
        service: The name of the service.
        weight: Its share of the group's requests, relative to the sum of all; 0 if not set.
        model: The name of its model.
        models: `model` and its adapters; KServe splits requests among members with equal `models`.
        backend: The backendRef to it, without a weight.
    """

    service: str
    weight: int
    model: str
    models: frozenset[str]
    backend: Mapping[str, Any]


#: Members of each group in the order of their names, by the group's namespace and name.
Groups = Mapping[tuple[Any, str], Sequence[Member]]


def group_services(specs: Iterable[tuple[Any, Any, Node]]) -> Groups:
    """Return the routing groups of services, given by namespace, name and merged spec."""
    groups: dict[tuple[Any, str], list[Member]] = {}
    for namespace, name, spec in specs:
        group = spec.get("router", "route", "group")
        if group is None:
            continue
        weight = spec.get("router", "route", "weight")
        number = 0 if weight is None else weight.content
        model_name = spec.get("model", "name")
        model = str(name if model_name is None else model_name.content)
        member = Member(
            str(name),
            number if isinstance(number, int) else 0,
            model,
            frozenset([model, *list_adapters(spec)]),
            choose_backend(name, spec),
        )
        groups.setdefault((namespace, str(group.content)), []).append(member)
    return {
        key: sorted(members, key=lambda member: member.service) for key, members in groups.items()
    }


@dataclass(frozen=True)
class Related:
    """Objects of the same input that a service may refer to.

    Attributes:
        maps: ConfigMaps by namespace and name.
        accounts: ServiceAccounts.
        secrets: Their Secrets.
        backends: Backends that KServe creates for the services that have a router.
        groups: Members of the routing groups.
    """

    maps: Objects
    accounts: Objects
    secrets: Objects
    backends: Backends
    groups: Groups


def get_pool_ref(spec: Node) -> Node | None:
    """Return the name of the existing pool that a service uses, or None if it uses none."""
    return spec.get("router", "scheduler", "pool", "ref", "name")


def has_picker(spec: Node) -> bool:
    """Return whether a service with a router has an endpoint picker, instead of a Service.

    KServe has no picker without a scheduler. We add one for prefill and decode, which need pairing.
    """
    if get_pool_ref(spec) is not None:
        return False
    return spec.get("router", "scheduler") is not None or spec.get("prefill") is not None


def choose_backend(service: Any, spec: Node) -> dict[str, Any]:
    """Return the backendRef to a service's pool or Service, without a weight."""
    reference = get_pool_ref(spec)
    if reference is not None:
        return {
            "group": object_names.POOL_GROUP,
            "kind": object_names.POOL_KIND,
            "name": reference.content,
        }
    if has_picker(spec):
        return make_pool_ref(service)
    return make_service_ref(service)


def make_service_ref(service: Any) -> dict[str, Any]:
    """Return the backendRef to a service's Service."""
    return {"kind": "Service", "name": object_names.serving_service(str(service)), "port": _PORT}


def map_kserve_backends(
    namespace: Any, service: Any, spec: Node
) -> dict[tuple[Any, str, str], Mapping[str, Any]]:
    """Return our backend for each backend that KServe creates for a service with a router."""
    backend = choose_backend(service, spec)
    return {
        (namespace, kind, name_child(str(service), suffix)): backend
        for kind, suffix in _SUFFIXES.items()
    }


def replace_backends(builder: ServiceBuilder, rules: Node, backends: Backends) -> Node:
    """Return the rules of a route with our backends instead of those that KServe creates."""
    return _map_items(rules, lambda rule: _replace_in_rule(builder, rule, backends))


def _replace_in_rule(builder: ServiceBuilder, rule: Node, backends: Backends) -> Node:
    refs, filters = rule.get("backendRefs"), rule.get("filters")
    if refs is not None:
        refs = _map_items(refs, lambda item: _replace_backend(builder, item, backends))
    if filters is not None:
        filters = _map_items(filters, lambda item: _replace_in_mirror(builder, item, backends))
    return set_fields(rule, backendRefs=refs, filters=filters)


def _replace_in_mirror(builder: ServiceBuilder, item: Node, backends: Backends) -> Node:
    mirror, backend = item.get("requestMirror"), item.get("requestMirror", "backendRef")
    if mirror is None or backend is None:
        return item
    return set_fields(
        item,
        requestMirror=set_fields(mirror, backendRef=_replace_backend(builder, backend, backends)),
    )


def _replace_backend(builder: ServiceBuilder, ref: Node, backends: Backends) -> Node:
    kind, name = ref.text("kind") or "Service", ref.text("name")
    if name is None or kind not in _SUFFIXES:
        return ref  # not created by KServe, or rejected by our rules
    if kind == "Service" and ref.text("group"):
        return ref
    namespace = ref.text("namespace") or builder.main.namespace
    backend = backends.get((namespace, kind, name))
    if backend is None:
        if name not in {other_backend["name"] for other_backend in backends.values()}:
            builder.report.warning(
                REFERENCE_MISSING,
                ref.field / "name",
                f"this input creates no {kind} {name}; requests fail unless it exists already",
            )
        return ref
    builder.report.translated(
        ref.field, f"KServe's {kind} {name} is the {backend['kind']} {backend['name']} here"
    )
    fields = {key: Node(ref.field / key, value) for key, value in backend.items()}
    # A backendRef to an InferencePool has no port: the pool has its pods' ports.
    return set_fields(ref, **{"group": None, "port": None, **fields})


def _map_items(node: Node, convert: Callable[[Node], Node]) -> Node:
    """Return a list with each mapping converted; our rules reject other values."""
    if not isinstance(node.content, list):
        return node
    items = [convert(item) if isinstance(item.content, dict) else item for item in node.content]
    return Node(node.field, items)


def convert_router(
    builder: ServiceBuilder, spec: Node, related: Related, replaced: Collection[str]
) -> None:
    """Convert the router; a service without one has no router role.

    Args:
        builder: The service.
        spec: Its spec.
        related: Objects that it refers to.
        replaced: Names of KServe's presets that the service's namespace replaces.
    """
    router = spec.get("router")
    if router is None:
        return
    target = builder.add_role(router.field, "router", "router")
    ingress = router.get("ingress")
    if ingress is not None:
        builder.report.unsupported(ingress.field, "is not supported; set router.gateway.refs")
    _convert_route(builder, target, spec, related, replaced)
    _convert_gateway(builder, target, router)
    if get_pool_ref(spec) is not None:
        _use_existing_pool(builder, target, spec)
        return
    if router.get("scheduler") is not None:
        convert_scheduler(builder, target, spec, related.maps, replaced)
        return
    builder.report.consume(*(() if router.content else (router.field,)))
    field = router.field / "scheduler"
    if has_picker(spec):
        builder.default((*target, "endpointPicker", "image"), IMAGE, field)
        builder.report.chosen(field, "not set; an endpoint picker pairs prefill and decode")
        return
    builder.default((*target, "endpointPicker"), {"enabled": False}, field)
    builder.report.chosen(
        field, "not set; a Service distributes requests without an endpoint picker"
    )


def _use_existing_pool(builder: ServiceBuilder, target: Location, spec: Node) -> None:
    """Disable the endpoint picker, which KServe does not create for an existing pool either."""
    scheduler, reference = spec.get("router", "scheduler"), get_pool_ref(spec)
    assert scheduler is not None, "it contains the reference"
    assert reference is not None, "checked by the caller"
    builder.default((*target, "endpointPicker"), {"enabled": False}, scheduler.field)
    builder.report.warning(
        EXTERNAL_ROUTE_BACKEND,
        reference.field,
        f"InferencePool {reference.content} selects pods by KServe's labels; set its selector to "
        f'{labels.SERVICE}: {builder.main.name} and {labels.LWS_WORKER_INDEX}: "0"',
    )
    for _, leaf in scheduler.leaves():
        if leaf.field != reference.field:
            builder.report.left_out(leaf.field, "has no effect with pool.ref; ignored")


def _convert_route(
    builder: ServiceBuilder,
    target: Location,
    spec: Node,
    related: Related,
    replaced: Collection[str],
) -> None:
    route, report = spec.get("router", "route"), builder.report
    if route is None:
        return
    report.consume(route.field)
    group, weight = route.get("group"), route.get("weight")
    if group is None and weight is not None:
        report.left_out(weight.field, "has no effect without a group; ignored")
    group_fields = [] if group is None else [node for node in (group, weight) if node is not None]
    report.consume(*(node.field for node in group_fields))
    refs = route.get("http", "refs")
    if refs is not None:
        copy_node(builder, (*target, "httproute", "refs"), refs)
        backend = choose_backend(builder.main.name, spec)
        report.warning(
            EXTERNAL_ROUTE_BACKEND,
            refs.field,
            f"the backend has another name here; set the route's backendRefs to {backend['kind']} "
            f"{backend['name']}, or no request arrives",
        )
    route_spec = route.get("http", "spec")
    if route_spec is not None:
        for key, field in route_spec.content.items():
            node = replace_backends(builder, field, related.backends) if key == "rules" else field
            copy_node(builder, (*target, "httproute", key), node)
    if refs is not None or route_spec is not None:
        for node in group_fields:
            report.unsupported(
                node.field,
                "group and weight apply only to the preset's route; remove them, and list the "
                "backends of all members with weights in router.route.http.spec of one service",
            )
        return
    namespace, name = builder.main.namespace, builder.main.name
    service = make_service_ref(name)
    backends = [] if get_pool_ref(spec) is None else [choose_backend(name, spec)]
    rules = _make_path_rules(f"/{namespace}/{name}", [service], backends)
    if group is not None:
        rules += _make_group_rules(builder, group, related.groups)
    elif isinstance(namespace, str):
        model_name = spec.get("model", "name")
        model = str(name if model_name is None else model_name.content)
        rules += _make_path_rules(f"/{qualify_name(namespace, model)}", [service], backends)
        enabled = spec.get("annotations", MODEL_ROUTING)
        # KServe's preset sets the annotation.
        is_default = enabled is None and name_serving_preset(spec) not in replaced
        if is_default or (enabled is not None and enabled.content == "true"):
            served_names = [model, *sorted(list_adapters(spec))]
            models = [qualify_name(namespace, served) for served in served_names]
            rules += _make_model_rules(models, service, backends)
    builder.default((*target, "httproute", "rules"), rules, route.field)


def _make_group_rules(builder: ServiceBuilder, group: Node, groups: Groups) -> list[dict[str, Any]]:
    """Return the rules for a group's path; empty unless the service has the largest weight.

    KServe writes the rules into the route of every member (router_group_routing.go), and gateways
    use the oldest of equal rules.
    """
    namespace, name = builder.main.namespace, str(builder.main.name)
    members = groups.get((namespace, str(group.content)), ())
    # If two services have the same name, another check reports it.
    own_member = next(member for member in members if member.service == name)
    peers = [member for member in members if member.models == own_member.models]
    other_services = [member.service for member in members if member not in peers]
    if other_services:
        builder.report.left_out(
            group.field,
            f"KServe splits requests only between services with equal model names; those of "
            f"{', '.join(other_services)} differ from {', '.join(sorted(own_member.models))}",
        )
    main = max(peers, key=lambda member: member.weight)
    prefix = f"/{qualify_name(namespace, own_member.model)}"
    if main is not own_member:
        builder.report.translated(
            group.field, f"the route of {main.service} splits requests to {prefix}"
        )
        return []
    if not any(member.weight for member in peers):
        builder.report.invalid(
            group.field,
            f"at least one member needs a weight above 0, otherwise requests to {prefix} fail",
        )
        return []
    shares = ", ".join(f"{member.service} {member.weight}" for member in peers)
    builder.report.translated(
        group.field,
        f"this route splits requests to {prefix}: {shares}; requests routed by the model header "
        "are not split, because KServe's gateway settings are not read",
    )
    backends = [{**member.backend, "weight": member.weight} for member in peers]
    services = [{**make_service_ref(member.service), "weight": member.weight} for member in peers]
    return _make_path_rules(prefix, services, backends)


def _make_path_rules(
    prefix: str, services: Sequence[Any], backends: Sequence[Any] = ()
) -> list[dict[str, Any]]:
    """Return the rules below a path.

    Without `backends` the rules of the endpoints name no backend; the library adds the service's
    pool. Other paths lead to Services, because pickers reject requests they cannot parse.
    """
    rules = []
    for endpoint in (*_ENDPOINTS, ""):
        rewrite = {"type": "ReplacePrefixMatch", "replacePrefixMatch": endpoint or "/"}
        refs = backends if endpoint else services
        rule = {
            "matches": [{"path": {"type": "PathPrefix", "value": f"{prefix}{endpoint}"}}],
            "filters": [{"type": "URLRewrite", "urlRewrite": {"path": rewrite}}],
            "timeouts": _NO_TIMEOUT,
        }
        rules.append({**rule, "backendRefs": list(refs)} if refs else rule)
    return rules


def _make_model_rules(
    models: Iterable[str], service: Mapping[str, Any], backends: Sequence[Any]
) -> list[dict[str, Any]]:
    """Return the rules for requests whose header names the model or one of its adapters."""
    header = {"type": "Exact", "name": MODEL_HEADER}
    headers = [{"headers": [{**header, "value": model}]} for model in models]
    endpoints = [
        {"path": {"type": "Exact", "value": f"{endpoint}{slash}"}, **match}
        for match in headers
        for endpoint in _ENDPOINTS
        for slash in ("", "/")
    ]
    return [
        {
            "matches": endpoints,
            "timeouts": _NO_TIMEOUT,
            **({"backendRefs": list(backends)} if backends else {}),
        },
        {"matches": headers, "timeouts": _NO_TIMEOUT, "backendRefs": [service]},
    ]


def _convert_gateway(builder: ServiceBuilder, target: Location, router: Node) -> None:
    """Attach the route to the Gateways in the spec, else to KServe's default Gateway.

    Neither KServe nor the library creates that Gateway.
    """
    gateway, refs = router.get("gateway"), router.get("gateway", "refs")
    route_refs = router.get("route", "http", "refs")
    parents = router.get("route", "http", "spec", "parentRefs")
    if refs is not None:
        copy_node(builder, (*target, "gateway", "refs"), refs)
        if parents is not None:
            builder.remove((*target, "httproute", "parentRefs"))
            builder.report.left_out(
                parents.field, "overridden by gateway.refs, as in KServe; ignored"
            )
        return
    has_managed_route = router.get("route") is not None and route_refs is None
    if parents is not None or (gateway is None and not has_managed_route):
        builder.report.consume(*(() if gateway is None else (gateway.field,)))
        return
    field = router.field / "gateway" if gateway is None else gateway.field
    builder.default((*target, "gateway", "refs"), [GATEWAY], field)
    builder.report.consume(field)
    reason = "not set" if gateway is None else "has no refs"
    builder.report.chosen(field, f"{reason}; the route attaches to kserve/kserve-ingress-gateway")
