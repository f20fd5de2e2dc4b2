"""Random services: metadata, topology, model, scheduling, and fields that concern all roles."""

from __future__ import annotations

from dataclasses import dataclass

from random_services.invalid_fields import with_invalid_field
from random_services.pods import AWKWARD, Manifest
from random_services.roles import Setting, disruption_budget, resolve_rollout, serving_role
from random_services.routers import chosen_strategy, router
from random_services.seeded_random import SeededRandom

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
class RandomService:
    """The manifests of a seed.

    Attributes:
        seed: Seed of all random choices.
        documents: Usually one; the second one is the target of a `split`.
        features: Named choices that no field of the schema shows.
    """

    seed: int
    documents: list[Manifest]
    features: frozenset[str]


def generate_service(seed: int) -> RandomService:
    """Generate the manifests of a seed."""
    features: set[str] = set()
    rng = SeededRandom(f"service {seed}", features)
    service = _service(rng)
    documents = [service]
    canary = rng.stream("canary")
    if canary.chance(0.6):
        documents += _canary(canary, service)
    invalid = rng.stream("slip")
    if invalid.chance(0.08):
        documents[0] = with_invalid_field(invalid, service)
    return RandomService(seed, documents, frozenset(features))


def _service(rng: SeededRandom) -> Manifest:
    spec: Manifest = {}
    metadata = _metadata(rng.stream("metadata"))
    service = {
        "apiVersion": "fusioninfer.io/v1alpha1",
        "kind": "InferenceService",
        "metadata": metadata,
        "spec": spec,
    }
    types = rng.stream("topology").option("topology", _TOPOLOGIES)
    pair = {"prefiller", "decoder"} <= set(types)
    spec |= rng.stream("layout").fields(0.3, layout=("PerRole", "PerRole", "PerReplica"))
    spec |= rng.stream("groups").fields(0.3, groups=(0, 1, 2, 2, 3))
    routed = rng.stream("router").chance(0.6)
    strategy = chosen_strategy(rng.stream("strategy"), pair=pair)
    engine = rng.stream("engine").choice(*("vllm",) * 6, *("sglang",) * 3, *("other",) * (1 - pair))
    spec |= _model(rng.stream("model"), engine)
    spec |= _monitoring(rng.stream("monitoring"), routed=routed)
    spec |= _tracing(rng.stream("tracing"), engine)
    paired = routed and pair and strategy in (None, "pd-disaggregation", "config")
    setting = Setting(
        engine=engine,
        model=spec.get("model"),
        paired=paired,
        groups=spec.get("groups"),
        per_role=spec.get("layout") == "PerRole",
        monitored="monitoring" in spec,
        traced=spec.get("tracing", {}).get("engines", "tracing" in spec),
        port=rng.stream("port").choice(None, 8000, 8080) if engine != "other" else None,
        connector=_connector(rng.stream("connector"), engine),
        alike=rng.stream("alike") if paired else None,
    )
    roles = _roles(rng, setting, types)
    spec |= _scheduling(rng.stream("scheduling"), setting, roles)
    spec |= _disruption_budget(rng.stream("disruptionBudget"), roles)
    spec |= _rollout(rng.stream("rollout"), setting, roles)
    spec |= _wait(rng.stream("wait"))
    spec |= _ratio(rng.stream("ratio"), pair=pair)
    spec |= rng.stream("placement").fields(0.03, placement={"colocate": "example.com/block"})
    spec |= rng.stream("pod metadata").fields(
        0.1, podLabels={"team": "search"}, podAnnotations={"example.com/owner": "ml"}
    )
    for role in roles:
        more = rng.stream(f"pod metadata {role['name']}").fields(
            0.1, podLabels={"cost-centre": "7"}, podAnnotations={"example.com/owner": "search"}
        )
        role.update(more)
    if routed:
        role = router(rng.stream("router role"), service, strategy, pair=pair)
        _queue(role, roles, spec, setting)
        roles.insert(rng.stream("router").integer(0, len(roles)), role)
    spec["roles"] = roles
    spec |= _drop_templates(rng.stream("left out"), setting, roles)
    return service


def _queue(router_role: Manifest, roles: list[Manifest], spec: Manifest, setting: Setting) -> None:
    """Scale workers by queued requests if the endpoint picker's release can queue requests."""
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


