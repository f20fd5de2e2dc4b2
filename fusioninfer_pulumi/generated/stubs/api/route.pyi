"""A router's route, Gateway and model rewrites; Gateway API fields are passed on as they are."""

from __future__ import annotations

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
    """A share of the requests for another service of the namespace, such as a canary."""

    def __init__(self, **fields: Unpack[dicts.SplitArgsDict]) -> None: ...
    service: Name
    "Name of the service; its router says `routedBy`."
    weight: int
    "Percent of the requests that go to its pool; what is left of 100 stays here."

class HttpRouteRefArgs(SpecModel):
    """An HTTPRoute that is made elsewhere."""

    def __init__(self, **fields: Unpack[dicts.HttpRouteRefArgsDict]) -> None: ...
    name: str
    "Its name."
    namespace: Namespace | None
    "Its namespace, by default the service's; may be an Output."

class HttpRouteArgs(SpecModel):
    """The spec of the service's HTTPRoute, kept whole; or whose route leads to the service."""

    def __init__(self, **fields: Unpack[dicts.HttpRouteArgsDict]) -> None: ...
    parent_refs: list[dict[str, Any]] | None
    "Gateways that the route attaches to; by default those of `gateway`."
    hostnames: list[StringOrOutput] | None
    "Host names that the route answers to; each may be an Output."
    rules: list[dict[str, Any]] | None
    "Rules; one without `backendRefs` leads to the service's pool, and so does the default."
    use_default_gateways: str | None
    "Attaches the route to the cluster's default Gateways (Gateway API 1.4, experimental)."
    split: list[SplitArgs] | None
    "Shares of other services in the requests of the rules without `backendRefs`; by default none.\n    Not every gateway takes several pools in one rule (docs/routing.md)."
    routed_by: Name | None
    "The service whose route leads to this one's pool; none is made here then."
    refs: list[HttpRouteRefArgs] | None
    "HTTPRoutes made elsewhere that lead to this one's pool; none is made here then."

    @property
    def external_field(self) -> str | None: ...

class GatewayRefArgs(SpecModel):
    """A Gateway that exists already."""

    def __init__(self, **fields: Unpack[dicts.GatewayRefArgsDict]) -> None: ...
    name: str
    "Its name."
    namespace: Namespace | None
    "Its namespace, by default the service's; may be an Output."
    section_name: str | None
    "The one listener to attach to, by default all that take the route."
    port: Port | None
    "The listeners' port to attach to, by default any."
    listeners: list[dict[str, Any]] | None
    "The Gateway's listeners as far as they are known: with them the attachment is checked and\n    the endpoint has the right scheme and port. They are not written anywhere."

class GatewayArgs(SpecModel):
    """Gateways that exist (`refs`), or the spec of one that belongs to the service."""

    def __init__(self, **fields: Unpack[dicts.GatewayArgsDict]) -> None: ...
    implementation: str | None
    "The gateway software: `envoy-ai-gateway`, `agentgateway`, `istio`, `nginx-gateway-fabric`\n    or `gke`. What it needs beside the route is then generated; the class name does not say it.\n    Alone, beside `parentRefs` or `routedBy`, it creates no Gateway."
    refs: list[GatewayRefArgs] | None
    "Existing Gateways; without it a Gateway is created."
    gateway_class_name: TextOrOutput | None
    "GatewayClass of the created Gateway; by default that of `implementation`, else `eg`. May be\n    an Output."
    listeners: list[dict[str, Any]] | None
    "Its listeners; by default HTTP on port 80."
    addresses: list[dict[str, Any]] | None
    "Its addresses."
    infrastructure: dict[str, Any] | None
    "Labels, annotations and parameters of what the implementation creates for it."
    allowed_listeners: dict[str, Any] | None
    "Which ListenerSets may add listeners to it."
    tls: dict[str, Any] | None
    "TLS of the Gateway as a whole."
    default_scope: str | None
    "Whether it is a default Gateway (Gateway API 1.4, experimental)."
    annotations: AnnotationMap
    "Annotations of the Gateway object; values may be Outputs."

class ModelTargetArgs(SpecModel):
    """A model or adapter that the engines serve."""

    def __init__(self, **fields: Unpack[dicts.ModelTargetArgsDict]) -> None: ...
    model: Text
    "Its name, as the engines serve it (`--served-model-name`, `--lora-modules`)."
    weight: int | None
    "Its share of the requests, of the sum of all weights; 0 sends it none. May be left out where\n    there is one target."

class ModelRewriteArgs(SpecModel):
    """Names that clients ask for, and the models that answer."""

    def __init__(self, **fields: Unpack[dicts.ModelRewriteArgsDict]) -> None: ...
    models: list[Text] | None
    "Names in requests; by default all that no other rewrite has."
    targets: list[ModelTargetArgs]
    "What the name becomes, drawn for each request by weight."
