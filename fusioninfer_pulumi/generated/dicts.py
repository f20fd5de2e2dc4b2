"""What the models' constructors take, as typed mappings: written by `make regenerate`.

Read only by type checkers and editors, but for the names, which programs may import.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from typing_extensions import Required, TypedDict

if TYPE_CHECKING:
    from pulumi import Input
    from pulumi_kubernetes.core.v1 import PodTemplateSpecArgs, PodTemplateSpecArgsDict

    from fusioninfer_pulumi.api.autoscaling import (
        AutoscalingArgs,
        AutoscalingEngine,
        AutoscalingMetricArgs,
        AutoscalingTarget,
        KedaArgs,
        KedaFallbackArgs,
        MetricSource,
        PrefillDecodeRatioArgs,
    )
    from fusioninfer_pulumi.api.availability import (
        DisruptionBudgetArgs,
        StartupArgs,
        TopologySpreadArgs,
        UnhealthyPods,
        WhenUnsatisfiable,
    )
    from fusioninfer_pulumi.api.device_claims import ResourceClaimArgs
    from fusioninfer_pulumi.api.engine import EngineArgs, EngineName, ParallelismArgs
    from fusioninfer_pulumi.api.inventory import (
        DeviceArgs,
        DeviceRequirementArgs,
        NodePoolArgs,
        RolePlacementArgs,
        ServicePlacementArgs,
        TaintArgs,
        TaintEffect,
    )
    from fusioninfer_pulumi.api.kv_offloading import (
        ClaimReferenceArgs,
        ClaimTierArgs,
        EmptyDirTierArgs,
        EvictionPolicy,
        FileSystemTierArgs,
        KvCacheOffloadingArgs,
        SecondaryTierArgs,
    )
    from fusioninfer_pulumi.api.kv_transfer import (
        KvEventsArgs,
        KvRole,
        KvTransferArgs,
        RdmaArgs,
        SidecarArgs,
        SidecarConnector,
    )
    from fusioninfer_pulumi.api.model import (
        AccessMode,
        CacheArgs,
        Fetch,
        FetcherArgs,
        LoraAdapterArgs,
        LoraArgs,
        ModelArgs,
        S3Args,
        SecretKeyArgs,
        StorageArgs,
        WarmUpJobArgs,
    )
    from fusioninfer_pulumi.api.monitoring import (
        AlertsArgs,
        DashboardsArgs,
        MonitoringArgs,
        TokenSecretArgs,
        TracingArgs,
    )
    from fusioninfer_pulumi.api.role import (
        ComponentType,
        Launcher,
        MultinodeArgs,
        NetworkConfigArgs,
        PodEnvironment,
        RestartPolicy,
        RoleArgs,
        StartupPolicy,
        Strategy,
        SubdomainPolicy,
        SubGroupPolicyArgs,
        SubGroupPolicyType,
    )
    from fusioninfer_pulumi.api.rollout import (
        Layout,
        RoleOrder,
        RoleRolloutArgs,
        RolloutArgs,
        RolloutLevel,
        RolloutStrategy,
        WaitArgs,
        WaitLevel,
    )
    from fusioninfer_pulumi.api.route import (
        GatewayArgs,
        GatewayRefArgs,
        HttpRouteArgs,
        HttpRouteRefArgs,
        ModelRewriteArgs,
        ModelTargetArgs,
        SplitArgs,
    )
    from fusioninfer_pulumi.api.router import (
        EndpointPickerArgs,
        FailureMode,
        GroupPairing,
        MetricsMode,
        NetworkPolicyArgs,
        PickerTlsArgs,
        PoolArgs,
    )
    from fusioninfer_pulumi.api.scheduling import (
        GangBackend,
        GangMode,
        GangPolicyArgs,
        NetworkTopologyArgs,
        NetworkTopologyMode,
        NetworkTopologyRuleArgs,
        RequiredReplicas,
        SchedulingStrategyArgs,
    )


class AlertsArgsDict(TypedDict, total=False):
    """Alerts of a service, as a PrometheusRule; `{}` has all of them."""

    labels: Mapping[str, str]
    """Labels of every alert, by which Alertmanager may route it, such as `team: search`."""

    runbook: str | None
    """Page with a section for each alert, linked from its `runbook_url`; by default that of
    fusioninfer-pulumi's documentation."""


class AutoscalingArgsDict(TypedDict, total=False):
    """Scales the replicas of a role; needs `layout: PerRole`."""

    engine: AutoscalingEngine | Literal["HPA", "KEDA"]
    """`HPA` (default) or `KEDA`."""

    min_replicas: int
    """Fewest replicas; 0 only with KEDA."""

    max_replicas: Required[int]
    """Most replicas."""

    target: AutoscalingTarget | Literal["latency", "throughput", "queue"] | None
    """`latency`, `throughput` or `queue`: metrics and values that the library knows of the engine
    and of the endpoint picker, for the service alone."""

    target_requests: float | None
    """Requests for each replica, in place of the library's: in flight for `latency` (100), waiting
    for the other targets (5)."""

    metrics: Sequence[AutoscalingMetricArgs | AutoscalingMetricArgsDict]
    """What the replicas follow, beside `target`; of several, the one that asks for most of them
    counts."""

    prometheus: str | None
    """`KEDA`: address of the Prometheus, such as `http://prometheus-operated.monitoring:9090`."""

    keda: KedaArgs | KedaArgsDict | None
    """`KEDA`: further fields of the ScaledObject, as it calls them."""

    behavior: Mapping[str, Any] | None
    """`scaleUp` and `scaleDown` of a HorizontalPodAutoscaler's `behavior`, passed on."""


class AutoscalingMetricArgsDict(TypedDict, total=False):
    """One metric, with the value that a replica may have of it."""

    name: str | None
    """`HPA`: name of the metric, as the adapter serves it; `KEDA`: name of the trigger."""

    source: MetricSource | Literal["Pods", "External"] | None
    """`HPA`: `Pods` (default) or `External`."""

    selector: Mapping[str, str]
    """`HPA`: labels of the metric's series."""

    query: str | None
    """`KEDA`: the PromQL query; its result is divided by the replicas."""

    target: Required[str | float]
    """Value for one replica, such as `5`: above it there will be more of them."""

    unsafe_ssl: bool
    """`KEDA`: whether the Prometheus may have a certificate of any authority."""


class CacheArgsDict(TypedDict, total=False):
    """A volume that keeps model files for all pods of the service."""

    claim_name: Input[str] | None
    """An existing PersistentVolumeClaim; exclusive with `storage`. May be an Output."""

    storage: StorageArgs | StorageArgsDict | None
    """A claim that the service creates."""

    mount_path: str
    """Where it is mounted."""

    warm_up: bool
    """Whether a Job fills it before the pods are made, which then only read it. Without it,
    engines download into it."""

    mount_model: bool
    """Mounts the model's own folder of the volume at `model.mountPath`, and each adapter's at
    `{mountPath}-adapters/NAME`, in place of the whole volume at `mountPath`: for commands that name
    such a path. Needs `warmUp`."""

    read_only: bool
    """Whether pods mount read-only what the Job wrote; `false` is for engines that write beside the
    model's files. Needs `warmUp`."""

    job: WarmUpJobArgs | WarmUpJobArgsDict
    """The Job."""


class ClaimReferenceArgsDict(TypedDict, total=False):
    """An existing PersistentVolumeClaim of the service's namespace."""

    name: Required[Input[str]]
    """Name of the claim; several pods need one that is `ReadWriteMany`."""

    path: str | None
    """Folder in the claim, by default its root."""


class ClaimTierArgsDict(TypedDict, total=False):
    """A PersistentVolumeClaim: `spec` creates one for each pod, `ref` names an existing claim."""

    spec: Mapping[str, Any] | None
    """The spec of a claim that each pod gets, and that is deleted with it (an ephemeral volume)."""

    ref: ClaimReferenceArgs | ClaimReferenceArgsDict | None
    """An existing claim, whose content outlives the pods."""


