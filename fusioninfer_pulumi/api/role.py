"""One role of a service: what runs, how often, on how many nodes."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from fusioninfer_pulumi.api.autoscaling import AutoscalingArgs
from fusioninfer_pulumi.api.base import SpecModel
from fusioninfer_pulumi.api.device_claims import ResourceClaimArgs, claim_findings
from fusioninfer_pulumi.api.disruption_budget import DisruptionBudgetArgs
from fusioninfer_pulumi.api.health import StartupArgs
from fusioninfer_pulumi.api.kv_offloading import KvCacheOffloadingArgs, offloading_findings
from fusioninfer_pulumi.api.kv_transfer import KvEventsArgs, KvTransferArgs, kv_transfer_findings
from fusioninfer_pulumi.api.model_rewrite import ModelRewriteArgs, model_rewrite_findings
from fusioninfer_pulumi.api.parallelism import ParallelismArgs, parallelism_findings
from fusioninfer_pulumi.api.placement import RolePlacementArgs
from fusioninfer_pulumi.api.pod_template import pod_template_findings
from fusioninfer_pulumi.api.rollout import RoleRolloutArgs
from fusioninfer_pulumi.api.route import (
    GatewayArgs,
    HttpRouteArgs,
    gateway_findings,
    httproute_findings,
)
from fusioninfer_pulumi.api.router import (
    EndpointPickerArgs,
    NetworkPolicyArgs,
    PoolArgs,
    network_policy_findings,
    picker_findings,
)
from fusioninfer_pulumi.api.rules import FIELDS_EXCLUDE_EACH_OTHER
from fusioninfer_pulumi.api.topology_spread import TopologySpreadArgs
from fusioninfer_pulumi.api.types import Count, PartName, PodTemplate, Port, PositiveCount, Text
from fusioninfer_pulumi.findings import Finding, Location, error
from fusioninfer_pulumi.rules.common import (
    FIELD_OUT_OF_PLACE,
    FIELD_REQUIRED,
    OUT_OF_RANGE,
    PARALLELISM_NOT_DIVISIBLE,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from fusioninfer_pulumi.generated import dicts


class ComponentType(str, enum.Enum):
    """What a role does in the service."""

    ROUTER = "router"  #: request routing: endpoint picker, pool, route
    PREFILLER = "prefiller"  #: prompt processing
    DECODER = "decoder"  #: token generation
    WORKER = "worker"  #: both, the monolithic form


class Launcher(str, enum.Enum):
    """How the pods of a multi-node replica find each other."""

    RAY = "ray"  #: a ray cluster per replica; the image must ship ray
    MULTIPROCESSING = "multiprocessing"  #: the engine's own multi-node arguments
    DATA_PARALLEL = (
        "data-parallel"  #: vLLM: each pod runs its data parallel ranks, the leader serves
    )
    NONE = "none"  #: commands are used as written


class RestartPolicy(str, enum.Enum):
    """What LeaderWorkerSet does with a group when one of its pods restarts."""

    RECREATE_GROUP_ON_POD_RESTART = "RecreateGroupOnPodRestart"
    RECREATE_GROUP_AFTER_START = "RecreateGroupAfterStart"  #: LeaderWorkerSet 0.9 and later
    NONE = "None"


class StartupPolicy(str, enum.Enum):
    """When LeaderWorkerSet creates a group's workers."""

    LEADER_CREATED = "LeaderCreated"
    LEADER_READY = "LeaderReady"


class PodEnvironment(str, enum.Enum):
    """Whose variables the containers of a role expect."""

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
    """What the endpoint picker balances by."""

    PREFIX_CACHE = "prefix-cache"
    KV_CACHE_UTILIZATION = "kv-cache-utilization"
    QUEUE_SIZE = "queue-size"
    LORA_AFFINITY = "lora-affinity"
    PD_DISAGGREGATION = "pd-disaggregation"


class MultinodeArgs(SpecModel):
    """Spreads each replica of a role over several nodes."""

    if TYPE_CHECKING:

        def __init__(self, **fields: Unpack[dicts.MultinodeArgsDict]) -> None: ...

    node_count: PositiveCount | None = None
    """Nodes (and so pods) of one replica, the leader included; 1 is the same as no `multinode`.
    Required, unless the role's `parallelism` says it (`pipeline`, or `data` with `dataLocal`)."""

    launcher: Annotated[Launcher, Field(strict=False)] | None = None
    """How the pods find each other; by default `ray`, for SGLang `multiprocessing`, and
    `data-parallel` where `parallelism.data` spans pods."""


class NetworkConfigArgs(SpecModel):
    """LeaderWorkerSet's `networkConfig`."""

    if TYPE_CHECKING:

        def __init__(self, **fields: Unpack[dicts.NetworkConfigArgsDict]) -> None: ...

    subdomain_policy: Annotated[SubdomainPolicy, Field(strict=False)]
    """`Shared` (LeaderWorkerSet's default) or `UniquePerReplica`."""


