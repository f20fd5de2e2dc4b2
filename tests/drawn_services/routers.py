"""Routers: strategy, endpoint picker, HTTPRoute, Gateway, and who may reach what."""

from __future__ import annotations

from typing import Any

from drawn_services.draw import Draw
from drawn_services.pods import Manifest

_EPP = "registry.k8s.io/gateway-api-inference-extension/epp"
_ROUTER = "ghcr.io/llm-d/llm-d-router-endpoint-picker"
#: Images of endpoint pickers, by family.
PICKERS = {
    "gaie-1.2": f"{_EPP}:v1.2.1",
    "gaie-1.3": f"{_EPP}:v1.3.0",
    "gaie-1.4": f"{_EPP}:v1.4.0",
    "gaie-1.5": f"{_EPP}:v1.5.0",
    "llm-d-0.9": f"{_ROUTER}:v0.9.0",
    "llm-d-0.10": f"{_ROUTER}:v0.10.0",
    "llm-d-1.0": f"{_ROUTER}:v1.0.0",
}
#: With service levels and sessions.
_LEVELLED = ("llm-d-0.10", "llm-d-1.0")
_NEW = ("llm-d-0.9", *_LEVELLED)
_PLAIN = ("prefix-cache", "kv-cache-utilization", "queue-size", "lora-affinity")
_SCORER_OF = {
    None: "prefix-cache",
    "prefix-cache": "prefix-cache",
    "kv-cache-utilization": "kv-cache",
    "queue-size": "queue",
    "lora-affinity": "lora",
    "pd-disaggregation": "prefix-cache",
}
_POOL = {"group": "inference.networking.k8s.io", "kind": "InferencePool"}

_CONFIG = """\
apiVersion: {api}
kind: EndpointPickerConfig
plugins:
- type: queue-scorer
- type: kv-cache-utilization-scorer
- type: max-score-picker
schedulingProfiles:
- name: default
  plugins:
  - pluginRef: max-score-picker
  - {{pluginRef: queue-scorer, weight: 2}}
  - {{pluginRef: kv-cache-utilization-scorer, weight: 1}}
"""
_PAIRING_CONFIG = """\
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- {type: label-selector-filter, name: prefills, parameters: {matchLabels: {llm-d.ai/role: prefill}}}
- {type: label-selector-filter, name: decodes, parameters: {matchLabels: {llm-d.ai/role: decode}}}
- type: queue-scorer
- type: max-score-picker
- type: always-disagg-pd-decider
- {type: disagg-profile-handler, parameters: {deciders: {prefill: always-disagg-pd-decider}}}
schedulingProfiles:
- name: prefill
  plugins: [{pluginRef: prefills}, {pluginRef: max-score-picker}, {pluginRef: queue-scorer, weight: 1}]
- name: decode
  plugins: [{pluginRef: decodes}, {pluginRef: max-score-picker}, {pluginRef: queue-scorer, weight: 1}]
"""  # noqa: E501


def chosen_strategy(draw: Draw, *, pair: bool) -> str | None:
    """A strategy, `config` for the user's own picker configuration, or None for the default."""
    if draw.chance(0.1):
        return "config"
    if pair:
        return draw.one(None, None, "pd-disaggregation", "pd-disaggregation", *_PLAIN)
    return "pd-disaggregation" if draw.chance(0.02) else draw.one(None, *_PLAIN)


def router(draw: Draw, service: Manifest, strategy: str | None, *, pair: bool) -> Manifest:
    """A router role for a service.

    Args:
        draw: The stream.
        service: The service as far as it is drawn.
        strategy: What `chosen_strategy` chose.
        pair: Whether the service has prefillers and decoders.
    """
    spec, metadata = service["spec"], service["metadata"]
    pairs = pair and strategy in (None, "pd-disaggregation")
    role: Manifest = {"name": draw.one("router", "gateway"), "componentType": "router"}
    family = _family(draw.of("family"), grouped=spec.get("groups") is not None, pairs=pairs)
    role |= _strategy(draw.of("strategy"), strategy, family, pair=pair)
    holds = family not in (None, "gaie-1.2") and strategy != "config"
    picker = _picker(draw.of("picker"), family, spec, pairs=pairs, holds=holds)
    if role.get("strategy") == "session-affinity":
        named = ({"header": "x-chat"}, {"cookie": "chat"}, {})
        picker |= draw.of("session").fields(session=named)
    role |= {"endpointPicker": picker} if picker or draw.chance(0.1) else {}
    role |= _route_and_gateway(draw.of("route"), metadata, picker)
    role |= _pool(draw.of("pool"))
    role |= _rewrites(draw.of("modelRewrites"))
    role |= _network_policy(draw.of("networkPolicy"))
    _complete_network_policy(role, monitored="monitoring" in spec)
    role |= draw.of("grants").fields(0.25, referenceGrants=(True, True, False))
    monitored = spec.get("monitoring", {}).get("picker")
    if not monitored and draw.of("without picker").chance(0.06):
        return _without_picker(role)
    return role