class DashboardsArgsDict(TypedDict, total=False):
    """Grafana dashboards as a ConfigMap; `{}` suits the sidecar of Grafana's Helm chart."""

    labels: Mapping[str, str]
    """Labels by which the sidecar finds ConfigMaps; `grafana_dashboard: "1"` by default."""

    folder: str | None
    """Folder in Grafana, as the annotation `grafana_folder`; by default that of the sidecar."""


class DeviceArgsDict(TypedDict, total=False):
    """Accelerators of a pool."""

    memory: str | int | None
    """Memory of one accelerator, such as `80Gi`; a role that asks for memory never comes here
    without it."""

    attributes: Mapping[str, str]
    """Anything else that roles may ask for, such as `{model: H100, fabric: ib-1}`."""


class DeviceRequirementArgsDict(TypedDict, total=False):
    """Requirements for each accelerator of a role."""

    attributes: Mapping[str, str | Sequence[str]]
    """Attributes of the pool's devices and the values that are allowed, one or a list:
    `{model: [H100, H200]}`."""

    min_memory: str | int | None
    """Least memory of one accelerator, such as `80Gi`; by default any."""


class DisruptionBudgetArgsDict(TypedDict, total=False):
    """A PodDisruptionBudget per role, counted in replicas; `{}` lets one replica down at a time."""

    max_unavailable: int | str | None
    """Replicas that evictions may take down at a time, a count or a percentage (rounded down, at
    least 1 but for 0%); 1 by default. 0 forbids every eviction, and so every drain."""

    min_available: int | str | None
    """In its place: replicas that stay up, a count or a percentage (rounded up)."""

    unhealthy_pods: UnhealthyPods | Literal["AlwaysAllow", "IfHealthyBudget"]
    """`AlwaysAllow` (default) or `IfHealthyBudget`, the default of Kubernetes: whether pods that
    are not ready may be evicted when the budget is used up."""


class EmptyDirTierArgsDict(TypedDict, total=False):
    """The node's disk: each pod has its own, which ends with it."""

    size: Required[str | int]
    """How much of it, such as `200Gi`: the volume's limit, and asked for as `ephemeral-storage`."""


class EndpointPickerArgsDict(TypedDict, total=False):
    """The endpoint picker: the program that chooses a pod for each request."""

    enabled: bool
    """Whether there is one. Without it the route leads to a Service, which spreads requests without
    regard to caches and queues, and there is no InferencePool."""

    image: Input[str] | None
    """Its image; by default the router document's, and llm-d's for `pd-disaggregation`. May be an
    Output, together with `family`."""

    family: str | None
    """Release of the image, where its name and tag do not say so: `gaie-1.2`, `gaie-1.3`,
    `gaie-1.4` or `gaie-1.5` of the inference extension, `llm-d-0.9` or `llm-d-0.10`."""

    replicas: int
    """Pods; with several of them one leads and the others stand by."""

    resources: Mapping[str, Any] | None
    """Resources of its container, in place of the default requests."""

    template: Mapping[str, Any] | None
    """Overrides of its pod template, merged into the generated one: mappings key by key, lists of
    named items (containers, volumes, env) by name. Its container is named `epp`."""

    args: Sequence[str] | None
    """More command line flags; those that the library sets are refused."""

    log_verbosity: int
    """Log level, from 0 to 10."""

    failure_mode: FailureMode | Literal["FailOpen", "FailClose"] | None
    """What the gateway does without the picker; by default `FailOpen`."""

    metrics: MetricsMode | Literal["Off", "Authenticated", "Unauthenticated"] | Literal[False]
    """Who may read its metrics; by default no one."""

    flow_control: bool | None
    """Whether it holds requests while there is no pod, or the KV caches of all pods are full; by
    default where `autoscaling.target` needs it. Without it a request is answered 503 while there
    is no pod. Up to v1.3 it also holds them while more than 5 requests wait in each pod."""

    threshold: int | None
    """With `pd-disaggregation`: characters of a prompt that must be missing from the decode pod's
    cache before a prefill pod computes it; by default 0, every prompt."""

    group_pairing: GroupPairing | Literal["Strict", "Preferred"] | None
    """With `pd-disaggregation` and `groups`: `Strict` (default) draws a group that has both parts
    for each request, and nothing leaves it; `Preferred` takes the best decode pod of all groups,
    and a prefill pod of another group where that group has none."""

    tls: PickerTlsArgs | PickerTlsArgsDict
    """TLS between the gateway and the picker."""


class EngineArgsDict(TypedDict, total=False):
    """Which engine a role runs, and in which release, where its template names no image.

    Beside a template with an image it asks for the rest of the container, which the template's own
    values replace."""

    name: EngineName | Literal["vllm", "sglang"]
    """`vllm` (default) or `sglang`."""

    version: str | None
    """Its release, such as `0.32.0`; by default the one that this version of the library names,
    which `plan` shows."""


class FetcherArgsDict(TypedDict, total=False):
    """The container that fetches models: of the warm-up Job, or before the engine of each pod."""

    image: Input[str]
    """Its image, by default KServe's storage-initializer; may be an Output."""

    command: Sequence[str]
    """What fetches: it gets a source and a folder as its last two arguments."""

    env: Sequence[Mapping[str, Any]]
    """More variables, such as proxies or mirrors."""

    resources: Mapping[str, Any] | None
    """Its resources, in place of the default requests (100m CPU, 512Mi memory)."""

    security_context: Mapping[str, Any] | None
    """Its security context, in place of an unprivileged one of user 1000."""


class FileSystemTierArgsDict(TypedDict, total=False):
    """A folder that blocks are written to: of an `emptyDir`, or of a claim (`pvc`)."""

    empty_dir: EmptyDirTierArgs | EmptyDirTierArgsDict | None
    """The node's disk."""

    pvc: ClaimTierArgs | ClaimTierArgsDict | None
    """A claim."""


class GangPolicyArgsDict(TypedDict, total=False):
    """Gang scheduling of the service's pods."""

    mode: GangMode | Literal["Auto", "On", "Off"] | Literal[True, False]
    """`Auto` (default), `On` or `Off`."""

    backend: GangBackend | Literal["Volcano", "Kueue", "Native"]
    """`Volcano` (default). `Kueue`: every LeaderWorkerSet waits in the LocalQueue that `queue`
    names until there is quota for a whole replica. `Native`: a PodGroup of Kubernetes 1.37
    (`scheduling.k8s.io/v1beta1`, off by default there) holds all pods together. Only Volcano knows
    a minimum of each role."""

    min_role_replicas: Mapping[str, int] | None
    """Replicas of each role that must be placed together; the others start as room appears. A
    role that is not named needs all its replicas, 0 makes a role optional. By default the whole
    service is all-or-nothing. Needs Volcano 1.14.1 or later (PodGroup `subGroupPolicy`)."""

    required_replicas: RequiredReplicas | Literal["Any", "LowestOrdinals"]
    """Which replicas `minRoleReplicas` counts: `Any` (default), or `LowestOrdinals`, with which
    an optional replica that lacks room cannot take that of a required one in an update. But while
    a required replica lacks room, no pod of the gang is placed, though others may run."""

    min_resources: bool
    """Writes the gang's resource requests into the PodGroup, which Volcano then admits only while
    the queue has room for them; off by default. Only the minimum counts where
    `minRoleReplicas` is given."""

    network_topology: NetworkTopologyArgs | NetworkTopologyArgsDict | None
    """How close to each other in the network pods are placed; by default nothing is said. Needs
    HyperNodes and Volcano's scheduler plugin `network-topology-aware`."""