class SubGroupPolicyArgs(SpecModel):
    """LeaderWorkerSet's `subGroupPolicy` (not Volcano's field of that name)."""

    if TYPE_CHECKING:

        def __init__(self, **fields: Unpack[dicts.SubGroupPolicyArgsDict]) -> None: ...

    sub_group_size: PositiveCount
    """Pods in a subgroup; must divide the node count, or the node count less the leader."""

    sub_group_policy_type: Annotated[SubGroupPolicyType, Field(strict=False)] | None = None
    """Whether the leader belongs to a subgroup; LeaderWorkerSet's default is `LeaderWorker`."""


class RoleArgs(SpecModel):
    """One role: a router, or pods that serve a model."""

    if TYPE_CHECKING:

        def __init__(self, **fields: Unpack[dicts.RoleArgsDict]) -> None: ...

    name: PartName
    """Name of the role, unique in the service; part of its objects' names."""

    component_type: Annotated[ComponentType, Field(strict=False)]
    """What the role does: `worker`, `prefiller`, `decoder` or `router`."""

    replicas: Count = 1
    """Independent instances of the model; 0 parks the role: no objects, no share of the gang."""

    template: PodTemplate | None = None
    """Pod template of every pod of the role."""

    leader_template: PodTemplate | None = None
    """Pod template of the leaders, together with `workerTemplate` in place of `template`."""

    worker_template: PodTemplate | None = None
    """Pod template of the other pods of a multi-node replica."""

    container: str | None = None
    """Name of the container that serves the model; by default the one named vllm, sglang, engine
    or main, else the first."""

    port: Port | None = None
    """Port that it serves on; by default the engine's `--port`, else the container port named
    http, else the first container port, else 8000. One that the engine does not listen on is
    refused, unless another container of the pod does."""

    multinode: MultinodeArgs | None = None
    """Spreads each replica over several nodes; by default a replica is one pod."""

    parallelism: ParallelismArgs | None = None
    """How the engine splits and copies the model: sets its arguments, and the pods of a replica;
    by default the arguments say it."""

    placement: RolePlacementArgs | None = None
    """Node pools that the role may be placed on, and what their accelerators have to be; read by
    `place` and `--inventory` only. By default any pool that its pod templates allow."""

    accelerator: Text | None = None
    """What each accelerator is, such as `H100`, or its memory, such as `80Gi`: for checks of the
    memory, it selects no nodes. By default what claims and node selectors say."""

    resource_claims: list[ResourceClaimArgs] | None = None
    """Devices that the serving container of every pod claims (DRA), in place of accelerators in
    its resources; by default none."""

    rollout: RoleRolloutArgs | None = None
    """How this role is updated, where it differs from the service's `rollout`."""

    restart_policy: Annotated[RestartPolicy, Field(strict=False)] | None = None
    """LeaderWorkerSet's restart policy; by default `RecreateGroupAfterStart` for multi-node
    replicas (LeaderWorkerSet 0.9 and later), `RecreateGroupOnPodRestart` for single pods."""

    environment: Annotated[PodEnvironment, Field(strict=False)] | None = None
    """`Kthena` sets `ENTRY_ADDRESS`, `WORKER_INDEX` and `GROUP_SIZE` in every container, from the
    variables of LeaderWorkerSet; one that a container sets by itself stays. By default containers
    have LeaderWorkerSet's own alone: `LWS_LEADER_ADDRESS`, `LWS_WORKER_INDEX`, `LWS_GROUP_SIZE`."""

    startup_policy: Annotated[StartupPolicy, Field(strict=False)] | None = None
    """LeaderWorkerSet's startup policy, by default `LeaderCreated`; `LeaderReady` deadlocks with
    gang scheduling and is refused there."""

    network_config: NetworkConfigArgs | None = None
    """LeaderWorkerSet's network configuration."""

    sub_group_policy: SubGroupPolicyArgs | None = None
    """LeaderWorkerSet's subgroups, for topology-aware placement inside a replica."""

    kv_transfer: KvTransferArgs | None = None
    """Prefillers and decoders only: how the KV cache goes from one to the other, with the
    arguments and environment that the engine needs for it."""

    kv_events: KvEventsArgs | None = None
    """What the engine publishes to the endpoint picker about its KV cache; by default nothing."""

    kv_cache_offloading: KvCacheOffloadingArgs | None = None
    """Where the engine keeps KV cache beyond its accelerators' memory: host memory, then disks;
    by default nowhere."""

    disruption_budget: DisruptionBudgetArgs | None = None
    """How many replicas evictions may take down at a time, in place of the service's; by default
    any number."""

    autoscaling: AutoscalingArgs | None = None
    """Scales the replicas between bounds, starting with `replicas`; needs `layout: PerRole`. By
    default nothing but an update changes them."""

    startup: StartupArgs | None = None
    """How long the engine may take to load its model; by default no startup probe."""

    topology_spread: Annotated[list[TopologySpreadArgs], Field(min_length=1)] | None = None
    """Spreads the leaders of the replicas over zones or nodes; by default the scheduler's way."""

    strategy: Annotated[Strategy, Field(strict=False)] | None = None
    """Routers only: what the endpoint picker balances by; by default `prefix-cache`, and
    `pd-disaggregation` where prefill and decode are separate roles."""

    scorers: Annotated[dict[str, float], Field(min_length=1)] | None = None
    """Routers only: weights of scorers in place of the strategy's: `prefix-cache`, `kv-cache`,
    `queue`, `load`, `running`, `lora`, as far as the picker has them."""

    httproute: HttpRouteArgs | None = None
    """Routers only: the spec of a Gateway API HTTPRoute."""

    gateway: GatewayArgs | None = None
    """Routers only: the spec of a managed Gateway (`{}` for the defaults), or `refs` to Gateways
    that exist."""

    endpoint_picker: EndpointPickerArgs | None = None
    """Routers only: the endpoint picker's image, pods and behaviour."""

    endpoint_picker_config: str | None = None
    """Routers only: a complete EndpointPickerConfig, used verbatim in place of `strategy`."""

    pool: PoolArgs | None = None
    """Routers only: guards the InferencePool."""

    model_rewrites: Annotated[list[ModelRewriteArgs], Field(min_length=1)] | None = None
    """Routers only: names that clients ask for, with the models or adapters that answer, by weight:
    aliases and canaries. Not every picker knows them (docs/routing.md)."""

    network_policy: NetworkPolicyArgs | None = None
    """Routers only: lets only the gateway and the picker reach the pods; by default everybody
    may."""

    reference_grants: bool | None = None
    """Routers only: creates the ReferenceGrants that the route and the Gateway need in other
    namespaces; by default they are asked for in a warning."""

    @property
    def counted(self) -> bool:
        """Whether `multinode`, if there is one, has its number of nodes, here or elsewhere."""
        if self.multinode is None or self.multinode.node_count is not None:
            return True
        return self.parallelism is not None and self.parallelism.says_pods

    @property
    def nodes(self) -> int:
        """Pods in one replica; `nodeCount: 1` is the same as no `multinode`."""
        if self.multinode is not None and self.multinode.node_count is not None:
            return self.multinode.node_count
        return self.parallelism.pods if self.parallelism is not None else 1


