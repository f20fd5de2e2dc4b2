"""A role of a service: its pods, replicas, nodes and devices."""

import enum
from typing import Any

from typing_extensions import Unpack

from fusioninfer_pulumi.api.autoscaling import AutoscalingArgs
from fusioninfer_pulumi.api.availability import (
    DisruptionBudgetArgs,
    StartupArgs,
    TopologySpreadArgs,
)
from fusioninfer_pulumi.api.engine import EngineArgs, ParallelismArgs
from fusioninfer_pulumi.api.field_types import (
    AnnotationMap,
    Count,
    DnsLabel,
    LabelMapOrOutput,
    ObjectName,
    ObjectNameOrOutput,
    PartName,
    PodTemplate,
    Port,
    PositiveCount,
    Text,
)
from fusioninfer_pulumi.api.inventory import RolePlacementArgs
from fusioninfer_pulumi.api.kv_cache import KvCacheOffloadingArgs, KvEventsArgs, KvTransferArgs
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
    """How the pods of a multi-node replica form one engine."""

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
    SESSION_AFFINITY = "session-affinity"

class MultinodeArgs(SpecModel):
    """Runs each replica of a role on several nodes."""

    def __init__(self, **fields: Unpack[dicts.MultinodeArgsDict]) -> None: ...
    node_count: PositiveCount | None
    "Nodes (and pods) per replica, including the leader. Default: the role's\n    `parallelism.pipeline`, or `data` divided by `dataLocal`; required if neither is set."
    launcher: Launcher | None
    "How the pods of a replica form one engine. By default the first that applies: `none` if\n    `workerTemplate` has a command, or if it is set and `parallelism` is not; `data-parallel` for\n    vLLM if `parallelism.data` is a multiple of the nodes; `multiprocessing` for SGLang and\n    generated containers; otherwise `ray`."

class NetworkConfigArgs(SpecModel):
    """LeaderWorkerSet's `networkConfig`."""

    def __init__(self, **fields: Unpack[dicts.NetworkConfigArgsDict]) -> None: ...
    subdomain_policy: SubdomainPolicy
    "`Shared` (LeaderWorkerSet's default) or `UniquePerReplica`."

class SubGroupPolicyArgs(SpecModel):
    """LeaderWorkerSet's `subGroupPolicy` (not Volcano's field of that name)."""

    def __init__(self, **fields: Unpack[dicts.SubGroupPolicyArgsDict]) -> None: ...
    sub_group_size: PositiveCount
    "Pods per subgroup; must divide the node count, or the node count minus one (the leader)."
    sub_group_policy_type: SubGroupPolicyType | None
    "Whether the leader belongs to a subgroup; LeaderWorkerSet's default is `LeaderWorker`."

class ResourceClaimArgs(SpecModel):
    """Devices of each pod of a role.

    Either describe the devices, by `deviceClassName` with `count` and `selectors` or by the `spec`
    of a ResourceClaim; the library then creates a ResourceClaimTemplate (resource.k8s.io/v1,
    Kubernetes 1.34). Or name an existing object, by `templateName` or `claimName`.
    """

    def __init__(self, **fields: Unpack[dicts.ResourceClaimArgsDict]) -> None: ...
    name: DnsLabel
    "Name of the claim in the pod."
    device_class_name: ObjectName | None
    "DeviceClass of the devices, such as `gpu.nvidia.com`."
    count: PositiveCount | None
    "Number of devices per pod; 1 by default."
    selectors: list[Text] | None
    "CEL expressions that each device must match."
    admin_access: bool | None
    "Whether to request admin access, for example to monitor devices that others use. Requires\n    permission."
    spec: dict[str, Any] | None
    "The spec of a ResourceClaim, passed through."
    template_name: ObjectNameOrOutput | None
    "Name of an existing ResourceClaimTemplate; may be an Output."
    claim_name: ObjectNameOrOutput | None
    "Name of an existing ResourceClaim, shared by all pods; may be an Output."

    @property
    def needs_template(self) -> bool: ...

