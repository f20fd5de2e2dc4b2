"""The InferencePool: plan and object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fusioninfer_pulumi.api.role import ComponentType, RoleArgs
from fusioninfer_pulumi.api.router import EndpointPickerArgs, FailureMode, PoolArgs
from fusioninfer_pulumi.api.topology import serving
from fusioninfer_pulumi.endpoint_pickers.flags import GRPC_PORT
from fusioninfer_pulumi.endpoint_pickers.intent import EppIntent
from fusioninfer_pulumi.kube import labels, names
from fusioninfer_pulumi.kube.metadata import Manifest, ServiceMeta, metadata

_LEADER = "0"


@dataclass(frozen=True)
class PoolPlan:
    """The pods that the endpoint picker chooses from.

    Attributes:
        selector: Labels of exactly the serving pods.
        ports: Ports of each pod, of which the picker chooses one: one for each rank of an engine
            whose ranks have their own.
        roles: Names of the roles whose pods it holds.
        protect: Whether Pulumi refuses to delete it; None for the component's own option.
        retain: Whether it stays when the service goes; None for the component's own option.
    """

    name: str
    selector: Mapping[str, str]
    ports: tuple[int, ...]
    failure_mode: FailureMode
    roles: tuple[str, ...]
    protect: bool | None
    retain: bool | None

    @property
    def port(self) -> int:
        """The first of its ports."""
        return self.ports[0]

    @property
    def ports_text(self) -> str:
        """Its ports, for people."""
        first, last = self.ports[0], self.ports[-1]
        if len(self.ports) == 1:
            return f"port {first}"
        if last - first == len(self.ports) - 1:
            return f"ports {first} to {last}"
        return f"ports {', '.join(map(str, self.ports))}"


def pooled_types(declared: Sequence[RoleArgs], intent: EppIntent) -> frozenset[ComponentType]:
    """Component types whose leaders the pool holds.

    All of them where the endpoint picker pairs prefill with decode. Else those that answer a
    request alone, which prefill pods do not: they return one token only. A selector cannot say
    "one of two types", so decoders win over workers where prefillers have to stay out.
    """
    types = frozenset(role.component_type for role in serving(declared))
    if intent.pairs or ComponentType.PREFILLER not in types or len(types) == 1:
        return types
    if ComponentType.DECODER in types:
        return frozenset({ComponentType.DECODER})
    return types - {ComponentType.PREFILLER}


def pool_plan(
    service: str,
    args: RoleArgs,
    declared: Sequence[RoleArgs],
    intent: EppIntent,
    ports: tuple[int, ...],
) -> PoolPlan:
    """Plans the pool of a router role, whose pods serve on `ports`."""
    types = pooled_types(declared, intent)
    # LeaderWorkerSet's label distinguishes leaders, which serve, from workers. No other pod has it
    # together with the service's label.
    selector = {labels.SERVICE: service, labels.LWS_WORKER_INDEX: _LEADER}
    if len(types) == 1:
        selector[labels.COMPONENT_TYPE] = next(iter(types)).value
    pool = args.pool or PoolArgs()
    epp = args.endpoint_picker or EndpointPickerArgs()
    return PoolPlan(
        name=names.inference_pool(service),
        selector=selector,
        ports=tuple(pool.target_ports or ports),
        failure_mode=epp.failure_mode or FailureMode.FAIL_OPEN,
        roles=tuple(role.name for role in serving(declared) if role.component_type in types),
        protect=pool.protect,
        retain=pool.retain_on_delete,
    )


def inference_pool(meta: ServiceMeta, pool: PoolPlan, epp: str) -> Manifest:
    """Builds the InferencePool; `picker` is the name of the endpoint picker's Service."""
    return {
        "apiVersion": f"{names.POOL_GROUP}/v1",
        "kind": names.POOL_KIND,
        "metadata": metadata(meta, pool.name),
        "spec": {
            "selector": {"matchLabels": dict(pool.selector)},
            "targetPorts": [{"number": port} for port in pool.ports],
            "endpointPickerRef": {
                "name": epp,
                "port": {"number": GRPC_PORT},
                "failureMode": pool.failure_mode.value,
            },
        },
    }


def is_pool(ref: Mapping[str, Any]) -> bool:
    """Whether a backend is an InferencePool, of any service."""
    return ref.get("kind") == names.POOL_KIND and ref.get("group") == names.POOL_GROUP


def pool_reference(name: str) -> Manifest:
    """Reference to an InferencePool, as a backend of a route or the target of a policy."""
    return {"group": names.POOL_GROUP, "kind": names.POOL_KIND, "name": name}
