"""Random serving roles: sizes, launchers, and one function for each field of a role."""

from __future__ import annotations

from dataclasses import dataclass

from random_services.pods import (
    OTHER_IMAGES,
    SGLANG_IMAGES,
    VLLM_IMAGES,
    Engine,
    Flags,
    Manifest,
    Needs,
    kv_transfer_flag,
    pod_template,
)
from random_services.seeded_random import SeededRandom

_USUAL = ("vllm", "sglang", "engine", "main")
_ACCELERATORS = ("H200", "80Gi")
#: Unknown models, because random sizes would not divide the attention heads of known ones.
_MODELS = ("team/chat-8b", "team/reason-600b", "/models/llama 70b")


@dataclass(frozen=True)
class Setting:
    """Choices that all roles of a service share.

    Attributes:
        engine: `vllm`, `sglang` or `other`.
        model: The service's `model`, if set.
        paired: Whether a router pairs prefill with decode.
        groups: The service's `groups`.
        per_role: Whether one LeaderWorkerSet runs all replicas of a role.
        monitored: Whether the engines' metrics are scraped.
        traced: Whether the engines send traces.
        port: Port of all engines; None means the engine's default.
        connector: The engine's name of the KV connector.
        alike: Choices that prefill and decode share; None if no router pairs them.
    """

    engine: str
    model: Manifest | None
    paired: bool
    groups: int | None
    per_role: bool
    monitored: bool
    traced: bool
    port: int | None
    connector: str
    alike: SeededRandom | None

    @property
    def serving_port(self) -> int:
        """The port that engines listen on."""
        return self.port or (30000 if self.engine == "sglang" else 8000)


@dataclass(frozen=True)
class Size:
    """Nodes of a replica, accelerators per node, and parallel sizes that use all of them."""

    nodes: int
    devices: int
    launcher: str | None
    sizes: Manifest

    @property
    def copies(self) -> int:
        """Data-parallel copies of the model in a replica."""
        return int(self.sizes.get("data", 1))


def serving_role(rng: SeededRandom, setting: Setting, name: str, component_type: str) -> Manifest:
    """Return a serving role of a component type."""
    role: Manifest = {"name": name, "componentType": component_type}
    role |= rng.stream("replicas").fields(0.8, replicas=(0, 1, 1, 2, 2, 3, 4))
    size = _size(rng.stream("size"), setting)
    engine = _engine(rng.stream("engine"), setting, size)
    if size.nodes > 1 or rng.stream("multinode").chance(0.1):
        role["multinode"] = {"nodeCount": size.nodes}
        if size.launcher is not None:
            role["multinode"]["launcher"] = size.launcher
            rng.features.add(f"launcher of {engine.name}: {size.launcher}")
    _state_sizes(rng.stream("parallelism"), role, engine, size)
    role |= _kv_transfer(rng.stream("kvTransfer"), setting, engine, component_type)
    role |= _kv_events(rng.stream("kvEvents"), engine)
    role |= _kv_cache_offloading(rng.stream("kvCacheOffloading"), setting, engine, role)
    role |= _resource_claims(rng.stream("resourceClaims"))
    role |= _startup(rng.stream("startup"), setting)
    role |= _topology_spread(rng.stream("topologySpread"))
    role |= _autoscaling(rng.stream("autoscaling"), setting, role)
    role |= _disruption_budget(rng.stream("disruptionBudget"), role)
    role |= _lws_fields(rng.stream("leaderWorkerSet"), size)
    role |= _rollout(rng.stream("rollout"), setting)
    role |= _placement(rng.stream("placement"))
    if _MODELS[0] in str(engine.model or setting.model) and rng.stream("accelerator").chance(0.2):
        role["accelerator"] = rng.stream("accelerator kind").choice(*_ACCELERATORS)
    role |= _templates(rng.stream("templates"), setting, engine, size, role)
    return role