class RoleArgs(SpecModel):
    """A role: a router, or pods that serve the model."""

    def __init__(self, **fields: Unpack[dicts.RoleArgsDict]) -> None: ...
    name: PartName
    "Name of the role, unique in the service; part of the names of its objects."
    component_type: ComponentType
    "Function of the role: `worker`, `prefiller`, `decoder` or `router`."
    replicas: Count
    "Number of replicas. 0 scales the role to zero: it has no pods and is not part of the\n    gang."
    template: PodTemplate | None
    "Pod template for all pods of the role. If the service has a `model`, the template is optional\n    and may be partial: the library generates the rest; the template's fields take precedence."
    leader_template: PodTemplate | None
    "Pod template of the leaders; set it and `workerTemplate` instead of `template`."
    worker_template: PodTemplate | None
    "Pod template of the other pods of a multi-node replica."
    container: str | None
    "Name of the container that serves the model. Default: the container named vllm, sglang,\n    engine or main, or the first one if no container has such a name."
    port: Port | None
    "Port on which the role serves. Default, in this order: the engine's `--port`; the\n    container port named http; the first container port; 8000. A port on which the engine does not\n    listen is rejected, unless another container of the pod listens on it."
    multinode: MultinodeArgs | None
    "Runs each replica on several nodes; by default a replica is one pod."
    parallelism: ParallelismArgs | None
    "How the engine shards and replicates the model. Sets the engine's arguments, and the pods per\n    replica unless `multinode.nodeCount` does. By default the engine's own arguments apply."
    placement: RolePlacementArgs | None
    "Node pools that the role may use, and the accelerators it requires; only for `place` and\n    `--inventory`. By default any pool that the pod templates allow."
    engine: EngineArgs | None
    "The engine of generated containers, instead of the service's."
    accelerator: Text | None
    "Accelerator model, such as `H100`, or its memory, such as `80Gi`. Memory checks use it; by\n    default they infer it from claims and node selectors. Generated containers derive `gpus` and the\n    image from it; the value `cpu` selects the engine's CPU build. It does not affect scheduling."
    gpus: PositiveCount | None
    "GPUs per pod of generated containers. Default, in this order: the template's GPUs; the number\n    that `parallelism` or the template's arguments require; the number that the model catalogue or\n    the package fusioninfer-capacity gives for `accelerator`."
    resource_claims: list[ResourceClaimArgs] | None
    "Devices that each pod's serving container claims (DRA) instead of requesting accelerators as\n    resources; none by default."
    rollout: RoleRolloutArgs | None
    "Overrides of the service's `rollout` for this role."
    restart_policy: RestartPolicy | None
    "LeaderWorkerSet's restart policy. Default: `RecreateGroupAfterStart` for multi-node replicas\n    (LeaderWorkerSet 0.9 or later), `RecreateGroupOnPodRestart` for single pods."
    environment: PodEnvironment | None
    "`Kthena` adds `ENTRY_ADDRESS`, `WORKER_INDEX` and `GROUP_SIZE` to containers that lack them.\n    By default containers have only LeaderWorkerSet's variables: `LWS_LEADER_ADDRESS`,\n    `LWS_WORKER_INDEX` and `LWS_GROUP_SIZE`."
    startup_policy: StartupPolicy | None
    "LeaderWorkerSet's startup policy; `LeaderCreated` by default. `LeaderReady` is rejected for\n    gang-scheduled pods, because it deadlocks."
    network_config: NetworkConfigArgs | None
    "LeaderWorkerSet's network configuration; LeaderWorkerSet's default if not set."
    sub_group_policy: SubGroupPolicyArgs | None
    "LeaderWorkerSet's subgroups, for topology-aware placement within a replica."
    kv_transfer: KvTransferArgs | None
    "Prefillers and decoders only: KV cache transfer between them, with the arguments and\n    environment variables the engine requires."
    kv_events: KvEventsArgs | None
    "KV cache events that the engine publishes to the endpoint picker; none by default."
    kv_cache_offloading: KvCacheOffloadingArgs | None
    "Storage for KV cache beyond accelerator memory: host memory, then disks; none by default."
    disruption_budget: DisruptionBudgetArgs | None
    "PodDisruptionBudget of the role; by default the service's."
    autoscaling: AutoscalingArgs | None
    "Scales the replicas between bounds, starting from `replicas`; requires `layout: PerRole`. By\n    default the number of replicas is fixed."
    startup: StartupArgs | None
    "Startup probe: how long the engine may take to load its model. By default a template's\n    container has no startup probe."
    topology_spread: list[TopologySpreadArgs] | None
    "Spreads the leaders of the replicas over zones or nodes. By default generated single-node\n    roles are spread over nodes if possible, and other roles as the scheduler decides."
    pod_labels: LabelMapOrOutput
    "Labels of the role's pods; for a router, of the endpoint picker's pods. They override the\n    service's `podLabels`; a template's labels override both. Values may be Outputs. A change\n    restarts the pods."
    pod_annotations: AnnotationMap
    "Annotations of the role's pods, with the precedence of `podLabels`; values may be Outputs. A\n    change restarts the pods."
    strategy: Strategy | None
    "Routers only: load-balancing strategy of the endpoint picker. Default: `prefix-cache`, or\n    `pd-disaggregation` if prefill and decode are separate roles."
    scorers: dict[str, float] | None
    "Routers only: weights by scorer, instead of the strategy's. Scorers: `prefix-cache`,\n    `kv-cache`, `queue`, `load`, `running`, `lora`, `session`, if the endpoint picker has them."
    httproute: HttpRouteArgs | None
    "Routers only: the spec of a Gateway API HTTPRoute."
    gateway: GatewayArgs | None
    "Routers only: the spec of a Gateway to create (`{}` for the defaults), or `refs` to existing\n    Gateways."
    endpoint_picker: EndpointPickerArgs | None
    "Routers only: the endpoint picker's image, pods and behavior."
    endpoint_picker_config: str | None
    "Routers only: a complete EndpointPickerConfig, used unchanged instead of `strategy`."
    pool: PoolArgs | None
    "Routers only: the InferencePool's ports and deletion protection."
    model_rewrites: list[ModelRewriteArgs] | None
    "Routers only: maps model names in requests to models or adapters by weight, for aliases and\n    canaries. Not supported by every endpoint picker (docs/routing.md)."
    network_policy: NetworkPolicyArgs | None
    "Routers only: allows only the gateway and the endpoint picker to reach the pods. By default\n    enabled if `gateway.implementation` determines where the gateway's proxies run."
    reference_grants: bool | None
    "Routers only: creates the ReferenceGrants that the route and the Gateway need in other\n    namespaces. By default a warning names the missing grants."

    @property
    def has_endpoint_picker(self) -> bool: ...
    @property
    def is_routed_externally(self) -> bool: ...
    @property
    def has_node_count(self) -> bool: ...
    @property
    def nodes(self) -> int: ...
