"""One role of a service: what runs, how often, on how many nodes."""

from __future__ import annotations

import enum

from typing_extensions import Unpack

from fusioninfer_pulumi.api.autoscaling import AutoscalingArgs
from fusioninfer_pulumi.api.availability import (
    DisruptionBudgetArgs,
    StartupArgs,
    TopologySpreadArgs,
)
from fusioninfer_pulumi.api.device_claims import ResourceClaimArgs
from fusioninfer_pulumi.api.engine import EngineArgs, ParallelismArgs
from fusioninfer_pulumi.api.field_types import (
    AnnotationMap,
    Count,
    LabelMapOrOutput,
    PartName,
    PodTemplate,
    Port,
    PositiveCount,
    Text,
)
from fusioninfer_pulumi.api.inventory import RolePlacementArgs
from fusioninfer_pulumi.api.kv_offloading import KvCacheOffloadingArgs
from fusioninfer_pulumi.api.kv_transfer import KvEventsArgs, KvTransferArgs
from fusioninfer_pulumi.api.rollout import RoleRolloutArgs
from fusioninfer_pulumi.api.route import GatewayArgs, HttpRouteArgs, ModelRewriteArgs
from fusioninfer_pulumi.api.router import EndpointPickerArgs, NetworkPolicyArgs, PoolArgs
from fusioninfer_pulumi.api.spec_model import SpecModel
from fusioninfer_pulumi.generated import dicts

class ComponentType(str, enum.Enum):
    """Function of a role in the service."""

    ROUTER = "router"
    PREFILLER = "prefiller"
    DECODER = "decoder"
    WORKER = "worker"

class Launcher(str, enum.Enum):
    """Launcher of multi-node replicas."""

    RAY = "ray"
    MULTIPROCESSING = "multiprocessing"
    DATA_PARALLEL = "data-parallel"
    NONE = "none"

class RestartPolicy(str, enum.Enum):
    """LeaderWorkerSet's reaction when one pod of a group restarts."""

    RECREATE_GROUP_ON_POD_RESTART = "RecreateGroupOnPodRestart"
    RECREATE_GROUP_AFTER_START = "RecreateGroupAfterStart"
    NONE = "None"

class StartupPolicy(str, enum.Enum):
    """When LeaderWorkerSet creates a group's workers."""

    LEADER_CREATED = "LeaderCreated"
    LEADER_READY = "LeaderReady"

class PodEnvironment(str, enum.Enum):
    """System whose environment variables the containers of a role expect."""

    KTHENA = "Kthena"

class SubdomainPolicy(str, enum.Enum):
    """Whether the groups of a LeaderWorkerSet share one headless Service."""

    SHARED = "Shared"
    UNIQUE_PER_REPLICA = "UniquePerReplica"

class SubGroupPolicyType(str, enum.Enum):
    """Whether the leader belongs to a subgroup."""

    LEADER_WORKER = "LeaderWorker"
    LEADER_EXCLUDED = "LeaderExcluded"

class Strategy(str, enum.Enum):
    """Load-balancing strategy of the endpoint picker."""

    PREFIX_CACHE = "prefix-cache"
    KV_CACHE_UTILIZATION = "kv-cache-utilization"
    QUEUE_SIZE = "queue-size"
    LORA_AFFINITY = "lora-affinity"
    PD_DISAGGREGATION = "pd-disaggregation"

class MultinodeArgs(SpecModel):
    """Spreads each replica of a role over several nodes."""

    def __init__(self, **fields: Unpack[dicts.MultinodeArgsDict]) -> None: ...
    node_count: PositiveCount | None
    "Nodes (and so pods) of one replica, the leader included; 1 is the same as no `multinode`.\n    Required, unless the role's `parallelism` says it (`pipeline`, or `data` with `dataLocal`)."
    launcher: Launcher | None
    "How the pods find each other; by default `ray`, for SGLang `multiprocessing`, and\n    `data-parallel` where `parallelism.data` spans pods."

class NetworkConfigArgs(SpecModel):
    """LeaderWorkerSet's `networkConfig`."""

    def __init__(self, **fields: Unpack[dicts.NetworkConfigArgsDict]) -> None: ...
    subdomain_policy: SubdomainPolicy
    "`Shared` (LeaderWorkerSet's default) or `UniquePerReplica`."

class SubGroupPolicyArgs(SpecModel):
    """LeaderWorkerSet's `subGroupPolicy` (not Volcano's field of that name)."""

    def __init__(self, **fields: Unpack[dicts.SubGroupPolicyArgsDict]) -> None: ...
    sub_group_size: PositiveCount
    "Pods in a subgroup; must divide the node count, or the node count less the leader."
    sub_group_policy_type: SubGroupPolicyType | None
    "Whether the leader belongs to a subgroup; LeaderWorkerSet's default is `LeaderWorker`."