def _without_picker(role: Manifest) -> Manifest:
    """The role with a Service in place of the picker and its pool."""
    of_picker = ("strategy", "scorers", "endpointPickerConfig", "pool", "modelRewrites")
    kept = {key: value for key, value in role.items() if key not in of_picker}
    if "httproute" in kept:
        route = {key: value for key, value in kept["httproute"].items() if key != "split"}
        kept["httproute"] = route
    return {**kept, "endpointPicker": {"enabled": False}}


def _family(draw: Draw, *, grouped: bool, pairs: bool) -> str | None:
    """The picker's family, or None for the default image."""
    if pairs and grouped:
        return draw.one(*(None,) * 6, *("llm-d-0.10",) * 6, "llm-d-0.9")
    able = [name for name in PICKERS if not pairs or name.startswith("llm-d")]
    return draw.one(None, draw.one(*able))


def _strategy(draw: Draw, strategy: str | None, family: str | None, *, pair: bool) -> Manifest:
    if strategy == "config":
        text = _CONFIG.format(api="inference.networking.x-k8s.io/v1alpha1")
        if family in _NEW:
            text = _CONFIG.format(api="llm-d.ai/v1alpha1")
            text = _PAIRING_CONFIG if pair and draw.chance(0.7) else text
        return {"endpointPickerConfig": text}
    fields: Manifest = {} if strategy is None else {"strategy": strategy}
    if family in _LEVELLED and strategy in _PLAIN and draw.of("session").chance(0.3):
        return {"strategy": "session-affinity"}
    if draw.chance(0.3):
        known = ["prefix-cache", "kv-cache", "queue", "lora"]
        known += ["running"] if family not in (None, "gaie-1.2") else []
        known += ["load"] if family is not None and family.startswith("llm-d") else []
        chosen = {_SCORER_OF[strategy], *draw.some(known)}
        weights = (1, 2, 100) if family in (None, "gaie-1.2", "gaie-1.3") else (1, 2.5, 0.5)
        fields["scorers"] = {name: draw.one(*weights) for name in known if name in chosen}
    return fields


def _picker(
    draw: Draw, family: str | None, spec: Manifest, *, pairs: bool, holds: bool
) -> Manifest:
    picker: Manifest = {}
    if family is not None:
        draw.features.add(f"picker: {family}")
        mirror = {"image": f"registry.example.com/own/{family}:latest", "family": family}
        picker |= draw.one({"image": PICKERS[family]}, {"image": PICKERS[family]}, mirror)
    picker |= draw.fields(
        0.2,
        replicas=(1, 2, 3),
        resources={"requests": {"cpu": "1", "memory": "2Gi"}, "limits": {"memory": "4Gi"}},
        template=_picker_template(draw.of("template")),
        args=["--refresh-metrics-interval=100ms", "--zap-encoder=json"],
        logVerbosity=(0, 4),
        failureMode=("FailOpen", "FailClose"),
        metrics=("Off", "Authenticated", "Authenticated", "Unauthenticated", False),
        tls=({"secretName": "picker-certificate"}, {"enabled": True}, {"enabled": False}),
    )
    if picker.get("replicas", 1) > 1:
        picker |= draw.of("leaderElection").fields(leaderElection=(True, False))
    if holds:
        picker |= draw.of("flowControl").fields(0.2, flowControl=(True, False))
    if holds and family in _LEVELLED and draw.of("levels").chance(0.3):
        picker["serviceLevels"] = _levels(draw.of("levels"))
        picker.pop("flowControl", None)
    if pairs and draw.chance(0.3):
        picker["threshold"] = draw.one(0, 200)
    if pairs and spec.get("groups") is not None and draw.chance(0.4):
        picker["groupPairing"] = draw.one("Strict", "Preferred")
    if spec.get("monitoring", {}).get("picker"):
        picker["metrics"] = "Authenticated"
    return picker


