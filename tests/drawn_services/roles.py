"""Roles that serve: sizes, launchers, and one function for each field of a role."""

from __future__ import annotations

from dataclasses import dataclass

from drawn_services.draw import Draw
from drawn_services.pods import (
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

_USUAL = ("vllm", "sglang", "engine", "main")
_ACCELERATORS = ("H200", "80Gi")
#: None that is known: drawn sizes do not divide their heads.
_MODELS = ("team/chat-8b", "team/reason-600b", "/models/llama 70b")


@dataclass(frozen=True)
class Setting:
    """What the roles of a service have in common.

    Attributes:
        engine: `vllm`, `sglang` or `other`.
        model: The service's `model`, or None without one.
        paired: Whether a router pairs prefill with decode.
        groups: The service's `groups`.
        per_role: Whether one LeaderWorkerSet runs all replicas of a role.
        monitored: Whether the engines' metrics are read.
        traced: Whether the engines are told to trace.
        port: Port of all engines, or None for the engine's own.
        connector: What hands the KV cache over, in the engine's words.
        alike: What prefill and decode have in common, None where no router pairs them.
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
    alike: Draw | None

    @property
    def serving_port(self) -> int:
        """The port that engines listen on."""
        return self.port or (30000 if self.engine == "sglang" else 8000)


@dataclass(frozen=True)
class Size:
    """How a replica is divided: nodes, accelerators of each, and the sizes that use them all."""

    nodes: int
    devices: int
    launcher: str | None
    sizes: Manifest

    @property
    def copies(self) -> int:
        """Copies of the model in a replica."""
        return int(self.sizes.get("data", 1))


def serving_role(draw: Draw, setting: Setting, name: str, component_type: str) -> Manifest:
    """A role of one of the component types that serve."""
    role: Manifest = {"name": name, "componentType": component_type}
    role |= draw.of("replicas").fields(0.8, replicas=(0, 1, 1, 2, 2, 3, 4))
    size = _size(draw.of("size"), setting)
    engine = _engine(draw.of("engine"), setting, size)
    if size.nodes > 1 or draw.of("multinode").chance(0.1):
        role["multinode"] = {"nodeCount": size.nodes}
        if size.launcher is not None:
            role["multinode"]["launcher"] = size.launcher
            draw.features.add(f"launcher of {engine.name}: {size.launcher}")
    _state_sizes(draw.of("parallelism"), role, engine, size)
    role |= _kv_transfer(draw.of("kvTransfer"), setting, engine, component_type)
    role |= _kv_events(draw.of("kvEvents"), engine)
    role |= _kv_cache_offloading(draw.of("kvCacheOffloading"), setting, engine, role)
    role |= _resource_claims(draw.of("resourceClaims"))
    role |= _startup(draw.of("startup"), setting)
    role |= _topology_spread(draw.of("topologySpread"))
    role |= _autoscaling(draw.of("autoscaling"), setting, role)
    role |= _disruption_budget(draw.of("disruptionBudget"), role)
    role |= _lws_fields(draw.of("leaderWorkerSet"), size)
    role |= _rollout(draw.of("rollout"), setting)
    role |= _placement(draw.of("placement"))
    if _MODELS[0] in str(engine.model or setting.model) and draw.of("accelerator").chance(0.2):
        role["accelerator"] = draw.of("accelerator kind").one(*_ACCELERATORS)
    role |= _templates(draw.of("templates"), setting, engine, size, role)
    return role


def _engine(draw: Draw, setting: Setting, size: Size) -> Engine:
    images = {"vllm": VLLM_IMAGES, "sglang": SGLANG_IMAGES, "other": OTHER_IMAGES}
    choices = images[setting.engine]
    # Both halves of a pair serve one model, by one release, under one name.
    fields, draw = draw, draw if setting.alike is None else setting.alike.of("engine")
    if setting.traced and setting.engine == "vllm" and draw.chance(0.85):
        # Older releases cannot trace.
        choices = {name: choices[name] for name in ("v0.22.0", "v0.25.1")}
    image = draw.option(f"{setting.engine} image", choices)
    engine = Engine(setting.engine, image)
    if setting.model is None:
        engine.model = draw.one(*_MODELS)
    elif setting.model == {"uri": f"hf://{_MODELS[0]}"} and draw.chance(0.5):
        engine.model = _MODELS[0]
    if setting.engine == "other":
        return engine
    draw = fields
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
    engine.flags += draw.some(flags[setting.engine], 0.15)
    if draw.chance(0.05) and (setting.engine == "vllm" or engine.release >= (0, 5, 10)):
        engine.flags += [("--ssl-certfile", "/tls/crt"), ("--ssl-keyfile", "/tls/key")]
    named = draw if setting.alike is None else setting.alike.of("name")
    if setting.model is None and named.chance(0.2):
        engine.flags.append(("--served-model-name", "chat"))
    return engine


def _size(draw: Draw, setting: Setting) -> Size:
    nodes = draw.one(1, 1, 1, 1, 2, 2, 3, 4)
    devices = draw.one(1, 2, 4, 8)
    if setting.engine == "other":
        return Size(nodes, devices, "none" if nodes > 1 and draw.chance(0.95) else None, {})
    if setting.engine == "sglang":
        launcher = draw.one(None, "multiprocessing", "none") if nodes > 1 else None
        sizes = draw.one(
            {"tensor": devices * nodes},
            {"tensor": devices, "pipeline": nodes},
            {"tensor": devices * nodes, "data": nodes} if nodes > 1 else {"data": devices},
        )
        return Size(nodes, devices, launcher, sizes)
    if nodes == 1:
        kept = {"tensor": devices}
        copies = {"tensor": 1, "data": devices}
        return Size(1, devices, None, draw.one(kept, kept, copies))
    launcher = draw.one(None, "ray", "multiprocessing", "data-parallel", "none")
    if launcher == "data-parallel":
        local = draw.one(1, devices)
        sizes = {"tensor": devices // local, "data": nodes * local, "dataLocal": local}
        return Size(nodes, devices, launcher, sizes)
    whole, staged = {"tensor": devices * nodes}, {"tensor": devices, "pipeline": nodes}
    copies = {"tensor": devices, "data": nodes}
    return Size(nodes, devices, launcher, draw.one(whole, whole, staged, staged, copies))


_FLAGS: dict[str, dict[str, tuple[str, ...]]] = {
    "vllm": {
        "tensor": ("--tensor-parallel-size", "-tp"),
        "pipeline": ("--pipeline-parallel-size", "-pp"),
        "data": ("--data-parallel-size", "-dp"),
        "dataLocal": ("--data-parallel-size-local", "-dpl"),
    },
    "sglang": {"tensor": ("--tp-size", "--tp"), "pipeline": ("--pp-size",), "data": ("--dp-size",)},
}


def _state_sizes(draw: Draw, role: Manifest, engine: Engine, size: Size) -> None:
    """Writes the sizes into `parallelism`, into the command line, or into both; rarely nowhere."""
    # Several nodes have to be told how to divide the engine.
    if engine.name == "other" or draw.chance(0.08 if size.nodes == 1 else 0.01):
        return
    if engine.name == "sglang" and "data" in size.sizes and size.nodes > 1:
        engine.flags.append(("--enable-dp-attention",))
    sizes = {key: value for key, value in size.sizes.items() if value > 1 or draw.chance(0.3)}
    where = draw.option("sizes in", {"field": "field", "flags": "flags", "both": "field, flags"})
    if "flags" in where:
        for key, value in sizes.items():
            engine.flags.append((draw.one(*_FLAGS[engine.name][key]), str(value)))
    if "field" not in where or not sizes:
        return
    more = draw.fields(0.2, expert=(True, False)) if size.devices * size.nodes > 1 else {}
    if size.copies > 1 and engine.name == "vllm" and size.nodes > 1:
        more |= draw.fields(0.3, dataRPCPort=13345)
    if engine.name == "vllm" and size.nodes == 1 and sizes.get("data", 1) > 1:
        more |= draw.of("portPerRank").fields(0.3, portPerRank=True)
    role["parallelism"] = {**sizes, **more}
    implied = size.nodes > 1 and ("dataLocal" in sizes or sizes.get("pipeline", 1) == size.nodes)
    if implied and draw.chance(0.4):
        del role["multinode"]["nodeCount"]
        if not role["multinode"]:
            del role["multinode"]


def _kv_transfer(draw: Draw, setting: Setting, engine: Engine, component_type: str) -> Manifest:
    if component_type == "worker" or not draw.chance(0.98 if setting.paired else 0.3):
        return {}
    if engine.name == "other":
        return {}
    transfer = draw.fields(
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
    if engine.name == "vllm" and draw.chance(0.25):
        role = draw.one("kv_both", side)
        engine.flags.append(kv_transfer_flag(draw, setting.connector, role))
        draw.features.add("kv transfer: flags")
        return {"kvTransfer": transfer} if draw.chance(0.3) else {}
    draw.features.add("kv transfer: field")
    if engine.name == "vllm":
        user_fields = draw.fields(0.15, extraConfig={"backends": ["UCX"]}, sideChannelPort=5700)
        transfer |= user_fields if nixl else {}
        transfer |= draw.fields(0.2, role=("kv_both", side))
    if not nixl or draw.chance(0.2):
        transfer["connector"] = setting.connector
    if component_type == "decoder":
        transfer |= draw.fields(0.2, enginePort=8200)
        transfer |= draw.fields(0.4, sidecar=_sidecar(draw.of("sidecar"), setting))
    transfer |= draw.of("enabled").fields(0.06, enabled=(True, False))
    return {"kvTransfer": transfer}


_PROTOCOLS = {
    "NixlConnector": "nixlv2",
    "SharedStorageConnector": "shared-storage",
    "MooncakeConnector": "mooncake",
    "PyNcclConnector": "nixlv2",
    "nixl": "sglang",
    "mooncake": "sglang",
}


def _sidecar(draw: Draw, setting: Setting) -> Manifest:
    if draw.chance(0.15):
        return {"enabled": False}
    fields = draw.fields(
        0.3,
        resources={"requests": {"cpu": "200m"}, "limits": {"memory": "1Gi"}},
        ssrfProtection=False,
        args=["--secure-proxy=true", "--zap-log-level=debug"],
        connector=(*(_PROTOCOLS[setting.connector],) * 3, "mooncake", "offloading"),
    )
    if draw.chance(0.2):
        fields |= {"image": "registry.example.com/own/sidecar:1", "family": "llm-d-0.10"}
    elif draw.chance(0.2):
        fields["image"] = "ghcr.io/llm-d/llm-d-router-disagg-sidecar:v0.10.0"
    return fields


def _kv_events(draw: Draw, engine: Engine) -> Manifest:
    if not draw.chance(0.15 if engine.name == "vllm" else 0.03):
        return {}
    return {
        "kvEvents": draw.one(
            {},
            {"endpoint": "tcp://*:5558"},
            {"endpoint": "tcp://scheduler:5557", "topic": "kv@$(POD_IP)@chat"},
            {"topic": "kv@mine"},
        )
    }


def _kv_cache_offloading(draw: Draw, setting: Setting, engine: Engine, role: Manifest) -> Manifest:
    transfers = "kvTransfer" in role
    explicit = any(flag[0].startswith("--kv-transfer-config") for flag in engine.flags)
    able = {
        "vllm": engine.release >= ((0, 21, 0) if transfers else (0, 14, 0))
        and not explicit
        and (setting.connector == "NixlConnector" or not transfers),
        "sglang": role["componentType"] != "decoder",
        "other": False,
    }
    if not draw.chance(0.3 if able[engine.name] else 0.008):
        return {}
    # SGLang needs a gigabyte for each rank.
    value: Manifest = {"cpu": draw.one("64Gi", "100G", 2**36)}
    value |= draw.fields(0.3, evictionPolicy=("lru", "arc") if engine.name == "vllm" else ("lru",))
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Gi"}}}
    tiers: list[Manifest] = [
        {"fileSystem": {"emptyDir": {"size": "20Gi"}}},
        {"fileSystem": {"pvc": {"spec": {**claim, "storageClassName": "fast"}}}},
        {"fileSystem": {"pvc": {"ref": {"name": "shared-kv", "path": "qwen"}}}},
    ]
    if engine.name == "sglang":
        value |= draw.fields(0.5, secondary=[draw.one(*tiers)])
    elif engine.release >= (0, 22, 0) and draw.chance(0.5):
        value["secondary"] = draw.some(tiers)
    return {"kvCacheOffloading": value}


def _resource_claims(draw: Draw) -> Manifest:
    if not draw.chance(0.12):
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
    first = {"name": "cards", **draw.option("resource claim", forms)}
    return {"resourceClaims": [first, {"name": "nic", "templateName": "nic"}][: draw.one(1, 1, 2)]}


def _startup(draw: Draw, setting: Setting) -> Manifest:
    if not draw.chance(0.2 if setting.engine != "other" else 0.02):
        return {}
    forms = [{"timeout": "30m"}, {"modelSize": "140Gi", "readRate": "1Gi"}, {"modelSize": 10**11}]
    if setting.model is not None and "size" in setting.model:
        forms.append({})
    return {"startup": draw.one(*forms)}


def _topology_spread(draw: Draw) -> Manifest:
    if not draw.chance(0.15):
        return {}
    zone = {"topologyKey": "topology.kubernetes.io/zone"}
    zone |= draw.fields(maxSkew=2, whenUnsatisfiable=("DoNotSchedule", "ScheduleAnyway"))
    return {"topologySpread": [zone, {"topologyKey": "example.com/row"}][: draw.one(1, 2)]}


def _autoscaling(draw: Draw, setting: Setting, role: Manifest) -> Manifest:
    replicas = role.get("replicas", 1)
    if not draw.chance(0.35 if setting.per_role and replicas else 0.004):
        return {}
    scaling: Manifest = {"maxReplicas": replicas + draw.whole(1, 4)}
    scaling |= draw.fields(0.5, minReplicas=max(replicas - 1, 1))
    if setting.groups is None and draw.chance(0.4):
        queries = [
            {"query": 'sum(waiting{app="qwen"})', "target": "5"},
            {"query": 'max(x{app="qwen"})', "target": 2.5},
        ]
        scaling |= {"engine": "KEDA", "prometheus": "http://prometheus:9090"}
        scaling["metrics"] = queries[: draw.one(1, 2)]
        keda = draw.of("keda")
        queries[0] |= keda.fields(0.3, name="waiting", unsafeSsl=True)
        scaling |= keda.fields(0.6, keda=_keda(keda))
        target = draw.of("target")
        # Zero replicas and held requests need a picker of certain releases.
        asleep = "idleReplicaCount" in scaling.get("keda", {})
        if setting.monitored and setting.engine != "other" and not asleep and target.chance(0.7):
            scaling["target"] = target.one("latency", "throughput")
            scaling |= target.fields(targetRequests=(32, 7.5))
            scaling["metrics"] = scaling["metrics"] if target.chance(0.3) else []
            goals = draw.of("goals").fields(
                0.3, timeToFirstToken=("1s", "1500ms"), timePerToken="50ms"
            )
            if goals:
                scaling.pop("targetRequests", None)
                scaling |= {"target": "latency", **goals}
    else:
        scaling |= draw.fields(0.2, engine="HPA")
        metric = {"name": "vllm_queue", "target": draw.one(5, "500m")}
        # One number for all groups would scale none of them right.
        sources = ("Pods", "External") if setting.groups is None else ("Pods",)
        metric |= draw.fields(source=sources, selector={"queue": "short"})
        scaling["metrics"] = [metric]
    scaling |= draw.fields(
        0.3, behavior={"scaleDown": {"stabilizationWindowSeconds": 600}, "scaleUp": {}}
    )
    scaling |= draw.of("annotations").fields(0.1, annotations={"example.com/cost": "2"})
    return {"autoscaling": scaling}


def _keda(draw: Draw) -> Manifest:
    fallback = {"failureThreshold": 3, "replicas": 2}
    fallback |= draw.fields(behavior="currentReplicasIfHigher")
    keda = draw.fields(
        0.5,
        pollingInterval=15,
        cooldownPeriod=60,
        initialCooldownPeriod=0,
        idleReplicaCount=0,
        fallback=fallback,
    )
    hours = {"timezone": "UTC", "start": "0 8 * * *", "end": "0 18 * * *", "desiredReplicas": "2"}
    trigger = {"type": "cron", "metadata": hours}
    return keda | draw.of("triggers").fields(0.1, triggers=[trigger])


def _disruption_budget(draw: Draw, role: Manifest) -> Manifest:
    if not draw.chance(0.15):
        return {}
    return {"disruptionBudget": disruption_budget(draw, scaled="autoscaling" in role)}


def disruption_budget(draw: Draw, *, scaled: bool) -> Manifest:
    """A budget; of roles that are scaled only a count of `maxUnavailable`."""
    counted: dict[str, Manifest] = {"default": {}, "count": {"maxUnavailable": 2}}
    other_items: dict[str, Manifest] = {
        "percentage": {"maxUnavailable": "50%"},
        "none": {"maxUnavailable": 0},
        "minimum": {"minAvailable": 1},
        "minimum percentage": {"minAvailable": "30%"},
    }
    limit = draw.option("budget", counted if scaled else {**counted, **other_items})
    return {**limit, **draw.fields(0.3, unhealthyPods=("IfHealthyBudget", "AlwaysAllow"))}


def _lws_fields(draw: Draw, size: Size) -> Manifest:
    fields = draw.fields(
        0.2,
        restartPolicy=("RecreateGroupOnPodRestart", "RecreateGroupAfterStart", "None"),
        networkConfig=({"subdomainPolicy": "Shared"}, {"subdomainPolicy": "UniquePerReplica"}),
        environment="Kthena",
    )
    if size.nodes > 1 and draw.chance(0.2):
        kind = draw.one(None, "LeaderWorker", "LeaderExcluded")
        whole = size.nodes - 1 if kind == "LeaderExcluded" else size.nodes
        sizes = [item for item in range(1, whole + 1) if whole % item == 0]
        fields["subGroupPolicy"] = {"subGroupSize": draw.one(*sizes)}
        if kind is not None:
            fields["subGroupPolicy"]["subGroupPolicyType"] = kind
    return fields


def _rollout(draw: Draw, setting: Setting) -> Manifest:
    return {"rollout": resolve_rollout(draw, setting)} if draw.chance(0.15) else {}


def resolve_rollout(draw: Draw, setting: Setting) -> Manifest:
    """How replicas are updated, for a role or for all."""
    rollout = draw.fields(
        0.4,
        strategy=("Rolling", "Rolling", "AllAtOnce", "Recreate"),
        maxUnavailable=(1, 2, "50%"),
        timeout=("20m", "1h30m"),
    )
    if setting.per_role:
        rollout |= draw.fields(0.3, maxSurge=(1, "25%"))
    if rollout.get("strategy") != "Recreate" or not setting.per_role:
        rollout |= draw.fields(0.2, partition=(0, 1))
    return rollout


def _placement(draw: Draw) -> Manifest:
    if not draw.chance(0.05):
        return {}
    device = {"attributes": {"model": ["h100", "h200"]}, "minMemory": "80Gi"}
    return {"placement": draw.one({"pools": ["big"]}, {"device": device})}


def _templates(
    draw: Draw, setting: Setting, engine: Engine, size: Size, role: Manifest
) -> Manifest:
    fields: Manifest = {}
    container = draw.one(*_USUAL, "server")
    if container == "server":
        fields["container"] = container
    listens = setting.serving_port
    fields |= draw.fields(0.3, port=listens)
    needs = Needs(
        devices=None if "resourceClaims" in role else size.devices,
        memory="512Gi" if "kvCacheOffloading" in role else None,
        port=listens if setting.monitored or draw.chance(0.6) else None,
        quiet="startup" in role or draw.chance(0.5),
        sidecar=role["componentType"] == "decoder" and draw.chance(0.04),
    )
    forms = ["template"]
    # The arguments that other fields add to a worker would be lost where ray launches it.
    plain = setting.model is None and "parallelism" not in role
    by_hand = size.launcher == "none" or (size.launcher is None and plain)
    if size.nodes > 1 and by_hand and size.copies == 1:
        forms.append("two templates")
    form = draw.one(*forms)
    draw.features.add(f"pods: {form}")
    if form == "template":
        return {**fields, "template": pod_template(draw.of("all"), engine, needs, container)}
    # Where ray launches it, a worker has no command of its own.
    by_ray = size.launcher is None and engine.name == "vllm"
    plain_worker = by_ray or draw.chance(0.3)
    worker = Engine("worker without a command" if plain_worker else "ray worker", engine.image)
    user_needs = Needs(needs.devices, needs.memory, quiet=True)
    return {
        **fields,
        "leaderTemplate": pod_template(draw.of("leader"), engine, needs, container),
        "workerTemplate": pod_template(draw.of("worker"), worker, user_needs, container),
    }
