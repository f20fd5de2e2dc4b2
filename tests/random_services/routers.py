"""Random routers: strategy, endpoint picker, HTTPRoute, Gateway and network policies."""

from __future__ import annotations

from typing import Any

from random_services.pods import Manifest
from random_services.seeded_random import SeededRandom

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
#: Families with service levels and sessions.
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


def chosen_strategy(rng: SeededRandom, *, pair: bool) -> str | None:
    """Return a strategy; `config` is the user's own picker configuration, None the default."""
    if rng.chance(0.1):
        return "config"
    if pair:
        return rng.choice(None, None, "pd-disaggregation", "pd-disaggregation", *_PLAIN)
    return "pd-disaggregation" if rng.chance(0.02) else rng.choice(None, *_PLAIN)


def router(rng: SeededRandom, service: Manifest, strategy: str | None, *, pair: bool) -> Manifest:
    """Return a router role for a service.

    Args:
        rng: Random choices.
        service: The service, as far as it is generated.
        strategy: Result of `chosen_strategy`.
        pair: Whether the service has prefill and decode roles.
    """
    spec, metadata = service["spec"], service["metadata"]
    pairs = pair and strategy in (None, "pd-disaggregation")
    role: Manifest = {"name": rng.choice("router", "gateway"), "componentType": "router"}
    family = _family(rng.stream("family"), grouped=spec.get("groups") is not None, pairs=pairs)
    role |= _strategy(rng.stream("strategy"), strategy, family, pair=pair)
    holds = family not in (None, "gaie-1.2") and strategy != "config"
    picker = _picker(rng.stream("picker"), family, spec, pairs=pairs, holds=holds)
    if role.get("strategy") == "session-affinity":
        named = ({"header": "x-chat"}, {"cookie": "chat"}, {})
        picker |= rng.stream("session").fields(session=named)
    role |= {"endpointPicker": picker} if picker or rng.chance(0.1) else {}
    role |= _route_and_gateway(rng.stream("route"), metadata, picker)
    role |= _pool(rng.stream("pool"))
    role |= _rewrites(rng.stream("modelRewrites"))
    role |= _network_policy(rng.stream("networkPolicy"))
    _complete_network_policy(role, monitored="monitoring" in spec)
    role |= rng.stream("grants").fields(0.25, referenceGrants=(True, True, False))
    monitored = spec.get("monitoring", {}).get("picker")
    if not monitored and rng.stream("without picker").chance(0.06):
        return _without_picker(role)
    return role


def _without_picker(role: Manifest) -> Manifest:
    """Return the role with a Service in place of the endpoint picker and its pool."""
    of_picker = ("strategy", "scorers", "endpointPickerConfig", "pool", "modelRewrites")
    kept = {key: value for key, value in role.items() if key not in of_picker}
    if "httproute" in kept:
        route = {key: value for key, value in kept["httproute"].items() if key != "split"}
        kept["httproute"] = route
    return {**kept, "endpointPicker": {"enabled": False}}


def _family(rng: SeededRandom, *, grouped: bool, pairs: bool) -> str | None:
    """Return the endpoint picker's family; None means the default image."""
    if pairs and grouped:
        return rng.choice(*(None,) * 6, *("llm-d-0.10",) * 6, "llm-d-0.9")
    able = [name for name in PICKERS if not pairs or name.startswith("llm-d")]
    return rng.choice(None, rng.choice(*able))


def _strategy(
    rng: SeededRandom, strategy: str | None, family: str | None, *, pair: bool
) -> Manifest:
    if strategy == "config":
        text = _CONFIG.format(api="inference.networking.x-k8s.io/v1alpha1")
        if family in _NEW:
            text = _CONFIG.format(api="llm-d.ai/v1alpha1")
            text = _PAIRING_CONFIG if pair and rng.chance(0.7) else text
        return {"endpointPickerConfig": text}
    fields: Manifest = {} if strategy is None else {"strategy": strategy}
    if family in _LEVELLED and strategy in _PLAIN and rng.stream("session").chance(0.3):
        return {"strategy": "session-affinity"}
    if rng.chance(0.3):
        known = ["prefix-cache", "kv-cache", "queue", "lora"]
        known += ["running"] if family not in (None, "gaie-1.2") else []
        known += ["load"] if family is not None and family.startswith("llm-d") else []
        chosen = {_SCORER_OF[strategy], *rng.subset(known)}
        weights = (1, 2, 100) if family in (None, "gaie-1.2", "gaie-1.3") else (1, 2.5, 0.5)
        fields["scorers"] = {name: rng.choice(*weights) for name in known if name in chosen}
    return fields


