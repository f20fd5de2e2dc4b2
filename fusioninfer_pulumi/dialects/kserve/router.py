"""KServe's router block as a router role of ours."""

from __future__ import annotations

from typing import Any

import yaml

from fusioninfer_pulumi.dialects.carrier import Carrier
from fusioninfer_pulumi.dialects.given import Path
from fusioninfer_pulumi.dialects.kserve.container import MAIN
from fusioninfer_pulumi.dialects.kserve.merging import Node, carry, edited

#: The picker of KServe's presets, and its weights (the architecture page's table of scorers).
IMAGE = "ghcr.io/llm-d/llm-d-router-endpoint-picker:v0.10.0"
SCORERS = {"prefix-cache": 2, "load": 1}
#: Where KServe attaches its routes.
GATEWAY = {"name": "kserve-ingress-gateway", "namespace": "kserve"}
#: Endpoints with a rule of their own in KServe's preset; everything else is caught below.
_ENDPOINTS = ("/v1/completions", "/v1/chat/completions", "/v1/responses", "/v1/messages", "")
_PICKER_FIELDS = {"image": "image", "resources": "resources"}


def carry_router(carrier: Carrier, spec: Node) -> None:
    """Carries the router over; without one there is no router role.

    Args:
        carrier: The service.
        spec: The service's merged spec.
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
    _route(carrier, target, router)
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
    _scheduler(carrier, target, scheduler, paired=spec.get("prefill") is not None)


def _route(carrier: Carrier, target: Path, router: Node) -> None:
    route, book = router.get("route"), carrier.book
    if route is None:
        return
    book.read(route.at)
    for key in ("group", "weight"):
        field = route.get(key)
        if field is not None:
            book.lost(field.at, "write one HTTPRoute with the weights of the services' pools")
    refs = route.get("http", "refs")
    if refs is not None:
        book.lost(refs.at, "an HTTPRoute of your own must lead to the service's pool by itself")
    own = route.get("http", "spec")
    if own is not None:
        for key, field in own.content.items():
            carry(carrier, (*target, "httproute", key), field)
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


def _scheduler(carrier: Carrier, target: Path, scheduler: Node, *, paired: bool) -> None:
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
    elif not paired:
        carrier.imply((*target, "scorers"), dict(SCORERS), scheduler.at)
    if reference is not None:
        book.lost(reference.at, "write what the ConfigMap holds into config.inline")
    for key, instead in (
        ("tokenizer", "the picker has no tokenizer beside it; name one in its configuration"),
        ("pool", "the pool follows from the roles; it selects the pods that serve"),
    ):
        field = scheduler.get(key)
        if field is not None:
            book.lost(field.at, instead)
    _picker_pods(carrier, picker, scheduler)


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
    for key in ("command", "args"):
        field = container.get(key)
        if field is not None:
            carrier.book.lost(field.at, "write further flags into endpointPicker.args")
            rest = edited(rest, **{key: None})
    return [rest] if len(rest.content) > 1 else []
