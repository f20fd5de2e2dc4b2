"""Typed mappings that the models' constructors accept; written by `make regenerate`.

Only type checkers and editors read them. Programs may import the names.
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
    from fusioninfer_pulumi.api.engine import Edition, EngineArgs, EngineName, ParallelismArgs
    from fusioninfer_pulumi.api.inventory import (
        DeviceArgs,
        DeviceRequirementArgs,
        NodePoolArgs,
        RolePlacementArgs,
        ServicePlacementArgs,
        TaintArgs,
        TaintEffect,
    )
    from fusioninfer_pulumi.api.kv_cache import (
        ClaimReferenceArgs,
        ClaimTierArgs,
        EmptyDirTierArgs,
        EvictionPolicy,
        FileSystemTierArgs,
        KvCacheOffloadingArgs,
        KvEventsArgs,
        KvRole,
        KvTransferArgs,
        RdmaArgs,
        SecondaryTierArgs,
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
        ResourceClaimArgs,
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
        ServiceLevelArgs,
        ServiceLevelsArgs,
        SessionArgs,
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
    """Alerts of a service, as a PrometheusRule; `{}` enables all of them."""

    labels: Mapping[str, str]
    """Labels of every alert, which Alertmanager may use for routing, such as `team: search`."""

    runbook: str | None
    """URL of a page with a section for each alert, for the annotation `runbook_url`; by default
    fusioninfer-pulumi's documentation."""


class AutoscalingArgsDict(TypedDict, total=False):
    """Autoscaling of a role; requires `layout: PerRole`."""

    engine: AutoscalingEngine | Literal["HPA", "KEDA"]
    """`HPA` (default) or `KEDA`."""

    min_replicas: int
    """Minimum number of replicas; 0 only with KEDA."""

    max_replicas: Required[int]
    """Maximum number of replicas."""

    target: AutoscalingTarget | Literal["latency", "throughput", "queue"] | None
    """`latency`, `throughput` or `queue`: generates metrics and target values that fit the engine
    and the endpoint picker; the metrics count only this service."""

    target_requests: float | None
    """Target number of requests per replica. `latency` counts running and waiting requests (default
    100), the other targets count waiting requests (default 5)."""

    time_to_first_token: str | None
    """Only for engine `KEDA` and target `latency`: goal for the 90th percentile of the time to
    first token, such as `1s`. It replaces the target number of requests; a role that can scale to
    zero uses both. Measured by llm-d's endpoint picker if its metrics are readable, else by the
    engines."""

    time_per_token: str | None
    """Only for engine `KEDA` and target `latency`: goal for the 90th percentile of the time
    between tokens, such as `50ms`. It replaces the target number of requests; a role that can scale
    to zero uses both."""

    metrics: Sequence[AutoscalingMetricArgs | AutoscalingMetricArgsDict]
    """Metrics in addition to `target`. The metric that requires the most replicas applies."""

    prometheus: str | None
    """`KEDA`: address of Prometheus, such as `http://prometheus-operated.monitoring:9090`."""

    keda: KedaArgs | KedaArgsDict | None
    """`KEDA`: additional fields of the ScaledObject, under KEDA's names."""

    behavior: Mapping[str, Any] | None
    """`scaleUp` and `scaleDown` of a HorizontalPodAutoscaler's `behavior`, passed through."""

    annotations: Mapping[str, Input[str]]
    """Annotations of the autoscaler, in addition to the service's; values may be Outputs."""


class AutoscalingMetricArgsDict(TypedDict, total=False):
    """A metric, with its target value per replica."""

    name: str | None
    """`HPA`: name of the metric in the metrics API; `KEDA`: name of the trigger."""

    source: MetricSource | Literal["Pods", "External"] | None
    """`HPA`: `Pods` (default) or `External`."""

    selector: Mapping[str, str]
    """`HPA`: label selector of the metric."""

    query: str | None
    """`KEDA`: PromQL query; its result is divided by the number of replicas."""

    target: Required[str | float]
    """Target value per replica, such as `5`; above it the autoscaler adds replicas."""

    unsafe_ssl: bool
    """`KEDA`: whether to skip verification of Prometheus' certificate."""


class CacheArgsDict(TypedDict, total=False):
    """A volume that caches model files for all pods of the service."""

    claim_name: Input[str] | None
    """Name of an existing PersistentVolumeClaim; mutually exclusive with `storage`. May be an
    Output."""

    storage: StorageArgs | StorageArgsDict | None
    """A claim that the service creates."""

    mount_path: str
    """Mount path of the volume."""

    warm_up: bool
    """Whether a Job downloads the model before the pods are created. The pods then mount the cache
    read-only, unless `readOnly` is false. Without a warm-up the engines download into the cache."""

    mount_model: bool
    """Whether to mount the model's directory at `model.mountPath`, and each adapter's at
    `{model.mountPath}-adapters/NAME`, for commands that contain these paths. Otherwise the whole
    volume is mounted at `model.cache.mountPath`. Requires `warmUp`."""

    read_only: bool
    """Whether pods mount the downloaded files read-only; `false` if the engine writes next to the
    model files. Requires `warmUp`."""

    job: WarmUpJobArgs | WarmUpJobArgsDict
    """The warm-up Job."""

    compile_cache: bool
    """Whether vLLM keeps compiled kernels in the volume, in the directory `compiled`, so that later
    pods of the same release, model and GPU type start without compiling. Pods write to it even with
    `readOnly`. Pods with `kvTransfer` reuse it only with vLLM 0.28 or later."""


class ClaimReferenceArgsDict(TypedDict, total=False):
    """An existing PersistentVolumeClaim of the service's namespace."""

    name: Required[Input[str]]
    """Name of the claim; must be `ReadWriteMany` if several pods use it."""

    path: str | None
    """Directory in the claim; its root by default."""


class ClaimTierArgsDict(TypedDict, total=False):
    """A PersistentVolumeClaim: `spec` creates one per pod, `ref` names an existing claim."""

    spec: Mapping[str, Any] | None
    """The spec of a claim that is created and deleted with each pod (an ephemeral volume)."""

    ref: ClaimReferenceArgs | ClaimReferenceArgsDict | None
    """An existing claim, whose content outlives the pods."""


class DashboardsArgsDict(TypedDict, total=False):
    """Grafana dashboards as a ConfigMap; `{}` works with the sidecar of Grafana's Helm chart."""

    labels: Mapping[str, str]
    """Labels by which the sidecar selects ConfigMaps; `grafana_dashboard: "1"` by default."""

    folder: str | None
    """Grafana folder, set as the annotation `grafana_folder`; the sidecar's default if not set."""


class DeviceArgsDict(TypedDict, total=False):
    """Accelerators of a node pool."""

    memory: str | int | None
    """Memory of one accelerator, such as `80Gi`. If unset, roles that require memory are not placed
    on this pool."""

    attributes: Mapping[str, str]
    """Other attributes that roles may require, such as `{model: H100, fabric: ib-1}`."""


class DeviceRequirementArgsDict(TypedDict, total=False):
    """Requirements for each accelerator of a role."""

    attributes: Mapping[str, str | Sequence[str]]
    """Allowed values of device attributes, one or a list: `{model: [H100, H200]}`."""

    min_memory: str | int | None
    """Minimum memory of an accelerator, such as `80Gi`; any by default."""


class DisruptionBudgetArgsDict(TypedDict, total=False):
    """A PodDisruptionBudget per role, counted in replicas; `{}` allows one disruption at a time."""

    max_unavailable: int | str | None
    """Replicas that evictions may take down at a time, as a number or a percentage (rounded down,
    at least 1 unless 0%); 1 by default. 0 blocks all evictions, including node drains."""

    min_available: int | str | None
    """Replicas that must stay available, as a number or a percentage (rounded up); mutually
    exclusive with `maxUnavailable`."""

    unhealthy_pods: UnhealthyPods | Literal["AlwaysAllow", "IfHealthyBudget"]
    """Whether pods that are not ready may be evicted while the budget is exhausted: `AlwaysAllow`
    (default) or `IfHealthyBudget` (Kubernetes' default)."""


class EmptyDirTierArgsDict(TypedDict, total=False):
    """The node's disk, as an `emptyDir` of each pod."""

    size: Required[str | int]
    """Size, such as `200Gi`: the volume's limit and the request of `ephemeral-storage`."""