def _engine(rng: SeededRandom, setting: Setting, size: Size) -> Engine:
    images = {"vllm": VLLM_IMAGES, "sglang": SGLANG_IMAGES, "other": OTHER_IMAGES}
    choices = images[setting.engine]
    # Prefill and decode share the model, its served name and the engine release.
    fields, rng = rng, rng if setting.alike is None else setting.alike.stream("engine")
    if setting.traced and setting.engine == "vllm" and rng.chance(0.85):
        # Older releases cannot trace.
        choices = {name: choices[name] for name in ("v0.22.0", "v0.25.1")}
    image = rng.option(f"{setting.engine} image", choices)
    engine = Engine(setting.engine, image)
    if setting.model is None:
        engine.model = rng.choice(*_MODELS)
    elif setting.model == {"uri": f"hf://{_MODELS[0]}"} and rng.chance(0.5):
        engine.model = _MODELS[0]
    if setting.engine == "other":
        return engine
    rng = fields
    by_flags = size.launcher in ("multiprocessing", "data-parallel")
    engine.serve = setting.engine == "vllm" and by_flags
    if setting.port is not None:
        engine.flags.append(("--port", str(setting.port)))
    flags: dict[str, Flags] = {
        "vllm": [
            ("--max-model-len", "8192"),
            ("--gpu-memory-utilization", "0.92"),
            ("--enable-prefix-caching",),
            ("--trust-remote-code",),
            ("--chat-template", "{{ messages }}"),
            ("--block-size", "64"),
            ("--disable-log-stats",),
            ("--distributed-executor-backend", "mp"),
            ("--config", "/etc/vllm.yaml"),
            ("--api-key", "sk-abcdefghijklmnopqrstuvwxyz"),
        ],
        "sglang": [
            ("--mem-fraction-static", "0.9"),
            ("--enable-metrics",),
            ("--disable-radix-cache",),
            ("--page-size", "64"),
        ],
    }
    engine.flags += rng.subset(flags[setting.engine], 0.15)
    if rng.chance(0.05) and (setting.engine == "vllm" or engine.release >= (0, 5, 10)):
        engine.flags += [("--ssl-certfile", "/tls/crt"), ("--ssl-keyfile", "/tls/key")]
    named = rng if setting.alike is None else setting.alike.stream("name")
    if setting.model is None and named.chance(0.2):
        engine.flags.append(("--served-model-name", "chat"))
    return engine


