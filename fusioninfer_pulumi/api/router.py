"""A router's endpoint picker, its pool and its NetworkPolicy."""

import enum
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field

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
    matches_schema,
)
from fusioninfer_pulumi.api.pod_template import partial_template_findings, reserved_key_findings
from fusioninfer_pulumi.api.spec_model import SpecModel, default
from fusioninfer_pulumi.findings import Finding, Location, error
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.rules.common import SET_TWICE
from fusioninfer_pulumi.schemas.kind_schema import NETWORK_PEERS

#: Name of the endpoint picker's container, also in `endpointPicker.template`.
PICKER_CONTAINER = "epp"
#: More than any prompt has, and small enough for every picker's integers.
MAX_PROMPT_CHARACTERS = 2**31 - 1


class FailureMode(str, enum.Enum):
    """Behavior of the gateway if the endpoint picker is unavailable."""

    FAIL_OPEN = "FailOpen"  #: sends requests to any pod of the pool
    FAIL_CLOSE = "FailClose"  #: rejects requests


class MetricsMode(str, enum.Enum):
    """Access to the endpoint picker's metrics."""

    OFF = "Off"  #: nobody
    AUTHENTICATED = "Authenticated"  #: accounts that may get /metrics; adds a ClusterRoleBinding
    UNAUTHENTICATED = "Unauthenticated"  #: everyone who can reach the port


class GroupPairing(str, enum.Enum):
    """Whether prefill and decode pods of a request must be in the same serving group."""

    STRICT = "Strict"  #: always
    PREFERRED = "Preferred"  #: only if the decode pod's group has a prefill pod


class PickerTlsArgs(SpecModel):
    """TLS between the gateway and the endpoint picker."""

    enabled: bool = True
    """Whether the endpoint picker serves TLS; disable it only for a gateway that uses plaintext
    gRPC."""

    secret_name: TextOrOutput | None = None
    """Secret with `tls.crt` and `tls.key`; may be an Output. By default the endpoint picker uses a
    self-signed certificate, which gateways do not verify."""

    OTHERS_REQUIRE_FIRST = ("enabled",)


class ServiceLevelArgs(SpecModel):
    """A priority of requests, as an InferenceObjective named `{service}-{name}`."""

    name: PartName
    """Name; requests set the header `x-llm-d-inference-objective` to `{service}-{name}`."""

    priority: Annotated[int, Field(ge=-(2**31), lt=2**31)]
    """Priority; requests without a level have 0. The endpoint picker sends waiting requests of the
    highest priority first."""

    max_queued: PositiveCount | None = None
    """Maximum number of requests of this level that wait in the endpoint picker; additional
    requests receive status 429. Default: 5000."""


class ServiceLevelsArgs(SpecModel):
    """Priorities of requests. Tenants with the same priority are served round-robin.

    The header `x-llm-d-inference-fairness-id` names the tenant.
    """

    levels: Annotated[list[ServiceLevelArgs], Field(min_length=1)]
    """The levels."""

    max_concurrency: PositiveCount = 100
    """Requests that each pod processes at a time; other requests wait in the endpoint picker, and
    not in the engines, which serve them in order of arrival. At most the engine's
    `--max-num-seqs`."""

    evict: bool = False
    """Whether running requests with a negative priority are aborted with status 429 while requests
    of a higher priority wait."""

    UNIQUE = (("levels", "name"), ("levels", "priority"))


class SessionArgs(SpecModel):
    """Where requests contain their session's name: the header `x-session-id` by default."""

    header: Text | None = None
    """Request header with the session's name."""

    cookie: Text | None = None
    """Cookie with the session's name, which your application sets."""

    AT_MOST_ONE_OF = ("header", "cookie")