class EndpointPickerArgsDict(TypedDict, total=False):
    """The endpoint picker (EPP): chooses a pod for each request."""

    enabled: bool
    """Whether there is an endpoint picker. If not, there is no InferencePool either, and the route
    leads to a Service, which ignores caches and queues."""

    image: Input[str] | None
    """Image. Default: the inference extension's endpoint picker, or llm-d's for
    `pd-disaggregation`, `session-affinity`, `serviceLevels` and `modelRewrites`. May be an Output,
    together with `family`."""

    family: str | None
    """Release of the default image, or of `image` if its name and tag do not contain the release:
    `gaie-1.2` to `gaie-1.5` (inference extension), `llm-d-0.9`, `llm-d-0.10` or `llm-d-1.0`."""

    replicas: int
    """Number of pods."""

    leader_election: bool | None
    """Whether only one of several replicas serves while the others are on standby. By default
    enabled with `flowControl`, because replicas do not share its queues, and with
    `endpointPickerConfig`."""

    resources: Mapping[str, Any] | None
    """Resources of the picker's container, replacing the default requests."""

    template: Mapping[str, Any] | None
    """Overrides of the picker's pod template. Mappings are merged by key, lists of named items
    (containers, volumes, env) by name. The picker's container is named `epp`."""

    args: Sequence[str] | None
    """Additional command-line flags; flags that the library sets are rejected."""

    log_verbosity: int
    """Log level, from 0 to 10."""

    failure_mode: FailureMode | Literal["FailOpen", "FailClose"] | None
    """What the gateway does if the endpoint picker is unavailable; `FailOpen` by default."""

    metrics: MetricsMode | Literal["Off", "Authenticated", "Unauthenticated"] | Literal[False]
    """Who may read the picker's metrics; no one by default."""

    flow_control: bool | None
    """Whether to queue requests while there is no pod, or while the KV caches of all pods are
    full; `gaie-1.3` also queues while more than 5 requests wait in each pod. If disabled, requests
    receive status 503 while there is no pod. By default enabled if `autoscaling.target` or
    `serviceLevels` requires it."""

    service_levels: ServiceLevelsArgs | ServiceLevelsArgsDict | None
    """Priorities of requests, and fairness between tenants; enables `flowControl`
    (docs/how-to/service-levels.md)."""

    session: SessionArgs | SessionArgsDict
    """With `session-affinity`: where requests contain their session's name."""

    threshold: int | None
    """With `pd-disaggregation`: prompts with at least this many uncached characters are computed by
    a prefill pod, others by the decode pod. By default 0: a prefill pod computes every prompt."""

    group_pairing: GroupPairing | Literal["Strict", "Preferred"] | None
    """With `pd-disaggregation` and `groups`: `Strict` (default) chooses one group with prefill and
    decode pods for each request; `Preferred` chooses the best decode pod of all groups, and a
    prefill pod of another group if the decode pod's group has none."""

    tls: PickerTlsArgs | PickerTlsArgsDict
    """TLS between the gateway and the endpoint picker."""


class EngineArgsDict(TypedDict, total=False):
    """The engine that a role runs, and its release.

    If the template has an image, the library still generates the rest of the container; values of
    the template take precedence."""

    name: EngineName | Literal["vllm", "sglang"]
    """`vllm` (default) or `sglang`."""

    version: str | None
    """Release, such as `0.32.0`. Default: the release of the service's `edition`, which `plan`
    prints."""


class FetcherArgsDict(TypedDict, total=False):
    """The container that downloads models, in the warm-up Job or as an init container."""

    image: Input[str]
    """Image; KServe's storage-initializer by default. May be an Output."""

    command: Sequence[str]
    """Command; the source and the target directory are appended as arguments."""

    env: Sequence[Mapping[str, Any]]
    """Additional environment variables, such as proxies or mirrors."""

    resources: Mapping[str, Any] | None
    """Resources, replacing the default requests (100m CPU, 512Mi memory)."""

    security_context: Mapping[str, Any] | None
    """Security context, replacing the default: unprivileged, user 1000."""


class FileSystemTierArgsDict(TypedDict, total=False):
    """A directory for KV cache blocks: in an `emptyDir`, or in a claim (`pvc`)."""

    empty_dir: EmptyDirTierArgs | EmptyDirTierArgsDict | None
    """The node's disk."""

    pvc: ClaimTierArgs | ClaimTierArgsDict | None
    """A claim."""


class GangPolicyArgsDict(TypedDict, total=False):
    """Gang scheduling of the service's pods."""

    mode: GangMode | Literal["Auto", "On", "Off"] | Literal[True, False]
    """`Auto` (default), `On` or `Off`."""

    backend: GangBackend | Literal["Volcano", "Kueue", "Native"]
    """`Volcano` (default). `Kueue`: every LeaderWorkerSet waits in the LocalQueue `queue` until
    there is quota for a whole replica. `Native`: a PodGroup of Kubernetes 1.37
    (`scheduling.k8s.io/v1beta1`, which is off by default) gang-schedules all pods. Only Volcano
    supports a minimum per role."""

    min_role_replicas: Mapping[str, int] | None
    """Number of replicas of each role that the gang requires; other replicas start when there is
    capacity. All replicas of a role without an entry are required; 0 makes a role optional. By
    default the whole service is all-or-nothing. Requires Volcano 1.14.1 or later (PodGroup
    `subGroupPolicy`)."""

    required_replicas: RequiredReplicas | Literal["Any", "LowestOrdinals"]
    """Which replicas `minRoleReplicas` counts: `Any` (default) or `LowestOrdinals`. With
    `LowestOrdinals` an optional replica cannot replace a required one during an update, but while a
    required replica is unschedulable, no other pod of the gang is scheduled."""

    min_resources: bool
    """Whether to set `minResources` in the PodGroup: Volcano then admits the gang only if the queue
    has capacity for it or, with `minRoleReplicas`, for its required replicas. Off by default."""

    network_topology: NetworkTopologyArgs | NetworkTopologyArgsDict | None
    """Maximum network distance between pods; unlimited by default. Requires HyperNodes and
    Volcano's scheduler plugin `network-topology-aware`."""


class GatewayArgsDict(TypedDict, total=False):
    """References to existing Gateways (`refs`), or the spec of a Gateway to create."""

    implementation: str | None
    """Gateway implementation: `envoy-ai-gateway`, `agentgateway`, `istio`, `nginx-gateway-fabric`
    or `gke`. The library generates the additional objects that it requires. If no other field is
    set, and the route has `parentRefs`, `routedBy` or `refs`, no Gateway is created."""

    refs: Sequence[GatewayRefArgs | GatewayRefArgsDict] | None
    """Existing Gateways to use instead of creating one."""

    gateway_class_name: Input[str] | None
    """GatewayClass of the created Gateway; by default that of `implementation`, else `eg`. May be
    an Output."""

    listeners: Sequence[Mapping[str, Any]] | None
    """Listeners; HTTP on port 80 by default."""

    addresses: Sequence[Mapping[str, Any]] | None
    """Addresses that the Gateway requests; assigned by the implementation by default."""

    infrastructure: Mapping[str, Any] | None
    """Labels, annotations and parameters of the infrastructure that the implementation creates."""

    allowed_listeners: Mapping[str, Any] | None
    """ListenerSets that may add listeners."""

    tls: Mapping[str, Any] | None
    """TLS settings of the whole Gateway."""

    default_scope: str | None
    """`All` makes this a default Gateway (Gateway API 1.4, experimental)."""

    annotations: Mapping[str, Input[str]]
    """Annotations of the Gateway object; values may be Outputs."""


class GatewayRefArgsDict(TypedDict, total=False):
    """An existing Gateway."""

    name: Required[str]
    """Name of the Gateway."""

    namespace: Input[str] | None
    """Namespace of the Gateway; the service's by default. May be an Output."""

    section_name: str | None
    """Name of the listener to attach to; by default all listeners that accept the route."""

    port: int | None
    """Port of the listeners to attach to; any by default."""

    listeners: Sequence[Mapping[str, Any]] | None
    """Listeners of the Gateway, if known: used to check the attachment and to compute the
    endpoint's scheme and port, not to change the Gateway."""