def _size(rng: SeededRandom, setting: Setting) -> Size:
    nodes = rng.choice(1, 1, 1, 1, 2, 2, 3, 4)
    devices = rng.choice(1, 2, 4, 8)
    if setting.engine == "other":
        return Size(nodes, devices, "none" if nodes > 1 and rng.chance(0.95) else None, {})
    if setting.engine == "sglang":
        launcher = rng.choice(None, "multiprocessing", "none") if nodes > 1 else None
        sizes = rng.choice(
            {"tensor": devices * nodes},
            {"tensor": devices, "pipeline": nodes},
            {"tensor": devices * nodes, "data": nodes} if nodes > 1 else {"data": devices},
        )
        return Size(nodes, devices, launcher, sizes)
    if nodes == 1:
        kept = {"tensor": devices}
        copies = {"tensor": 1, "data": devices}
        return Size(1, devices, None, rng.choice(kept, kept, copies))
    launcher = rng.choice(None, "ray", "multiprocessing", "data-parallel", "none")
    if launcher == "data-parallel":
        local = rng.choice(1, devices)
        sizes = {"tensor": devices // local, "data": nodes * local, "dataLocal": local}
        return Size(nodes, devices, launcher, sizes)
    whole, staged = {"tensor": devices * nodes}, {"tensor": devices, "pipeline": nodes}
    copies = {"tensor": devices, "data": nodes}
    return Size(nodes, devices, launcher, rng.choice(whole, whole, staged, staged, copies))


_FLAGS: dict[str, dict[str, tuple[str, ...]]] = {
    "vllm": {
        "tensor": ("--tensor-parallel-size", "-tp"),
        "pipeline": ("--pipeline-parallel-size", "-pp"),
        "data": ("--data-parallel-size", "-dp"),
        "dataLocal": ("--data-parallel-size-local", "-dpl"),
    },
    "sglang": {"tensor": ("--tp-size", "--tp"), "pipeline": ("--pp-size",), "data": ("--dp-size",)},
}


def _state_sizes(rng: SeededRandom, role: Manifest, engine: Engine, size: Size) -> None:
    """Set the sizes in `parallelism`, in the command line or in both; rarely in neither."""
    # The engine needs its sizes to run on several nodes.
    if engine.name == "other" or rng.chance(0.08 if size.nodes == 1 else 0.01):
        return
    if engine.name == "sglang" and "data" in size.sizes and size.nodes > 1:
        engine.flags.append(("--enable-dp-attention",))
    sizes = {key: value for key, value in size.sizes.items() if value > 1 or rng.chance(0.3)}
    where = rng.option("sizes in", {"field": "field", "flags": "flags", "both": "field, flags"})
    if "flags" in where:
        for key, value in sizes.items():
            engine.flags.append((rng.choice(*_FLAGS[engine.name][key]), str(value)))
    if "field" not in where or not sizes:
        return
    more = rng.fields(0.2, expert=(True, False)) if size.devices * size.nodes > 1 else {}
    if size.copies > 1 and engine.name == "vllm" and size.nodes > 1:
        more |= rng.fields(0.3, dataRPCPort=13345)
    if engine.name == "vllm" and size.nodes == 1 and sizes.get("data", 1) > 1:
        more |= rng.stream("portPerRank").fields(0.3, portPerRank=True)
    role["parallelism"] = {**sizes, **more}
    implied = size.nodes > 1 and ("dataLocal" in sizes or sizes.get("pipeline", 1) == size.nodes)
    if implied and rng.chance(0.4):
        del role["multinode"]["nodeCount"]
        if not role["multinode"]:
            del role["multinode"]


def _kv_transfer(
    rng: SeededRandom, setting: Setting, engine: Engine, component_type: str
) -> Manifest:
    if component_type == "worker" or not rng.chance(0.98 if setting.paired else 0.3):
        return {}
    if engine.name == "other":
        return {}
    transfer = rng.fields(
        0.15,
        sharedMemory="16Gi",
        rdma=(
            {"resource": "rdma/hca", "count": 2},
            {"devices": ["mlx5_0:1", "mlx5_1:1"], "transports": "rc,cuda_copy", "gidIndex": 3},
            {"resource": "rdma/ib", "lockMemory": False},
        ),
    )
    nixl = setting.connector == "NixlConnector"
    side = {"prefiller": "kv_producer", "decoder": "kv_consumer"}[component_type]
    if engine.name == "vllm" and rng.chance(0.25):
        role = rng.choice("kv_both", side)
        engine.flags.append(kv_transfer_flag(rng, setting.connector, role))
        rng.features.add("kv transfer: flags")
        return {"kvTransfer": transfer} if rng.chance(0.3) else {}
    rng.features.add("kv transfer: field")
    if engine.name == "vllm":
        user_fields = rng.fields(0.15, extraConfig={"backends": ["UCX"]}, sideChannelPort=5700)
        transfer |= user_fields if nixl else {}
        transfer |= rng.fields(0.2, role=("kv_both", side))
    if not nixl or rng.chance(0.2):
        transfer["connector"] = setting.connector
    if component_type == "decoder":
        transfer |= rng.fields(0.2, enginePort=8200)
        transfer |= rng.fields(0.4, sidecar=_sidecar(rng.stream("sidecar"), setting))
    transfer |= rng.stream("enabled").fields(0.06, enabled=(True, False))
    return {"kvTransfer": transfer}


_PROTOCOLS = {
    "NixlConnector": "nixlv2",
    "SharedStorageConnector": "shared-storage",
    "MooncakeConnector": "mooncake",
    "PyNcclConnector": "nixlv2",
    "nixl": "sglang",
    "mooncake": "sglang",
}


def _sidecar(rng: SeededRandom, setting: Setting) -> Manifest:
    if rng.chance(0.15):
        return {"enabled": False}
    fields = rng.fields(
        0.3,
        resources={"requests": {"cpu": "200m"}, "limits": {"memory": "1Gi"}},
        ssrfProtection=False,
        args=["--secure-proxy=true", "--zap-log-level=debug"],
        connector=(*(_PROTOCOLS[setting.connector],) * 3, "mooncake", "offloading"),
    )
    if rng.chance(0.2):
        fields |= {"image": "registry.example.com/own/sidecar:1", "family": "llm-d-0.10"}
    elif rng.chance(0.2):
        fields["image"] = "ghcr.io/llm-d/llm-d-router-disagg-sidecar:v0.10.0"
    return fields


def _kv_events(rng: SeededRandom, engine: Engine) -> Manifest:
    if not rng.chance(0.15 if engine.name == "vllm" else 0.03):
        return {}
    return {
        "kvEvents": rng.choice(
            {},
            {"endpoint": "tcp://*:5558"},
            {"endpoint": "tcp://scheduler:5557", "topic": "kv@$(POD_IP)@chat"},
            {"topic": "kv@mine"},
        )
    }


def _kv_cache_offloading(
    rng: SeededRandom, setting: Setting, engine: Engine, role: Manifest
) -> Manifest:
    transfers = "kvTransfer" in role
    explicit = any(flag[0].startswith("--kv-transfer-config") for flag in engine.flags)
    able = {
        "vllm": engine.release >= ((0, 21, 0) if transfers else (0, 14, 0))
        and not explicit
        and (setting.connector == "NixlConnector" or not transfers),
        "sglang": role["componentType"] != "decoder",
        "other": False,
    }
    if not rng.chance(0.3 if able[engine.name] else 0.008):
        return {}
    # SGLang needs a gigabyte for each rank.
    value: Manifest = {"cpu": rng.choice("64Gi", "100G", 2**36)}
    value |= rng.fields(0.3, evictionPolicy=("lru", "arc") if engine.name == "vllm" else ("lru",))
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Gi"}}}
    tiers: list[Manifest] = [
        {"fileSystem": {"emptyDir": {"size": "20Gi"}}},
        {"fileSystem": {"pvc": {"spec": {**claim, "storageClassName": "fast"}}}},
        {"fileSystem": {"pvc": {"ref": {"name": "shared-kv", "path": "qwen"}}}},
    ]
    if engine.name == "sglang":
        value |= rng.fields(0.5, secondary=[rng.choice(*tiers)])
    elif engine.release >= (0, 22, 0) and rng.chance(0.5):
        value["secondary"] = rng.subset(tiers)
    return {"kvCacheOffloading": value}


def _resource_claims(rng: SeededRandom) -> Manifest:
    if not rng.chance(0.12):
        return {}
    selector = "device.attributes['gpu.nvidia.com'].productName == 'NVIDIA H100'"
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}
    forms: dict[str, Manifest] = {
        "class": {"deviceClassName": "gpu.example.com"},
        "count and selectors": {"deviceClassName": "gpu.nvidia.com", "count": 2,
                                "selectors": [selector]},
        "admin": {"deviceClassName": "gpu.example.com", "adminAccess": True},
        "spec": {"spec": {"devices": {"requests": [request]}}},
        "template": {"templateName": "eight-cards"},
        "claim": {"claimName": "shared-card"},
    }  # fmt: skip
    first = {"name": "cards", **rng.option("resource claim", forms)}
    return {
        "resourceClaims": [first, {"name": "nic", "templateName": "nic"}][: rng.choice(1, 1, 2)]
    }


