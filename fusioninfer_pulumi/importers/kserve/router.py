"""KServe's router block as a router role."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from fusioninfer_pulumi.findings import Location
from fusioninfer_pulumi.importers.conversion import ServiceBuilder
from fusioninfer_pulumi.importers.kserve.container import MAIN
from fusioninfer_pulumi.importers.kserve.nodes import Node, copy_fields, copy_node, with_fields
from fusioninfer_pulumi.importers.objects import pool_backend
from fusioninfer_pulumi.importers.source import SourceDocument
from fusioninfer_pulumi.kube import names

#: KServe's own namespace (POD_NAMESPACE of its controller, as its manifests install it).
SYSTEM = "kserve"
#: Prefix of ConfigMaps that schedulers of all namespaces share.
SHARED = "config-scheduler-"
Objects = Mapping[tuple[Any, Any], SourceDocument]
#: Objects that KServe's controller makes for each service, by kind (InferencePoolName of its API
#: types, workloadServiceName of its controller); its own route leads to both.
_SUFFIXES = {names.POOL_KIND: "-inference-pool", "Service": "-kserve-workload-svc"}
_LONGEST, _HEAD = 63, 31
#: The service of each such object, by the object's namespace, kind and name.
Backends = Mapping[tuple[Any, str, str], str]
#: The picker of KServe's presets, and its weights (the architecture page's table of scorers).
IMAGE = "ghcr.io/llm-d/llm-d-router-endpoint-picker:v0.10.0"
SCORERS = {"prefix-cache": 2, "load": 1}
#: Where KServe attaches its routes.
GATEWAY = {"name": "kserve-ingress-gateway", "namespace": "kserve"}
#: Endpoints with a rule of their own in KServe's preset; the last one matches all others.
_ENDPOINTS = ("/v1/completions", "/v1/chat/completions", "/v1/responses", "/v1/messages", "")
_PICKER_FIELDS = ("image", "resources", "args")


@dataclass(frozen=True)
class Related:
    """Objects of the same input that a service may refer to.

    Attributes:
        maps: ConfigMaps by namespace and name.
        backends: Backends that KServe makes for the services that have a router.
    """

    maps: Objects
    backends: Backends


def map_namespaces(namespace: Any, name: str) -> tuple[Any, ...]:
    """Namespaces in which KServe looks for a scheduler's ConfigMap, in this order."""
    return (namespace, SYSTEM) if name.startswith(SHARED) else (namespace,)


def _find_config_map(maps: Objects, namespace: Any, name: Any) -> SourceDocument | None:
    places = map_namespaces(namespace, str(name))
    return next((maps[place, name] for place in places if (place, name) in maps), None)


def kserve_backends(namespace: Any, service: Any) -> dict[tuple[Any, str, str], str]:
    """The backends that KServe makes for a service with a router."""
    name = str(service)
    return {(namespace, kind, _child(name, end)): name for kind, end in _SUFFIXES.items()}


def _child(parent: str, suffix: str) -> str:
    """A derived name, as knative's `kmeta.ChildName` shortens it."""
    if len(parent) > _LONGEST - len(suffix):
        digest = hashlib.md5(parent.encode(), usedforsecurity=False).hexdigest()
        parent = f"{parent[: _HEAD - len(suffix)]}{digest}"
    return f"{parent}{suffix}"


def replace_backends(builder: ServiceBuilder, rules: Node, known: Backends) -> Node:
    """The rules of a route with our pools instead of the backends that KServe makes."""
    return _map_items(rules, lambda rule: _replaced_rule(builder, rule, known))


def _replaced_rule(builder: ServiceBuilder, rule: Node, known: Backends) -> Node:
    changed: dict[str, Node] = {}
    for key, change in (("backendRefs", _replaced_backend), ("filters", _replaced_mirror)):
        listed = rule.get(key)
        if listed is not None:
            changed[key] = _map_items(listed, lambda item, to=change: to(builder, item, known))
    return with_fields(rule, **changed) if changed else rule


def _replaced_mirror(builder: ServiceBuilder, item: Node, known: Backends) -> Node:
    mirror, backend = item.get("requestMirror"), item.get("requestMirror", "backendRef")
    if mirror is None or backend is None:
        return item
    return with_fields(
        item,
        requestMirror=with_fields(mirror, backendRef=_replaced_backend(builder, backend, known)),
    )