class HttpRouteArgsDict(TypedDict, total=False):
    """The spec of the service's HTTPRoute, or a reference to another route to the service."""

    parent_refs: Sequence[Mapping[str, Any]] | None
    """Gateways that the route attaches to; by default the Gateways of `gateway`."""

    hostnames: Sequence[Input[str]] | None
    """Host names of the route; each may be an Output."""

    rules: Sequence[Mapping[str, Any]] | None
    """Rules; one for all paths by default. Rules without `backendRefs` lead to the service's
    pool."""

    use_default_gateways: str | None
    """`All` attaches the route to all default Gateways (Gateway API 1.4, experimental)."""

    split: Sequence[SplitArgs | SplitArgsDict] | None
    """Shares of requests for other services, in rules without `backendRefs`; none by default. Not
    every gateway supports multiple pools in one rule (docs/routing.md)."""

    routed_by: str | None
    """Name of the service whose route leads to this service's pool; no route is created here."""

    refs: Sequence[HttpRouteRefArgs | HttpRouteRefArgsDict] | None
    """HTTPRoutes created elsewhere that lead to this service's pool; no route is created here."""


class HttpRouteRefArgsDict(TypedDict, total=False):
    """An HTTPRoute that is created elsewhere."""

    name: Required[str]
    """Name of the HTTPRoute."""

    namespace: Input[str] | None
    """Namespace of the HTTPRoute; the service's by default. May be an Output."""


class InferenceServiceArgsDict(TypedDict, total=False):
    """A model served on Kubernetes: the arguments of the `InferenceService` component.

    The component also accepts a mapping, in snake_case or camelCase, flat as here or with
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
    """Roles of the service; at least one must serve the model."""

    groups: int | None
    """Number of serving groups: copies of all roles, each with its own gang and its own pairs of
    prefill and decode pods. A role's `replicas` then count per group, and object names contain the
    group's index, even for one group. Default: no groups. 0 scales the service to zero."""

    model: ModelArgs | ModelArgsDict | None
    """The served model: its source, name, adapters and cache. By default the pod templates define
    it."""

    engine: EngineArgs | EngineArgsDict | None
    """The engine of generated containers; vLLM by default."""

    edition: Edition | Literal["2026.11"] | None
    """Pins the library's defaults, so that upgrades of the library keep them: releases and
    arguments of generated engines, images of the endpoint picker and the sidecar. Default: the
    newest edition, `2026.11`."""

    image_registry: str | None
    """Registry, with an optional path, that mirrors the images chosen by the library: engines, the
    endpoint picker, the sidecar of decode pods, and the model fetcher. It replaces the registry in
    the image name: with `registry.example.com/mirror`, `ghcr.io/llm-d/x` becomes
    `registry.example.com/mirror/llm-d/x`. By default images come from each project's registry."""

    scheduling_strategy: SchedulingStrategyArgs | SchedulingStrategyArgsDict
    """Scheduler, queue, priority and gang."""

    layout: Layout | Literal["PerReplica", "PerRole"]
    """`PerReplica`: one LeaderWorkerSet per replica. `PerRole`: one LeaderWorkerSet per role, which
    orders the role's updates and has a scale subresource. Cannot be changed on a live service.
    Default: `PerRole` if a role has `autoscaling`, else `PerReplica`."""

    placement: ServicePlacementArgs | ServicePlacementArgsDict
    """Attribute or label, such as the zone, that the node pools of all roles must share; used only
    by the command `place` and the option `--inventory`."""

    rollout: RolloutArgs | RolloutArgsDict
    """How pod template changes are rolled out: batch size, order, timeout."""

    wait: WaitArgs | WaitArgsDict
    """The condition an update waits for before it returns."""

    disruption_budget: DisruptionBudgetArgs | DisruptionBudgetArgsDict | None
    """PodDisruptionBudget for each serving role that does not set its own; none by default."""

    monitoring: MonitoringArgs | MonitoringArgsDict | None
    """Prometheus operator monitors for the engines and the endpoint picker; none by default."""

    prefill_decode_ratio: PrefillDecodeRatioArgs | PrefillDecodeRatioArgsDict | None
    """Minimum and maximum number of prefill replicas per decode replica; no limits by default."""

    tracing: TracingArgs | TracingArgsDict | None
    """OpenTelemetry traces of the endpoint picker and the engines; none by default."""

    pod_labels: Mapping[str, Input[str]]
    """Labels of the pods of all roles, such as a cost center; values may be Outputs. A change
    restarts the pods."""

    pod_annotations: Mapping[str, Input[str]]
    """Annotations of the pods of all roles; values may be Outputs. A change restarts the pods."""


class InventoryArgsDict(TypedDict, total=False):
    """The node pools of a cluster."""

    pool_label: str | None
    """Node label that identifies a pool. Its value is the pool's name, unless the pool's `labels`
    set it. Default: the label of GKE, EKS, AKS or Karpenter that all pools have in their
    `labels`."""

    pools: Required[Sequence[NodePoolArgs | NodePoolArgsDict]]
    """The pools; the first of equally suitable pools is used."""


class KedaArgsDict(TypedDict, total=False):
    """Additional fields of the ScaledObject; KEDA's defaults for fields that are not set."""

    polling_interval: int | None
    """Seconds between two queries of the metrics."""

    cooldown_period: int | None
    """Seconds without activity before KEDA scales to zero or to `idleReplicaCount`."""

    initial_cooldown_period: int | None
    """Seconds after creation before `cooldownPeriod` starts."""

    idle_replica_count: int | None
    """Replicas while there is no activity; must be below `minReplicas`."""

    fallback: KedaFallbackArgs | KedaFallbackArgsDict | None
    """Replicas while metrics are unavailable."""

    triggers: Sequence[Mapping[str, Any]] | None
    """Additional triggers of any type, such as `cpu` or `cron`, passed through."""


class KedaFallbackArgsDict(TypedDict, total=False):
    """Replicas while metrics are unavailable."""

    failure_threshold: Required[int]
    """Consecutive failures after which the fallback applies."""

    replicas: Required[int]
    """Number of replicas during the fallback."""

    behavior: str | None
    """KEDA's fallback behavior, such as `static` (default) or `currentReplicasIfHigher`."""


class KvCacheOffloadingArgsDict(TypedDict, total=False):
    """Storage for KV cache beyond the accelerators' memory: host memory, then disks.

    Uses the OffloadingConnector of vLLM 0.14 or later, or SGLang's hierarchical cache. `secondary`
    needs vLLM 0.22 or SGLang 0.5.3."""

    cpu: Required[str | int]
    """Host memory for the KV cache of one copy of the model, over all its accelerators, such as
    `64Gi`; with `parallelism.data`, for each of the copies. The container's memory limit must be
    larger."""

    eviction_policy: EvictionPolicy | Literal["lru", "arc"] | None
    """Eviction policy of host memory: `lru` (the engines' default) or `arc` (vLLM)."""

    secondary: Sequence[SecondaryTierArgs | SecondaryTierArgsDict]
    """Tiers after host memory, in lookup order; SGLang supports one. None by default."""


class KvEventsArgsDict(TypedDict, total=False):
    """KV cache events of the engine, for an endpoint picker that uses them for scoring.

    With `{}` each pod publishes events on its own address, where pickers subscribe to them."""

    endpoint: str
    """ZMQ endpoint. The engine listens if the host is `*` or `[::]`; otherwise it connects."""

    topic: str | None
    """Topic of the events. Default: `kv@$(POD_IP):PORT@MODEL`, the name that llm-d's pickers
    subscribe to."""


class KvTransferArgsDict(TypedDict, total=False):
    """KV cache transfer from prefill to decode pods.

    `{}` generates the engine's settings for NIXL, on prefillers and decoders. A
    `--kv-transfer-config` among the engine's arguments is used unchanged."""

    enabled: bool
    """Whether engines transfer the KV cache; otherwise decode pods compute each prompt again."""

    connector: str | None
    """vLLM's KV connector; `NixlConnector` by default."""

    role: KvRole | Literal["kv_both", "kv_producer", "kv_consumer"] | None
    """vLLM's `kv_role`. Default: `kv_both`; with NIXL and vLLM 0.23.0 or later `kv_producer` for
    prefillers and `kv_consumer` for decoders."""

    extra_config: Mapping[str, Any] | None
    """vLLM's `kv_connector_extra_config`."""

    side_channel_port: int
    """First port of NIXL's side channel, on which pods negotiate transfers."""

    rdma: RdmaArgs | RdmaArgsDict | None
    """RDMA devices to request and use; by default the template's requests apply."""

    shared_memory: str | None
    """Size limit of the memory volume at /dev/shm, such as `16Gi`; unlimited by default."""

    engine_port: int | None
    """Decoders only: port of the engine behind the sidecar. Default: the engine's port if it
    differs from the pool's, otherwise 8001."""

    sidecar: SidecarArgs | SidecarArgsDict
    """Decoders only: the sidecar."""