def _startup(rng: SeededRandom, setting: Setting) -> Manifest:
    if not rng.chance(0.2 if setting.engine != "other" else 0.02):
        return {}
    forms = [{"timeout": "30m"}, {"modelSize": "140Gi", "readRate": "1Gi"}, {"modelSize": 10**11}]
    if setting.model is not None and "size" in setting.model:
        forms.append({})
    return {"startup": rng.choice(*forms)}


def _topology_spread(rng: SeededRandom) -> Manifest:
    if not rng.chance(0.15):
        return {}
    zone = {"topologyKey": "topology.kubernetes.io/zone"}
    zone |= rng.fields(maxSkew=2, whenUnsatisfiable=("DoNotSchedule", "ScheduleAnyway"))
    return {"topologySpread": [zone, {"topologyKey": "example.com/row"}][: rng.choice(1, 2)]}


def _autoscaling(rng: SeededRandom, setting: Setting, role: Manifest) -> Manifest:
    replicas = role.get("replicas", 1)
    if not rng.chance(0.35 if setting.per_role and replicas else 0.004):
        return {}
    scaling: Manifest = {"maxReplicas": replicas + rng.integer(1, 4)}
    scaling |= rng.fields(0.5, minReplicas=max(replicas - 1, 1))
    if setting.groups is None and rng.chance(0.4):
        queries = [
            {"query": 'sum(waiting{app="qwen"})', "target": "5"},
            {"query": 'max(x{app="qwen"})', "target": 2.5},
        ]
        scaling |= {"engine": "KEDA", "prometheus": "http://prometheus:9090"}
        scaling["metrics"] = queries[: rng.choice(1, 2)]
        keda = rng.stream("keda")
        queries[0] |= keda.fields(0.3, name="waiting", unsafeSsl=True)
        scaling |= keda.fields(0.6, keda=_keda(keda))
        target = rng.stream("target")
        # Zero replicas and held requests need a picker of certain releases.
        asleep = "idleReplicaCount" in scaling.get("keda", {})
        if setting.monitored and setting.engine != "other" and not asleep and target.chance(0.7):
            scaling["target"] = target.choice("latency", "throughput")
            scaling |= target.fields(targetRequests=(32, 7.5))
            scaling["metrics"] = scaling["metrics"] if target.chance(0.3) else []
            goals = rng.stream("goals").fields(
                0.3, timeToFirstToken=("1s", "1500ms"), timePerToken="50ms"
            )
            if goals:
                scaling.pop("targetRequests", None)
                scaling |= {"target": "latency", **goals}
    else:
        scaling |= rng.fields(0.2, engine="HPA")
        metric = {"name": "vllm_queue", "target": rng.choice(5, "500m")}
        # A single number of replicas for all groups would be wrong for each of them.
        sources = ("Pods", "External") if setting.groups is None else ("Pods",)
        metric |= rng.fields(source=sources, selector={"queue": "short"})
        scaling["metrics"] = [metric]
    scaling |= rng.fields(
        0.3, behavior={"scaleDown": {"stabilizationWindowSeconds": 600}, "scaleUp": {}}
    )
    scaling |= rng.stream("annotations").fields(0.1, annotations={"example.com/cost": "2"})
    return {"autoscaling": scaling}