def _levels(draw: Draw) -> Manifest:
    batch = {"name": "batch", "priority": -10, **draw.fields(maxQueued=(50, 1000))}
    levels = {"levels": [{"name": "interactive", "priority": 10}, batch]}
    return levels | draw.fields(maxConcurrency=(8, 256), evict=True)


def _picker_template(draw: Draw) -> Manifest:
    variables = [{"name": "GOGC", "value": "50"}]
    epp = {"name": "epp", **draw.fields(env=variables, imagePullPolicy="Always")}
    other = {"name": "beside", "image": "registry.example.com/tools/helper:1"}
    spec = draw.fields(
        0.3,
        nodeSelector={"pool": "cpu"},
        tolerations=[{"key": "cpu", "operator": "Exists"}],
        priorityClassName="high",
        terminationGracePeriodSeconds=300,
        securityContext={"runAsNonRoot": True, "runAsUser": 1000},
        affinity=None,
    )
    containers = draw.some((epp, other), 0.4)
    spec |= {"containers": containers} if containers else {}
    user_fields = draw.fields(
        0.3, metadata={"labels": {"team": "chat"}, "annotations": {"note": "yes"}}
    )
    return {**user_fields, "spec": spec}


def _route_and_gateway(draw: Draw, metadata: Manifest, picker: Manifest) -> Manifest:
    """`httproute` and `gateway`, which depend on each other."""
    ways: dict[str, Manifest] = {
        "none": {},
        "parents": {"httproute": _route(draw, metadata, parents=True)},
        "parents and software": {
            "httproute": _route(draw, metadata, parents=True),
            "gateway": _software(draw, picker),
        },
        "own Gateway": {
            "httproute": _route(draw, metadata, parents=False),
            "gateway": _own_gateway(draw, picker),
        },
        "own Gateway alone": {"gateway": _own_gateway(draw, picker)},
        "references": {
            "httproute": _route(draw, metadata, parents=False),
            "gateway": {**_software(draw, picker, 0.5), "refs": _gateway_refs(draw, metadata)},
        },
        "default Gateways": {
            "httproute": {"useDefaultGateways": "All", "hostnames": ["chat.example.com"]}
        },
        "route of another service": {
            "httproute": {"routedBy": "front"}, "gateway": _software(draw, picker)
        },
        "routes made elsewhere": {
            "httproute": {"refs": _route_refs(draw)}, "gateway": _software(draw, picker)
        },
    }  # fmt: skip
    return draw.option("route", ways)


def _software(draw: Draw, picker: Manifest, share: float = 1.0) -> Manifest:
    names = ["envoy-ai-gateway", "agentgateway", "istio", "nginx-gateway-fabric", "gke", "kong"]
    plain = picker.get("tls", {}).get("enabled") is False
    # Where the picker speaks plain gRPC, most gateways would not understand it.
    chosen = draw.one(*(["istio"] if plain and draw.chance(0.8) else names))
    return {"implementation": chosen} if draw.chance(share) else {}


def _own_gateway(draw: Draw, picker: Manifest) -> Manifest:
    http = {"name": "http", "port": 80, "protocol": "HTTP"}
    https = {
        "name": "https", "port": 443, "protocol": "HTTPS", "hostname": "*.example.com",
        "tls": {"mode": "Terminate", "certificateRefs": [
            {"name": "certificate", **draw.fields(0.4, namespace="certificates")}
        ]},
        **draw.fields(allowedRoutes={"namespaces": {"from": "All"}}),
    }  # fmt: skip
    return {
        **_software(draw, picker, 0.6),
        **draw.fields(
            0.25,
            gatewayClassName="own",
            listeners=([http], [http, https]),
            addresses=[{"type": "IPAddress", "value": "10.0.0.1"}],
            infrastructure={"labels": {"team": "chat"}, "annotations": {"example.com/size": "1"}},
            allowedListeners={"namespaces": {"from": "Same"}},
            tls={"backend": {"clientCertificateRef": {"name": "client"}}},
            annotations={"example.com/owner": "chat"},
            defaultScope="All",
        ),
    }


def _gateway_refs(draw: Draw, metadata: Manifest) -> list[Manifest]:
    here = metadata.get("namespace", "default")
    open_listener = {
        "name": "https", "port": 443, "protocol": "HTTPS", "hostname": "*.example.com",
        "allowedRoutes": {"namespaces": {"from": "All"}},
    }  # fmt: skip
    return draw.one(
        [{"name": "shared"}],
        [{"name": "shared", "namespace": "gateways", "sectionName": "https"}],
        [{"name": "shared", "namespace": "gateways", "listeners": [open_listener]}],
        [{"name": "one", "namespace": here, "port": 443}, {"name": "two"}],
    )


