"""A role of a service: its pods, replicas, nodes and devices."""

import enum
from typing import Annotated, Any

from pydantic import Field

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
    matches_schema,
)
from fusioninfer_pulumi.api.inventory import RolePlacementArgs
from fusioninfer_pulumi.api.kv_cache import KvCacheOffloadingArgs, KvEventsArgs, KvTransferArgs
from fusioninfer_pulumi.api.rollout import RoleRolloutArgs
from fusioninfer_pulumi.api.route import GatewayArgs, HttpRouteArgs, ModelRewriteArgs
from fusioninfer_pulumi.api.router import EndpointPickerArgs, NetworkPolicyArgs, PoolArgs
from fusioninfer_pulumi.api.spec_model import SpecModel
from fusioninfer_pulumi.schemas.kind_schema import DEVICE_CLAIM


class ComponentType(str, enum.Enum):
    """Function of a role in the service."""

    ROUTER = "router"  #: routes requests: endpoint picker, pool, route
    PREFILLER = "prefiller"  #: computes prompts
    DECODER = "decoder"  #: generates tokens
    WORKER = "worker"  #: computes prompts and generates tokens


class Launcher(str, enum.Enum):
    """How the pods of a multi-node replica form one engine."""

    RAY = "ray"  #: a Ray cluster per replica; the image must contain Ray
    MULTIPROCESSING = "multiprocessing"  #: the engine's own multi-node arguments
    DATA_PARALLEL = "data-parallel"  #: vLLM: data parallel ranks in each pod; the leader serves
    NONE = "none"  #: the template's commands, unchanged


class RestartPolicy(str, enum.Enum):
    """LeaderWorkerSet's reaction when one pod of a group restarts."""

    RECREATE_GROUP_ON_POD_RESTART = "RecreateGroupOnPodRestart"
    RECREATE_GROUP_AFTER_START = "RecreateGroupAfterStart"  #: LeaderWorkerSet 0.9 and later
    NONE = "None"


class StartupPolicy(str, enum.Enum):
    """When LeaderWorkerSet creates a group's workers."""

    LEADER_CREATED = "LeaderCreated"
    LEADER_READY = "LeaderReady"


class PodEnvironment(str, enum.Enum):
    """System whose environment variables the containers of a role expect."""

    KTHENA = "Kthena"  #: ENTRY_ADDRESS, WORKER_INDEX and GROUP_SIZE


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

    node_count: PositiveCount | None = None
    """Nodes (and pods) per replica, including the leader. Default: the role's
    `parallelism.pipeline`, or `data` divided by `dataLocal`; required if neither is set."""

    launcher: Annotated[Launcher, Field(strict=False)] | None = None
    """How the pods of a replica form one engine. By default the first that applies: `none` if
    `workerTemplate` has a command, or if it is set and `parallelism` is not; `data-parallel` for
    vLLM if `parallelism.data` is a multiple of the nodes; `multiprocessing` for SGLang and
    generated containers; otherwise `ray`."""


class NetworkConfigArgs(SpecModel):
    """LeaderWorkerSet's `networkConfig`."""

    subdomain_policy: Annotated[SubdomainPolicy, Field(strict=False)]
    """`Shared` (LeaderWorkerSet's default) or `UniquePerReplica`."""


class SubGroupPolicyArgs(SpecModel):
    """LeaderWorkerSet's `subGroupPolicy` (not Volcano's field of that name)."""

    sub_group_size: PositiveCount
    """Pods per subgroup; must divide the node count, or the node count minus one (the leader)."""

    sub_group_policy_type: Annotated[SubGroupPolicyType, Field(strict=False)] | None = None
    """Whether the leader belongs to a subgroup; LeaderWorkerSet's default is `LeaderWorker`."""