class LoraAdapterArgsDict(TypedDict, total=False):
    """A LoRA adapter."""

    name: Required[str]
    """Adapter name in requests."""

    uri: Required[str]
    """Source of the adapter, in the formats of the model's `uri`."""


class LoraArgsDict(TypedDict, total=False):
    """LoRA adapters that are served with the model."""

    adapters: Required[Sequence[LoraAdapterArgs | LoraAdapterArgsDict]]
    """The adapters."""

    max_rank: int | None
    """Maximum rank of the adapters; the engine's default if not set."""

    max_adapters: int | None
    """Maximum number of adapters in one batch; the engine's default if not set."""

    max_cpu_adapters: int | None
    """Maximum number of adapters in host memory; the engine's default if not set."""


class ModelArgsDict(TypedDict, total=False):
    """The model: mounted or downloaded in every serving pod, and passed to the engine."""

    uri: Required[str]
    """`hf://ORG/NAME[@REVISION]`, `pvc://CLAIM[/PATH]`, `s3://BUCKET/KEY` or `oci://IMAGE`."""

    name: str | None
    """Model name in requests. Default: the repository name for `hf://`, else the service's name."""

    size: str | int | None
    """Size of the model files, such as `140Gi`."""

    config: Mapping[str, Any] | str | None
    """The model's `config.json`, or its path, for memory checks. Default: the table of known
    models. In a manifest the path is relative to the manifest's directory and must not leave it; in
    a program it is relative to the working directory."""

    mount_path: str
    """Path of the model files in the pods, unless the engine downloads them. With `cache.warmUp`
    the model has this path only if `cache.mountModel` is set."""

    path: str | None
    """`oci://` only: directory in the image that contains the model, such as `models`."""

    fetch: Fetch | Literal["Engine", "InitContainer"] | None
    """`hf://` only: the component that downloads the model; the engine by default."""

    fetcher: FetcherArgs | FetcherArgsDict
    """The container that downloads the model, if the engine does not."""

    token_secret: SecretKeyArgs | SecretKeyArgsDict | None
    """Secret with the Hugging Face token."""

    s3: S3Args | S3ArgsDict
    """Access to `s3://` buckets."""

    image_pull_secrets: Sequence[Input[str]]
    """Secrets for pulling `oci://` models and the fetcher's image; each may be an Output."""

    lora: LoraArgs | LoraArgsDict | None
    """LoRA adapters."""

    cache: CacheArgs | CacheArgsDict | None
    """A volume that caches the model files."""


class ModelRewriteArgsDict(TypedDict, total=False):
    """Maps model names in requests to models or adapters."""

    models: Sequence[str] | None
    """Model names in requests; by default all names without another rewrite."""

    targets: Required[Sequence[ModelTargetArgs | ModelTargetArgsDict]]
    """Models or adapters that replace the name, chosen for each request by weight."""


class ModelTargetArgsDict(TypedDict, total=False):
    """A model or adapter that the engines serve."""

    model: Required[str]
    """Name under which the engines serve it (`--served-model-name`, `--lora-modules`)."""

    weight: int | None
    """Weight relative to the sum of all weights; a target with 0 receives no requests. Optional if
    there is one target."""


class MonitoringArgsDict(TypedDict, total=False):
    """Prometheus operator monitors; `{}` scrapes engines, and the picker if its metrics are on."""

    engines: bool
    """Whether each serving role gets a PodMonitor of its leaders, on their serving ports."""

    picker: bool | None
    """Whether to create a ServiceMonitor for the endpoint picker; by default if its metrics are on
    (`endpointPicker.metrics`)."""

    path: str
    """Path of the engines' metrics; `/metrics` by default."""

    interval: str | None
    """Scrape interval, such as `15s`; Prometheus' default if not set."""

    scrape_timeout: str | None
    """Scrape timeout, at most the interval; Prometheus' default if not set."""

    labels: Mapping[str, str]
    """Labels of the monitors, by which Prometheus may select them, such as `release:
    kube-prometheus-stack`."""

    picker_token: TokenSecretArgs | TokenSecretArgsDict | None
    """Secret with the token for an endpoint picker whose metrics are `Authenticated`; by default
    Prometheus sends the token of its ServiceAccount."""

    alerts: AlertsArgs | AlertsArgsDict | None
    """Creates a PrometheusRule with alerts; none by default."""

    dashboards: DashboardsArgs | DashboardsArgsDict | None
    """Creates a ConfigMap with Grafana dashboards; none by default."""


class MultinodeArgsDict(TypedDict, total=False):
    """Runs each replica of a role on several nodes."""

    node_count: int | None
    """Nodes (and pods) per replica, including the leader. Default: the role's
    `parallelism.pipeline`, or `data` divided by `dataLocal`; required if neither is set."""

    launcher: Launcher | Literal["ray", "multiprocessing", "data-parallel", "none"] | None
    """How the pods of a replica form one engine. By default the first that applies: `none` if
    `workerTemplate` has a command, or if it is set and `parallelism` is not; `data-parallel` for
    vLLM if `parallelism.data` is a multiple of the nodes; `multiprocessing` for SGLang and
    generated containers; otherwise `ray`."""


class NetworkConfigArgsDict(TypedDict, total=False):
    """LeaderWorkerSet's `networkConfig`."""

    subdomain_policy: Required[SubdomainPolicy | Literal["Shared", "UniquePerReplica"]]
    """`Shared` (LeaderWorkerSet's default) or `UniquePerReplica`."""


class NetworkPolicyArgsDict(TypedDict, total=False):
    """NetworkPolicies that restrict access to the service's pods.

    By default created if `gateway.implementation` determines where the gateway's proxies run."""

    enabled: bool
    """Whether to create NetworkPolicies; without them everyone can reach the pods."""

    gateway_namespace: Input[str] | None
    """Namespace of the gateway's proxies; all pods in it get access. By default the
    namespace in which `gateway.implementation` runs its proxies. May be an Output."""

    gateway: Sequence[Mapping[str, Any]] | None
    """NetworkPolicyPeers that match the gateway's proxies, instead of `gatewayNamespace`."""

    metrics: Sequence[Mapping[str, Any]] | None
    """NetworkPolicyPeers that may read metrics; none by default. Required by `monitoring`."""


class NetworkTopologyArgsDict(TypedDict, total=False):
    """Network topology constraints, based on Volcano's HyperNodes (topology.volcano.sh)."""

    group_policy: NetworkTopologyRuleArgs | NetworkTopologyRuleArgsDict | None
    """Maximum distance between all pods of a service or serving group."""

    role_policy: NetworkTopologyRuleArgs | NetworkTopologyRuleArgsDict | None
    """Maximum distance between the pods of one replica; the PodGroup then uses `subGroupPolicy`."""


class NetworkTopologyRuleArgsDict(TypedDict, total=False):
    """Maximum network distance between pods."""

    mode: NetworkTopologyMode | Literal["hard", "soft"]
    """`hard` (default) or `soft`."""

    highest_tier_allowed: int | None
    """Highest tier of a HyperNode that contains all of the pods; required with `hard`."""


class NodePoolArgsDict(TypedDict, total=False):
    """A pool of equal nodes."""

    name: Required[str]
    """Name of the pool, unique in the inventory."""

    nodes: Required[int]
    """Number of nodes; the maximum number of an autoscaled pool."""

    accelerators: Required[int]
    """Accelerators per node."""

    resource: str | None
    """Resource name of the accelerators; null if they can only be claimed (DRA)."""

    device_classes: Sequence[str]
    """DeviceClasses that select these accelerators (DRA); none by default."""

    in_use: Sequence[int]
    """Accelerators in use by other workloads, one number per affected node: `[8, 2]` means eight on
    one node and two on another. None by default."""

    device: DeviceArgs | DeviceArgsDict
    """Properties of the accelerators."""

    labels: Mapping[str, str]
    """Labels of all nodes. Placement adds `kubernetes.io/os: linux` if that label is not set."""

    taints: Sequence[TaintArgs | TaintArgsDict]
    """Taints of all nodes."""

    cost: float
    """Price of one accelerator, in the same unit for all pools; 0 by default. The cheapest suitable
    pools are used first."""