def _route_refs(draw: Draw) -> list[Manifest]:
    refs = [{"name": "company"}, {"name": "platform", "namespace": "gateways"}]
    return refs[: draw.one(1, 2)]


def _route(draw: Draw, metadata: Manifest, *, parents: bool) -> Manifest:
    route: Manifest = {}
    if parents:
        near, far = {"name": "gateway"}, {"name": "shared", "namespace": "gateways"}
        route["parentRefs"] = draw.one([near], [far], [near, {**far, "sectionName": "https"}])
    hosts = [f"{metadata['name']}.example.com", "chat.example.com"]
    route |= draw.fields(0.7, hostnames=(hosts[:1], hosts))
    route |= draw.fields(0.4, rules=draw.of("rules").some(_rules(draw, metadata), 0.4))
    if draw.chance(0.2):
        shares = [{"service": "next", "weight": 10}, {"service": "old", "weight": 0}]
        route["split"] = shares[: draw.one(1, 2)]
    return route


def _rules(draw: Draw, metadata: Manifest) -> list[Manifest]:
    pool = {**_POOL, "name": f"{metadata['name']}-pool"}
    prefix = {"path": {"type": "PathPrefix", "value": "/v1"}}
    headers = {"headers": [{"name": "model", "value": "chat"}]}
    rewrite = {"type": "URLRewrite", "urlRewrite": {"hostname": "chat.internal"}}
    redirect = {"type": "RequestRedirect", "requestRedirect": {"scheme": "https"}}
    return [
        {"matches": [prefix, headers]},
        {"matches": [prefix], "filters": [rewrite], "timeouts": {"request": "90s"}},
        {"filters": [redirect]},
        {"backendRefs": [pool]},
        {"backendRefs": [{**pool, "weight": 90}, {**_POOL, "name": "next-pool", "weight": 10}]},
        {"backendRefs": [{"kind": "Service", "name": pool["name"], "port": 8000}]},
        {"backendRefs": [{"name": "legacy", "namespace": "old", "port": 80}]},
        {"name": "all", "matches": [{"path": {"type": "Exact", "value": "/"}}]},
    ]


def _pool(draw: Draw) -> Manifest:
    fields = draw.fields(protect=True, retainOnDelete=True) if draw.chance(0.1) else None
    if draw.of("targetPorts").chance(0.03):
        fields = {**(fields or {}), "targetPorts": [8000, 8001]}
    return {} if fields is None else {"pool": fields}


def _rewrites(draw: Draw) -> Manifest:
    if not draw.chance(0.06):
        return {}
    share = draw.whole(0, 100)
    targets = [{"model": "base", "weight": 100 - share}, {"model": "tuned", "weight": share}]
    rewrites: list[Manifest] = [{"models": ["public", "alias"], "targets": targets}]
    if draw.chance(0.5):
        rewrites.append({"targets": [{"model": "base"}]})
    return {"modelRewrites": rewrites}


def _complete_network_policy(role: Manifest, *, monitored: bool) -> None:
    """Name the proxies and the readers of metrics where the policies need them."""
    policy = role.get("networkPolicy", {})
    software = role.get("gateway", {}).get("implementation", "gke")
    if policy.get("enabled") is False or (software == "gke" and not policy):
        return
    external = {"routedBy", "refs"} & {*role.get("httproute", {})}
    added: Manifest = {"gatewayNamespace": "gateways"} if external and not policy else {}
    if monitored and "metrics" not in policy:
        added["metrics"] = [{"podSelector": {"matchLabels": {"app": "prometheus"}}}]
    if added:
        role["networkPolicy"] = {**policy, **added}


def _network_policy(draw: Draw) -> Manifest:
    if not draw.chance(0.2):
        return {}
    short = draw.of("short form")
    if short.chance(0.3):
        return {"networkPolicy": short.one({"enabled": False}, {"gatewayNamespace": "gateways"})}
    peers: list[Any] = [
        {"namespaceSelector": {"matchLabels": {"name": "gateways"}}},
        {"podSelector": {"matchLabels": {"app": "envoy"}}},
        {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}},
    ]
    policy: Manifest = {"gateway": draw.some(peers) or peers[:1]}
    if draw.chance(0.3):
        return {"networkPolicy": draw.one({"enabled": False}, {"gatewayNamespace": "ingress"})}
    return {"networkPolicy": {**policy, **draw.fields(metrics=peers[:1])}}
