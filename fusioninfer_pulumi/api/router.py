"""What a router role may say: its endpoint picker, its route and its Gateway.

The fields of HTTPRoute and Gateway are those of the Gateway API and are passed on as they are.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import Field

from fusioninfer_pulumi.api.base import (
    AnnotationMap,
    LeafText,
    Namespace,
    Port,
    PositiveCount,
    SpecModel,
)
from fusioninfer_pulumi.api.plain import plain_problems
from fusioninfer_pulumi.api.problem import Problem
from fusioninfer_pulumi.api.string_formats import Name
from fusioninfer_pulumi.api.types import OnOff
from fusioninfer_pulumi.findings import LIFT, Location
from fusioninfer_pulumi.kube.outputs import is_output

#: More than any prompt has, and what every picker can read.
MAX_CHARACTERS = 2**31 - 1


class FailureMode(str, enum.Enum):
    """What a gateway does with requests while the endpoint picker does not answer."""

    FAIL_OPEN = "FailOpen"  #: sends them to any pod of the pool
    FAIL_CLOSE = "FailClose"  #: drops them


class MetricsMode(str, enum.Enum):
    """Who may read the endpoint picker's metrics."""

    OFF = "Off"  #: nobody
    AUTHENTICATED = "Authenticated"  #: whoever may get /metrics; needs a ClusterRoleBinding
    UNAUTHENTICATED = "Unauthenticated"  #: everybody who reaches the port


class GroupPairing(str, enum.Enum):
    """Whether prefill and decode of a request may be of different serving groups."""

    STRICT = "Strict"  #: never
    PREFERRED = "Preferred"  #: where the decode pod's group has no prefill pod


class SplitArgs(SpecModel):
    """A share of the requests for another service of the namespace, such as a canary."""

    service: Name
    """Name of the service; its router says `routedBy`."""

    weight: Annotated[int, Field(ge=0, le=100)]
    """Percent of the requests that go to its pool; what is left of 100 stays here."""


class HttpRouteRefArgs(SpecModel):
    """An HTTPRoute that is made elsewhere."""

    name: str = Field(min_length=1)
    """Its name."""

    namespace: Namespace | None = None
    """Its namespace, by default the service's; may be an Output."""


class HttpRouteArgs(SpecModel):
    """The spec of the service's HTTPRoute, kept whole; or whose route leads to the service."""

    parent_refs: list[dict[str, Any]] | None = None
    """Gateways that the route attaches to; by default those of `gateway`."""

    hostnames: list[LeafText] | None = None
    """Host names that the route answers to; each may be an Output."""

    rules: list[dict[str, Any]] | None = None
    """Rules; one without `backendRefs` leads to the service's pool, and so does the default."""

    use_default_gateways: str | None = None
    """Attaches the route to the cluster's default Gateways (Gateway API 1.4, experimental)."""

    split: Annotated[list[SplitArgs], Field(min_length=1)] | None = None
    """Shares of other services in the requests of the rules without `backendRefs`; by default none.
    Not every gateway takes several pools in one rule (docs/routing.md)."""

    routed_by: Name | None = None
    """The service whose route leads to this one's pool; none is made here then."""

    refs: Annotated[list[HttpRouteRefArgs], Field(min_length=1)] | None = None
    """HTTPRoutes made elsewhere that lead to this one's pool; none is made here then."""

    @property
    def elsewhere(self) -> str | None:
        """The field that says whose route leads to the pool, where none is made here."""
        if self.routed_by is not None:
            return "routedBy"
        return None if self.refs is None else "refs"


class GatewayRefArgs(SpecModel):
    """A Gateway that exists already."""

    name: str = Field(min_length=1)
    """Its name."""

    namespace: Namespace | None = None
    """Its namespace, by default the service's; may be an Output."""

    section_name: str | None = None
    """The one listener to attach to, by default all that take the route."""

    port: Port | None = None
    """The listeners' port to attach to, by default any."""

    listeners: list[dict[str, Any]] | None = None
    """The Gateway's listeners as far as they are known: with them the attachment is checked and
    the endpoint has the right scheme and port. They are not written anywhere."""


