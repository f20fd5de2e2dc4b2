"""A router's endpoint picker, its pool and its NetworkPolicy."""

import enum
from typing import Any

from typing_extensions import Unpack

from fusioninfer_pulumi.api.field_types import (
    ImageOrOutput,
    OnOff,
    PartName,
    PodPart,
    Port,
    PositiveCount,
    Resources,
    Text,
    TextOrOutput,
)
from fusioninfer_pulumi.api.spec_model import SpecModel
from fusioninfer_pulumi.generated import dicts

PICKER_CONTAINER: str

class FailureMode(str, enum.Enum):
    """Behavior of the gateway if the endpoint picker is unavailable."""

    FAIL_OPEN = "FailOpen"
    FAIL_CLOSE = "FailClose"

class MetricsMode(str, enum.Enum):
    """Access to the endpoint picker's metrics."""

    OFF = "Off"
    AUTHENTICATED = "Authenticated"
    UNAUTHENTICATED = "Unauthenticated"

class GroupPairing(str, enum.Enum):
    """Whether prefill and decode pods of a request must be in the same serving group."""

    STRICT = "Strict"
    PREFERRED = "Preferred"

class PickerTlsArgs(SpecModel):
    """TLS between the gateway and the endpoint picker."""

    def __init__(self, **fields: Unpack[dicts.PickerTlsArgsDict]) -> None: ...
    enabled: bool
    "Whether the endpoint picker serves TLS; disable it only for a gateway that uses plaintext\n    gRPC."
    secret_name: TextOrOutput | None
    "Secret with `tls.crt` and `tls.key`; may be an Output. By default the endpoint picker uses a\n    self-signed certificate, which gateways do not verify."

class ServiceLevelArgs(SpecModel):
    """A priority of requests, as an InferenceObjective named `{service}-{name}`."""

    def __init__(self, **fields: Unpack[dicts.ServiceLevelArgsDict]) -> None: ...
    name: PartName
    "Name; requests set the header `x-llm-d-inference-objective` to `{service}-{name}`."
    priority: int
    "Priority; requests without a level have 0. The endpoint picker sends waiting requests of the\n    highest priority first."
    max_queued: PositiveCount | None
    "Maximum number of requests of this level that wait in the endpoint picker; additional\n    requests receive status 429. Default: 5000."

class ServiceLevelsArgs(SpecModel):
    """Priorities of requests. Tenants with the same priority are served round-robin.

    The header `x-llm-d-inference-fairness-id` names the tenant.
    """

    def __init__(self, **fields: Unpack[dicts.ServiceLevelsArgsDict]) -> None: ...
    levels: list[ServiceLevelArgs]
    "The levels."
    max_concurrency: PositiveCount
    "Requests that each pod processes at a time; other requests wait in the endpoint picker, and\n    not in the engines, which serve them in order of arrival. At most the engine's\n    `--max-num-seqs`."
    evict: bool
    "Whether running requests with a negative priority are aborted with status 429 while requests\n    of a higher priority wait."

class SessionArgs(SpecModel):
    """Where requests contain their session's name: the header `x-session-id` by default."""

    def __init__(self, **fields: Unpack[dicts.SessionArgsDict]) -> None: ...
    header: Text | None
    "Request header with the session's name."
    cookie: Text | None
    "Cookie with the session's name, which your application sets."

class EndpointPickerArgs(SpecModel):
    """The endpoint picker (EPP): chooses a pod for each request."""

    def __init__(self, **fields: Unpack[dicts.EndpointPickerArgsDict]) -> None: ...
    enabled: bool
    "Whether there is an endpoint picker. If not, there is no InferencePool either, and the route\n    leads to a Service, which ignores caches and queues."
    image: ImageOrOutput | None
    "Image. Default: the inference extension's endpoint picker, or llm-d's for\n    `pd-disaggregation`, `session-affinity`, `serviceLevels` and `modelRewrites`. May be an Output,\n    together with `family`."
    family: str | None
    "Release of the default image, or of `image` if its name and tag do not contain the release:\n    `gaie-1.2` to `gaie-1.5` (inference extension), `llm-d-0.9`, `llm-d-0.10` or `llm-d-1.0`."
    replicas: PositiveCount
    "Number of pods."
    leader_election: bool | None
    "Whether only one of several replicas serves while the others are on standby. By default\n    enabled with `flowControl`, because replicas do not share its queues, and with\n    `endpointPickerConfig`."
    resources: Resources | None
    "Resources of the picker's container, replacing the default requests."
    template: PodPart | None
    "Overrides of the picker's pod template. Mappings are merged by key, lists of named items\n    (containers, volumes, env) by name. The picker's container is named `epp`."
    args: list[str] | None
    "Additional command-line flags; flags that the library sets are rejected."
    log_verbosity: int
    "Log level, from 0 to 10."
    failure_mode: FailureMode | None
    "What the gateway does if the endpoint picker is unavailable; `FailOpen` by default."
    metrics: OnOff[MetricsMode]
    "Who may read the picker's metrics; no one by default."
    flow_control: bool | None
    "Whether to queue requests while there is no pod, or while the KV caches of all pods are\n    full; `gaie-1.3` also queues while more than 5 requests wait in each pod. If disabled, requests\n    receive status 503 while there is no pod. By default enabled if `autoscaling.target` or\n    `serviceLevels` requires it."
    service_levels: ServiceLevelsArgs | None
    "Priorities of requests, and fairness between tenants; enables `flowControl`\n    (docs/how-to/service-levels.md)."
    session: SessionArgs
    "With `session-affinity`: where requests contain their session's name."
    threshold: int | None
    "With `pd-disaggregation`: prompts with at least this many uncached characters are computed by\n    a prefill pod, others by the decode pod. By default 0: a prefill pod computes every prompt."
    group_pairing: GroupPairing | None
    "With `pd-disaggregation` and `groups`: `Strict` (default) chooses one group with prefill and\n    decode pods for each request; `Preferred` chooses the best decode pod of all groups, and a\n    prefill pod of another group if the decode pod's group has none."
    tls: PickerTlsArgs
    "TLS between the gateway and the endpoint picker."

class PoolArgs(SpecModel):
    """The InferencePool: ports, and protection from deletion."""

    def __init__(self, **fields: Unpack[dicts.PoolArgsDict]) -> None: ...
    target_ports: list[Port] | None
    "Ports of each pod, from which the endpoint picker chooses, for scripts that start several\n    engines in a pod. By default derived from the engine's arguments and `parallelism`."
    protect: bool | None
    "Pulumi's `protect`: the pool cannot be deleted until this is removed."
    retain_on_delete: bool | None
    "Pulumi's `retainOnDelete`: deleting the service leaves the pool in the cluster."

class NetworkPolicyArgs(SpecModel):
    """NetworkPolicies that restrict access to the service's pods.

    By default created if `gateway.implementation` determines where the gateway's proxies run.
    """

    def __init__(self, **fields: Unpack[dicts.NetworkPolicyArgsDict]) -> None: ...
    enabled: bool
    "Whether to create NetworkPolicies; without them everyone can reach the pods."
    gateway_namespace: TextOrOutput | None
    "Namespace of the gateway's proxies; all pods in it get access. By default the\n    namespace in which `gateway.implementation` runs its proxies. May be an Output."
    gateway: list[dict[str, Any]] | None
    "NetworkPolicyPeers that match the gateway's proxies, instead of `gatewayNamespace`."
    metrics: list[dict[str, Any]] | None
    "NetworkPolicyPeers that may read metrics; none by default. Required by `monitoring`."