class ParallelismArgsDict(TypedDict, total=False):
    """Parallel sizes, passed to vLLM or SGLang as arguments.

    They also determine the pods per replica, unless `multinode.nodeCount` is set: `data` divided by
    `dataLocal`, else one per pipeline stage."""

    tensor: int | None
    """Tensor parallel size: accelerators that share each layer; the engine's default is 1."""

    pipeline: int | None
    """Pipeline parallel size: stages of layers; by default one per pod of a replica."""

    data: int | None
    """Data parallel size: copies of the model (ranks) over all pods of a replica."""

    data_local: int | None
    """Copies per pod. Default: `data`, divided by `multinode.nodeCount` if that is set."""

    data_rpc_port: int | None
    """Port on which the leader coordinates copies in other pods; the engine's default if not
    set."""

    expert: bool | None
    """Whether experts are distributed over all accelerators of a replica (expert parallelism)."""

    port_per_rank: bool | None
    """Whether each copy in the pod serves on its own port, so that the endpoint picker chooses
    among copies by their cache and load (vLLM 0.22 or later, one pod per replica)."""


class PickerTlsArgsDict(TypedDict, total=False):
    """TLS between the gateway and the endpoint picker."""

    enabled: bool
    """Whether the endpoint picker serves TLS; disable it only for a gateway that uses plaintext
    gRPC."""

    secret_name: Input[str] | None
    """Secret with `tls.crt` and `tls.key`; may be an Output. By default the endpoint picker uses a
    self-signed certificate, which gateways do not verify."""


class PoolArgsDict(TypedDict, total=False):
    """The InferencePool: ports, and protection from deletion."""

    target_ports: Sequence[int] | None
    """Ports of each pod, from which the endpoint picker chooses, for scripts that start several
    engines in a pod. By default derived from the engine's arguments and `parallelism`."""

    protect: bool | None
    """Pulumi's `protect`: the pool cannot be deleted until this is removed."""

    retain_on_delete: bool | None
    """Pulumi's `retainOnDelete`: deleting the service leaves the pool in the cluster."""


class PrefillDecodeRatioArgsDict(TypedDict, total=False):
    """Allowed number of prefill replicas per decode replica."""

    min: float | None
    """Minimum, such as `0.25`."""

    max: float | None
    """Maximum, such as `1`."""


class RdmaArgsDict(TypedDict, total=False):
    """RDMA devices (InfiniBand, RoCE) through which NIXL, UCX and NCCL reach other pods."""

    resource: str | None
    """Extended resource of the devices, such as `rdma/ib`; none by default."""

    count: int
    """Number of devices that each pod requests."""

    devices: Sequence[str]
    """Devices with their ports, such as `mlx5_0:1`, for `UCX_NET_DEVICES` and `NCCL_IB_HCA`; by
    default UCX and NCCL choose."""

    transports: str | None
    """`UCX_TLS`, such as `rc,cuda_copy,cuda_ipc`; by default UCX chooses."""

    gid_index: int | None
    """GID index of RoCE devices, for `UCX_IB_GID_INDEX` and `NCCL_IB_GID_INDEX`."""

    lock_memory: bool
    """Whether to add the capability `IPC_LOCK` to the serving container, which memory registration
    requires."""


class ResourceClaimArgsDict(TypedDict, total=False):
    """Devices of each pod of a role.

    Either describe the devices, by `deviceClassName` with `count` and `selectors` or by the `spec`
    of a ResourceClaim; the library then creates a ResourceClaimTemplate (resource.k8s.io/v1,
    Kubernetes 1.34). Or name an existing object, by `templateName` or `claimName`."""

    name: Required[str]
    """Name of the claim in the pod."""

    device_class_name: str | None
    """DeviceClass of the devices, such as `gpu.nvidia.com`."""

    count: int | None
    """Number of devices per pod; 1 by default."""

    selectors: Sequence[str] | None
    """CEL expressions that each device must match."""

    admin_access: bool | None
    """Whether to request admin access, for example to monitor devices that others use. Requires
    permission."""

    spec: Mapping[str, Any] | None
    """The spec of a ResourceClaim, passed through."""

    template_name: Input[str] | None
    """Name of an existing ResourceClaimTemplate; may be an Output."""

    claim_name: Input[str] | None
    """Name of an existing ResourceClaim, shared by all pods; may be an Output."""