class GatewayArgsDict(TypedDict, total=False):
    """Gateways that exist (`refs`), or the spec of one that belongs to the service."""

    implementation: str | None
    """The gateway software: `envoy-ai-gateway`, `agentgateway`, `istio`, `nginx-gateway-fabric`
    or `gke`. What it needs beside the route is then generated; the class name does not say it.
    Alone, beside `parentRefs` or `routedBy`, it creates no Gateway."""

    refs: Sequence[GatewayRefArgs | GatewayRefArgsDict] | None
    """Existing Gateways; without it a Gateway is created."""

    gateway_class_name: Input[str] | None
    """GatewayClass of the created Gateway; by default that of `implementation`, else `eg`. May be
    an Output."""

    listeners: Sequence[Mapping[str, Any]] | None
    """Its listeners; by default HTTP on port 80."""

    addresses: Sequence[Mapping[str, Any]] | None
    """Its addresses."""

    infrastructure: Mapping[str, Any] | None
    """Labels, annotations and parameters of what the implementation creates for it."""

    allowed_listeners: Mapping[str, Any] | None
    """Which ListenerSets may add listeners to it."""

    tls: Mapping[str, Any] | None
    """TLS of the Gateway as a whole."""

    default_scope: str | None
    """Whether it is a default Gateway (Gateway API 1.4, experimental)."""

    annotations: Mapping[str, Input[str]]
    """Annotations of the Gateway object; values may be Outputs."""


class GatewayRefArgsDict(TypedDict, total=False):
    """A Gateway that exists already."""

    name: Required[str]
    """Its name."""

    namespace: Input[str] | None
    """Its namespace, by default the service's; may be an Output."""

    section_name: str | None
    """The one listener to attach to, by default all that take the route."""

    port: int | None
    """The listeners' port to attach to, by default any."""

    listeners: Sequence[Mapping[str, Any]] | None
    """The Gateway's listeners as far as they are known: with them the attachment is checked and
    the endpoint has the right scheme and port. They are not written anywhere."""


class HttpRouteArgsDict(TypedDict, total=False):
    """The spec of the service's HTTPRoute, kept whole; or whose route leads to the service."""

    parent_refs: Sequence[Mapping[str, Any]] | None
    """Gateways that the route attaches to; by default those of `gateway`."""

    hostnames: Sequence[Input[str]] | None
    """Host names that the route answers to; each may be an Output."""

    rules: Sequence[Mapping[str, Any]] | None
    """Rules; one without `backendRefs` leads to the service's pool, and so does the default."""

    use_default_gateways: str | None
    """Attaches the route to the cluster's default Gateways (Gateway API 1.4, experimental)."""

    split: Sequence[SplitArgs | SplitArgsDict] | None
    """Shares of other services in the requests of the rules without `backendRefs`; by default none.
    Not every gateway takes several pools in one rule (docs/routing.md)."""

    routed_by: str | None
    """The service whose route leads to this one's pool; none is made here then."""

    refs: Sequence[HttpRouteRefArgs | HttpRouteRefArgsDict] | None
    """HTTPRoutes made elsewhere that lead to this one's pool; none is made here then."""


class HttpRouteRefArgsDict(TypedDict, total=False):
    """An HTTPRoute that is made elsewhere."""

    name: Required[str]
    """Its name."""

    namespace: Input[str] | None
    """Its namespace, by default the service's; may be an Output."""


class InferenceServiceArgsDict(TypedDict, total=False):
    """A model served on Kubernetes: the arguments of the `InferenceService` component.

    A mapping of the same shape is accepted too, in snake_case or camelCase, flat as here or with
    `metadata` and `spec` as in a manifest."""

    name: str | None
    """Kubernetes name of the service; by default the component's logical name."""

    namespace: Input[str]
    """Namespace of every object; may be an Output."""

    labels: Mapping[str, Input[str]]
    """Labels of every object; values may be Outputs."""

    annotations: Mapping[str, Input[str]]
    """Annotations of every object; values may be Outputs."""

    roles: Required[Sequence[RoleArgs | RoleArgsDict]]
    """The service's roles, at least one of which serves."""

    groups: int | None
    """Copies of the whole topology (serving groups), each with its own gang and its own pairing of
    prefill with decode; names then carry the group, also of a single one. 0 parks the service. By
    default there are no groups, and a role's `replicas` are those of the service."""

    model: ModelArgs | ModelArgsDict | None
    """The model that all roles serve: where its files come from, its name, adapters and cache; by
    default the pod templates say it."""

    engine: EngineArgs | EngineArgsDict | None
    """The engine of roles whose container the library writes: those without a template, or with
    one that names no image. By default vLLM, in the release that `plan` shows."""

    image_registry: str | None
    """Registry, and a path in it, that mirrors the images that the library chooses: engines, the
    endpoint picker, the sidecar of decode pods, and the model's fetcher. It replaces the registry
    in their names: with `registry.example.com/mirror`, `ghcr.io/llm-d/x` becomes
    `registry.example.com/mirror/llm-d/x`. By default each project's own registry."""

    scheduling_strategy: SchedulingStrategyArgs | SchedulingStrategyArgsDict
    """Scheduler, queue, priority and gang."""

    layout: Layout | Literal["PerReplica", "PerRole"]
    """`PerReplica`: one LeaderWorkerSet for each replica. `PerRole`: one for each role, with its
    own rolling update and a scale subresource; a live service cannot change it. By default
    `PerRole` if a role has `autoscaling`, else `PerReplica`."""

    placement: ServicePlacementArgs | ServicePlacementArgsDict
    """How the roles are placed on node pools in relation to each other; read by `place` and
    `--inventory` only."""

    rollout: RolloutArgs | RolloutArgsDict
    """How pod templates change: pace, order, halt."""

    wait: WaitArgs | WaitArgsDict
    """Condition for which an update waits before it returns."""

    disruption_budget: DisruptionBudgetArgs | DisruptionBudgetArgsDict | None
    """A PodDisruptionBudget for each serving role that has none of its own; none by default."""

    monitoring: MonitoringArgs | MonitoringArgsDict | None
    """Monitors of the Prometheus operator for engines and picker; none by default."""

    prefill_decode_ratio: PrefillDecodeRatioArgs | PrefillDecodeRatioArgsDict | None
    """Bounds for the replicas of prefill for each replica of decode; none by default. Replicas
    beyond them are refused."""

    tracing: TracingArgs | TracingArgsDict | None
    """OpenTelemetry traces of picker and engines; none by default."""

    pod_labels: Mapping[str, Input[str]]
    """Labels of the pods of all roles, such as a cost centre; values may be Outputs. A change
    restarts the pods."""

    pod_annotations: Mapping[str, Input[str]]
    """Annotations of the pods of all roles; values may be Outputs. A change restarts the pods."""


class InventoryArgsDict(TypedDict, total=False):
    """The node pools of a cluster."""

    pool_label: str | None
    """Node label that identifies a pool; its value is the pool's name unless the pool's own
    `labels` say otherwise. By default the one of GKE, EKS, AKS or Karpenter that all pools list
    among their `labels`."""

    pools: Required[Sequence[NodePoolArgs | NodePoolArgsDict]]
    """The pools; the first of equally good pools is used."""


class KedaArgsDict(TypedDict, total=False):
    """Further fields of a ScaledObject."""

    polling_interval: int | None
    """Seconds between two reads of the metrics."""

    cooldown_period: int | None
    """Seconds without activity before the replicas become none, or `idleReplicaCount`."""

    initial_cooldown_period: int | None
    """Seconds after its creation before `cooldownPeriod` counts."""

    idle_replica_count: int | None
    """Replicas without activity; below `minReplicas`."""

    fallback: KedaFallbackArgs | KedaFallbackArgsDict | None
    """Replicas while the metrics cannot be had."""


class KedaFallbackArgsDict(TypedDict, total=False):
    """Replicas while the metrics cannot be had."""

    failure_threshold: Required[int]
    """Failures in a row after which it holds."""

    replicas: Required[int]
    """The replicas."""

    behavior: str | None
    """KEDA's behavior, such as `static` (its default) or `currentReplicasIfHigher`."""