#: Fields of routers.
ROUTER_FIELDS = (
    "strategy",
    "scorers",
    "httproute",
    "gateway",
    "endpoint_picker",
    "endpoint_picker_config",
    "pool",
    "model_rewrites",
    "network_policy",
    "reference_grants",
)
#: Fields of roles that serve a model.
_SERVING_FIELDS = tuple(
    field
    for field in RoleArgs.model_fields
    if field not in ("name", "component_type", *ROUTER_FIELDS)
)


def role_findings(at: Location, role: RoleArgs) -> Iterator[Finding]:
    """Checks one role, each field of which is valid."""
    if role.component_type is ComponentType.ROUTER:
        yield from _foreign(at, role, _SERVING_FIELDS, "a router runs no model; remove it")
        yield from _router(at, role)
        return
    yield from _foreign(at, role, ROUTER_FIELDS, "belongs to a role of componentType router")
    yield from _templates(at, role)
    yield from _kv_transfer(at, role)
    if role.kv_cache_offloading is not None:
        yield from offloading_findings((*at, "kvCacheOffloading"), role.kv_cache_offloading)
    yield from claim_findings((*at, "resourceClaims"), role.resource_claims or ())
    yield from _multinode((*at, "multinode"), role)
    if role.parallelism is not None:
        node_count = role.multinode.node_count if role.multinode else None
        yield from parallelism_findings((*at, "parallelism"), role.parallelism, node_count)
    nodes = role.nodes
    if role.sub_group_policy and role.counted:
        size = role.sub_group_policy.sub_group_size
        where = (*at, "subGroupPolicy", "subGroupSize")
        if size > nodes:
            yield error(
                OUT_OF_RANGE,
                where,
                f"must be at most nodeCount ({nodes}), got {size}",
            )
        elif role.sub_group_policy.sub_group_policy_type is SubGroupPolicyType.LEADER_EXCLUDED:
            if (nodes - 1) % size:
                yield error(
                    PARALLELISM_NOT_DIVISIBLE,
                    where,
                    f"must divide nodeCount - 1 ({nodes - 1}) when the leader is excluded, "
                    f"got {size}",
                )
        elif nodes % size and (nodes - 1) % size:
            yield error(
                PARALLELISM_NOT_DIVISIBLE,
                where,
                f"must divide nodeCount ({nodes}) or nodeCount - 1, got {size}",
            )