class GatewayArgs(SpecModel):
    """Gateways that exist (`refs`), or the spec of one that belongs to the service."""

    implementation: str | None = Field(default=None, min_length=1)
    """The gateway software: `envoy-ai-gateway`, `agentgateway`, `istio`, `nginx-gateway-fabric`
    or `gke`. What it needs beside the route is then generated; class names do not tell.
    Alone, beside `parentRefs` or `routedBy`, it creates no Gateway."""

    refs: Annotated[list[GatewayRefArgs], Field(min_length=1)] | None = None
    """Existing Gateways; without it a Gateway is created."""

    gateway_class_name: str | None = Field(default=None, min_length=1)
    """GatewayClass of the created Gateway; by default that of `implementation`, else `eg`."""

    listeners: Annotated[list[dict[str, Any]], Field(min_length=1)] | None = None
    """Its listeners; by default HTTP on port 80."""

    addresses: list[dict[str, Any]] | None = None
    """Its addresses."""

    infrastructure: dict[str, Any] | None = None
    """Labels, annotations and parameters of what the implementation creates for it."""

    allowed_listeners: dict[str, Any] | None = None
    """Which ListenerSets may add listeners to it."""

    tls: dict[str, Any] | None = None
    """TLS of the Gateway as a whole."""

    default_scope: str | None = None
    """Whether it is a default Gateway (Gateway API 1.4, experimental)."""

    annotations: AnnotationMap = Field(default_factory=dict)
    """Annotations of the Gateway object; values may be Outputs."""


class PickerTlsArgs(SpecModel):
    """TLS between the gateway and the endpoint picker."""

    enabled: bool = True
    """Whether the picker serves TLS; turn it off only for a gateway that speaks plain gRPC."""

    secret_name: str | None = Field(default=None, min_length=1)
    """Secret with `tls.crt` and `tls.key`; by default the picker signs a certificate by itself,
    which no gateway verifies."""


class EndpointPickerArgs(SpecModel):
    """The endpoint picker: the program that chooses a pod for each request."""

    image: LeafText | None = None
    """Its image; by default the router document's, and llm-d's for `pd-disaggregation`. May be an
    Output, together with `family`."""

    family: str | None = None
    """What kind of picker the image is, where its name and tag do not say so: `gaie-1.2`, ..."""

    replicas: PositiveCount = 1
    """Pods; with several of them one leads and the others stand by."""

    resources: dict[str, Any] | None = None
    """Resources of its container, in place of the default requests."""

    template: dict[str, Any] | None = None
    """Overrides of its pod template, merged into the generated one: mappings key by key, lists of
    named items (containers, volumes, env) by name. Its container is named `epp`."""

    args: list[str] | None = None
    """More command line flags; those that the library sets are refused."""

    log_verbosity: Annotated[int, Field(ge=0, le=10)] = 2
    """Log level, from 0 to 10."""

    failure_mode: Annotated[FailureMode, Field(strict=False)] | None = None
    """What the gateway does without the picker; by default `FailOpen`."""

    metrics: OnOff[MetricsMode] = MetricsMode.OFF
    """Who may read its metrics; by default nobody."""

    threshold: Annotated[int, Field(ge=0, le=MAX_CHARACTERS)] | None = None
    """With `pd-disaggregation`: characters of a prompt that must be missing from the decode pod's
    cache before a prefill pod computes it; by default 0, every prompt."""

    group_pairing: Annotated[GroupPairing, Field(strict=False)] | None = None
    """With `pd-disaggregation` and `groups`: `Strict` (default) draws a group that has both parts
    for each request, and nothing leaves it; `Preferred` takes the best decode pod of all groups,
    and a prefill pod of another group where that group has none."""

    tls: PickerTlsArgs = Field(default_factory=PickerTlsArgs)
    """TLS between the gateway and the picker."""


class PoolArgs(SpecModel):
    """How the InferencePool is guarded: gateways drop the service's traffic when it goes."""

    protect: bool | None = None
    """Pulumi's `protect`: the pool cannot be deleted before this is taken back."""

    retain_on_delete: bool | None = None
    """Pulumi's `retainOnDelete`: the pool stays in the cluster when the service goes."""


class NetworkPolicyArgs(SpecModel):
    """Who reaches the service's pods; everybody else is shut out."""

    gateway: list[dict[str, Any]] = Field(min_length=1)
    """NetworkPolicyPeers that match the gateway's proxies."""

    metrics: list[dict[str, Any]] | None = None
    """NetworkPolicyPeers that read metrics; by default none."""


def leaf_problems(at: Location, value: Any, outputs: tuple[str, ...] = ()) -> Iterator[Problem]:
    """Checks that a passed-through value is plain, apart from some leaves.

    Args:
        at: Where it stands.
        value: The value.
        outputs: Keys whose value (or whose mapping's values) may be Outputs.

    Yields:
        Every problem.
    """
    yield from plain_problems(at, value)
    yield from _outputs(at, value, outputs)


def _outputs(at: Location, value: Any, allowed: tuple[str, ...]) -> Iterator[Problem]:
    if is_output(value):
        yield Problem(at, LIFT, value)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key not in allowed:
                yield from _outputs((*at, str(key)), item, allowed)
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _outputs((*at, index), item, allowed)