def _replaced_backend(builder: ServiceBuilder, ref: Node, known: Backends) -> Node:
    kind, name = ref.text("kind") or "Service", ref.text("name")
    if name is None or "{{" in name or kind not in _SUFFIXES:
        return ref  # reported already, or not made by KServe
    if kind == "Service" and ref.text("group"):
        return ref
    namespace = ref.text("namespace") or builder.main.namespace
    service = known.get((namespace, kind, name))
    if service is None:
        if name not in {pool_backend(each)["name"] for each in known.values()}:
            builder.report.warning(
                "backend-not-found",
                ref.at / "name",
                f"no {kind} {name} is made of this input: requests fail unless it is there already",
            )
        return ref
    ours = pool_backend(service)
    # An InferencePool has the port of its pods.
    builder.report.info(
        "backend-replaced",
        ref.at,
        f"KServe's {kind} {name} is the {names.POOL_KIND} {ours['name']} here",
    )
    made = {key: Node(ref.at / key, value) for key, value in ours.items()}
    return with_fields(ref, port=None, **made)


def _map_items(node: Node, change: Any) -> Node:
    """A list with each of its mappings changed; our own rules refuse what is no list."""
    if not isinstance(node.content, list):
        return node
    made = [change(item) if isinstance(item.content, dict) else item for item in node.content]
    return Node(node.at, made)


def convert_router(builder: ServiceBuilder, spec: Node, related: Related) -> None:
    """Converts the router; a service without one has no router role."""
    router = spec.get("router")
    if router is None:
        return
    target = builder.add_role(router.at, "router", "router")
    ingress = router.get("ingress")
    if ingress is not None:
        builder.report.unsupported("ingress-unsupported", ingress.at, "use a Gateway")
    _route(builder, target, router, related)
    _gateway(builder, target, router)
    scheduler = router.get("scheduler")
    if scheduler is None:
        builder.report.info(
            "picker-added",
            router.at,
            "no scheduler: a route of ours leads to an endpoint picker all the same, which "
            "balances the requests",
        )
        builder.default((*target, "endpointPicker", "image"), IMAGE, router.at)
        return
    _scheduler(builder, target, scheduler, related.maps, paired=spec.get("prefill") is not None)


def _route(builder: ServiceBuilder, target: Location, router: Node, related: Related) -> None:
    route, report = router.get("route"), builder.report
    if route is None:
        return
    report.consume(route.at)
    for key in ("group", "weight"):
        field = route.get(key)
        if field is not None:
            report.unsupported(
                "route-group-unsupported",
                field.at,
                "requests by model name are shared out by httproute.split of one service, and the "
                "others say routedBy; paths with the service's own name are never shared",
            )
    refs = route.get("http", "refs")
    if refs is not None:
        copy_node(builder, (*target, "httproute", "refs"), refs)
        report.warning(
            "external-route-backend",
            refs.at,
            "KServe's pool is called otherwise, and no request comes until the route's backendRefs "
            f"name InferencePool {names.inference_pool(str(builder.main.name))}",
        )
    own = route.get("http", "spec")
    if own is not None:
        for key, field in own.content.items():
            ours = replace_backends(builder, field, related.backends) if key == "rules" else field
            copy_node(builder, (*target, "httproute", key), ours)
    if refs is not None or own is not None:
        return
    namespace, name = builder.main.namespace, builder.main.name
    rules = [_default_rule(f"/{namespace}/{name}", endpoint) for endpoint in _ENDPOINTS]
    builder.default((*target, "httproute", "rules"), rules, route.at)


def _default_rule(prefix: str, endpoint: str) -> dict[str, Any]:
    rewrite = {"type": "ReplacePrefixMatch", "replacePrefixMatch": endpoint or "/"}
    return {
        "matches": [{"path": {"type": "PathPrefix", "value": f"{prefix}{endpoint}"}}],
        "filters": [{"type": "URLRewrite", "urlRewrite": {"path": rewrite}}],
    }


