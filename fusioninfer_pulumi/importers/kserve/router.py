"""KServe's router block as a router role of ours."""

from __future__ import annotations

from typing import Any

import yaml

from fusioninfer_pulumi.importers.carrier import Carrier
from fusioninfer_pulumi.importers.given import Path
from fusioninfer_pulumi.importers.kserve.backends import with_our_pools
from fusioninfer_pulumi.importers.kserve.lookup import Around, Objects, map_of
from fusioninfer_pulumi.importers.kserve.merging import Node, carry, edited
from fusioninfer_pulumi.importers.kserve.presets import MAIN
from fusioninfer_pulumi.kube import names

#: The picker of KServe's presets, and its weights (the architecture page's table of scorers).
IMAGE = "ghcr.io/llm-d/llm-d-router-endpoint-picker:v0.10.0"
SCORERS = {"prefix-cache": 2, "load": 1}
#: Where KServe attaches its routes.
GATEWAY = {"name": "kserve-ingress-gateway", "namespace": "kserve"}
#: Endpoints with a rule of their own in KServe's preset; everything else is caught below.
_ENDPOINTS = ("/v1/completions", "/v1/chat/completions", "/v1/responses", "/v1/messages", "")
_PICKER_FIELDS = {"image": "image", "resources": "resources"}


def carry_router(carrier: Carrier, spec: Node, around: Around) -> None:
    """Carries the router over; without one there is no router role.

    Args:
        carrier: The service.
        spec: The service's merged spec.
        around: What else the input holds.
    """
    router = spec.get("router")
    if router is None:
        return
    target = carrier.role(router.at)
    carrier.imply((*target, "name"), "router", router.at)
    carrier.imply((*target, "componentType"), "router", router.at)
    ingress = router.get("ingress")
    if ingress is not None:
        carrier.book.lost(ingress.at, "use a Gateway")
    _route(carrier, target, router, around)
    _gateway(carrier, target, router)
    scheduler = router.get("scheduler")
    if scheduler is None:
        carrier.book.note(
            router.at,
            "no scheduler: a route of ours leads to an endpoint picker all the same, which "
            "balances the requests",
        )
        carrier.imply((*target, "endpointPicker", "image"), IMAGE, router.at)
        return
    _scheduler(carrier, target, scheduler, around.maps, paired=spec.get("prefill") is not None)


def _route(carrier: Carrier, target: Path, router: Node, around: Around) -> None:
    route, book = router.get("route"), carrier.book
    if route is None:
        return
    book.read(route.at)
    for key in ("group", "weight"):
        field = route.get(key)
        if field is not None:
            book.lost(
                field.at,
                "requests by model name are shared out by httproute.split of one service, and the "
                "others say routedBy; paths with the service's own name are never shared",
            )
    refs = route.get("http", "refs")
    if refs is not None:
        carry(carrier, (*target, "httproute", "refs"), refs)
        book.warn(
            refs.at,
            "KServe's pool is called otherwise, and no request comes until the route's backendRefs "
            f"name InferencePool {names.inference_pool(str(carrier.main.name))}",
        )
    own = route.get("http", "spec")
    if own is not None:
        for key, field in own.content.items():
            ours = with_our_pools(carrier, field, around.backends) if key == "rules" else field
            carry(carrier, (*target, "httproute", key), ours)
    if refs is not None or own is not None:
        return
    namespace, name = carrier.main.namespace, carrier.main.name
    rules = [_rule(f"/{namespace}/{name}", endpoint) for endpoint in _ENDPOINTS]
    carrier.imply((*target, "httproute", "rules"), rules, route.at)


def _rule(prefix: str, endpoint: str) -> dict[str, Any]:
    rewrite = {"type": "ReplacePrefixMatch", "replacePrefixMatch": endpoint or "/"}
    return {
        "matches": [{"path": {"type": "PathPrefix", "value": f"{prefix}{endpoint}"}}],
        "filters": [{"type": "URLRewrite", "urlRewrite": {"path": rewrite}}],
    }


