"""Whole services: metadata, topology, model, scheduling, and what concerns all roles."""

from __future__ import annotations

from dataclasses import dataclass

from drawn_services.draw import Draw
from drawn_services.pods import AWKWARD, Manifest
from drawn_services.roles import Setting, disruption_budget, resolve_rollout, serving_role
from drawn_services.routers import chosen_strategy, router
from drawn_services.slips import with_slip

_NAMES = {
    "worker": ("inference", "chat", "embed", "long-context"),
    "prefiller": ("prefill", "prompts"),
    "decoder": ("decode", "answers", "tokens"),
}
_TOPOLOGIES = {
    "one role": ("worker",),
    "two roles": ("worker", "worker"),
    "prefill and decode": ("prefiller", "decoder"),
    "prefill, decode and workers": ("prefiller", "decoder", "worker"),
    "two decode roles": ("prefiller", "decoder", "decoder"),
    "decode alone": ("decoder",),
}


@dataclass(frozen=True)
class DrawnService:
    """A drawn input.

    Attributes:
        seed: What it was drawn from.
        documents: Its documents, usually one.
        features: Named choices that no field of the schema shows.
    """

    seed: int
    documents: list[Manifest]
    features: frozenset[str]


def draw_service(seed: int) -> DrawnService:
    """Draws the manifests of a seed."""
    features: set[str] = set()
    draw = Draw(f"service {seed}", features)
    service = _service(draw)
    documents = [service]
    canary = draw.of("canary")
    if canary.chance(0.6):
        documents += _canary(canary, service)
    slip = draw.of("slip")
    if slip.chance(0.08):
        documents[0] = with_slip(slip, service)
    return DrawnService(seed, documents, frozenset(features))


def _service(draw: Draw) -> Manifest:
    spec: Manifest = {}
    metadata = _metadata(draw.of("metadata"))
    service = {
        "apiVersion": "fusioninfer.io/v1alpha1",
        "kind": "InferenceService",
        "metadata": metadata,
        "spec": spec,
    }
    types = draw.of("topology").option("topology", _TOPOLOGIES)
    pair = {"prefiller", "decoder"} <= set(types)
    spec |= draw.of("layout").fields(0.3, layout=("PerRole", "PerRole", "PerReplica"))
    spec |= draw.of("groups").fields(0.3, groups=(0, 1, 2, 2, 3))
    routed = draw.of("router").chance(0.6)
    strategy = chosen_strategy(draw.of("strategy"), pair=pair)
    engine = draw.of("engine").one(*("vllm",) * 6, *("sglang",) * 3, *("other",) * (1 - pair))
    spec |= _model(draw.of("model"), engine)
    spec |= _monitoring(draw.of("monitoring"), routed=routed)
    spec |= _tracing(draw.of("tracing"), engine)
    paired = routed and pair and strategy in (None, "pd-disaggregation", "config")
    setting = Setting(
        engine=engine,
        model=spec.get("model"),
        paired=paired,
        groups=spec.get("groups"),
        per_role=spec.get("layout") == "PerRole",
        monitored="monitoring" in spec,
        traced=spec.get("tracing", {}).get("engines", "tracing" in spec),
        port=draw.of("port").one(None, 8000, 8080) if engine != "other" else None,
        connector=_connector(draw.of("connector"), engine),
        alike=draw.of("alike") if paired else None,
    )
    roles = _roles(draw, setting, types)
    spec |= _scheduling(draw.of("scheduling"), setting, roles)
    spec |= _disruption_budget(draw.of("disruptionBudget"), roles)
    spec |= _rollout(draw.of("rollout"), setting, roles)
    spec |= _wait(draw.of("wait"))
    spec |= _ratio(draw.of("ratio"), pair=pair)
    spec |= draw.of("placement").fields(0.03, placement={"colocate": "example.com/block"})
    spec |= draw.of("pod metadata").fields(
        0.1, podLabels={"team": "search"}, podAnnotations={"example.com/owner": "ml"}
    )
    for role in roles:
        more = draw.of(f"pod metadata {role['name']}").fields(
            0.1, podLabels={"cost-centre": "7"}, podAnnotations={"example.com/owner": "search"}
        )
        role.update(more)
    if routed:
        role = router(draw.of("router role"), service, strategy, pair=pair)
        _queue(role, roles, spec, setting)
        roles.insert(draw.of("router").whole(0, len(roles)), role)
    spec["roles"] = roles
    spec |= _left_out(draw.of("left out"), setting, roles)
    return service


