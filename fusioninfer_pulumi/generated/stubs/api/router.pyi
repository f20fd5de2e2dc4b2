"""A router's endpoint picker, its pool and its NetworkPolicy."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field
from typing_extensions import Unpack

from fusioninfer_pulumi.api.field_types import (
    OnOff,
    PodPart,
    Port,
    PositiveCount,
    StringOrOutput,
    TextOrOutput,
)
from fusioninfer_pulumi.api.spec_model import SpecModel, default
from fusioninfer_pulumi.findings import Finding, Location
from fusioninfer_pulumi.generated import dicts

PICKER_CONTAINER = "epp"
MAX_CHARACTERS = 2**31 - 1

class FailureMode(str, enum.Enum):
    """Behavior of a gateway while the endpoint picker does not answer."""

    FAIL_OPEN = "FailOpen"
    FAIL_CLOSE = "FailClose"

class MetricsMode(str, enum.Enum):
    """Access to the endpoint picker's metrics."""

    OFF = "Off"
    AUTHENTICATED = "Authenticated"
    UNAUTHENTICATED = "Unauthenticated"

class GroupPairing(str, enum.Enum):
    """Whether prefill and decode of a request may be of different serving groups."""

    STRICT = "Strict"
    PREFERRED = "Preferred"

class PickerTlsArgs(SpecModel):
    """TLS between the gateway and the endpoint picker."""

    def __init__(self, **fields: Unpack[dicts.PickerTlsArgsDict]) -> None: ...
    enabled: bool = True
    "Whether the picker serves TLS; turn it off only for a gateway that speaks plain gRPC."
    secret_name: TextOrOutput | None = None
    "Secret with `tls.crt` and `tls.key`; may be an Output. By default the picker signs a\n    certificate by itself, which no gateway verifies."

class EndpointPickerArgs(SpecModel):
    """The endpoint picker: the program that chooses a pod for each request."""

    def __init__(self, **fields: Unpack[dicts.EndpointPickerArgsDict]) -> None: ...
    enabled: bool = True
    "Whether there is one. Without it the route leads to a Service, which spreads requests without\n    regard to caches and queues, and there is no InferencePool."
    image: StringOrOutput | None = None
    "Its image; by default the router document's, and llm-d's for `pd-disaggregation`. May be an\n    Output, together with `family`."
    family: str | None = None
    "Release of the image, where its name and tag do not say so: `gaie-1.2`, `gaie-1.3`,\n    `gaie-1.4` or `gaie-1.5` of the inference extension, `llm-d-0.9` or `llm-d-0.10`."
    replicas: PositiveCount = 1
    "Pods; with several of them one leads and the others stand by."
    resources: PodPart | None = None
    "Resources of its container, in place of the default requests."
    template: PodPart | None = None
    "Overrides of its pod template, merged into the generated one: mappings key by key, lists of\n    named items (containers, volumes, env) by name. Its container is named `epp`."
    args: list[str] | None = None
    "More command line flags; those that the library sets are refused."
    log_verbosity: Annotated[int, Field(ge=0, le=10)] = 2
    "Log level, from 0 to 10."
    failure_mode: Annotated[FailureMode, Field(strict=False)] | None = None
    "What the gateway does without the picker; by default `FailOpen`."
    metrics: OnOff[MetricsMode] = MetricsMode.OFF
    "Who may read its metrics; by default no one."
    flow_control: bool | None = None
    "Whether it holds requests while there is no pod, or the KV caches of all pods are full; by\n    default where `autoscaling.target` needs it. Without it a request is answered 503 while there\n    is no pod. Up to v1.3 it also holds them while more than 5 requests wait in each pod."
    threshold: Annotated[int, Field(ge=0, le=MAX_CHARACTERS)] | None = None
    "With `pd-disaggregation`: characters of a prompt that must be missing from the decode pod's\n    cache before a prefill pod computes it; by default 0, every prompt."
    group_pairing: Annotated[GroupPairing, Field(strict=False)] | None = None
    "With `pd-disaggregation` and `groups`: `Strict` (default) draws a group that has both parts\n    for each request, and nothing leaves it; `Preferred` takes the best decode pod of all groups,\n    and a prefill pod of another group where that group has none."
    tls: PickerTlsArgs = default(PickerTlsArgs)
    "TLS between the gateway and the picker."

class PoolArgs(SpecModel):
    """The InferencePool: the pods' ports, and how it is guarded: without it all requests fail."""

    def __init__(self, **fields: Unpack[dicts.PoolArgsDict]) -> None: ...
    target_ports: Annotated[list[Port], Field(min_length=1, max_length=8)] | None = None
    "Ports of each pod, of which the picker chooses one, for engines of several servers that a\n    script of yours starts; by default those that the engines' arguments and `parallelism` say."
    protect: bool | None = None
    "Pulumi's `protect`: the pool cannot be deleted before this is taken back."
    retain_on_delete: bool | None = None
    "Pulumi's `retainOnDelete`: the pool stays in the cluster when the service goes."

class NetworkPolicyArgs(SpecModel):
    """NetworkPolicies that restrict access to the service's pods.

    By default on where `gateway.implementation` says where the proxies of the route's Gateways run.
    """

    def __init__(self, **fields: Unpack[dicts.NetworkPolicyArgsDict]) -> None: ...
    enabled: bool = True
    "Whether there are NetworkPolicies; false lets everybody in."
    gateway_namespace: TextOrOutput | None = None
    "Namespace of the gateway's proxies, all of whose pods are let in; by default that in which\n    `gateway.implementation` runs them. May be an Output."
    gateway: Annotated[list[dict[str, Any]], Field(min_length=1)] | None = None
    "NetworkPolicyPeers that match the gateway's proxies, in place of their namespace."
    metrics: list[dict[str, Any]] | None = None
    "NetworkPolicyPeers that read metrics; by default none. `monitoring` requires them."

_FIELDS_OF_PICKER = {
    "ports": "the picker's ports are fixed; remove it",
    "args": "stands in endpointPicker.args; remove it here",
    "image": "stands in endpointPicker.image; remove it here",
    "resources": "stands in endpointPicker.resources; remove it here",
}

def picker_findings(
    at: Location, picker: EndpointPickerArgs, *, disaggregated: bool
) -> Iterator[Finding]: ...
def _template(at: Location, template: Mapping[str, Any]) -> Iterator[Finding]: ...
def _own_containers(template: Mapping[str, Any]) -> Iterator[tuple[int, Mapping[str, Any]]]: ...
def _add_picker_container(spec: Mapping[str, Any]) -> dict[str, Any]: ...
def network_policy_findings(at: Location, policy: NetworkPolicyArgs) -> Iterator[Finding]: ...