def _drop_templates(rng: SeededRandom, setting: Setting, roles: list[Manifest]) -> Manifest:
    """Let the library generate the containers of some services."""
    workers = [role for role in roles if role["componentType"] == "worker" and "template" in role]
    if setting.model is None or setting.engine == "other" or not workers or not rng.chance(0.2):
        return {}
    releases = {"vllm": ("0.25.1", "0.32.0"), "sglang": ("0.5.23",)}[setting.engine]
    engine: Manifest = {"name": setting.engine, **rng.fields(0.5, version=releases)}
    for role in workers:
        for field in ("template", "container", "kvEvents", "resourceClaims"):
            role.pop(field, None)
        role.update(gpus=8, **rng.fields(0.3, engine=engine))
    spec = rng.fields(0.5, imageRegistry="registry.example.com/mirror", edition="2026.11")
    if setting.engine != "vllm" or rng.chance(0.5):
        spec["engine"] = engine
    return spec if len(workers) == len([r for r in roles if r["componentType"] != "router"]) else {}


def _connector(rng: SeededRandom, engine: str) -> str:
    if engine == "sglang":
        return rng.choice("nixl", "nixl", "mooncake")
    other_items = ("SharedStorageConnector", "MooncakeConnector", "PyNcclConnector")
    return rng.choice(*("NixlConnector",) * 8, *other_items)


def _metadata(rng: SeededRandom) -> Manifest:
    names = ("qwen", "deepseek-r1", "a", "chat-2", "llama-3-70b-instruct")
    long = "a-service-whose-name-leaves-little-room-for-more"
    metadata: Manifest = {"name": long if rng.chance(0.015) else rng.choice(*names)}
    metadata |= rng.fields(
        0.25,
        namespace=("team-a", "default"),
        labels={"team": "chat", "example.com/cost-centre": "42"},
        annotations={"note": rng.choice(*AWKWARD), "example.com/owner": "chat"},
    )
    return metadata


#: Config of a small model, which fits any accelerator.
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


def _model(rng: SeededRandom, engine: str) -> Manifest:
    if not rng.chance(0.4):
        return {}
    repository = "hf://team/chat-8b"
    sources = {
        "hub": {"uri": repository, **rng.fields(0.2, fetch="Engine")},
        "hub, revision": {"uri": f"{repository}@main", **_token(rng)},
        "hub, init container": {"uri": repository, "fetch": "InitContainer", **_token(rng)},
        "claim": {"uri": "pvc://models/llama-70b"},
        "bucket": {"uri": "s3://models/qwen", **rng.fields(0.7, s3=_s3(rng))},
        "image": {"uri": "oci://registry.example.com/qwen:1", **rng.fields(path="models")},
        "hub, cache": {"uri": repository, "cache": _cache(rng), **_token(rng)},
        "bucket, cache": {"uri": "s3://models/qwen", "cache": _cache(rng, warm=True)},
    }
    model: Manifest = rng.option("model", sources)
    model |= rng.fields(
        0.2, name="chat", size=("140Gi", 10**10), mountPath="/models", imagePullSecrets=["registry"]
    )
    if not model["uri"].startswith("hf") or model.get("fetch") == "InitContainer":
        model |= rng.fields(0.2, fetcher=_fetcher(rng))
    if rng.stream("config").chance(0.1):
        model["config"] = _CONFIG
    if rng.chance(0.25):
        model["lora"] = _lora(rng)
    if "cache" in model and engine == "vllm":
        model["cache"] |= rng.stream("compile cache").fields(0.2, compileCache=True)
    return {"model": model}


def _token(rng: SeededRandom) -> Manifest:
    return rng.fields(0.4, tokenSecret=({"name": "hub"}, {"name": "hub", "key": "token"}))


def _s3(rng: SeededRandom) -> Manifest:
    keys = {"accessKeyIdKey": "id", "secretAccessKeyKey": "secret"}
    user_fields = rng.fields(
        0.7, secretName="bucket", endpoint="http://minio:9000", region="eu-west-1"
    )
    return {**user_fields, **(keys if "secretName" in user_fields and rng.chance(0.5) else {})}