def _picker(
    rng: SeededRandom, family: str | None, spec: Manifest, *, pairs: bool, holds: bool
) -> Manifest:
    picker: Manifest = {}
    if family is not None:
        rng.features.add(f"picker: {family}")
        mirror = {"image": f"registry.example.com/own/{family}:latest", "family": family}
        picker |= rng.choice({"image": PICKERS[family]}, {"image": PICKERS[family]}, mirror)
    picker |= rng.fields(
        0.2,
        replicas=(1, 2, 3),
        resources={"requests": {"cpu": "1", "memory": "2Gi"}, "limits": {"memory": "4Gi"}},
        template=_picker_template(rng.stream("template")),
        args=["--refresh-metrics-interval=100ms", "--zap-encoder=json"],
        logVerbosity=(0, 4),
        failureMode=("FailOpen", "FailClose"),
        metrics=("Off", "Authenticated", "Authenticated", "Unauthenticated", False),
        tls=({"secretName": "picker-certificate"}, {"enabled": True}, {"enabled": False}),
    )
    if picker.get("replicas", 1) > 1:
        picker |= rng.stream("leaderElection").fields(leaderElection=(True, False))
    if holds:
        picker |= rng.stream("flowControl").fields(0.2, flowControl=(True, False))
    if holds and family in _LEVELLED and rng.stream("levels").chance(0.3):
        picker["serviceLevels"] = _levels(rng.stream("levels"))
        picker.pop("flowControl", None)
    if pairs and rng.chance(0.3):
        picker["threshold"] = rng.choice(0, 200)
    if pairs and spec.get("groups") is not None and rng.chance(0.4):
        picker["groupPairing"] = rng.choice("Strict", "Preferred")
    if spec.get("monitoring", {}).get("picker"):
        picker["metrics"] = "Authenticated"
    return picker


def _levels(rng: SeededRandom) -> Manifest:
    batch = {"name": "batch", "priority": -10, **rng.fields(maxQueued=(50, 1000))}
    levels = {"levels": [{"name": "interactive", "priority": 10}, batch]}
    return levels | rng.fields(maxConcurrency=(8, 256), evict=True)


def _picker_template(rng: SeededRandom) -> Manifest:
    variables = [{"name": "GOGC", "value": "50"}]
    epp = {"name": "epp", **rng.fields(env=variables, imagePullPolicy="Always")}
    other = {"name": "beside", "image": "registry.example.com/tools/helper:1"}
    spec = rng.fields(
        0.3,
        nodeSelector={"pool": "cpu"},
        tolerations=[{"key": "cpu", "operator": "Exists"}],
        priorityClassName="high",
        terminationGracePeriodSeconds=300,
        securityContext={"runAsNonRoot": True, "runAsUser": 1000},
        affinity=None,
    )
    containers = rng.subset((epp, other), 0.4)
    spec |= {"containers": containers} if containers else {}
    user_fields = rng.fields(
        0.3, metadata={"labels": {"team": "chat"}, "annotations": {"note": "yes"}}
    )
    return {**user_fields, "spec": spec}


def _route_and_gateway(rng: SeededRandom, metadata: Manifest, picker: Manifest) -> Manifest:
    """Return `httproute` and `gateway`, which depend on each other."""
    ways: dict[str, Manifest] = {
        "none": {},
        "parents": {"httproute": _route(rng, metadata, parents=True)},
        "parents and software": {
            "httproute": _route(rng, metadata, parents=True),
            "gateway": _software(rng, picker),
        },
        "own Gateway": {
            "httproute": _route(rng, metadata, parents=False),
            "gateway": _own_gateway(rng, picker),
        },
        "own Gateway alone": {"gateway": _own_gateway(rng, picker)},
        "references": {
            "httproute": _route(rng, metadata, parents=False),
            "gateway": {**_software(rng, picker, 0.5), "refs": _gateway_refs(rng, metadata)},
        },
        "default Gateways": {
            "httproute": {"useDefaultGateways": "All", "hostnames": ["chat.example.com"]}
        },
        "route of another service": {
            "httproute": {"routedBy": "front"}, "gateway": _software(rng, picker)
        },
        "routes made elsewhere": {
            "httproute": {"refs": _route_refs(rng)}, "gateway": _software(rng, picker)
        },
    }  # fmt: skip
    return rng.option("route", ways)