class EndpointPickerArgs(SpecModel):
    """The endpoint picker (EPP): chooses a pod for each request."""

    enabled: bool = True
    """Whether there is an endpoint picker. If not, there is no InferencePool either, and the route
    leads to a Service, which ignores caches and queues."""

    image: ImageOrOutput | None = None
    """Image. Default: the inference extension's endpoint picker, or llm-d's for
    `pd-disaggregation`, `session-affinity`, `serviceLevels` and `modelRewrites`. May be an Output,
    together with `family`."""

    family: str | None = None
    """Release of the default image, or of `image` if its name and tag do not contain the release:
    `gaie-1.2` to `gaie-1.5` (inference extension), `llm-d-0.9`, `llm-d-0.10` or `llm-d-1.0`."""

    replicas: PositiveCount = 1
    """Number of pods."""

    leader_election: bool | None = None
    """Whether only one of several replicas serves while the others are on standby. By default
    enabled with `flowControl`, because replicas do not share its queues, and with
    `endpointPickerConfig`."""

    resources: Resources | None = None
    """Resources of the picker's container, replacing the default requests."""

    template: PodPart | None = None
    """Overrides of the picker's pod template. Mappings are merged by key, lists of named items
    (containers, volumes, env) by name. The picker's container is named `epp`."""

    args: list[str] | None = None
    """Additional command-line flags; flags that the library sets are rejected."""

    log_verbosity: Annotated[int, Field(ge=0, le=10)] = 2
    """Log level, from 0 to 10."""

    failure_mode: Annotated[FailureMode, Field(strict=False)] | None = None
    """What the gateway does if the endpoint picker is unavailable; `FailOpen` by default."""

    metrics: OnOff[MetricsMode] = MetricsMode.OFF
    """Who may read the picker's metrics; no one by default."""

    flow_control: bool | None = None
    """Whether to queue requests while there is no pod, or while the KV caches of all pods are
    full; `gaie-1.3` also queues while more than 5 requests wait in each pod. If disabled, requests
    receive status 503 while there is no pod. By default enabled if `autoscaling.target` or
    `serviceLevels` requires it."""

    service_levels: ServiceLevelsArgs | None = None
    """Priorities of requests, and fairness between tenants; enables `flowControl`
    (docs/how-to/service-levels.md)."""

    session: SessionArgs = default(SessionArgs)
    """With `session-affinity`: where requests contain their session's name."""

    threshold: Annotated[int, Field(ge=0, le=MAX_PROMPT_CHARACTERS)] | None = None
    """With `pd-disaggregation`: prompts with at least this many uncached characters are computed by
    a prefill pod, others by the decode pod. By default 0: a prefill pod computes every prompt."""

    group_pairing: Annotated[GroupPairing, Field(strict=False)] | None = None
    """With `pd-disaggregation` and `groups`: `Strict` (default) chooses one group with prefill and
    decode pods for each request; `Preferred` chooses the best decode pod of all groups, and a
    prefill pod of another group if the decode pod's group has none."""

    tls: PickerTlsArgs = default(PickerTlsArgs)
    """TLS between the gateway and the endpoint picker."""

    OTHERS_REQUIRE_FIRST = ("enabled",)

    def findings(self, location: Location) -> Iterator[Finding]:
        """Check the template."""
        if self.template is not None:
            yield from _picker_template_findings((*location, "template"), self.template)


class PoolArgs(SpecModel):
    """The InferencePool: ports, and protection from deletion."""

    target_ports: Annotated[list[Port], Field(min_length=1, max_length=8)] | None = None
    """Ports of each pod, from which the endpoint picker chooses, for scripts that start several
    engines in a pod. By default derived from the engine's arguments and `parallelism`."""

    protect: bool | None = None
    """Pulumi's `protect`: the pool cannot be deleted until this is removed."""

    retain_on_delete: bool | None = None
    """Pulumi's `retainOnDelete`: deleting the service leaves the pool in the cluster."""


class NetworkPolicyArgs(SpecModel):
    """NetworkPolicies that restrict access to the service's pods.

    By default created if `gateway.implementation` determines where the gateway's proxies run.
    """

    enabled: bool = True
    """Whether to create NetworkPolicies; without them everyone can reach the pods."""

    gateway_namespace: TextOrOutput | None = None
    """Namespace of the gateway's proxies; all pods in it get access. By default the
    namespace in which `gateway.implementation` runs its proxies. May be an Output."""

    gateway: (
        Annotated[list[dict[str, Any]], Field(min_length=1), matches_schema(NETWORK_PEERS)] | None
    ) = None
    """NetworkPolicyPeers that match the gateway's proxies, instead of `gatewayNamespace`."""

    metrics: Annotated[list[dict[str, Any]], matches_schema(NETWORK_PEERS)] | None = None
    """NetworkPolicyPeers that may read metrics; none by default. Required by `monitoring`."""

    AT_MOST_ONE_OF = ("gateway", "gateway_namespace")
    OTHERS_REQUIRE_FIRST = ("enabled",)


#: Fields of the endpoint picker's container that users cannot set in its template.
_OWNED_CONTAINER_FIELDS = {
    "ports": "the picker's ports are fixed; remove it",
    "args": "is set by endpointPicker.args; remove it here",
    "image": "is set by endpointPicker.image; remove it here",
    "resources": "is set by endpointPicker.resources; remove it here",
}


def _picker_template_findings(location: Location, template: Mapping[str, Any]) -> Iterator[Finding]:
    yield from partial_template_findings(location, template)
    metadata, spec = template.get("metadata"), template.get("spec")
    pod_labels = metadata.get("labels") if isinstance(metadata, Mapping) else None
    if isinstance(pod_labels, Mapping) and labels.APP in pod_labels:
        # The picker's Deployment selects its pods by `app`.
        yield from reserved_key_findings(
            (*location, "metadata", "labels"), [labels.APP], {labels.APP}
        )
    containers = spec.get("containers") if isinstance(spec, Mapping) else None
    for index, container in enumerate(containers if isinstance(containers, list) else ()):
        if isinstance(container, Mapping) and container.get("name") == PICKER_CONTAINER:
            for key, message in _OWNED_CONTAINER_FIELDS.items():
                if key in container:
                    yield error(SET_TWICE, (*location, "spec", "containers", index, key), message)