def _fetcher(rng: SeededRandom) -> Manifest:
    return rng.fields(
        image="registry.example.com/own/fetcher:1",
        command=["/fetch", "--all"],
        env=[{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}],
        resources={"limits": {"memory": "4Gi"}},
        securityContext={"runAsNonRoot": True},
    )


def _lora(rng: SeededRandom) -> Manifest:
    adapters = [
        {"name": "sql", "uri": "hf://org/sql-adapter"},
        {"name": "law", "uri": "pvc://adapters/law"},
        {"name": "french", "uri": "hf://org/french@v2"},
    ]
    chosen = rng.subset(adapters, 0.6) or adapters[:1]
    return {"adapters": chosen, **rng.fields(maxRank=32, maxAdapters=4, maxCpuAdapters=8)}


def _cache(rng: SeededRandom, *, warm: bool = False) -> Manifest:
    storage = {"size": "500Gi", **rng.fields(storageClassName="shared")}
    modes = ["ReadWriteMany"], ["ReadWriteMany", "ReadOnlyMany"], ["ReadWriteOnce"]
    storage |= rng.fields(0.5, accessModes=(*modes, *modes, ["ReadWriteOncePod"]))
    cache: Manifest = rng.choice({"claimName": "models"}, {"storage": storage})
    cache |= rng.fields(0.3, mountPath="/cache")
    if warm or rng.chance(0.6):
        cache["warmUp"] = True
        cache |= rng.fields(0.4, mountModel=True, readOnly=False, job=_job(rng))
    return cache


def _job(rng: SeededRandom) -> Manifest:
    return rng.fields(
        0.6,
        timeout="3h",
        backoffLimit=0,
        ttlSecondsAfterFinished=600,
        nodeSelector={"disk": "fast"},
        tolerations=[{"key": "gpu", "operator": "Exists"}],
        serviceAccountName="fetcher",
    )


def _monitoring(rng: SeededRandom, *, routed: bool) -> Manifest:
    if not rng.chance(0.25):
        return {}
    fields = rng.fields(
        0.3,
        engines=(True, False),
        path="/prometheus",
        interval="30s",
        scrapeTimeout="10s",
        labels={"release": "prometheus"},
        alerts=({}, {"labels": {"team": "search"}, "runbook": "https://example.com/alerts"}),
        dashboards=({}, {"labels": {"dashboard": "yes"}, "folder": "Models"}),
    )
    if routed and rng.chance(0.5):
        fields["picker"] = True
        fields |= rng.fields(pickerToken=({"name": "scraper"}, {"name": "scraper", "key": "t"}))
    elif rng.chance(0.2):
        fields["picker"] = False
    return {"monitoring": fields}


def _tracing(rng: SeededRandom, engine: str) -> Manifest:
    if not rng.chance(0.2):
        return {}
    fields: Manifest = {"endpoint": "http://otel-collector.observability:4317"}
    fields |= rng.fields(0.3, sampling=(0.5, 1, 0), picker=(True, False))
    if engine != "vllm" or rng.chance(0.3):
        fields["engines"] = False
    return {"tracing": fields}


def _roles(rng: SeededRandom, setting: Setting, types: tuple[str, ...]) -> list[Manifest]:
    free = {kind: list(names) for kind, names in _NAMES.items()}
    roles = []
    for number, component_type in enumerate(types):
        name = rng.stream(f"name {number}").choice(*free[component_type])
        free[component_type].remove(name)
        roles.append(serving_role(rng.stream(f"role {number}"), setting, name, component_type))
    return roles


def _is_gang(roles: list[Manifest], mode: object) -> bool:
    types = {role["componentType"] for role in roles}
    several = any("multinode" in role for role in roles)
    return mode in ("On", True) or (
        mode not in ("Off", False) and (several or {"prefiller", "decoder"} <= types)
    )


