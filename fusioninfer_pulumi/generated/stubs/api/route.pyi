"""A router's route, Gateway and model rewrites; Gateway API fields are passed through."""

from typing import Any

from typing_extensions import Unpack

from fusioninfer_pulumi.api.field_types import (
    AnnotationMap,
    Name,
    Namespace,
    Port,
    StringOrOutput,
    Text,
    TextOrOutput,
)
from fusioninfer_pulumi.api.spec_model import SpecModel
from fusioninfer_pulumi.generated import dicts

class SplitArgs(SpecModel):
    """A share of requests for another service in the namespace, such as a canary."""

    def __init__(self, **fields: Unpack[dicts.SplitArgsDict]) -> None: ...
    service: Name
    "Name of the other service; its router must set `routedBy` to the name of this service."
    weight: int
    "Percentage of requests for the other service's pool; this service's pool gets the rest."

class HttpRouteRefArgs(SpecModel):
    """An HTTPRoute that is created elsewhere."""

    def __init__(self, **fields: Unpack[dicts.HttpRouteRefArgsDict]) -> None: ...
    name: str
    "Name of the HTTPRoute."
    namespace: Namespace | None
    "Namespace of the HTTPRoute; the service's by default. May be an Output."

class HttpRouteArgs(SpecModel):
    """The spec of the service's HTTPRoute, or a reference to another route to the service."""

    def __init__(self, **fields: Unpack[dicts.HttpRouteArgsDict]) -> None: ...
    parent_refs: list[dict[str, Any]] | None
    "Gateways that the route attaches to; by default the Gateways of `gateway`."
    hostnames: list[StringOrOutput] | None
    "Host names of the route; each may be an Output."
    rules: list[dict[str, Any]] | None
    "Rules; one for all paths by default. Rules without `backendRefs` lead to the service's\n    pool."
    use_default_gateways: str | None
    "`All` attaches the route to all default Gateways (Gateway API 1.4, experimental)."
    split: list[SplitArgs] | None
    "Shares of requests for other services, in rules without `backendRefs`; none by default. Not\n    every gateway supports multiple pools in one rule (docs/routing.md)."
    routed_by: Name | None
    "Name of the service whose route leads to this service's pool; no route is created here."
    refs: list[HttpRouteRefArgs] | None
    "HTTPRoutes created elsewhere that lead to this service's pool; no route is created here."

    @property
    def external_field(self) -> str | None: ...

class GatewayRefArgs(SpecModel):
    """An existing Gateway."""

    def __init__(self, **fields: Unpack[dicts.GatewayRefArgsDict]) -> None: ...
    name: str
    "Name of the Gateway."
    namespace: Namespace | None
    "Namespace of the Gateway; the service's by default. May be an Output."
    section_name: str | None
    "Name of the listener to attach to; by default all listeners that accept the route."
    port: Port | None
    "Port of the listeners to attach to; any by default."
    listeners: list[dict[str, Any]] | None
    "Listeners of the Gateway, if known: used to check the attachment and to compute the\n    endpoint's scheme and port, not to change the Gateway."

class GatewayArgs(SpecModel):
    """References to existing Gateways (`refs`), or the spec of a Gateway to create."""

    def __init__(self, **fields: Unpack[dicts.GatewayArgsDict]) -> None: ...
    implementation: str | None
    "Gateway implementation: `envoy-ai-gateway`, `agentgateway`, `istio`, `nginx-gateway-fabric`\n    or `gke`. The library generates the additional objects that it requires. If no other field is\n    set, and the route has `parentRefs`, `routedBy` or `refs`, no Gateway is created."
    refs: list[GatewayRefArgs] | None
    "Existing Gateways to use instead of creating one."
    gateway_class_name: TextOrOutput | None
    "GatewayClass of the created Gateway; by default that of `implementation`, else `eg`. May be\n    an Output."
    listeners: list[dict[str, Any]] | None
    "Listeners; HTTP on port 80 by default."
    addresses: list[dict[str, Any]] | None
    "Addresses that the Gateway requests; assigned by the implementation by default."
    infrastructure: dict[str, Any] | None
    "Labels, annotations and parameters of the infrastructure that the implementation creates."
    allowed_listeners: dict[str, Any] | None
    "ListenerSets that may add listeners."
    tls: dict[str, Any] | None
    "TLS settings of the whole Gateway."
    default_scope: str | None
    "`All` makes this a default Gateway (Gateway API 1.4, experimental)."
    annotations: AnnotationMap
    "Annotations of the Gateway object; values may be Outputs."

    def build_spec(self, default_class: str) -> dict[str, Any]: ...

class ModelTargetArgs(SpecModel):
    """A model or adapter that the engines serve."""

    def __init__(self, **fields: Unpack[dicts.ModelTargetArgsDict]) -> None: ...
    model: Text
    "Name under which the engines serve it (`--served-model-name`, `--lora-modules`)."
    weight: int | None
    "Weight relative to the sum of all weights; a target with 0 receives no requests. Optional if\n    there is one target."

class ModelRewriteArgs(SpecModel):
    """Maps model names in requests to models or adapters."""

    def __init__(self, **fields: Unpack[dicts.ModelRewriteArgsDict]) -> None: ...
    models: list[Text] | None
    "Model names in requests; by default all names without another rewrite."
    targets: list[ModelTargetArgs]
    "Models or adapters that replace the name, chosen for each request by weight."