class ResourceClaimArgs(SpecModel):
    """Devices of each pod of a role.

    Either describe the devices, by `deviceClassName` with `count` and `selectors` or by the `spec`
    of a ResourceClaim; the library then creates a ResourceClaimTemplate (resource.k8s.io/v1,
    Kubernetes 1.34). Or name an existing object, by `templateName` or `claimName`.
    """

    name: DnsLabel
    """Name of the claim in the pod."""

    device_class_name: ObjectName | None = None
    """DeviceClass of the devices, such as `gpu.nvidia.com`."""

    count: PositiveCount | None = None
    """Number of devices per pod; 1 by default."""

    selectors: list[Text] | None = None
    """CEL expressions that each device must match."""

    admin_access: bool | None = None
    """Whether to request admin access, for example to monitor devices that others use. Requires
    permission."""

    spec: Annotated[dict[str, Any], Field(min_length=1), matches_schema(DEVICE_CLAIM)] | None = None
    """The spec of a ResourceClaim, passed through."""

    template_name: ObjectNameOrOutput | None = None
    """Name of an existing ResourceClaimTemplate; may be an Output."""

    claim_name: ObjectNameOrOutput | None = None
    """Name of an existing ResourceClaim, shared by all pods; may be an Output."""

    @property
    def needs_template(self) -> bool:
        """Whether the library creates a ResourceClaimTemplate for the claim."""
        return self.device_class_name is not None or self.spec is not None

    ONE_OF = ("device_class_name", "spec", "template_name", "claim_name")
    OTHERS_REQUIRE_FIRST = ("device_class_name", "count", "selectors", "admin_access")