def _software(rng: SeededRandom, picker: Manifest, share: float = 1.0) -> Manifest:
    names = ["envoy-ai-gateway", "agentgateway", "istio", "nginx-gateway-fabric", "gke", "kong"]
    plain = picker.get("tls", {}).get("enabled") is False
    # Most gateways cannot use an endpoint picker without TLS.
    chosen = rng.choice(*(["istio"] if plain and rng.chance(0.8) else names))
    return {"implementation": chosen} if rng.chance(share) else {}


def _own_gateway(rng: SeededRandom, picker: Manifest) -> Manifest:
    http = {"name": "http", "port": 80, "protocol": "HTTP"}
    https = {
        "name": "https", "port": 443, "protocol": "HTTPS", "hostname": "*.example.com",
        "tls": {"mode": "Terminate", "certificateRefs": [
            {"name": "certificate", **rng.fields(0.4, namespace="certificates")}
        ]},
        **rng.fields(allowedRoutes={"namespaces": {"from": "All"}}),
    }  # fmt: skip
    return {
        **_software(rng, picker, 0.6),
        **rng.fields(
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


def _gateway_refs(rng: SeededRandom, metadata: Manifest) -> list[Manifest]:
    here = metadata.get("namespace", "default")
    open_listener = {
        "name": "https", "port": 443, "protocol": "HTTPS", "hostname": "*.example.com",
        "allowedRoutes": {"namespaces": {"from": "All"}},
    }  # fmt: skip
    return rng.choice(
        [{"name": "shared"}],
        [{"name": "shared", "namespace": "gateways", "sectionName": "https"}],
        [{"name": "shared", "namespace": "gateways", "listeners": [open_listener]}],
        [{"name": "one", "namespace": here, "port": 443}, {"name": "two"}],
    )


def _route_refs(rng: SeededRandom) -> list[Manifest]:
    refs = [{"name": "company"}, {"name": "platform", "namespace": "gateways"}]
    return refs[: rng.choice(1, 2)]


def _route(rng: SeededRandom, metadata: Manifest, *, parents: bool) -> Manifest:
    route: Manifest = {}
    if parents:
        near, far = {"name": "gateway"}, {"name": "shared", "namespace": "gateways"}
        route["parentRefs"] = rng.choice([near], [far], [near, {**far, "sectionName": "https"}])
    hosts = [f"{metadata['name']}.example.com", "chat.example.com"]
    route |= rng.fields(0.7, hostnames=(hosts[:1], hosts))
    route |= rng.fields(0.4, rules=rng.stream("rules").subset(_rules(rng, metadata), 0.4))
    if rng.chance(0.2):
        shares = [{"service": "next", "weight": 10}, {"service": "old", "weight": 0}]
        route["split"] = shares[: rng.choice(1, 2)]
    return route


def _rules(rng: SeededRandom, metadata: Manifest) -> list[Manifest]:
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


def _pool(rng: SeededRandom) -> Manifest:
    fields = rng.fields(protect=True, retainOnDelete=True) if rng.chance(0.1) else None
    if rng.stream("targetPorts").chance(0.03):
        fields = {**(fields or {}), "targetPorts": [8000, 8001]}
    return {} if fields is None else {"pool": fields}


def _rewrites(rng: SeededRandom) -> Manifest:
    if not rng.chance(0.06):
        return {}
    share = rng.integer(0, 100)
    targets = [{"model": "base", "weight": 100 - share}, {"model": "tuned", "weight": share}]
    rewrites: list[Manifest] = [{"models": ["public", "alias"], "targets": targets}]
    if rng.chance(0.5):
        rewrites.append({"targets": [{"model": "base"}]})
    return {"modelRewrites": rewrites}


def _complete_network_policy(role: Manifest, *, monitored: bool) -> None:
    """Set the proxies and metrics readers that the network policies need."""
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


def _network_policy(rng: SeededRandom) -> Manifest:
    if not rng.chance(0.2):
        return {}
    short = rng.stream("short form")
    if short.chance(0.3):
        return {"networkPolicy": short.choice({"enabled": False}, {"gatewayNamespace": "gateways"})}
    peers: list[Any] = [
        {"namespaceSelector": {"matchLabels": {"name": "gateways"}}},
        {"podSelector": {"matchLabels": {"app": "envoy"}}},
        {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}},
    ]
    policy: Manifest = {"gateway": rng.subset(peers) or peers[:1]}
    if rng.chance(0.3):
        return {"networkPolicy": rng.choice({"enabled": False}, {"gatewayNamespace": "ingress"})}
    return {"networkPolicy": {**policy, **rng.fields(metrics=peers[:1])}}