def _keda(rng: SeededRandom) -> Manifest:
    fallback = {"failureThreshold": 3, "replicas": 2}
    fallback |= rng.fields(behavior="currentReplicasIfHigher")
    keda = rng.fields(
        0.5,
        pollingInterval=15,
        cooldownPeriod=60,
        initialCooldownPeriod=0,
        idleReplicaCount=0,
        fallback=fallback,
    )
    hours = {"timezone": "UTC", "start": "0 8 * * *", "end": "0 18 * * *", "desiredReplicas": "2"}
    trigger = {"type": "cron", "metadata": hours}
    return keda | rng.stream("triggers").fields(0.1, triggers=[trigger])


def _disruption_budget(rng: SeededRandom, role: Manifest) -> Manifest:
    if not rng.chance(0.15):
        return {}
    return {"disruptionBudget": disruption_budget(rng, scaled="autoscaling" in role)}


def disruption_budget(rng: SeededRandom, *, scaled: bool) -> Manifest:
    """Return a budget; if a role is autoscaled, only `maxUnavailable` as a number."""
    counted: dict[str, Manifest] = {"default": {}, "count": {"maxUnavailable": 2}}
    other_items: dict[str, Manifest] = {
        "percentage": {"maxUnavailable": "50%"},
        "none": {"maxUnavailable": 0},
        "minimum": {"minAvailable": 1},
        "minimum percentage": {"minAvailable": "30%"},
    }
    limit = rng.option("budget", counted if scaled else {**counted, **other_items})
    return {**limit, **rng.fields(0.3, unhealthyPods=("IfHealthyBudget", "AlwaysAllow"))}


