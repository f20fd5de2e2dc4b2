"""What a router's plan consists of: frozen records, without any Kubernetes object in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fusioninfer_pulumi.api.role import RoleArgs
from fusioninfer_pulumi.api.router import (
    EndpointPickerArgs,
    FailureMode,
    HttpRouteRefArgs,
    MetricsMode,
)
from fusioninfer_pulumi.findings import Location
from fusioninfer_pulumi.pickers import PickerFamily
from fusioninfer_pulumi.routing.gateways import Implementation


@dataclass(frozen=True)
class PickerPlan:
    """The endpoint picker.

    Attributes:
        name: Name of its Deployment, Service, ServiceAccount, Role and RoleBinding.
        config_name: Name of its ConfigMap.
        image: Its image; may be an Output.
        family: What kind of picker that is.
        config: Text of its configuration.
        arguments: Its command line.
        words: What it does, in words.
        args: What the user said of it.
        env: Variables that it gets beside its own.
    """

    name: str
    config_name: str
    image: Any
    family: PickerFamily
    config: str
    arguments: tuple[str, ...]
    words: str
    args: EndpointPickerArgs
    env: tuple[Mapping[str, str], ...] = ()

    @property
    def replicas(self) -> int:
        """Its pods."""
        return self.args.replicas

    @property
    def metrics(self) -> MetricsMode:
        """Who may read its metrics."""
        return self.args.metrics


@dataclass(frozen=True)
class PoolPlan:
    """The pods that the picker chooses from.

    Attributes:
        name: Name of the InferencePool.
        selector: Labels of exactly the serving pods.
        port: Port on which all of them serve.
        failure_mode: What the gateway does without the picker.
        roles: Names of the roles whose pods it holds.
        protect: Whether Pulumi refuses to delete it; None for the component's own option.
        retain: Whether it stays when the service goes; None for the component's own option.
    """

    name: str
    selector: Mapping[str, str]
    port: int
    failure_mode: FailureMode
    roles: tuple[str, ...]
    protect: bool | None
    retain: bool | None


@dataclass(frozen=True)
class ParentPlan:
    """A Gateway that the route attaches to.

    Attributes:
        at: Field that names it, for findings.
        name: Its name.
        namespace: Its namespace; may be an Output.
        section: The one listener meant, None for any.
        port: The listeners' port meant, None for any.
        listeners: Its listeners, None where they are not known.
    """

    at: Location
    name: str
    namespace: Any
    section: str | None
    port: int | None
    listeners: tuple[Mapping[str, Any], ...] | None


@dataclass(frozen=True)
class RulePlan:
    """One rule of the route.

    Attributes:
        given: The rule as the user wrote it.
        completed: Whether our pool becomes its only backend.
        repaired: Indexes of its backends that become our pool.
        request_timeout: Timeout that it gets, None to leave it as it is.
    """

    given: Mapping[str, Any]
    completed: bool
    repaired: frozenset[int]
    request_timeout: str | None


@dataclass(frozen=True)
class RoutePlan:
    """The HTTPRoute.

    Attributes:
        name: Its name.
        parent_refs: References to Gateways, as they are written; None to write none.
        hostnames: Host names; each may be an Output.
        rules: Its rules.
        use_default_gateways: The field of that name, None to leave it out.
        split: Pools that share the requests of completed rules, ours first, each with its
            percentage; none where ours gets all of them.
    """

    name: str
    parent_refs: tuple[Mapping[str, Any], ...] | None
    hostnames: tuple[Any, ...] | None
    rules: tuple[RulePlan, ...]
    use_default_gateways: str | None
    split: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class GatewayPlan:
    """A Gateway that belongs to the service.

    Attributes:
        name: Its name.
        annotations: Its own annotations; values may be Outputs.
        spec: Its class, listeners and whatever else the user wrote.
    """

    name: str
    annotations: Mapping[str, Any]
    spec: Mapping[str, Any]


@dataclass(frozen=True)
class GrantPlan:
    """A reference into another namespace, which its owner has to allow.

    Attributes:
        at: Field that makes the reference, for findings.
        name: Name of the ReferenceGrant.
        namespace: Namespace that is referred to; may be an Output where it is the service's.
        from_kind: `HTTPRoute` or `Gateway`.
        from_namespace: Namespace of what refers; may be an Output where it is the service's.
        to_group: API group of what is referred to; empty for the core group.
        to_kind: Its kind.
        to_name: Its name.
    """

    at: Location
    name: str
    namespace: Any
    from_kind: str
    from_namespace: Any
    to_group: str
    to_kind: str
    to_name: str


@dataclass(frozen=True)
class RouterPlan:
    """A router role.

    Attributes:
        position: Index of the role in the spec.
        args: The role as the user wrote it.
        picker: The endpoint picker.
        pool: The pods that it chooses from.
        gateway: The Gateway that belongs to the service, None where there is none.
        parents: Gateways that the route attaches to.
        route: The HTTPRoute, None where neither a route nor a Gateway is asked for.
        implementation: What is known of the gateway, None where it is not named or not known.
        grants: ReferenceGrants that are created.
    """

    position: int
    args: RoleArgs
    picker: PickerPlan
    pool: PoolPlan
    gateway: GatewayPlan | None
    parents: tuple[ParentPlan, ...]
    route: RoutePlan | None
    implementation: Implementation | None
    grants: tuple[GrantPlan, ...]

    @property
    def name(self) -> str:
        """Name of the role."""
        return self.args.name

    @property
    def routed_by(self) -> str | None:
        """The service whose route leads to the pool, None where it is not another one's."""
        return None if self.args.httproute is None else self.args.httproute.routed_by

    @property
    def routes_elsewhere(self) -> tuple[HttpRouteRefArgs, ...]:
        """HTTPRoutes that lead to the pool and are no service's."""
        return () if self.args.httproute is None else tuple(self.args.httproute.refs or ())

    @property
    def is_routed(self) -> bool:
        """Whether some route leads to the pool, as far as the spec says."""
        given = self.args.httproute
        return self.route is not None or (given is not None and given.elsewhere is not None)