class KvCacheOffloadingArgsDict(TypedDict, total=False):
    """The KV cache beyond the accelerators' memory: host memory, then disks.

    KServe's `kvCacheOffloading`. vLLM's OffloadingConnector from 0.14, with `secondary` from 0.22;
    SGLang's hierarchical cache, with `secondary` from 0.5.3."""

    cpu: Required[str | int]
    """Host memory of each engine for its KV cache, such as `64Gi`, over all its accelerators; with
    `parallelism.data` each copy has so much. The container's memory limit has to be more."""

    eviction_policy: EvictionPolicy | Literal["lru", "arc"] | None
    """What leaves the host memory first: `lru` (the engines' default) or `arc` (vLLM)."""

    secondary: Sequence[SecondaryTierArgs | SecondaryTierArgsDict]
    """What comes behind the host memory, in the order in which it is asked; SGLang has one. By
    default nothing."""


class KvEventsArgsDict(TypedDict, total=False):
    """Events about the engine's KV cache, for an endpoint picker that scores by them.

    With `{}` each pod publishes on its own address, where a picker that discovers pods subscribes."""

    endpoint: str
    """ZMQ endpoint: with `*` the pod listens there, else it connects to that address."""

    topic: str | None
    """Topic of the events, by default `kv@$(POD_IP):PORT@MODEL`, the name under which llm-d's
    pickers look for a pod."""


class KvTransferArgsDict(TypedDict, total=False):
    """The KV cache's way from prefill to decode.

    `{}` generates what the engine needs for NIXL, on a prefiller and on a decoder alike. Where the
    engine's arguments hold `--kv-transfer-config` already, they are used as they are."""

    enabled: bool
    """Whether the engines hand the KV cache over; false: decode computes each prompt again."""

    connector: str | None
    """vLLM's KV connector, by default `NixlConnector`."""

    role: KvRole | Literal["kv_both", "kv_producer", "kv_consumer"] | None
    """vLLM's `kv_role`, by default `kv_both`; with NIXL and vLLM 0.23.0 or later that of the role:
    `kv_producer` or `kv_consumer`."""

    extra_config: Mapping[str, Any] | None
    """vLLM's `kv_connector_extra_config`."""

    side_channel_port: int
    """First port of NIXL's side channel, over which pods agree on a transfer."""

    rdma: RdmaArgs | RdmaArgsDict | None
    """RDMA devices; by default those that the template asks for."""

    shared_memory: str | None
    """Size limit of the memory volume at /dev/shm, such as `16Gi`; by default that of the node."""

    engine_port: int | None
    """Decoders only: port that the engine serves on behind the sidecar; by default its own where
    that is not the pool's, else 8001."""

    sidecar: SidecarArgs | SidecarArgsDict
    """Decoders only: the sidecar."""


class LoraAdapterArgsDict(TypedDict, total=False):
    """One LoRA adapter."""

    name: Required[str]
    """Name by which requests ask for it."""

    uri: Required[str]
    """Where it comes from, in the forms of the model's `uri`."""


class LoraArgsDict(TypedDict, total=False):
    """LoRA adapters that are served beside the model."""

    adapters: Required[Sequence[LoraAdapterArgs | LoraAdapterArgsDict]]
    """The adapters."""

    max_rank: int | None
    """Largest rank of an adapter, by default the engine's."""

    max_adapters: int | None
    """Adapters in one batch, by default the engine's."""

    max_cpu_adapters: int | None
    """Adapters that are kept in memory, by default the engine's."""


class ModelArgsDict(TypedDict, total=False):
    """The model: its files get into every serving pod, and the engine's arguments name it."""

    uri: Required[str]
    """`hf://ORG/NAME[@REVISION]`, `pvc://CLAIM[/PATH]`, `s3://BUCKET/KEY` or `oci://IMAGE`."""

    name: str | None
    """Name by which requests ask for it; by default the repository's for `hf://`, else the
    service's."""

    size: str | int | None
    """Size of its files, such as `140Gi`."""

    config: Mapping[str, Any] | str | None
    """Its `config.json`, or a path of that, for checks of the memory; by default that of the table
    of known models. A path is relative to the manifest's folder, and in or below it; in a program
    relative to the working directory."""

    mount_path: str
    """Where its files are, but for those in a cache without `mountModel`."""

    path: str | None
    """`oci://` only: folder of the image that holds the model, such as `models`."""

    fetch: Fetch | Literal["Engine", "InitContainer"] | None
    """`hf://` only: who fetches it, by default the engine."""

    fetcher: FetcherArgs | FetcherArgsDict
    """The container that fetches, where the engine does not."""

    token_secret: SecretKeyArgs | SecretKeyArgsDict | None
    """Secret with the token for Hugging Face."""

    s3: S3Args | S3ArgsDict
    """How `s3://` is reached."""

    image_pull_secrets: Sequence[Input[str]]
    """Secrets for pulling `oci://` and the fetcher's image; each may be an Output."""

    lora: LoraArgs | LoraArgsDict | None
    """LoRA adapters."""

    cache: CacheArgs | CacheArgsDict | None
    """A volume that keeps the files."""


class ModelRewriteArgsDict(TypedDict, total=False):
    """Names that clients ask for, and the models that answer."""

    models: Sequence[str] | None
    """Names in requests; by default all that no other rewrite has."""

    targets: Required[Sequence[ModelTargetArgs | ModelTargetArgsDict]]
    """What the name becomes, drawn for each request by weight."""


class ModelTargetArgsDict(TypedDict, total=False):
    """A model or adapter that the engines serve."""

    model: Required[str]
    """Its name, as the engines serve it (`--served-model-name`, `--lora-modules`)."""

    weight: int | None
    """Its share of the requests, of the sum of all weights; 0 sends it none. May be left out where
    there is one target."""


class MonitoringArgsDict(TypedDict, total=False):
    """Monitors of the Prometheus operator; `{}` scrapes the engines, and the picker if it may."""

    engines: bool
    """A PodMonitor for each serving role: its leaders, on the serving port."""

    picker: bool | None
    """A ServiceMonitor for the endpoint picker; by default where its metrics are on
    (`endpointPicker.metrics`)."""

    path: str
    """Path of the engines' metrics; `/metrics` by default."""

    interval: str | None
    """How often, such as `15s`; by default that of Prometheus."""

    scrape_timeout: str | None
    """How long a reading may take, at most the interval; by default that of Prometheus."""

    labels: Mapping[str, str]
    """Labels of the monitors, by which a Prometheus may choose them, such as
    `release: kube-prometheus-stack`."""

    picker_token: TokenSecretArgs | TokenSecretArgsDict | None
    """Secret with the token for a picker whose metrics are `Authenticated`; by default Prometheus
    shows the token of its own ServiceAccount."""

    alerts: AlertsArgs | AlertsArgsDict | None
    """A PrometheusRule with alerts; none by default."""

    dashboards: DashboardsArgs | DashboardsArgsDict | None
    """A ConfigMap with Grafana dashboards; none by default."""


class MultinodeArgsDict(TypedDict, total=False):
    """Spreads each replica of a role over several nodes."""

    node_count: int | None
    """Nodes (and so pods) of one replica, the leader included; 1 is the same as no `multinode`.
    Required, unless the role's `parallelism` says it (`pipeline`, or `data` with `dataLocal`)."""

    launcher: Launcher | Literal["ray", "multiprocessing", "data-parallel", "none"] | None
    """How the pods find each other; by default `ray`, for SGLang `multiprocessing`, and
    `data-parallel` where `parallelism.data` spans pods."""


class NetworkConfigArgsDict(TypedDict, total=False):
    """LeaderWorkerSet's `networkConfig`."""

    subdomain_policy: Required[SubdomainPolicy | Literal["Shared", "UniquePerReplica"]]
    """`Shared` (LeaderWorkerSet's default) or `UniquePerReplica`."""


class NetworkPolicyArgsDict(TypedDict, total=False):
    """NetworkPolicies that restrict access to the service's pods.

    By default on where `gateway.implementation` says where the proxies of the route's Gateways run."""

    enabled: bool
    """Whether there are NetworkPolicies; false lets everybody in."""

    gateway_namespace: Input[str] | None
    """Namespace of the gateway's proxies, all of whose pods are let in; by default that in which
    `gateway.implementation` runs them. May be an Output."""

    gateway: Sequence[Mapping[str, Any]] | None
    """NetworkPolicyPeers that match the gateway's proxies, in place of their namespace."""

    metrics: Sequence[Mapping[str, Any]] | None
    """NetworkPolicyPeers that read metrics; by default none. `monitoring` requires them."""