def _gateway(builder: ServiceBuilder, target: Location, router: Node) -> None:
    gateway = router.get("gateway")
    if gateway is None:
        if router.get("route") is not None and router.get("route", "http") is None:
            builder.default((*target, "gateway", "refs"), [GATEWAY], router.at)
            builder.report.info(
                "gateway-defaulted",
                router.at,
                "no gateway: the route attaches to kserve/kserve-ingress-gateway",
            )
        return
    refs = gateway.get("refs")
    if refs is not None:
        copy_node(builder, (*target, "gateway", "refs"), refs)
        return
    builder.derive((*target, "gateway"), {}, gateway.at)
    builder.report.info(
        "gateway-created",
        gateway.at,
        "a Gateway of the service's own, as the architecture page says; KServe itself attaches "
        "the route to kserve/kserve-ingress-gateway: name it in refs to do the same",
    )


def _scheduler(
    builder: ServiceBuilder, target: Location, scheduler: Node, maps: Objects, *, paired: bool
) -> None:
    report, picker = builder.report, (*target, "endpointPicker")
    report.consume(*() if scheduler.content else (scheduler.at,))
    builder.default((*picker, "image"), IMAGE, scheduler.at)
    copy_fields(builder, picker, scheduler, "replicas")
    config = scheduler.get("config")
    inline = config.get("inline") if config is not None else None
    reference = config.get("ref") if config is not None else None
    if inline is not None and reference is not None:
        report.error(
            "picker-config-twice", reference.at, "both inline and ref are set; give one of them"
        )
    if inline is not None:
        given = inline.value
        text = given if isinstance(given, str) else yaml.safe_dump(given, sort_keys=False)
        builder.derive((*target, "endpointPickerConfig"), text, inline.at)
    elif reference is not None:
        _config_from_map(builder, target, reference, maps)
    elif not paired:
        builder.default((*target, "scorers"), dict(SCORERS), scheduler.at)
    tokenizer, pool = scheduler.get("tokenizer"), scheduler.get("pool")
    if tokenizer is not None:
        report.unsupported(
            "tokenizer-unsupported",
            tokenizer.at,
            "the picker has no tokenizer beside it; name one in its configuration",
        )
    if pool is not None:
        report.unsupported(
            "pool-unsupported",
            pool.at,
            "the pool follows from the roles, and an existing one has a picker of its own",
        )
    _picker_pods(builder, picker, scheduler)


def _config_from_map(
    builder: ServiceBuilder, target: Location, reference: Node, maps: Objects
) -> None:
    """Takes the picker's configuration from a ConfigMap, whose key is `epp` by default."""
    name, key = reference.text("name"), reference.text("key") or "epp"
    config_map = _find_config_map(maps, builder.main.namespace, name)
    if config_map is None:
        builder.report.unsupported(
            "config-map-missing",
            reference.at,
            f"the ConfigMap {name} of namespace {builder.main.namespace} is not in this input; add "
            "it as a document, or write what it holds into config.inline",
        )
        return
    text = config_map.at("data", key)
    if not isinstance(text.value, str):
        builder.report.error(
            "config-map-key-missing",
            reference.at,
            f"the ConfigMap {name} has no text by the key {key}",
        )
        return
    places = [leaf.at for _, leaf in reference.leaves()]
    builder.derive((*target, "endpointPickerConfig"), text.value, text, *places)


def _picker_pods(builder: ServiceBuilder, picker: Location, scheduler: Node) -> None:
    metadata = (*picker, "template", "metadata")
    copy_fields(builder, metadata, scheduler, "labels", "annotations")
    pod = scheduler.get("template")
    if pod is None:
        return
    listed = pod.get("containers")
    others: list[Node] = []
    for container in listed.items if listed is not None else ():
        if container.text("name") != MAIN:
            others.append(container)
            continue
        name = container.content["name"]
        builder.report.consume(name.at)
        others += _picker_container(builder, picker, container, name)
    kept = with_fields(pod, containers=Node(pod.at, others) if others else None)
    if kept.content:
        copy_node(builder, (*picker, "template", "spec"), kept)


def _picker_container(
    builder: ServiceBuilder, picker: Location, container: Node, name: Node
) -> list[Node]:
    """Sets the picker's own fields; returns the container with the others, if there are any."""
    # KServe's presets start the picker in `command`, so its args are further flags.
    copy_fields(builder, picker, container, *_PICKER_FIELDS)
    command = container.get("command")
    if command is not None:
        builder.report.unsupported(
            "picker-command-unsupported",
            command.at,
            "the picker's own is used; write further flags into args",
        )
    own = dict.fromkeys((*_PICKER_FIELDS, "command"))
    rest = with_fields(container, name=Node(name.at, "epp"), **own)
    return [rest] if len(rest.content) > 1 else []