def _multinode(at: Location, role: RoleArgs) -> Iterator[Finding]:
    if role.counted:
        return
    if role.parallelism is None:
        yield error(FIELD_REQUIRED, (*at, "nodeCount"), "is required")
    else:
        yield error(
            FIELD_REQUIRED,
            (*at, "nodeCount"),
            "is required: parallelism does not say how many pods a replica has (pipeline would, or "
            "data with dataLocal)",
        )


def _router(at: Location, role: RoleArgs) -> Iterator[Finding]:
    if role.endpoint_picker_config is not None:
        for key, value in (("strategy", role.strategy), ("scorers", role.scorers)):
            if value is not None:
                yield error(
                    FIELDS_EXCLUDE_EACH_OTHER,
                    (*at, key),
                    "endpointPickerConfig stands in its place; give one or the other",
                )
    if role.endpoint_picker is not None:
        chosen = role.strategy in (None, Strategy.PD_DISAGGREGATION)
        yield from picker_findings(
            (*at, "endpointPicker"),
            role.endpoint_picker,
            disaggregated=chosen and role.endpoint_picker_config is None,
        )
    if role.httproute is not None:
        yield from httproute_findings((*at, "httproute"), role.httproute)
    if role.gateway is not None:
        yield from gateway_findings((*at, "gateway"), role.gateway)
        if (
            role.httproute is not None
            and role.httproute.external_field is not None
            and role.gateway.refs is None
            and role.gateway.model_fields_set != {"implementation"}
        ):
            yield error(
                FIELD_OUT_OF_PLACE,
                (*at, "gateway"),
                f"would be a Gateway without a route (httproute.{role.httproute.external_field}); "
                "remove it, or leave implementation alone, or give refs",
            )
        if role.gateway.refs and role.httproute is not None and role.httproute.parent_refs:
            yield error(
                FIELDS_EXCLUDE_EACH_OTHER,
                (*at, "httproute", "parentRefs"),
                "follow from gateway.refs; give one or the other",
            )
    if role.model_rewrites is not None:
        yield from model_rewrite_findings((*at, "modelRewrites"), role.model_rewrites)
    if role.network_policy is not None:
        yield from network_policy_findings((*at, "networkPolicy"), role.network_policy)


def _foreign(at: Location, role: RoleArgs, fields: Sequence[str], why: str) -> Iterator[Finding]:
    for field in fields:
        if field in role.model_fields_set and getattr(role, field) is not None:
            alias = RoleArgs.model_fields[field].alias or field
            yield error(
                FIELD_OUT_OF_PLACE,
                (*at, alias),
                f"{why} (this role is a {role.component_type.value})",
            )


def _templates(at: Location, role: RoleArgs) -> Iterator[Finding]:
    separate = {"leaderTemplate": role.leader_template, "workerTemplate": role.worker_template}
    present = [name for name, template in separate.items() if template is not None]
    if role.template is not None:
        for name in present:
            yield error(
                FIELDS_EXCLUDE_EACH_OTHER,
                (*at, name),
                "stands in place of template; give one or the other",
            )
    elif not present:
        yield error(FIELD_REQUIRED, (*at, "template"), "is required: the pods that serve the model")
    elif role.nodes == 1 and role.counted:
        for name in present:
            yield error(
                FIELD_OUT_OF_PLACE,
                (*at, name),
                "needs multinode.nodeCount of at least 2; use template",
            )
    else:
        for name in sorted(set(separate) - set(present)):
            yield error(FIELD_REQUIRED, (*at, name), f"is required beside {present[0]}")
    for name, template in {"template": role.template, **separate}.items():
        if template is not None:
            yield from pod_template_findings((*at, name), template, role.container)


def _kv_transfer(at: Location, role: RoleArgs) -> Iterator[Finding]:
    transfer = role.kv_transfer
    if transfer is None:
        return
    at = (*at, "kvTransfer")
    if role.component_type is ComponentType.WORKER:
        yield error(
            FIELD_OUT_OF_PLACE,
            at,
            "belongs to a prefiller or a decoder (this role is a worker)",
        )
        return
    if role.component_type is ComponentType.PREFILLER:
        for field, alias in (("engine_port", "enginePort"), ("sidecar", "sidecar")):
            if field in transfer.model_fields_set and getattr(transfer, field) is not None:
                yield error(
                    FIELD_OUT_OF_PLACE,
                    (*at, alias),
                    "belongs to a decoder: only decode pods have a sidecar",
                )
    yield from kv_transfer_findings(at, transfer)