class RoleArgsDict(TypedDict, total=False):
    """A role: a router, or pods that serve the model."""

    name: Required[str]
    """Name of the role, unique in the service; part of the names of its objects."""

    component_type: Required[ComponentType | Literal["router", "prefiller", "decoder", "worker"]]
    """Function of the role: `worker`, `prefiller`, `decoder` or `router`."""

    replicas: int
    """Number of replicas. 0 scales the role to zero: it has no pods and is not part of the
    gang."""

    template: PodTemplateSpecArgs | PodTemplateSpecArgsDict | Mapping[str, Any] | None
    """Pod template for all pods of the role. If the service has a `model`, the template is optional
    and may be partial: the library generates the rest; the template's fields take precedence."""

    leader_template: PodTemplateSpecArgs | PodTemplateSpecArgsDict | Mapping[str, Any] | None
    """Pod template of the leaders; set it and `workerTemplate` instead of `template`."""

    worker_template: PodTemplateSpecArgs | PodTemplateSpecArgsDict | Mapping[str, Any] | None
    """Pod template of the other pods of a multi-node replica."""

    container: str | None
    """Name of the container that serves the model. Default: the container named vllm, sglang,
    engine or main, or the first one if no container has such a name."""

    port: int | None
    """Port on which the role serves. Default, in this order: the engine's `--port`; the
    container port named http; the first container port; 8000. A port on which the engine does not
    listen is rejected, unless another container of the pod listens on it."""

    multinode: MultinodeArgs | MultinodeArgsDict | None
    """Runs each replica on several nodes; by default a replica is one pod."""

    parallelism: ParallelismArgs | ParallelismArgsDict | None
    """How the engine shards and replicates the model. Sets the engine's arguments, and the pods per
    replica unless `multinode.nodeCount` does. By default the engine's own arguments apply."""

    placement: RolePlacementArgs | RolePlacementArgsDict | None
    """Node pools that the role may use, and the accelerators it requires; only for `place` and
    `--inventory`. By default any pool that the pod templates allow."""

    engine: EngineArgs | EngineArgsDict | None
    """The engine of generated containers, instead of the service's."""

    accelerator: str | None
    """Accelerator model, such as `H100`, or its memory, such as `80Gi`. Memory checks use it; by
    default they infer it from claims and node selectors. Generated containers derive `gpus` and the
    image from it; the value `cpu` selects the engine's CPU build. It does not affect scheduling."""

    gpus: int | None
    """GPUs per pod of generated containers. Default, in this order: the template's GPUs; the number
    that `parallelism` or the template's arguments require; the number that the model catalogue or
    the package fusioninfer-capacity gives for `accelerator`."""

    resource_claims: Sequence[ResourceClaimArgs | ResourceClaimArgsDict] | None
    """Devices that each pod's serving container claims (DRA) instead of requesting accelerators as
    resources; none by default."""

    rollout: RoleRolloutArgs | RoleRolloutArgsDict | None
    """Overrides of the service's `rollout` for this role."""

    restart_policy: (
        RestartPolicy
        | Literal["RecreateGroupOnPodRestart", "RecreateGroupAfterStart", "None"]
        | None
    )
    """LeaderWorkerSet's restart policy. Default: `RecreateGroupAfterStart` for multi-node replicas
    (LeaderWorkerSet 0.9 or later), `RecreateGroupOnPodRestart` for single pods."""

    environment: PodEnvironment | Literal["Kthena"] | None
    """`Kthena` adds `ENTRY_ADDRESS`, `WORKER_INDEX` and `GROUP_SIZE` to containers that lack them.
    By default containers have only LeaderWorkerSet's variables: `LWS_LEADER_ADDRESS`,
    `LWS_WORKER_INDEX` and `LWS_GROUP_SIZE`."""

    startup_policy: StartupPolicy | Literal["LeaderCreated", "LeaderReady"] | None
    """LeaderWorkerSet's startup policy; `LeaderCreated` by default. `LeaderReady` is rejected for
    gang-scheduled pods, because it deadlocks."""

    network_config: NetworkConfigArgs | NetworkConfigArgsDict | None
    """LeaderWorkerSet's network configuration; LeaderWorkerSet's default if not set."""

    sub_group_policy: SubGroupPolicyArgs | SubGroupPolicyArgsDict | None
    """LeaderWorkerSet's subgroups, for topology-aware placement within a replica."""

    kv_transfer: KvTransferArgs | KvTransferArgsDict | None
    """Prefillers and decoders only: KV cache transfer between them, with the arguments and
    environment variables the engine requires."""

    kv_events: KvEventsArgs | KvEventsArgsDict | None
    """KV cache events that the engine publishes to the endpoint picker; none by default."""

    kv_cache_offloading: KvCacheOffloadingArgs | KvCacheOffloadingArgsDict | None
    """Storage for KV cache beyond accelerator memory: host memory, then disks; none by default."""

    disruption_budget: DisruptionBudgetArgs | DisruptionBudgetArgsDict | None
    """PodDisruptionBudget of the role; by default the service's."""

    autoscaling: AutoscalingArgs | AutoscalingArgsDict | None
    """Scales the replicas between bounds, starting from `replicas`; requires `layout: PerRole`. By
    default the number of replicas is fixed."""

    startup: StartupArgs | StartupArgsDict | None
    """Startup probe: how long the engine may take to load its model. By default a template's
    container has no startup probe."""

    topology_spread: Sequence[TopologySpreadArgs | TopologySpreadArgsDict] | None
    """Spreads the leaders of the replicas over zones or nodes. By default generated single-node
    roles are spread over nodes if possible, and other roles as the scheduler decides."""

    pod_labels: Mapping[str, Input[str]]
    """Labels of the role's pods; for a router, of the endpoint picker's pods. They override the
    service's `podLabels`; a template's labels override both. Values may be Outputs. A change
    restarts the pods."""

    pod_annotations: Mapping[str, Input[str]]
    """Annotations of the role's pods, with the precedence of `podLabels`; values may be Outputs. A
    change restarts the pods."""

    strategy: (
        Strategy
        | Literal[
            "prefix-cache",
            "kv-cache-utilization",
            "queue-size",
            "lora-affinity",
            "pd-disaggregation",
            "session-affinity",
        ]
        | None
    )
    """Routers only: load-balancing strategy of the endpoint picker. Default: `prefix-cache`, or
    `pd-disaggregation` if prefill and decode are separate roles."""

    scorers: Mapping[str, float] | None
    """Routers only: weights by scorer, instead of the strategy's. Scorers: `prefix-cache`,
    `kv-cache`, `queue`, `load`, `running`, `lora`, `session`, if the endpoint picker has them."""

    httproute: HttpRouteArgs | HttpRouteArgsDict | None
    """Routers only: the spec of a Gateway API HTTPRoute."""

    gateway: GatewayArgs | GatewayArgsDict | None
    """Routers only: the spec of a Gateway to create (`{}` for the defaults), or `refs` to existing
    Gateways."""

    endpoint_picker: EndpointPickerArgs | EndpointPickerArgsDict | None
    """Routers only: the endpoint picker's image, pods and behavior."""

    endpoint_picker_config: str | None
    """Routers only: a complete EndpointPickerConfig, used unchanged instead of `strategy`."""

    pool: PoolArgs | PoolArgsDict | None
    """Routers only: the InferencePool's ports and deletion protection."""

    model_rewrites: Sequence[ModelRewriteArgs | ModelRewriteArgsDict] | None
    """Routers only: maps model names in requests to models or adapters by weight, for aliases and
    canaries. Not supported by every endpoint picker (docs/routing.md)."""

    network_policy: NetworkPolicyArgs | NetworkPolicyArgsDict | None
    """Routers only: allows only the gateway and the endpoint picker to reach the pods. By default
    enabled if `gateway.implementation` determines where the gateway's proxies run."""

    reference_grants: bool | None
    """Routers only: creates the ReferenceGrants that the route and the Gateway need in other
    namespaces. By default a warning names the missing grants."""


class RolePlacementArgsDict(TypedDict, total=False):
    """Restricts the node pools of a role. The constraints of its pod templates also apply."""

    pools: Sequence[str] | None
    """Names of the allowed pools; all by default. Taints of pools named here are tolerated."""

    device: DeviceRequirementArgs | DeviceRequirementArgsDict | None
    """Requirements for each accelerator; none by default."""


class RoleRolloutArgsDict(TypedDict, total=False):
    """Update of one role. A field that is not set takes the value of the service's `rollout`.

    The defaults below apply if the field is set in neither of the two."""

    strategy: RolloutStrategy | Literal["Rolling", "AllAtOnce", "Recreate"] | None
    """`Rolling` (default), `AllAtOnce` or `Recreate`."""

    max_unavailable: int | str | None
    """Replicas that may be unavailable during an update: a number, or a percentage, which is
    rounded down to at least 1; 1 by default. Only for `Rolling`; 0 only with `maxSurge`."""

    max_surge: int | str | None
    """Additional replicas that an update may start, as a number or a percentage (rounded up); 0 by
    default. They need additional capacity. Only for `Rolling` with layout `PerRole`."""

    partition: int | None
    """Replicas with an ordinal below `partition` keep their current pod template until `partition`
    is lowered; 0 by default. Not available for layout `PerRole` with `Recreate`."""

    timeout: str | None
    """Time that an updated replica may take to become available, such as `90s` or `1h30m`, before
    the update fails. Default: `45m`. If the startup time that the library derives from the model
    size is longer, the default is that time plus 10 minutes."""


class RolloutArgsDict(TypedDict, total=False):
    """Update of the service. Roles may override all but `roleOrder`, `level` and `pullImages`."""

    strategy: RolloutStrategy | Literal["Rolling", "AllAtOnce", "Recreate"] | None
    """`Rolling` (default), `AllAtOnce` or `Recreate`."""

    max_unavailable: int | str | None
    """Replicas that may be unavailable during an update: a number, or a percentage, which is
    rounded down to at least 1; 1 by default. Only for `Rolling`; 0 only with `maxSurge`."""

    max_surge: int | str | None
    """Additional replicas that an update may start, as a number or a percentage (rounded up); 0 by
    default. They need additional capacity. Only for `Rolling` with layout `PerRole`."""

    partition: int | None
    """Replicas with an ordinal below `partition` keep their current pod template until `partition`
    is lowered; 0 by default. Not available for layout `PerRole` with `Recreate`."""

    timeout: str | None
    """Time that an updated replica may take to become available, such as `90s` or `1h30m`, before
    the update fails. Default: `45m`. If the startup time that the library derives from the model
    size is longer, the default is that time plus 10 minutes."""

    role_order: RoleOrder | Literal["Together", "Sequential"]
    """`Together` (default) or `Sequential`: in the order of the roles."""

    level: RolloutLevel | Literal["Role", "Group"]
    """`Role` (default) or `Group`. `Group` needs `groups` and updates whole serving groups, the
    highest index first; `maxUnavailable` and `partition` then count groups."""

    pull_images: bool
    """Whether DaemonSets pull the engines' images before an update changes pods, on all nodes where
    the pods may run. The images take disk space on all of these nodes. If an image cannot be
    pulled, the update fails and changes no pod."""


class S3ArgsDict(TypedDict, total=False):
    """Access to an S3 bucket."""

    secret_name: Input[str] | None
    """Secret with the credentials; by default the pod's identity is used. May be an Output."""

    access_key_id_key: str
    """Key of the Secret that holds the access key ID."""

    secret_access_key_key: str
    """Key of the Secret that holds the secret access key."""

    endpoint: Input[str] | None
    """URL of an S3-compatible store other than AWS; may be an Output."""

    region: Input[str] | None
    """Region of the bucket; may be an Output."""


