"""A router's endpoint picker, its pool and its NetworkPolicy."""

from __future__ import annotations

import enum
from typing import Any

from typing_extensions import Unpack

from fusioninfer_pulumi.api.field_types import (
    OnOff,
    PodPart,
    Port,
    PositiveCount,
    StringOrOutput,
    TextOrOutput,
)
from fusioninfer_pulumi.api.spec_model import SpecModel
from fusioninfer_pulumi.generated import dicts

PICKER_CONTAINER: str

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
    enabled: bool
    "Whether the picker serves TLS; turn it off only for a gateway that speaks plain gRPC."
    secret_name: TextOrOutput | None
    "Secret with `tls.crt` and `tls.key`; may be an Output. By default the picker signs a\n    certificate by itself, which no gateway verifies."

class EndpointPickerArgs(SpecModel):
    """The endpoint picker: the program that chooses a pod for each request."""

    def __init__(self, **fields: Unpack[dicts.EndpointPickerArgsDict]) -> None: ...
    enabled: bool
    "Whether there is one. Without it the route leads to a Service, which spreads requests without\n    regard to caches and queues, and there is no InferencePool."
    image: StringOrOutput | None
    "Its image; by default the router document's, and llm-d's for `pd-disaggregation`. May be an\n    Output, together with `family`."
    family: str | None
    "Release of the image, where its name and tag do not say so: `gaie-1.2`, `gaie-1.3`,\n    `gaie-1.4` or `gaie-1.5` of the inference extension, `llm-d-0.9` or `llm-d-0.10`."
    replicas: PositiveCount
    "Pods; with several of them one leads and the others stand by."
    resources: PodPart | None
    "Resources of its container, in place of the default requests."
    template: PodPart | None
    "Overrides of its pod template, merged into the generated one: mappings key by key, lists of\n    named items (containers, volumes, env) by name. Its container is named `epp`."
    args: list[str] | None
    "More command line flags; those that the library sets are refused."
    log_verbosity: int
    "Log level, from 0 to 10."
    failure_mode: FailureMode | None
    "What the gateway does without the picker; by default `FailOpen`."
    metrics: OnOff[MetricsMode]
    "Who may read its metrics; by default no one."
    flow_control: bool | None
    "Whether it holds requests while there is no pod, or the KV caches of all pods are full; by\n    default where `autoscaling.target` needs it. Without it a request is answered 503 while there\n    is no pod. Up to v1.3 it also holds them while more than 5 requests wait in each pod."
    threshold: int | None
    "With `pd-disaggregation`: characters of a prompt that must be missing from the decode pod's\n    cache before a prefill pod computes it; by default 0, every prompt."
    group_pairing: GroupPairing | None
    "With `pd-disaggregation` and `groups`: `Strict` (default) draws a group that has both parts\n    for each request, and nothing leaves it; `Preferred` takes the best decode pod of all groups,\n    and a prefill pod of another group where that group has none."
    tls: PickerTlsArgs
    "TLS between the gateway and the picker."

class PoolArgs(SpecModel):
    """The InferencePool: the pods' ports, and how it is guarded: without it all requests fail."""

    def __init__(self, **fields: Unpack[dicts.PoolArgsDict]) -> None: ...
    target_ports: list[Port] | None
    "Ports of each pod, of which the picker chooses one, for engines of several servers that a\n    script of yours starts; by default those that the engines' arguments and `parallelism` say."
    protect: bool | None
    "Pulumi's `protect`: the pool cannot be deleted before this is taken back."
    retain_on_delete: bool | None
    "Pulumi's `retainOnDelete`: the pool stays in the cluster when the service goes."

class NetworkPolicyArgs(SpecModel):
    """NetworkPolicies that restrict access to the service's pods.

    By default on where `gateway.implementation` says where the proxies of the route's Gateways run.
    """

    def __init__(self, **fields: Unpack[dicts.NetworkPolicyArgsDict]) -> None: ...
    enabled: bool
    "Whether there are NetworkPolicies; false lets everybody in."
    gateway_namespace: TextOrOutput | None
    "Namespace of the gateway's proxies, all of whose pods are let in; by default that in which\n    `gateway.implementation` runs them. May be an Output."
    gateway: list[dict[str, Any]] | None
    "NetworkPolicyPeers that match the gateway's proxies, in place of their namespace."
    metrics: list[dict[str, Any]] | None
    "NetworkPolicyPeers that read metrics; by default none. `monitoring` requires them."