def _queue(router_role: Manifest, roles: list[Manifest], spec: Manifest, setting: Setting) -> None:
    """Scales workers by requests that the picker holds, where its release can."""
    picker = router_role.get("endpointPicker", {})
    waits = picker.get("flowControl") or "serviceLevels" in picker
    for role in roles:
        if waits and picker.get("metrics", "Off") in ("Off", False):
            role.get("autoscaling", {}).pop("timeToFirstToken", None)
    holds = "image" in picker and "1.2" not in picker.get("family", picker["image"])
    scaled = [role["autoscaling"] for role in roles if "autoscaling" in role]
    alone = all(role["componentType"] == "worker" for role in roles)
    known = setting.engine != "other" and setting.monitored and setting.groups is None
    if not (scaled and holds and alone and known) or "endpointPickerConfig" in router_role:
        return
    picker |= {"flowControl": True, "metrics": "Authenticated"}
    spec["monitoring"].pop("picker", None)
    for autoscaling in scaled:
        autoscaling |= {"engine": "KEDA", "prometheus": "http://p:9090", "target": "queue"}
        for goal in ("timeToFirstToken", "timePerToken"):
            autoscaling.pop(goal, None)
        autoscaling["metrics"] = []


def _left_out(draw: Draw, setting: Setting, roles: list[Manifest]) -> Manifest:
    """Leaves the containers of some services to the library."""
    workers = [role for role in roles if role["componentType"] == "worker" and "template" in role]
    if setting.model is None or setting.engine == "other" or not workers or not draw.chance(0.2):
        return {}
    releases = {"vllm": ("0.25.1", "0.32.0"), "sglang": ("0.5.23",)}[setting.engine]
    engine: Manifest = {"name": setting.engine, **draw.fields(0.5, version=releases)}
    for role in workers:
        for field in ("template", "container", "kvEvents", "resourceClaims"):
            role.pop(field, None)
        role.update(gpus=8, **draw.fields(0.3, engine=engine))
    spec = draw.fields(0.5, imageRegistry="registry.example.com/mirror", edition="2026.11")
    if setting.engine != "vllm" or draw.chance(0.5):
        spec["engine"] = engine
    return spec if len(workers) == len([r for r in roles if r["componentType"] != "router"]) else {}


def _connector(draw: Draw, engine: str) -> str:
    if engine == "sglang":
        return draw.one("nixl", "nixl", "mooncake")
    other_items = ("SharedStorageConnector", "MooncakeConnector", "PyNcclConnector")
    return draw.one(*("NixlConnector",) * 8, *other_items)


def _metadata(draw: Draw) -> Manifest:
    names = ("qwen", "deepseek-r1", "a", "chat-2", "llama-3-70b-instruct")
    long = "a-service-whose-name-leaves-little-room-for-more"
    metadata: Manifest = {"name": long if draw.chance(0.015) else draw.one(*names)}
    metadata |= draw.fields(
        0.25,
        namespace=("team-a", "default"),
        labels={"team": "chat", "example.com/cost-centre": "42"},
        annotations={"note": draw.one(*AWKWARD), "example.com/owner": "chat"},
    )
    return metadata


#: Of a small model, which fits any accelerator.
_CONFIG: Manifest = {
    "model_type": "llama",
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "num_attention_heads": 240,
    "num_key_value_heads": 1,
    "head_dim": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
}


def _model(draw: Draw, engine: str) -> Manifest:
    if not draw.chance(0.4):
        return {}
    repository = "hf://team/chat-8b"
    sources = {
        "hub": {"uri": repository, **draw.fields(0.2, fetch="Engine")},
        "hub, revision": {"uri": f"{repository}@main", **_token(draw)},
        "hub, init container": {"uri": repository, "fetch": "InitContainer", **_token(draw)},
        "claim": {"uri": "pvc://models/llama-70b"},
        "bucket": {"uri": "s3://models/qwen", **draw.fields(0.7, s3=_s3(draw))},
        "image": {"uri": "oci://registry.example.com/qwen:1", **draw.fields(path="models")},
        "hub, cache": {"uri": repository, "cache": _cache(draw), **_token(draw)},
        "bucket, cache": {"uri": "s3://models/qwen", "cache": _cache(draw, warm=True)},
    }
    model: Manifest = draw.option("model", sources)
    model |= draw.fields(
        0.2, name="chat", size=("140Gi", 10**10), mountPath="/models", imagePullSecrets=["registry"]
    )
    if not model["uri"].startswith("hf") or model.get("fetch") == "InitContainer":
        model |= draw.fields(0.2, fetcher=_fetcher(draw))
    if draw.of("config").chance(0.1):
        model["config"] = _CONFIG
    if draw.chance(0.25):
        model["lora"] = _lora(draw)
    if "cache" in model and engine == "vllm":
        model["cache"] |= draw.of("compile cache").fields(0.2, compileCache=True)
    return {"model": model}