class SchedulingStrategyArgsDict(TypedDict, total=False):
    """The scheduler, its queue and the gang."""

    scheduler_name: str | None
    """Scheduler of the pods. Default: `volcano` for a gang (`default-scheduler` with `backend:
    Native`), else the cluster's default."""

    queue: Input[str] | None
    """Volcano queue, Volcano's `default` if not set; with `backend: Kueue` the LocalQueue, which is
    required. May be an Output."""

    priority_class_name: str | None
    """PriorityClass of the PodGroup and of the pods."""

    gang_policy: GangPolicyArgs | GangPolicyArgsDict
    """Gang scheduling of the service's pods."""


class SecondaryTierArgsDict(TypedDict, total=False):
    """A tier after host memory."""

    file_system: Required[FileSystemTierArgs | FileSystemTierArgsDict]
    """A directory; the only kind of tier."""


class SecretKeyArgsDict(TypedDict, total=False):
    """A key of a Secret in the service's namespace."""

    name: Required[Input[str]]
    """Name of the Secret; may be an Output."""

    key: str
    """Key that holds the value."""


class ServiceLevelArgsDict(TypedDict, total=False):
    """A priority of requests, as an InferenceObjective named `{service}-{name}`."""

    name: Required[str]
    """Name; requests set the header `x-llm-d-inference-objective` to `{service}-{name}`."""

    priority: Required[int]
    """Priority; requests without a level have 0. The endpoint picker sends waiting requests of the
    highest priority first."""

    max_queued: int | None
    """Maximum number of requests of this level that wait in the endpoint picker; additional
    requests receive status 429. Default: 5000."""


class ServiceLevelsArgsDict(TypedDict, total=False):
    """Priorities of requests. Tenants with the same priority are served round-robin.

    The header `x-llm-d-inference-fairness-id` names the tenant."""

    levels: Required[Sequence[ServiceLevelArgs | ServiceLevelArgsDict]]
    """The levels."""

    max_concurrency: int
    """Requests that each pod processes at a time; other requests wait in the endpoint picker, and
    not in the engines, which serve them in order of arrival. At most the engine's
    `--max-num-seqs`."""

    evict: bool
    """Whether running requests with a negative priority are aborted with status 429 while requests
    of a higher priority wait."""


class ServicePlacementArgsDict(TypedDict, total=False):
    """Device attribute or node label that the node pools of all roles must share."""

    colocate: str | None
    """Device attribute or node label, such as `topology.kubernetes.io/zone`, that must have the
    same value on the pools of all roles, for example for KV cache transfer. By default roles may
    use any pools."""


class SessionArgsDict(TypedDict, total=False):
    """Where requests contain their session's name: the header `x-session-id` by default."""

    header: str | None
    """Request header with the session's name."""

    cookie: str | None
    """Cookie with the session's name, which your application sets."""


class SidecarArgsDict(TypedDict, total=False):
    """Sidecar of decode leaders: sends each prompt to the prefill pod that the picker chose.

    It listens on the pool's port. Without a prefill pod, the decode engine computes the prompt."""

    enabled: bool
    """Whether to add the sidecar; if not, the template's containers are used unchanged."""

    image: Input[str] | None
    """Image; by default the sidecar released with the endpoint picker. May be an Output."""

    family: str | None
    """Release of the sidecar, such as `llm-d-0.10`. Default: the release in the image's name or
    tag; without one, the endpoint picker's release."""

    connector: (
        SidecarConnector
        | Literal["nixlv2", "shared-storage", "sglang", "mooncake", "offloading"]
        | None
    )
    """Protocol; by default the one that matches the engine's connector."""

    ssrf_protection: bool | None
    """Whether prompts are sent only to pods of the service's pool, even if a client's header names
    another address. By default enabled if the release supports it (llm-d v0.10.0 or later). The
    sidecar then reads the pool and the pods, with its own ServiceAccount and Role."""

    resources: Mapping[str, Any] | None
    """Resources of the sidecar's container, replacing the default requests."""

    args: Sequence[str] | None
    """Additional command-line flags; flags that the library sets are rejected."""


class SplitArgsDict(TypedDict, total=False):
    """A share of requests for another service in the namespace, such as a canary."""

    service: Required[str]
    """Name of the other service; its router must set `routedBy` to the name of this service."""

    weight: Required[int]
    """Percentage of requests for the other service's pool; this service's pool gets the rest."""


class StartupArgsDict(TypedDict, total=False):
    """Startup probe of the engine."""

    timeout: str | None
    """Time that the engine may take to load its model, such as `30m`."""

    model_size: str | int | None
    """Size of the weights that a pod reads, such as `140Gi`; `model.size` by default. Without
    `timeout`, the engine may take `modelSize` divided by `readRate`, plus 5 minutes."""

    read_rate: str | int
    """Bytes of weights that a pod reads per second, such as `1Gi`; by default `200Mi`, the rate of
    a network disk."""


class StorageArgsDict(TypedDict, total=False):
    """A PersistentVolumeClaim that the service creates."""

    size: Required[str | int]
    """Storage request, such as `500Gi`."""

    storage_class_name: Input[str] | None
    """StorageClass; the cluster's default if not set. May be an Output."""

    access_modes: Sequence[
        AccessMode | Literal["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"]
    ]
    """Access modes; `ReadWriteMany` by default. With `ReadWriteOnce` all pods run on one node. If
    the modes change, another claim is created, and the model is downloaded again."""


class SubGroupPolicyArgsDict(TypedDict, total=False):
    """LeaderWorkerSet's `subGroupPolicy` (not Volcano's field of that name)."""

    sub_group_size: Required[int]
    """Pods per subgroup; must divide the node count, or the node count minus one (the leader)."""

    sub_group_policy_type: SubGroupPolicyType | Literal["LeaderWorker", "LeaderExcluded"] | None
    """Whether the leader belongs to a subgroup; LeaderWorkerSet's default is `LeaderWorker`."""


class TaintArgsDict(TypedDict, total=False):
    """A taint of a pool's nodes."""

    key: Required[str]
    """Key of the taint."""

    value: str
    """Value of the taint, empty by default."""

    effect: Required[TaintEffect | Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]]
    """`NoSchedule`, `PreferNoSchedule` or `NoExecute`."""


class TokenSecretArgsDict(TypedDict, total=False):
    """A key of a Secret that holds a token."""

    name: Required[Input[str]]
    """Name of the Secret, in the service's namespace; may be an Output."""

    key: str
    """Key that holds the token; `token` by default."""


class TopologySpreadArgsDict(TypedDict, total=False):
    """Spreads the leaders of a role's replicas over zones, racks or nodes."""

    topology_key: Required[str]
    """Node label that identifies the domain, such as `topology.kubernetes.io/zone`."""

    max_skew: int
    """Maximum difference in the number of leaders between two domains; 1 by default."""

    when_unsatisfiable: WhenUnsatisfiable | Literal["ScheduleAnyway", "DoNotSchedule"]
    """`ScheduleAnyway` (default) or `DoNotSchedule` (Kubernetes' default)."""


class TracingArgsDict(TypedDict, total=False):
    """OpenTelemetry traces of the endpoint picker and of vLLM, sent by OTLP over gRPC."""

    endpoint: Required[str]
    """Address of the collector, such as `http://otel-collector.observability:4317`; `https` for
    TLS."""

    sampling: float
    """Fraction of requests to trace if the client made no sampling decision; 0.1 by default."""

    engines: bool
    """Whether vLLM sends traces: sets `--otlp-traces-endpoint`. A change restarts the pods."""

    picker: bool
    """Whether the endpoint picker sends traces, if there is one."""


class WaitArgsDict(TypedDict, total=False):
    """The condition an update waits for before it returns."""

    level: WaitLevel | Literal["None", "Scheduled", "Available", "Serving"]
    """`None`, `Scheduled`, `Available` (default) or `Serving`."""

    timeout: str
    """Time that new replicas, gateways and the endpoint may take together, such as `90s` or
    `1h30m`. Default: `45m`, extended in the same way as the default of `rollout.timeout`."""


class WarmUpJobArgsDict(TypedDict, total=False):
    """The Job that fills the cache."""

    timeout: str
    """Timeout for all attempts together, such as `2h`."""

    backoff_limit: int
    """Number of retries."""

    ttl_seconds_after_finished: int | None
    """Seconds after which Kubernetes deletes the finished Job. By default it is kept, because
    Pulumi would create a deleted Job again."""

    node_selector: Mapping[str, Input[str]] | None
    """Node selector; values may be Outputs."""

    tolerations: Sequence[Mapping[str, Any]] | None
    """Tolerations."""

    service_account_name: Input[str] | None
    """ServiceAccount; the namespace's default if not set. Its token is not mounted. May be an
    Output."""