class RoleArgs(SpecModel):
    """A role: a router, or pods that serve the model."""

    name: PartName
    """Name of the role, unique in the service; part of the names of its objects."""

    component_type: Annotated[ComponentType, Field(strict=False)]
    """Function of the role: `worker`, `prefiller`, `decoder` or `router`."""

    replicas: Count = 1
    """Number of replicas. 0 scales the role to zero: it has no pods and is not part of the
    gang."""

    template: PodTemplate | None = None
    """Pod template for all pods of the role. If the service has a `model`, the template is optional
    and may be partial: the library generates the rest; the template's fields take precedence."""

    leader_template: PodTemplate | None = None
    """Pod template of the leaders; set it and `workerTemplate` instead of `template`."""

    worker_template: PodTemplate | None = None
    """Pod template of the other pods of a multi-node replica."""

    container: str | None = None
    """Name of the container that serves the model. Default: the container named vllm, sglang,
    engine or main, or the first one if no container has such a name."""

    port: Port | None = None
    """Port on which the role serves. Default, in this order: the engine's `--port`; the
    container port named http; the first container port; 8000. A port on which the engine does not
    listen is rejected, unless another container of the pod listens on it."""

    multinode: MultinodeArgs | None = None
    """Runs each replica on several nodes; by default a replica is one pod."""

    parallelism: ParallelismArgs | None = None
    """How the engine shards and replicates the model. Sets the engine's arguments, and the pods per
    replica unless `multinode.nodeCount` does. By default the engine's own arguments apply."""

    placement: RolePlacementArgs | None = None
    """Node pools that the role may use, and the accelerators it requires; only for `place` and
    `--inventory`. By default any pool that the pod templates allow."""

    engine: EngineArgs | None = None
    """The engine of generated containers, instead of the service's."""

    accelerator: Text | None = None
    """Accelerator model, such as `H100`, or its memory, such as `80Gi`. Memory checks use it; by
    default they infer it from claims and node selectors. Generated containers derive `gpus` and the
    image from it; the value `cpu` selects the engine's CPU build. It does not affect scheduling."""

    gpus: PositiveCount | None = None
    """GPUs per pod of generated containers. Default, in this order: the template's GPUs; the number
    that `parallelism` or the template's arguments require; the number that the model catalogue or
    the package fusioninfer-capacity gives for `accelerator`."""

    resource_claims: list[ResourceClaimArgs] | None = None
    """Devices that each pod's serving container claims (DRA) instead of requesting accelerators as
    resources; none by default."""

    rollout: RoleRolloutArgs | None = None
    """Overrides of the service's `rollout` for this role."""

    restart_policy: Annotated[RestartPolicy, Field(strict=False)] | None = None
    """LeaderWorkerSet's restart policy. Default: `RecreateGroupAfterStart` for multi-node replicas
    (LeaderWorkerSet 0.9 or later), `RecreateGroupOnPodRestart` for single pods."""

    environment: Annotated[PodEnvironment, Field(strict=False)] | None = None
    """`Kthena` adds `ENTRY_ADDRESS`, `WORKER_INDEX` and `GROUP_SIZE` to containers that lack them.
    By default containers have only LeaderWorkerSet's variables: `LWS_LEADER_ADDRESS`,
    `LWS_WORKER_INDEX` and `LWS_GROUP_SIZE`."""

    startup_policy: Annotated[StartupPolicy, Field(strict=False)] | None = None
    """LeaderWorkerSet's startup policy; `LeaderCreated` by default. `LeaderReady` is rejected for
    gang-scheduled pods, because it deadlocks."""

    network_config: NetworkConfigArgs | None = None
    """LeaderWorkerSet's network configuration; LeaderWorkerSet's default if not set."""

    sub_group_policy: SubGroupPolicyArgs | None = None
    """LeaderWorkerSet's subgroups, for topology-aware placement within a replica."""

    kv_transfer: KvTransferArgs | None = None
    """Prefillers and decoders only: KV cache transfer between them, with the arguments and
    environment variables the engine requires."""

    kv_events: KvEventsArgs | None = None
    """KV cache events that the engine publishes to the endpoint picker; none by default."""

    kv_cache_offloading: KvCacheOffloadingArgs | None = None
    """Storage for KV cache beyond accelerator memory: host memory, then disks; none by default."""

    disruption_budget: DisruptionBudgetArgs | None = None
    """PodDisruptionBudget of the role; by default the service's."""

    autoscaling: AutoscalingArgs | None = None
    """Scales the replicas between bounds, starting from `replicas`; requires `layout: PerRole`. By
    default the number of replicas is fixed."""

    startup: StartupArgs | None = None
    """Startup probe: how long the engine may take to load its model. By default a template's
    container has no startup probe."""

    topology_spread: Annotated[list[TopologySpreadArgs], Field(min_length=1)] | None = None
    """Spreads the leaders of the replicas over zones or nodes. By default generated single-node
    roles are spread over nodes if possible, and other roles as the scheduler decides."""

    pod_labels: LabelMapOrOutput = Field(default_factory=dict)
    """Labels of the role's pods; for a router, of the endpoint picker's pods. They override the
    service's `podLabels`; a template's labels override both. Values may be Outputs. A change
    restarts the pods."""

    pod_annotations: AnnotationMap = Field(default_factory=dict)
    """Annotations of the role's pods, with the precedence of `podLabels`; values may be Outputs. A
    change restarts the pods."""

    strategy: Annotated[Strategy, Field(strict=False)] | None = None
    """Routers only: load-balancing strategy of the endpoint picker. Default: `prefix-cache`, or
    `pd-disaggregation` if prefill and decode are separate roles."""

    scorers: Annotated[dict[str, Annotated[float, Field(gt=0)]], Field(min_length=1)] | None = None
    """Routers only: weights by scorer, instead of the strategy's. Scorers: `prefix-cache`,
    `kv-cache`, `queue`, `load`, `running`, `lora`, `session`, if the endpoint picker has them."""

    httproute: HttpRouteArgs | None = None
    """Routers only: the spec of a Gateway API HTTPRoute."""

    gateway: GatewayArgs | None = None
    """Routers only: the spec of a Gateway to create (`{}` for the defaults), or `refs` to existing
    Gateways."""

    endpoint_picker: EndpointPickerArgs | None = None
    """Routers only: the endpoint picker's image, pods and behavior."""

    endpoint_picker_config: str | None = None
    """Routers only: a complete EndpointPickerConfig, used unchanged instead of `strategy`."""

    pool: PoolArgs | None = None
    """Routers only: the InferencePool's ports and deletion protection."""

    model_rewrites: Annotated[list[ModelRewriteArgs], Field(min_length=1)] | None = None
    """Routers only: maps model names in requests to models or adapters by weight, for aliases and
    canaries. Not supported by every endpoint picker (docs/routing.md)."""

    network_policy: NetworkPolicyArgs | None = None
    """Routers only: allows only the gateway and the endpoint picker to reach the pods. By default
    enabled if `gateway.implementation` determines where the gateway's proxies run."""

    reference_grants: bool | None = None
    """Routers only: creates the ReferenceGrants that the route and the Gateway need in other
    namespaces. By default a warning names the missing grants."""

    UNIQUE = (("resource_claims", "name"),)

    @property
    def has_endpoint_picker(self) -> bool:
        """Whether a router has an endpoint picker. If not, a Service distributes the requests."""
        return self.endpoint_picker is None or self.endpoint_picker.enabled

    @property
    def is_routed_externally(self) -> bool:
        """Whether the routes to the pods are created outside of this service."""
        return self.httproute is not None and self.httproute.external_field is not None

    @property
    def has_node_count(self) -> bool:
        """Whether the nodes per replica are known: one, or set by `nodeCount` or `parallelism`."""
        if self.multinode is None or self.multinode.node_count is not None:
            return True
        return self.parallelism is not None and self.parallelism.pods is not None

    @property
    def nodes(self) -> int:
        """Nodes of one replica, each with one pod; 1 if `has_node_count` is false."""
        if self.multinode is not None and self.multinode.node_count is not None:
            return self.multinode.node_count
        return (self.parallelism.pods if self.parallelism is not None else None) or 1