def _gateway(carrier: Carrier, target: Path, router: Node) -> None:
    gateway = router.get("gateway")
    if gateway is None:
        if router.get("route") is not None and router.get("route", "http") is None:
            carrier.imply((*target, "gateway", "refs"), [GATEWAY], router.at)
            carrier.book.note(
                router.at, "no gateway: the route attaches to kserve/kserve-ingress-gateway"
            )
        return
    refs = gateway.get("refs")
    if refs is not None:
        carry(carrier, (*target, "gateway", "refs"), refs)
        return
    carrier.derive((*target, "gateway"), {}, gateway.at)
    carrier.book.note(
        gateway.at,
        "a Gateway of the service's own, as the architecture page says; KServe itself attaches "
        "the route to kserve/kserve-ingress-gateway: name it in refs to do the same",
    )


def _scheduler(
    carrier: Carrier, target: Path, scheduler: Node, maps: Objects, *, paired: bool
) -> None:
    book, picker = carrier.book, (*target, "endpointPicker")
    book.read(*() if scheduler.content else (scheduler.at,))
    carrier.imply((*picker, "image"), IMAGE, scheduler.at)
    replicas = scheduler.get("replicas")
    if replicas is not None:
        carry(carrier, (*picker, "replicas"), replicas)
    config = scheduler.get("config")
    inline = config.get("inline") if config is not None else None
    reference = config.get("ref") if config is not None else None
    if inline is not None and reference is not None:
        book.refuse(reference.at, "both inline and ref are set; give one of them")
    if inline is not None:
        given = inline.value
        text = given if isinstance(given, str) else yaml.safe_dump(given, sort_keys=False)
        carrier.derive((*target, "endpointPickerConfig"), text, inline.at)
    elif reference is not None:
        _referred(carrier, target, reference, maps)
    elif not paired:
        carrier.imply((*target, "scorers"), dict(SCORERS), scheduler.at)
    for key, instead in (
        ("tokenizer", "the picker has no tokenizer beside it; name one in its configuration"),
        ("pool", "the pool follows from the roles, and an existing one has a picker of its own"),
    ):
        field = scheduler.get(key)
        if field is not None:
            book.lost(field.at, instead)
    _picker_pods(carrier, picker, scheduler)


def _referred(carrier: Carrier, target: Path, reference: Node, maps: Objects) -> None:
    """The picker's configuration from the ConfigMap that is named; its key is `epp` by default."""
    name, key = reference.text("name"), reference.text("key") or "epp"
    held = map_of(maps, carrier.main.namespace, name)
    if held is None:
        carrier.book.lost(
            reference.at,
            f"the ConfigMap {name} of namespace {carrier.main.namespace} is not in this input; add "
            "it as a document, or write what it holds into config.inline",
        )
        return
    text = held.at("data", key)
    if not isinstance(text.value, str):
        carrier.book.refuse(reference.at, f"the ConfigMap {name} has no text by the key {key}")
        return
    places = [leaf.at for _, leaf in reference.leaves()]
    carrier.derive((*target, "endpointPickerConfig"), text.value, text, *places)


def _picker_pods(carrier: Carrier, picker: Path, scheduler: Node) -> None:
    for field in ("labels", "annotations"):
        held = scheduler.get(field)
        if held is not None:
            carry(carrier, (*picker, "template", "metadata", field), held)
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
        carrier.book.read(name.at)
        others += _picker_container(carrier, picker, container, name)
    kept = edited(pod, containers=Node(pod.at, others) if others else None)
    if kept.content:
        carry(carrier, (*picker, "template", "spec"), kept)


def _picker_container(carrier: Carrier, picker: Path, container: Node, name: Node) -> list[Node]:
    rest = edited(container, name=Node(name.at, "epp"))
    for key, ours in _PICKER_FIELDS.items():
        field = container.get(key)
        if field is not None:
            carry(carrier, (*picker, ours), field)
            rest = edited(rest, **{key: None})
    command, args = container.get("command"), container.get("args")
    if command is not None:
        carrier.book.lost(command.at, "the picker's own is used; write further flags into args")
    if args is not None:
        # KServe's presets start the picker in `command`, so these are further flags of it.
        carry(carrier, (*picker, "args"), args)
    rest = edited(rest, command=None, args=None)
    return [rest] if len(rest.content) > 1 else []