class RoleArgs(SpecModel):
    """One role: a router, or pods that serve a model."""

    def __init__(self, **fields: Unpack[dicts.RoleArgsDict]) -> None: ...
    name: PartName
    "Name of the role, unique in the service; part of its objects' names."
    component_type: ComponentType
    "What the role does: `worker`, `prefiller`, `decoder` or `router`."
    replicas: Count
    "Independent instances of the model; 0 parks the role: no objects, no share of the gang."
    template: PodTemplate | None
    "Pod template of every pod of the role. With the service's `model` it may be left out, or name\n    only what differs: the library writes the container, and what stands here wins."
    leader_template: PodTemplate | None
    "Pod template of the leaders, together with `workerTemplate` in place of `template`."
    worker_template: PodTemplate | None
    "Pod template of the other pods of a multi-node replica."
    container: str | None
    "Name of the container that serves the model; by default the one named vllm, sglang, engine\n    or main, else the first."
    port: Port | None
    "Port that it serves on; by default the engine's `--port`, else the container port named\n    http, else the first container port, else 8000. One that the engine does not listen on is\n    refused, unless another container of the pod does."
    multinode: MultinodeArgs | None
    "Spreads each replica over several nodes; by default a replica is one pod."
    parallelism: ParallelismArgs | None
    "How the engine splits and copies the model: sets its arguments, and the pods of a replica;\n    by default the arguments say it."
    placement: RolePlacementArgs | None
    "Node pools that the role may be placed on, and what their accelerators have to be; read by\n    `place` and `--inventory` only. By default any pool that its pod templates allow."
    engine: EngineArgs | None
    "The engine, in place of the service's, for a container that the library writes."
    accelerator: Text | None
    "What each accelerator is, such as `H100`, or its memory, such as `80Gi`: for checks of the\n    memory, it selects no nodes. By default what claims and node selectors say. `cpu` is for a\n    container that the library writes: the engine's build for processors."
    gpus: PositiveCount | None
    "GPUs of each pod, for a container that the library writes; by default the product of\n    `parallelism`, else as many as the package fusioninfer-capacity finds for the model on\n    `accelerator`."
    resource_claims: list[ResourceClaimArgs] | None
    "Devices that the serving container of every pod claims (DRA), in place of accelerators in\n    its resources; by default none."
    rollout: RoleRolloutArgs | None
    "How this role is updated, where it differs from the service's `rollout`."
    restart_policy: RestartPolicy | None
    "LeaderWorkerSet's restart policy; by default `RecreateGroupAfterStart` for multi-node\n    replicas (LeaderWorkerSet 0.9 and later), `RecreateGroupOnPodRestart` for single pods."
    environment: PodEnvironment | None
    "`Kthena` sets `ENTRY_ADDRESS`, `WORKER_INDEX` and `GROUP_SIZE` in every container, from the\n    variables of LeaderWorkerSet; one that a container sets by itself stays. By default containers\n    have LeaderWorkerSet's own alone: `LWS_LEADER_ADDRESS`, `LWS_WORKER_INDEX`, `LWS_GROUP_SIZE`."
    startup_policy: StartupPolicy | None
    "LeaderWorkerSet's startup policy, by default `LeaderCreated`; `LeaderReady` deadlocks with\n    gang scheduling and is refused there."
    network_config: NetworkConfigArgs | None
    "LeaderWorkerSet's network configuration."
    sub_group_policy: SubGroupPolicyArgs | None
    "LeaderWorkerSet's subgroups, for topology-aware placement inside a replica."
    kv_transfer: KvTransferArgs | None
    "Prefillers and decoders only: how the KV cache goes from one to the other, with the\n    arguments and environment that the engine needs for it."
    kv_events: KvEventsArgs | None
    "What the engine publishes to the endpoint picker about its KV cache; by default nothing."
    kv_cache_offloading: KvCacheOffloadingArgs | None
    "Where the engine keeps KV cache beyond its accelerators' memory: host memory, then disks;\n    by default nowhere."
    disruption_budget: DisruptionBudgetArgs | None
    "How many replicas evictions may take down at a time, in place of the service's; by default\n    any number."
    autoscaling: AutoscalingArgs | None
    "Scales the replicas between bounds, starting with `replicas`; needs `layout: PerRole`. By\n    default nothing but an update changes them."
    startup: StartupArgs | None
    "How long the engine may take to load its model; by default no startup probe."
    topology_spread: list[TopologySpreadArgs] | None
    "Spreads the leaders of the replicas over zones or nodes; by default the scheduler's way."
    pod_labels: LabelMapOrOutput
    "Labels of the role's pods, those of a router on the endpoint picker's; they win over the\n    service's, and those of a template over both. Values may be Outputs. A change restarts the\n    pods."
    pod_annotations: AnnotationMap
    "Annotations of the role's pods, in the same order; values may be Outputs. A change restarts\n    the pods."
    strategy: Strategy | None
    "Routers only: what the endpoint picker balances by; by default `prefix-cache`, and\n    `pd-disaggregation` where prefill and decode are separate roles."
    scorers: dict[str, float] | None
    "Routers only: weights of scorers in place of the strategy's: `prefix-cache`, `kv-cache`,\n    `queue`, `load`, `running`, `lora`, as far as the picker has them."
    httproute: HttpRouteArgs | None
    "Routers only: the spec of a Gateway API HTTPRoute."
    gateway: GatewayArgs | None
    "Routers only: the spec of a managed Gateway (`{}` for the defaults), or `refs` to Gateways\n    that exist."
    endpoint_picker: EndpointPickerArgs | None
    "Routers only: the endpoint picker's image, pods and behaviour."
    endpoint_picker_config: str | None
    "Routers only: a complete EndpointPickerConfig, used verbatim in place of `strategy`."
    pool: PoolArgs | None
    "Routers only: guards the InferencePool."
    model_rewrites: list[ModelRewriteArgs] | None
    "Routers only: names that clients ask for, with the models or adapters that answer, by weight:\n    aliases and canaries. Not every picker knows them (docs/routing.md)."
    network_policy: NetworkPolicyArgs | None
    "Routers only: lets only the gateway and the picker reach the pods; by default where\n    `gateway.implementation` says where the gateway's proxies run."
    reference_grants: bool | None
    "Routers only: creates the ReferenceGrants that the route and the Gateway need in other\n    namespaces; by default they are asked for in a warning."

    @property
    def picks_endpoints(self) -> bool: ...
    @property
    def is_routed_externally(self) -> bool: ...
    @property
    def counted(self) -> bool: ...
    @property
    def nodes(self) -> int: ...