def _scheduling(rng: SeededRandom, setting: Setting, roles: list[Manifest]) -> Manifest:
    policy = rng.fields(0.35, mode=("Auto", "On", "On", "Off", True, False))
    gang = _is_gang(roles, policy.get("mode", "Auto"))
    scaled = any("autoscaling" in role for role in roles)
    if rng.chance(0.35 if gang else 0.05) or (gang and scaled):
        policy["minRoleReplicas"] = _minima(rng, roles)
        if not setting.per_role:
            policy |= rng.fields(0.4, requiredReplicas=("Any", "LowestOrdinals"))
    policy |= rng.fields(0.2 if gang else 0.03, minResources=(True, False))
    if rng.chance(0.15 if gang else 0.01):
        hard = {"mode": "hard", "highestTierAllowed": 2}
        rules = ({"highestTierAllowed": 1}, hard, {"mode": "soft"})
        policy["networkTopology"] = rng.fields(0.6, groupPolicy=rules, rolePolicy=rules)
    for role in roles:
        ready = rng.chance(0.004 if gang else 0.3)
        role.update(rng.fields(0.2, startupPolicy="LeaderReady" if ready else "LeaderCreated"))
    strategy: Manifest = {"gangPolicy": policy} if policy else {}
    strategy |= rng.fields(0.15, queue="research", priorityClassName="high")
    strategy |= rng.fields(0.1, schedulerName="volcano" if gang else ("volcano", "own"))
    if policy:
        policy |= rng.stream("default backend").fields(0.1, backend="Volcano")
    if rng.stream("backend").chance(0.05):
        return {"schedulingStrategy": {"queue": "team", "gangPolicy": {"backend": "Kueue"}}}
    if rng.stream("native").chance(0.03):
        return {"schedulingStrategy": {"gangPolicy": {"backend": "Native"}}}
    return {"schedulingStrategy": strategy} if strategy else {}


def _minima(rng: SeededRandom, roles: list[Manifest]) -> dict[str, int]:
    """Return `minRoleReplicas`; for autoscaled roles at most `minReplicas`."""
    minima = {}
    for role in roles:
        most = role.get("replicas", 1)
        if "autoscaling" in role:
            most = min(most, role["autoscaling"].get("minReplicas", 1))
        if "autoscaling" in role or rng.chance(0.6):
            minima[role["name"]] = rng.integer(0, most)
    if minima and not any(minima.values()) and rng.chance(0.95):
        # A gang whose minima are all 0 is rejected.
        del minima[next(iter(minima))]
    return minima


def _disruption_budget(rng: SeededRandom, roles: list[Manifest]) -> Manifest:
    if not rng.chance(0.2):
        return {}
    scaled = any("autoscaling" in role for role in roles)
    return {"disruptionBudget": disruption_budget(rng, scaled=scaled)}


def _rollout(rng: SeededRandom, setting: Setting, roles: list[Manifest]) -> Manifest:
    if not rng.chance(0.3):
        return {}
    rollout = resolve_rollout(rng, setting)
    rollout |= rng.stream("pull images").fields(0.2, pullImages=True)
    if len(roles) > 1:
        rollout |= rng.fields(0.4, roleOrder=("Sequential", "Together"))
    if setting.groups is not None and not any("rollout" in role for role in roles):
        rollout |= rng.fields(0.5, level=("Group", "Role"))
        if rollout.get("level") == "Group":
            rollout.pop("maxSurge", None)
    return {"rollout": rollout}


def _wait(rng: SeededRandom) -> Manifest:
    levels = ("None", "Scheduled", "Available", "Serving")
    return rng.fields(0.1, wait={"level": rng.choice(*levels), **rng.fields(timeout="2h")})


def _ratio(rng: SeededRandom, *, pair: bool) -> Manifest:
    if not pair or not rng.chance(0.1):
        return {}
    return {"prefillDecodeRatio": rng.choice({"min": 0.1}, {"max": 4}, {"min": 0.1, "max": 5.5})}


def _canary(rng: SeededRandom, service: Manifest) -> list[Manifest]:
    """Return the service that the first one's `split` sends requests to, if there is one."""
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
    route = rng.option("route of the second service", forms)
    behind = {"name": "router", "componentType": "router", **route}
    serving = [role for role in roles if role["componentType"] != "router"]
    spec = {key: service["spec"][key] for key in ("model", "layout") if key in service["spec"]}
    metadata = {**service["metadata"], "name": routes[0]["split"][0]["service"]}
    return [{**service, "metadata": metadata, "spec": {**spec, "roles": [behind, *serving]}}]