class NetworkTopologyArgsDict(TypedDict, total=False):
    """Placement by the network's topology, which HyperNodes describe (topology.volcano.sh)."""

    group_policy: NetworkTopologyRuleArgs | NetworkTopologyRuleArgsDict | None
    """For all pods of a gang: of a serving group, or of the service where there are no groups."""

    role_policy: NetworkTopologyRuleArgs | NetworkTopologyRuleArgsDict | None
    """For the pods of each replica of a role; the PodGroup then has the form of
    `subGroupPolicy`."""


class NetworkTopologyRuleArgsDict(TypedDict, total=False):
    """Maximum network distance between pods."""

    mode: NetworkTopologyMode | Literal["hard", "soft"]
    """`hard` (default) or `soft`."""

    highest_tier_allowed: int | None
    """Highest tier of a HyperNode that holds all of the pods; required with `hard`."""


class NodePoolArgsDict(TypedDict, total=False):
    """Nodes of one kind."""

    name: Required[str]
    """Name of the pool, unique in the inventory."""

    nodes: Required[int]
    """Nodes that it has (with an autoscaler: that it may have)."""

    accelerators: Required[int]
    """Accelerators of each node."""

    resource: str | None
    """Resource by which pods ask for these accelerators; null where they can only be claimed."""

    device_classes: Sequence[str]
    """DeviceClasses by which pods claim these accelerators (dynamic resource allocation): each
    device of such a claim is one of them. By default none."""

    in_use: Sequence[int]
    """Accelerators that others hold, one number for each node where they hold any: `[8, 2]` are
    one full node and two accelerators of another. By default none."""

    device: DeviceArgs | DeviceArgsDict
    """What its accelerators are."""

    labels: Mapping[str, str]
    """Labels that all of its nodes have; `kubernetes.io/os: linux` unless it says otherwise."""

    taints: Sequence[TaintArgs | TaintArgsDict]
    """Taints that all of its nodes have."""

    cost: float
    """Price of one accelerator in any unit, the same for all pools; 0 by default. The cheapest
    pools that work are taken first."""


class ParallelismArgsDict(TypedDict, total=False):
    """Sizes that become arguments of vLLM or SGLang, and the number of pods in a replica.

    KServe's `parallelism`: a replica has `data / dataLocal` pods, or one for each pipeline stage,
    unless `multinode.nodeCount` says otherwise."""

    tensor: int | None
    """Accelerators that share each layer; by default the engine's 1."""

    pipeline: int | None
    """Stages that the layers are divided into, by default one in each pod of a replica."""

    data: int | None
    """Copies of the model that share one endpoint, over all pods of a replica."""

    data_local: int | None
    """Copies in each pod; by default all of them, or their share of `multinode.nodeCount`."""

    data_rpc_port: int | None
    """Port on which the leader coordinates the copies in other pods; by default the engine's."""

    expert: bool | None
    """Whether the layers of experts are spread over all accelerators of a replica."""

    port_per_rank: bool | None
    """Whether each copy of the pod serves on a port of its own, so that the endpoint picker chooses
    among copies, by the cache and the load of each (vLLM 0.22 or later, one pod in a replica)."""


class PickerTlsArgsDict(TypedDict, total=False):
    """TLS between the gateway and the endpoint picker."""

    enabled: bool
    """Whether the picker serves TLS; turn it off only for a gateway that speaks plain gRPC."""

    secret_name: Input[str] | None
    """Secret with `tls.crt` and `tls.key`; may be an Output. By default the picker signs a
    certificate by itself, which no gateway verifies."""


class PoolArgsDict(TypedDict, total=False):
    """The InferencePool: the pods' ports, and how it is guarded: without it all requests fail."""

    target_ports: Sequence[int] | None
    """Ports of each pod, of which the picker chooses one, for engines of several servers that a
    script of yours starts; by default those that the engines' arguments and `parallelism` say."""

    protect: bool | None
    """Pulumi's `protect`: the pool cannot be deleted before this is taken back."""

    retain_on_delete: bool | None
    """Pulumi's `retainOnDelete`: the pool stays in the cluster when the service goes."""


class PrefillDecodeRatioArgsDict(TypedDict, total=False):
    """Bounds for the replicas of prefill for each replica of decode."""

    min: float | None
    """Fewest, such as `0.25`."""

    max: float | None
    """Most, such as `1`."""


class RdmaArgsDict(TypedDict, total=False):
    """RDMA devices (InfiniBand, RoCE) by which NIXL, UCX and NCCL reach other pods."""

    resource: str | None
    """Extended resource of the devices, such as `rdma/ib`; by default none is asked for."""

    count: int
    """How many of it each pod asks for."""

    devices: Sequence[str]
    """Devices with their ports, such as `mlx5_0:1`, for `UCX_NET_DEVICES` and `NCCL_IB_HCA`; by
    default UCX and NCCL choose."""

    transports: str | None
    """`UCX_TLS`, such as `rc,cuda_copy,cuda_ipc`; by default UCX chooses."""

    gid_index: int | None
    """Index of the address of RoCE devices, for `UCX_IB_GID_INDEX` and `NCCL_IB_GID_INDEX`."""

    lock_memory: bool
    """Whether the serving container may lock memory (`IPC_LOCK`), which registering it needs."""


class ResourceClaimArgsDict(TypedDict, total=False):
    """Devices of each pod of a role.

    `deviceClassName` with `count` and `selectors` describes them, or `spec` does as in a
    ResourceClaim; either creates a ResourceClaimTemplate (resource.k8s.io/v1, Kubernetes 1.34).
    `templateName` and `claimName` name existing objects."""

    name: Required[str]
    """Name of the claim in the pod."""

    device_class_name: str | None
    """DeviceClass of the devices, such as `gpu.nvidia.com`."""

    count: int | None
    """Devices of each pod, by default 1."""

    selectors: Sequence[str] | None
    """CEL expressions that each device has to meet."""

    admin_access: bool | None
    """Whether devices are shared with their users, for monitoring; needs rights."""

    spec: Mapping[str, Any] | None
    """The spec of a ResourceClaim, passed on as it is."""

    template_name: Input[str] | None
    """An existing ResourceClaimTemplate; may be an Output."""

    claim_name: Input[str] | None
    """An existing ResourceClaim, which all pods share; may be an Output."""