def _lws_fields(rng: SeededRandom, size: Size) -> Manifest:
    fields = rng.fields(
        0.2,
        restartPolicy=("RecreateGroupOnPodRestart", "RecreateGroupAfterStart", "None"),
        networkConfig=({"subdomainPolicy": "Shared"}, {"subdomainPolicy": "UniquePerReplica"}),
        environment="Kthena",
    )
    if size.nodes > 1 and rng.chance(0.2):
        kind = rng.choice(None, "LeaderWorker", "LeaderExcluded")
        whole = size.nodes - 1 if kind == "LeaderExcluded" else size.nodes
        sizes = [item for item in range(1, whole + 1) if whole % item == 0]
        fields["subGroupPolicy"] = {"subGroupSize": rng.choice(*sizes)}
        if kind is not None:
            fields["subGroupPolicy"]["subGroupPolicyType"] = kind
    return fields


def _rollout(rng: SeededRandom, setting: Setting) -> Manifest:
    return {"rollout": resolve_rollout(rng, setting)} if rng.chance(0.15) else {}


def resolve_rollout(rng: SeededRandom, setting: Setting) -> Manifest:
    """Return a `rollout`, for a role or the service."""
    rollout = rng.fields(
        0.4,
        strategy=("Rolling", "Rolling", "AllAtOnce", "Recreate"),
        maxUnavailable=(1, 2, "50%"),
        timeout=("20m", "1h30m"),
    )
    if setting.per_role:
        rollout |= rng.fields(0.3, maxSurge=(1, "25%"))
    if rollout.get("strategy") != "Recreate" or not setting.per_role:
        rollout |= rng.fields(0.2, partition=(0, 1))
    return rollout


def _placement(rng: SeededRandom) -> Manifest:
    if not rng.chance(0.05):
        return {}
    device = {"attributes": {"model": ["h100", "h200"]}, "minMemory": "80Gi"}
    return {"placement": rng.choice({"pools": ["big"]}, {"device": device})}


def _templates(
    rng: SeededRandom, setting: Setting, engine: Engine, size: Size, role: Manifest
) -> Manifest:
    fields: Manifest = {}
    container = rng.choice(*_USUAL, "server")
    if container == "server":
        fields["container"] = container
    listens = setting.serving_port
    fields |= rng.fields(0.3, port=listens)
    needs = Needs(
        devices=None if "resourceClaims" in role else size.devices,
        memory="512Gi" if "kvCacheOffloading" in role else None,
        port=listens if setting.monitored or rng.chance(0.6) else None,
        quiet="startup" in role or rng.chance(0.5),
        sidecar=role["componentType"] == "decoder" and rng.chance(0.04),
    )
    forms = ["template"]
    # The arguments that other fields add to a worker would be lost where ray launches it.
    plain = setting.model is None and "parallelism" not in role
    by_hand = size.launcher == "none" or (size.launcher is None and plain)
    if size.nodes > 1 and by_hand and size.copies == 1:
        forms.append("two templates")
    form = rng.choice(*forms)
    rng.features.add(f"pods: {form}")
    if form == "template":
        return {**fields, "template": pod_template(rng.stream("all"), engine, needs, container)}
    # A worker that Ray launches has no command of its own.
    by_ray = size.launcher is None and engine.name == "vllm"
    plain_worker = by_ray or rng.chance(0.3)
    worker = Engine("worker without a command" if plain_worker else "ray worker", engine.image)
    user_needs = Needs(needs.devices, needs.memory, quiet=True)
    return {
        **fields,
        "leaderTemplate": pod_template(rng.stream("leader"), engine, needs, container),
        "workerTemplate": pod_template(rng.stream("worker"), worker, user_needs, container),
    }