def _token(draw: Draw) -> Manifest:
    return draw.fields(0.4, tokenSecret=({"name": "hub"}, {"name": "hub", "key": "token"}))


def _s3(draw: Draw) -> Manifest:
    keys = {"accessKeyIdKey": "id", "secretAccessKeyKey": "secret"}
    user_fields = draw.fields(
        0.7, secretName="bucket", endpoint="http://minio:9000", region="eu-west-1"
    )
    return {**user_fields, **(keys if "secretName" in user_fields and draw.chance(0.5) else {})}


def _fetcher(draw: Draw) -> Manifest:
    return draw.fields(
        image="registry.example.com/own/fetcher:1",
        command=["/fetch", "--all"],
        env=[{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}],
        resources={"limits": {"memory": "4Gi"}},
        securityContext={"runAsNonRoot": True},
    )


def _lora(draw: Draw) -> Manifest:
    adapters = [
        {"name": "sql", "uri": "hf://org/sql-adapter"},
        {"name": "law", "uri": "pvc://adapters/law"},
        {"name": "french", "uri": "hf://org/french@v2"},
    ]
    chosen = draw.some(adapters, 0.6) or adapters[:1]
    return {"adapters": chosen, **draw.fields(maxRank=32, maxAdapters=4, maxCpuAdapters=8)}


def _cache(draw: Draw, *, warm: bool = False) -> Manifest:
    storage = {"size": "500Gi", **draw.fields(storageClassName="shared")}
    modes = ["ReadWriteMany"], ["ReadWriteMany", "ReadOnlyMany"], ["ReadWriteOnce"]
    storage |= draw.fields(0.5, accessModes=(*modes, *modes, ["ReadWriteOncePod"]))
    cache: Manifest = draw.one({"claimName": "models"}, {"storage": storage})
    cache |= draw.fields(0.3, mountPath="/cache")
    if warm or draw.chance(0.6):
        cache["warmUp"] = True
        cache |= draw.fields(0.4, mountModel=True, readOnly=False, job=_job(draw))
    return cache


def _job(draw: Draw) -> Manifest:
    return draw.fields(
        0.6,
        timeout="3h",
        backoffLimit=0,
        ttlSecondsAfterFinished=600,
        nodeSelector={"disk": "fast"},
        tolerations=[{"key": "gpu", "operator": "Exists"}],
        serviceAccountName="fetcher",
    )


def _monitoring(draw: Draw, *, routed: bool) -> Manifest:
    if not draw.chance(0.25):
        return {}
    fields = draw.fields(
        0.3,
        engines=(True, False),
        path="/prometheus",
        interval="30s",
        scrapeTimeout="10s",
        labels={"release": "prometheus"},
        alerts=({}, {"labels": {"team": "search"}, "runbook": "https://example.com/alerts"}),
        dashboards=({}, {"labels": {"dashboard": "yes"}, "folder": "Models"}),
    )
    if routed and draw.chance(0.5):
        fields["picker"] = True
        fields |= draw.fields(pickerToken=({"name": "scraper"}, {"name": "scraper", "key": "t"}))
    elif draw.chance(0.2):
        fields["picker"] = False
    return {"monitoring": fields}


def _tracing(draw: Draw, engine: str) -> Manifest:
    if not draw.chance(0.2):
        return {}
    fields: Manifest = {"endpoint": "http://otel-collector.observability:4317"}
    fields |= draw.fields(0.3, sampling=(0.5, 1, 0), picker=(True, False))
    if engine != "vllm" or draw.chance(0.3):
        fields["engines"] = False
    return {"tracing": fields}


def _roles(draw: Draw, setting: Setting, types: tuple[str, ...]) -> list[Manifest]:
    free = {kind: list(names) for kind, names in _NAMES.items()}
    roles = []
    for number, component_type in enumerate(types):
        name = draw.of(f"name {number}").one(*free[component_type])
        free[component_type].remove(name)
        roles.append(serving_role(draw.of(f"role {number}"), setting, name, component_type))
    return roles


def _is_gang(roles: list[Manifest], mode: object) -> bool:
    types = {role["componentType"] for role in roles}
    several = any("multinode" in role for role in roles)
    return mode in ("On", True) or (
        mode not in ("Off", False) and (several or {"prefiller", "decoder"} <= types)
    )