class RoleArgsDict(TypedDict, total=False):
    """One role: a router, or pods that serve a model."""

    name: Required[str]
    """Name of the role, unique in the service; part of its objects' names."""

    component_type: Required[ComponentType | Literal["router", "prefiller", "decoder", "worker"]]
    """What the role does: `worker`, `prefiller`, `decoder` or `router`."""

    replicas: int
    """Independent instances of the model; 0 parks the role: no objects, no share of the gang."""

    template: PodTemplateSpecArgs | PodTemplateSpecArgsDict | Mapping[str, Any] | None
    """Pod template of every pod of the role. With the service's `model` it may be left out, or name
    only what differs: the library writes the container, and what stands here wins."""

    leader_template: PodTemplateSpecArgs | PodTemplateSpecArgsDict | Mapping[str, Any] | None
    """Pod template of the leaders, together with `workerTemplate` in place of `template`."""

    worker_template: PodTemplateSpecArgs | PodTemplateSpecArgsDict | Mapping[str, Any] | None
    """Pod template of the other pods of a multi-node replica."""

    container: str | None
    """Name of the container that serves the model; by default the one named vllm, sglang, engine
    or main, else the first."""

    port: int | None
    """Port that it serves on; by default the engine's `--port`, else the container port named
    http, else the first container port, else 8000. One that the engine does not listen on is
    refused, unless another container of the pod does."""

    multinode: MultinodeArgs | MultinodeArgsDict | None
    """Spreads each replica over several nodes; by default a replica is one pod."""

    parallelism: ParallelismArgs | ParallelismArgsDict | None
    """How the engine splits and copies the model: sets its arguments, and the pods of a replica;
    by default the arguments say it."""

    placement: RolePlacementArgs | RolePlacementArgsDict | None
    """Node pools that the role may be placed on, and what their accelerators have to be; read by
    `place` and `--inventory` only. By default any pool that its pod templates allow."""

    engine: EngineArgs | EngineArgsDict | None
    """The engine, in place of the service's, for a container that the library writes."""

    accelerator: str | None
    """What each accelerator is, such as `H100`, or its memory, such as `80Gi`: for checks of the
    memory, it selects no nodes. By default what claims and node selectors say. `cpu` is for a
    container that the library writes: the engine's build for processors."""

    gpus: int | None
    """GPUs of each pod, for a container that the library writes; by default the product of
    `parallelism`, else as many as the package fusioninfer-capacity finds for the model on
    `accelerator`."""

    resource_claims: Sequence[ResourceClaimArgs | ResourceClaimArgsDict] | None
    """Devices that the serving container of every pod claims (DRA), in place of accelerators in
    its resources; by default none."""

    rollout: RoleRolloutArgs | RoleRolloutArgsDict | None
    """How this role is updated, where it differs from the service's `rollout`."""

    restart_policy: (
        RestartPolicy
        | Literal["RecreateGroupOnPodRestart", "RecreateGroupAfterStart", "None"]
        | None
    )
    """LeaderWorkerSet's restart policy; by default `RecreateGroupAfterStart` for multi-node
    replicas (LeaderWorkerSet 0.9 and later), `RecreateGroupOnPodRestart` for single pods."""

    environment: PodEnvironment | Literal["Kthena"] | None
    """`Kthena` sets `ENTRY_ADDRESS`, `WORKER_INDEX` and `GROUP_SIZE` in every container, from the
    variables of LeaderWorkerSet; one that a container sets by itself stays. By default containers
    have LeaderWorkerSet's own alone: `LWS_LEADER_ADDRESS`, `LWS_WORKER_INDEX`, `LWS_GROUP_SIZE`."""

    startup_policy: StartupPolicy | Literal["LeaderCreated", "LeaderReady"] | None
    """LeaderWorkerSet's startup policy, by default `LeaderCreated`; `LeaderReady` deadlocks with
    gang scheduling and is refused there."""

    network_config: NetworkConfigArgs | NetworkConfigArgsDict | None
    """LeaderWorkerSet's network configuration."""

    sub_group_policy: SubGroupPolicyArgs | SubGroupPolicyArgsDict | None
    """LeaderWorkerSet's subgroups, for topology-aware placement inside a replica."""

    kv_transfer: KvTransferArgs | KvTransferArgsDict | None
    """Prefillers and decoders only: how the KV cache goes from one to the other, with the
    arguments and environment that the engine needs for it."""

    kv_events: KvEventsArgs | KvEventsArgsDict | None
    """What the engine publishes to the endpoint picker about its KV cache; by default nothing."""

    kv_cache_offloading: KvCacheOffloadingArgs | KvCacheOffloadingArgsDict | None
    """Where the engine keeps KV cache beyond its accelerators' memory: host memory, then disks;
    by default nowhere."""

    disruption_budget: DisruptionBudgetArgs | DisruptionBudgetArgsDict | None
    """How many replicas evictions may take down at a time, in place of the service's; by default
    any number."""

    autoscaling: AutoscalingArgs | AutoscalingArgsDict | None
    """Scales the replicas between bounds, starting with `replicas`; needs `layout: PerRole`. By
    default nothing but an update changes them."""

    startup: StartupArgs | StartupArgsDict | None
    """How long the engine may take to load its model; by default no startup probe."""

    topology_spread: Sequence[TopologySpreadArgs | TopologySpreadArgsDict] | None
    """Spreads the leaders of the replicas over zones or nodes; by default the scheduler's way."""

    pod_labels: Mapping[str, Input[str]]
    """Labels of the role's pods, those of a router on the endpoint picker's; they win over the
    service's, and those of a template over both. Values may be Outputs. A change restarts the
    pods."""

    pod_annotations: Mapping[str, Input[str]]
    """Annotations of the role's pods, in the same order; values may be Outputs. A change restarts
    the pods."""

    strategy: (
        Strategy
        | Literal[
            "prefix-cache",
            "kv-cache-utilization",
            "queue-size",
            "lora-affinity",
            "pd-disaggregation",
        ]
        | None
    )
    """Routers only: what the endpoint picker balances by; by default `prefix-cache`, and
    `pd-disaggregation` where prefill and decode are separate roles."""

    scorers: Mapping[str, float] | None
    """Routers only: weights of scorers in place of the strategy's: `prefix-cache`, `kv-cache`,
    `queue`, `load`, `running`, `lora`, as far as the picker has them."""

    httproute: HttpRouteArgs | HttpRouteArgsDict | None
    """Routers only: the spec of a Gateway API HTTPRoute."""

    gateway: GatewayArgs | GatewayArgsDict | None
    """Routers only: the spec of a managed Gateway (`{}` for the defaults), or `refs` to Gateways
    that exist."""

    endpoint_picker: EndpointPickerArgs | EndpointPickerArgsDict | None
    """Routers only: the endpoint picker's image, pods and behaviour."""

    endpoint_picker_config: str | None
    """Routers only: a complete EndpointPickerConfig, used verbatim in place of `strategy`."""

    pool: PoolArgs | PoolArgsDict | None
    """Routers only: guards the InferencePool."""

    model_rewrites: Sequence[ModelRewriteArgs | ModelRewriteArgsDict] | None
    """Routers only: names that clients ask for, with the models or adapters that answer, by weight:
    aliases and canaries. Not every picker knows them (docs/routing.md)."""

    network_policy: NetworkPolicyArgs | NetworkPolicyArgsDict | None
    """Routers only: lets only the gateway and the picker reach the pods; by default where
    `gateway.implementation` says where the gateway's proxies run."""

    reference_grants: bool | None
    """Routers only: creates the ReferenceGrants that the route and the Gateway need in other
    namespaces; by default they are asked for in a warning."""


class RolePlacementArgsDict(TypedDict, total=False):
    """Which node pools a role may be placed on, beside what its pod templates select."""

    pools: Sequence[str] | None
    """Names of the pools that are allowed; by default all. Their taints are tolerated."""

    device: DeviceRequirementArgs | DeviceRequirementArgsDict | None
    """What each accelerator has to be; by default anything."""


class RoleRolloutArgsDict(TypedDict, total=False):
    """Update of one role; fields default to those of the service's `rollout`."""

    strategy: RolloutStrategy | Literal["Rolling", "AllAtOnce", "Recreate"] | None
    """`Rolling` (default), `AllAtOnce` or `Recreate`."""

    max_unavailable: int | str | None
    """Replicas that may be down because of an update, a count or a percentage of the replicas
    (rounded down, at least 1); 1 by default. Only for `Rolling`; 0 only with `maxSurge`."""

    max_surge: int | str | None
    """Replicas above their number that an update may start, a count or a percentage of the
    replicas (rounded up); 0 by default. Only for `Rolling` and layout `PerRole`, and they need
    room of their own."""

    partition: int | None
    """Replicas with an ordinal below it keep the pod template that they have, until it is lowered;
    0 by default. Layout `PerRole` has no partition with `Recreate`."""

    timeout: str | None
    """How long one replica may take to become available in its new form before the update fails
    and halts, such as `90s` or `1h30m`; 45m by default."""