class RouterDict(TypedDict, total=False):
    """The router of `model_service`."""

    name: str
    """Name of the role, unique in the service; part of the names of its objects."""

    strategy: (
        Strategy
        | Literal[
            "prefix-cache",
            "kv-cache-utilization",
            "queue-size",
            "lora-affinity",
            "pd-disaggregation",
            "session-affinity",
        ]
        | None
    )
    """Routers only: load-balancing strategy of the endpoint picker. Default: `prefix-cache`, or
    `pd-disaggregation` if prefill and decode are separate roles."""

    scorers: Mapping[str, float] | None
    """Routers only: weights by scorer, instead of the strategy's. Scorers: `prefix-cache`,
    `kv-cache`, `queue`, `load`, `running`, `lora`, `session`, if the endpoint picker has them."""

    httproute: HttpRouteArgs | HttpRouteArgsDict | None
    """Routers only: the spec of a Gateway API HTTPRoute."""

    gateway: GatewayArgs | GatewayArgsDict | None
    """Routers only: the spec of a Gateway to create (`{}` for the defaults), or `refs` to existing
    Gateways."""

    endpoint_picker: EndpointPickerArgs | EndpointPickerArgsDict | None
    """Routers only: the endpoint picker's image, pods and behavior."""

    endpoint_picker_config: str | None
    """Routers only: a complete EndpointPickerConfig, used unchanged instead of `strategy`."""

    pool: PoolArgs | PoolArgsDict | None
    """Routers only: the InferencePool's ports and deletion protection."""

    model_rewrites: Sequence[ModelRewriteArgs | ModelRewriteArgsDict] | None
    """Routers only: maps model names in requests to models or adapters by weight, for aliases and
    canaries. Not supported by every endpoint picker (docs/routing.md)."""

    network_policy: NetworkPolicyArgs | NetworkPolicyArgsDict | None
    """Routers only: allows only the gateway and the endpoint picker to reach the pods. By default
    enabled if `gateway.implementation` determines where the gateway's proxies run."""

    reference_grants: bool | None
    """Routers only: creates the ReferenceGrants that the route and the Gateway need in other
    namespaces. By default a warning names the missing grants."""

    pod_labels: Mapping[str, Input[str]]
    """Labels of the role's pods; for a router, of the endpoint picker's pods. They override the
    service's `podLabels`; a template's labels override both. Values may be Outputs. A change
    restarts the pods."""

    pod_annotations: Mapping[str, Input[str]]
    """Annotations of the role's pods, with the precedence of `podLabels`; values may be Outputs. A
    change restarts the pods."""


class ModelServiceDict(TypedDict, total=False):
    """Further fields of `model_service`, of the service and its roles."""

    autoscaling: AutoscalingArgs | AutoscalingArgsDict | None
    """Scales the replicas between bounds, starting from `replicas`; requires `layout: PerRole`. By
    default the number of replicas is fixed."""

    gpus: int | None
    """GPUs per pod of generated containers. Default, in this order: the template's GPUs; the number
    that `parallelism` or the template's arguments require; the number that the model catalogue or
    the package fusioninfer-capacity gives for `accelerator`."""

    kv_cache_offloading: KvCacheOffloadingArgs | KvCacheOffloadingArgsDict | None
    """Storage for KV cache beyond accelerator memory: host memory, then disks; none by default."""

    kv_events: KvEventsArgs | KvEventsArgsDict | None
    """KV cache events that the engine publishes to the endpoint picker; none by default."""

    kv_transfer: KvTransferArgs | KvTransferArgsDict | None
    """Prefillers and decoders only: KV cache transfer between them, with the arguments and
    environment variables the engine requires."""

    multinode: MultinodeArgs | MultinodeArgsDict | None
    """Runs each replica on several nodes; by default a replica is one pod."""

    parallelism: ParallelismArgs | ParallelismArgsDict | None
    """How the engine shards and replicates the model. Sets the engine's arguments, and the pods per
    replica unless `multinode.nodeCount` does. By default the engine's own arguments apply."""

    port: int | None
    """Port on which the role serves. Default, in this order: the engine's `--port`; the
    container port named http; the first container port; 8000. A port on which the engine does not
    listen is rejected, unless another container of the pod listens on it."""

    resource_claims: Sequence[ResourceClaimArgs | ResourceClaimArgsDict] | None
    """Devices that each pod's serving container claims (DRA) instead of requesting accelerators as
    resources; none by default."""

    startup: StartupArgs | StartupArgsDict | None
    """Startup probe: how long the engine may take to load its model. By default a template's
    container has no startup probe."""

    template: PodTemplateSpecArgs | PodTemplateSpecArgsDict | Mapping[str, Any] | None
    """Pod template for all pods of the role. If the service has a `model`, the template is optional
    and may be partial: the library generates the rest; the template's fields take precedence."""

    topology_spread: Sequence[TopologySpreadArgs | TopologySpreadArgsDict] | None
    """Spreads the leaders of the replicas over zones or nodes. By default generated single-node
    roles are spread over nodes if possible, and other roles as the scheduler decides."""

    name: str | None
    """Kubernetes name of the service; by default the component's logical name."""

    namespace: Input[str]
    """Namespace of every object; may be an Output."""

    labels: Mapping[str, Input[str]]
    """Labels of every object; values may be Outputs."""

    annotations: Mapping[str, Input[str]]
    """Annotations of every object; values may be Outputs."""

    groups: int | None
    """Number of serving groups: copies of all roles, each with its own gang and its own pairs of
    prefill and decode pods. A role's `replicas` then count per group, and object names contain the
    group's index, even for one group. Default: no groups. 0 scales the service to zero."""

    edition: Edition | Literal["2026.11"] | None
    """Pins the library's defaults, so that upgrades of the library keep them: releases and
    arguments of generated engines, images of the endpoint picker and the sidecar. Default: the
    newest edition, `2026.11`."""

    image_registry: str | None
    """Registry, with an optional path, that mirrors the images chosen by the library: engines, the
    endpoint picker, the sidecar of decode pods, and the model fetcher. It replaces the registry in
    the image name: with `registry.example.com/mirror`, `ghcr.io/llm-d/x` becomes
    `registry.example.com/mirror/llm-d/x`. By default images come from each project's registry."""

    scheduling_strategy: SchedulingStrategyArgs | SchedulingStrategyArgsDict
    """Scheduler, queue, priority and gang."""

    layout: Layout | Literal["PerReplica", "PerRole"]
    """`PerReplica`: one LeaderWorkerSet per replica. `PerRole`: one LeaderWorkerSet per role, which
    orders the role's updates and has a scale subresource. Cannot be changed on a live service.
    Default: `PerRole` if a role has `autoscaling`, else `PerReplica`."""

    placement: ServicePlacementArgs | ServicePlacementArgsDict
    """Attribute or label, such as the zone, that the node pools of all roles must share; used only
    by the command `place` and the option `--inventory`."""

    rollout: RolloutArgs | RolloutArgsDict
    """How pod template changes are rolled out: batch size, order, timeout."""

    wait: WaitArgs | WaitArgsDict
    """The condition an update waits for before it returns."""

    disruption_budget: DisruptionBudgetArgs | DisruptionBudgetArgsDict | None
    """PodDisruptionBudget for each serving role that does not set its own; none by default."""

    monitoring: MonitoringArgs | MonitoringArgsDict | None
    """Prometheus operator monitors for the engines and the endpoint picker; none by default."""

    prefill_decode_ratio: PrefillDecodeRatioArgs | PrefillDecodeRatioArgsDict | None
    """Minimum and maximum number of prefill replicas per decode replica; no limits by default."""

    tracing: TracingArgs | TracingArgsDict | None
    """OpenTelemetry traces of the endpoint picker and the engines; none by default."""

    pod_labels: Mapping[str, Input[str]]
    """Labels of the pods of all roles, such as a cost center; values may be Outputs. A change
    restarts the pods."""

    pod_annotations: Mapping[str, Input[str]]
    """Annotations of the pods of all roles; values may be Outputs. A change restarts the pods."""