def _scheduling(draw: Draw, setting: Setting, roles: list[Manifest]) -> Manifest:
    policy = draw.fields(0.35, mode=("Auto", "On", "On", "Off", True, False))
    gang = _is_gang(roles, policy.get("mode", "Auto"))
    scaled = any("autoscaling" in role for role in roles)
    if draw.chance(0.35 if gang else 0.05) or (gang and scaled):
        policy["minRoleReplicas"] = _minima(draw, roles)
        if not setting.per_role:
            policy |= draw.fields(0.4, requiredReplicas=("Any", "LowestOrdinals"))
    policy |= draw.fields(0.2 if gang else 0.03, minResources=(True, False))
    if draw.chance(0.15 if gang else 0.01):
        hard = {"mode": "hard", "highestTierAllowed": 2}
        rules = ({"highestTierAllowed": 1}, hard, {"mode": "soft"})
        policy["networkTopology"] = draw.fields(0.6, groupPolicy=rules, rolePolicy=rules)
    for role in roles:
        ready = draw.chance(0.004 if gang else 0.3)
        role.update(draw.fields(0.2, startupPolicy="LeaderReady" if ready else "LeaderCreated"))
    strategy: Manifest = {"gangPolicy": policy} if policy else {}
    strategy |= draw.fields(0.15, queue="research", priorityClassName="high")
    strategy |= draw.fields(0.1, schedulerName="volcano" if gang else ("volcano", "own"))
    if policy:
        policy |= draw.of("default backend").fields(0.1, backend="Volcano")
    if draw.of("backend").chance(0.05):
        return {"schedulingStrategy": {"queue": "team", "gangPolicy": {"backend": "Kueue"}}}
    if draw.of("native").chance(0.03):
        return {"schedulingStrategy": {"gangPolicy": {"backend": "Native"}}}
    return {"schedulingStrategy": strategy} if strategy else {}


def _minima(draw: Draw, roles: list[Manifest]) -> dict[str, int]:
    """Replicas of the roles that a gang needs; of those that are scaled, not more than stay."""
    minima = {}
    for role in roles:
        most = role.get("replicas", 1)
        if "autoscaling" in role:
            most = min(most, role["autoscaling"].get("minReplicas", 1))
        if "autoscaling" in role or draw.chance(0.6):
            minima[role["name"]] = draw.whole(0, most)
    if minima and not any(minima.values()) and draw.chance(0.95):
        # A gang that needs nothing is rejected.
        del minima[next(iter(minima))]
    return minima


def _disruption_budget(draw: Draw, roles: list[Manifest]) -> Manifest:
    if not draw.chance(0.2):
        return {}
    scaled = any("autoscaling" in role for role in roles)
    return {"disruptionBudget": disruption_budget(draw, scaled=scaled)}


def _rollout(draw: Draw, setting: Setting, roles: list[Manifest]) -> Manifest:
    if not draw.chance(0.3):
        return {}
    rollout = resolve_rollout(draw, setting)
    rollout |= draw.of("pull images").fields(0.2, pullImages=True)
    if len(roles) > 1:
        rollout |= draw.fields(0.4, roleOrder=("Sequential", "Together"))
    if setting.groups is not None and not any("rollout" in role for role in roles):
        rollout |= draw.fields(0.5, level=("Group", "Role"))
        if rollout.get("level") == "Group":
            rollout.pop("maxSurge", None)
    return {"rollout": rollout}


def _wait(draw: Draw) -> Manifest:
    levels = ("None", "Scheduled", "Available", "Serving")
    return draw.fields(0.1, wait={"level": draw.one(*levels), **draw.fields(timeout="2h")})


def _ratio(draw: Draw, *, pair: bool) -> Manifest:
    if not pair or not draw.chance(0.1):
        return {}
    return {"prefillDecodeRatio": draw.one({"min": 0.1}, {"max": 4}, {"min": 0.1, "max": 5.5})}


def _canary(draw: Draw, service: Manifest) -> list[Manifest]:
    """The service that a drawn route gives a share of its requests to, as a second document."""
    roles = service["spec"]["roles"]
    routes = [role["httproute"] for role in roles if "split" in role.get("httproute", {})]
    if not routes:
        return []
    fields = {key: value for key, value in routes[0].items() if key != "split"}
    forms = {
        "of the first service": {"httproute": {"routedBy": service["metadata"]["name"]}},
        "of a third service": {"httproute": {"routedBy": "third"}},
        "of its own": {"httproute": fields},
        "not stated": {},
    }
    route = draw.option("route of the second service", forms)
    behind = {"name": "router", "componentType": "router", **route}
    serving = [role for role in roles if role["componentType"] != "router"]
    spec = {key: service["spec"][key] for key in ("model", "layout") if key in service["spec"]}
    metadata = {**service["metadata"], "name": routes[0]["split"][0]["service"]}
    return [{**service, "metadata": metadata, "spec": {**spec, "roles": [behind, *serving]}}]