class RolloutArgsDict(TypedDict, total=False):
    """Update of the service; a role may override all but `roleOrder` and `level`."""

    strategy: RolloutStrategy | Literal["Rolling", "AllAtOnce", "Recreate"] | None
    """`Rolling` (default), `AllAtOnce` or `Recreate`."""

    max_unavailable: int | str | None
    """Replicas that may be down because of an update, a count or a percentage of the replicas
    (rounded down, at least 1); 1 by default. Only for `Rolling`; 0 only with `maxSurge`."""

    max_surge: int | str | None
    """Replicas above their number that an update may start, a count or a percentage of the
    replicas (rounded up); 0 by default. Only for `Rolling` and layout `PerRole`, and they need
    room of their own."""

    partition: int | None
    """Replicas with an ordinal below it keep the pod template that they have, until it is lowered;
    0 by default. Layout `PerRole` has no partition with `Recreate`."""

    timeout: str | None
    """How long one replica may take to become available in its new form before the update fails
    and halts, such as `90s` or `1h30m`; 45m by default."""

    role_order: RoleOrder | Literal["Together", "Sequential"]
    """`Together` (default) or `Sequential`: in the order of the roles."""

    level: RolloutLevel | Literal["Role", "Group"]
    """`Role` (default), or with `groups` `Group`: whole serving groups change, the highest first;
    `maxUnavailable` and `partition` then count groups."""


class S3ArgsDict(TypedDict, total=False):
    """Access to an S3 bucket."""

    secret_name: Input[str] | None
    """Secret with the credentials; without one the pod's identity is used. May be an Output."""

    access_key_id_key: str
    """Key of the Secret that holds the access key's id."""

    secret_access_key_key: str
    """Key of the Secret that holds the secret access key."""

    endpoint: Input[str] | None
    """URL of a store other than AWS; may be an Output."""

    region: Input[str] | None
    """Region of the bucket; may be an Output."""


class SchedulingStrategyArgsDict(TypedDict, total=False):
    """The scheduler, its queue and the gang."""

    scheduler_name: str | None
    """Scheduler of the pods; by default `volcano` for a gang (`default-scheduler` with `backend:
    Native`), else the cluster's."""

    queue: Input[str] | None
    """Volcano queue, by default Volcano's `default`; with `backend: Kueue` the LocalQueue, which is
    required. May be an Output."""

    priority_class_name: str | None
    """PriorityClass of the PodGroup and of the pods."""

    gang_policy: GangPolicyArgs | GangPolicyArgsDict
    """What must be placed together."""


class SecondaryTierArgsDict(TypedDict, total=False):
    """A place behind the host memory."""

    file_system: Required[FileSystemTierArgs | FileSystemTierArgsDict]
    """A folder, the only kind there is."""


class SecretKeyArgsDict(TypedDict, total=False):
    """One key of a Secret in the service's namespace."""

    name: Required[Input[str]]
    """Name of the Secret; may be an Output."""

    key: str
    """Key that holds the value."""


class ServicePlacementArgsDict(TypedDict, total=False):
    """Placement of a service's roles relative to each other."""

    colocate: str | None
    """Device attribute or node label, such as `topology.kubernetes.io/zone`, that must have one
    value on the pools of all roles: the KV cache goes over the network between them. By default
    roles may be anywhere."""


class SidecarArgsDict(TypedDict, total=False):
    """The sidecar of decode leaders: it sends each prompt to the prefill pod that the picker chose.

    It listens on the pool's port and passes everything else on to the engine beside it."""

    enabled: bool
    """Whether it is added; without it the pods serve as their template says."""

    image: Input[str] | None
    """Its image, by default the one that was released with the endpoint picker; may be an
    Output."""

    family: str | None
    """Which release the image is (`llm-d-0.10`, ...), where its name and tag do not say so; by
    default the endpoint picker's."""

    connector: (
        SidecarConnector
        | Literal["nixlv2", "shared-storage", "sglang", "mooncake", "offloading"]
        | None
    )
    """Its protocol, by default the one that fits the engine's connector."""

    ssrf_protection: bool | None
    """Whether it sends prompts to pods of the service's pool only, whatever a client's header
    says; by default where its release can (llm-d v0.10.0 or later). It then reads pool and pods,
    with a ServiceAccount and a Role of its own."""

    resources: Mapping[str, Any] | None
    """Resources of its container, in place of the default requests."""

    args: Sequence[str] | None
    """More command line flags; flags that the library sets are rejected."""


class SplitArgsDict(TypedDict, total=False):
    """A share of the requests for another service of the namespace, such as a canary."""

    service: Required[str]
    """Name of the service; its router says `routedBy`."""

    weight: Required[int]
    """Percent of the requests that go to its pool; what is left of 100 stays here."""


class StartupArgsDict(TypedDict, total=False):
    """Startup probe of the engine: how long it may load its model."""

    timeout: str | None
    """How long, such as `30m`."""

    model_size: str | int | None
    """In its place: size of the weights that a pod reads, such as `140Gi`, by default `model.size`;
    with `readRate` and 5 minutes for everything else it gives the time."""

    read_rate: str | int
    """What a pod reads in a second, such as `1Gi`; `200Mi` by default, a network disk."""


class StorageArgsDict(TypedDict, total=False):
    """A PersistentVolumeClaim of the service's own."""

    size: Required[str | int]
    """Its size, such as `500Gi`."""

    storage_class_name: Input[str] | None
    """StorageClass, by default the cluster's; may be an Output."""

    access_modes: Sequence[
        AccessMode | Literal["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"]
    ]
    """Access modes, by default `ReadWriteMany`; others would have to change, and the claim with
    them, when the service grows."""


class SubGroupPolicyArgsDict(TypedDict, total=False):
    """LeaderWorkerSet's `subGroupPolicy` (not Volcano's field of that name)."""

    sub_group_size: Required[int]
    """Pods in a subgroup; must divide the node count, or the node count less the leader."""

    sub_group_policy_type: SubGroupPolicyType | Literal["LeaderWorker", "LeaderExcluded"] | None
    """Whether the leader belongs to a subgroup; LeaderWorkerSet's default is `LeaderWorker`."""


class TaintArgsDict(TypedDict, total=False):
    """A taint of a pool's nodes, as Kubernetes writes it."""

    key: Required[str]
    """Key of the taint."""

    value: str
    """Its value, empty by default."""

    effect: Required[TaintEffect | Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]]
    """`NoSchedule`, `PreferNoSchedule` or `NoExecute`."""


class TokenSecretArgsDict(TypedDict, total=False):
    """A key of a Secret."""

    name: Required[Input[str]]
    """Name of the Secret, in the service's namespace; may be an Output."""

    key: str
    """Key that holds the token; `token` by default."""


class TopologySpreadArgsDict(TypedDict, total=False):
    """Spreads the leaders of a role's replicas over zones, racks or nodes."""

    topology_key: Required[str]
    """Label of nodes that identifies the domain, such as `topology.kubernetes.io/zone`."""

    max_skew: int
    """By how many leaders two domains may differ; 1 by default."""

    when_unsatisfiable: WhenUnsatisfiable | Literal["ScheduleAnyway", "DoNotSchedule"]
    """`ScheduleAnyway` (default) or `DoNotSchedule`, the default of Kubernetes."""


class TracingArgsDict(TypedDict, total=False):
    """OpenTelemetry traces of endpoint picker and engines, by OTLP over gRPC."""

    endpoint: Required[str]
    """Collector, such as `http://otel-collector.observability:4317`; `https` for TLS."""

    sampling: float
    """Share of the requests that are traced where the client has not decided; 0.1 by default."""

    engines: bool
    """Whether vLLM traces too: sets `--otlp-traces-endpoint`, which restarts its pods."""

    picker: bool
    """Whether the endpoint picker traces, where there is one."""


class WaitArgsDict(TypedDict, total=False):
    """Condition for which an update waits before it returns."""

    level: WaitLevel | Literal["None", "Scheduled", "Available", "Serving"]
    """`None`, `Scheduled`, `Available` (default) or `Serving`."""

    timeout: str
    """How long a new replica may take, such as `90s` or `1h30m`; 45m by default."""


class WarmUpJobArgsDict(TypedDict, total=False):
    """The pod that fills the cache."""

    timeout: str
    """How long it may take, all attempts together."""

    backoff_limit: int
    """Attempts after the first."""

    ttl_seconds_after_finished: int | None
    """Seconds after which the cluster deletes it; by default it stays, as Pulumi would create a
    deleted one again."""

    node_selector: Mapping[str, Input[str]] | None
    """Nodes on which it may run; values may be Outputs."""

    tolerations: Sequence[Mapping[str, Any]] | None
    """Taints that it tolerates."""

    service_account_name: Input[str] | None
    """Its ServiceAccount, by default the namespace's; it gets no token. May be an Output."""


class RouterDict(TypedDict, total=False):
    """The router of `model_service`."""

    name: str
    """Name of the role, unique in the service; part of its objects' names."""

    strategy: (
        Strategy
        | Literal[
            "prefix-cache",
            "kv-cache-utilization",
            "queue-size",
            "lora-affinity",
            "pd-disaggregation",
        ]
        | None
    )
    """Routers only: what the endpoint picker balances by; by default `prefix-cache`, and
    `pd-disaggregation` where prefill and decode are separate roles."""

    scorers: Mapping[str, float] | None
    """Routers only: weights of scorers in place of the strategy's: `prefix-cache`, `kv-cache`,
    `queue`, `load`, `running`, `lora`, as far as the picker has them."""

    httproute: HttpRouteArgs | HttpRouteArgsDict | None
    """Routers only: the spec of a Gateway API HTTPRoute."""

    gateway: GatewayArgs | GatewayArgsDict | None
    """Routers only: the spec of a managed Gateway (`{}` for the defaults), or `refs` to Gateways
    that exist."""

    endpoint_picker: EndpointPickerArgs | EndpointPickerArgsDict | None
    """Routers only: the endpoint picker's image, pods and behaviour."""

    endpoint_picker_config: str | None
    """Routers only: a complete EndpointPickerConfig, used verbatim in place of `strategy`."""

    pool: PoolArgs | PoolArgsDict | None
    """Routers only: guards the InferencePool."""

    model_rewrites: Sequence[ModelRewriteArgs | ModelRewriteArgsDict] | None
    """Routers only: names that clients ask for, with the models or adapters that answer, by weight:
    aliases and canaries. Not every picker knows them (docs/routing.md)."""

    network_policy: NetworkPolicyArgs | NetworkPolicyArgsDict | None
    """Routers only: lets only the gateway and the picker reach the pods; by default where
    `gateway.implementation` says where the gateway's proxies run."""

    reference_grants: bool | None
    """Routers only: creates the ReferenceGrants that the route and the Gateway need in other
    namespaces; by default they are asked for in a warning."""

    pod_labels: Mapping[str, Input[str]]
    """Labels of the role's pods, those of a router on the endpoint picker's; they win over the
    service's, and those of a template over both. Values may be Outputs. A change restarts the
    pods."""

    pod_annotations: Mapping[str, Input[str]]
    """Annotations of the role's pods, in the same order; values may be Outputs. A change restarts
    the pods."""


class ModelServiceDict(TypedDict, total=False):
    """Further fields of `model_service`, of the service and its roles."""

    autoscaling: AutoscalingArgs | AutoscalingArgsDict | None
    """Scales the replicas between bounds, starting with `replicas`; needs `layout: PerRole`. By
    default nothing but an update changes them."""

    gpus: int | None
    """GPUs of each pod, for a container that the library writes; by default the product of
    `parallelism`, else as many as the package fusioninfer-capacity finds for the model on
    `accelerator`."""

    kv_cache_offloading: KvCacheOffloadingArgs | KvCacheOffloadingArgsDict | None
    """Where the engine keeps KV cache beyond its accelerators' memory: host memory, then disks;
    by default nowhere."""

    kv_events: KvEventsArgs | KvEventsArgsDict | None
    """What the engine publishes to the endpoint picker about its KV cache; by default nothing."""

    kv_transfer: KvTransferArgs | KvTransferArgsDict | None
    """Prefillers and decoders only: how the KV cache goes from one to the other, with the
    arguments and environment that the engine needs for it."""

    multinode: MultinodeArgs | MultinodeArgsDict | None
    """Spreads each replica over several nodes; by default a replica is one pod."""

    parallelism: ParallelismArgs | ParallelismArgsDict | None
    """How the engine splits and copies the model: sets its arguments, and the pods of a replica;
    by default the arguments say it."""

    port: int | None
    """Port that it serves on; by default the engine's `--port`, else the container port named
    http, else the first container port, else 8000. One that the engine does not listen on is
    refused, unless another container of the pod does."""

    resource_claims: Sequence[ResourceClaimArgs | ResourceClaimArgsDict] | None
    """Devices that the serving container of every pod claims (DRA), in place of accelerators in
    its resources; by default none."""

    startup: StartupArgs | StartupArgsDict | None
    """How long the engine may take to load its model; by default no startup probe."""

    template: PodTemplateSpecArgs | PodTemplateSpecArgsDict | Mapping[str, Any] | None
    """Pod template of every pod of the role. With the service's `model` it may be left out, or name
    only what differs: the library writes the container, and what stands here wins."""

    topology_spread: Sequence[TopologySpreadArgs | TopologySpreadArgsDict] | None
    """Spreads the leaders of the replicas over zones or nodes; by default the scheduler's way."""

    name: str | None
    """Kubernetes name of the service; by default the component's logical name."""

    namespace: Input[str]
    """Namespace of every object; may be an Output."""

    labels: Mapping[str, Input[str]]
    """Labels of every object; values may be Outputs."""

    annotations: Mapping[str, Input[str]]
    """Annotations of every object; values may be Outputs."""

    groups: int | None
    """Copies of the whole topology (serving groups), each with its own gang and its own pairing of
    prefill with decode; names then carry the group, also of a single one. 0 parks the service. By
    default there are no groups, and a role's `replicas` are those of the service."""

    image_registry: str | None
    """Registry, and a path in it, that mirrors the images that the library chooses: engines, the
    endpoint picker, the sidecar of decode pods, and the model's fetcher. It replaces the registry
    in their names: with `registry.example.com/mirror`, `ghcr.io/llm-d/x` becomes
    `registry.example.com/mirror/llm-d/x`. By default each project's own registry."""

    scheduling_strategy: SchedulingStrategyArgs | SchedulingStrategyArgsDict
    """Scheduler, queue, priority and gang."""

    layout: Layout | Literal["PerReplica", "PerRole"]
    """`PerReplica`: one LeaderWorkerSet for each replica. `PerRole`: one for each role, with its
    own rolling update and a scale subresource; a live service cannot change it. By default
    `PerRole` if a role has `autoscaling`, else `PerReplica`."""

    placement: ServicePlacementArgs | ServicePlacementArgsDict
    """How the roles are placed on node pools in relation to each other; read by `place` and
    `--inventory` only."""

    rollout: RolloutArgs | RolloutArgsDict
    """How pod templates change: pace, order, halt."""

    wait: WaitArgs | WaitArgsDict
    """Condition for which an update waits before it returns."""

    disruption_budget: DisruptionBudgetArgs | DisruptionBudgetArgsDict | None
    """A PodDisruptionBudget for each serving role that has none of its own; none by default."""

    monitoring: MonitoringArgs | MonitoringArgsDict | None
    """Monitors of the Prometheus operator for engines and picker; none by default."""

    prefill_decode_ratio: PrefillDecodeRatioArgs | PrefillDecodeRatioArgsDict | None
    """Bounds for the replicas of prefill for each replica of decode; none by default. Replicas
    beyond them are refused."""

    tracing: TracingArgs | TracingArgsDict | None
    """OpenTelemetry traces of picker and engines; none by default."""

    pod_labels: Mapping[str, Input[str]]
    """Labels of the pods of all roles, such as a cost centre; values may be Outputs. A change
    restarts the pods."""

    pod_annotations: Mapping[str, Input[str]]
    """Annotations of the pods of all roles; values may be Outputs. A change restarts the pods."""
