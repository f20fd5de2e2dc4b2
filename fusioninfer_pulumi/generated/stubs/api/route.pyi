"""A router's route, Gateway and model rewrites; Gateway API fields are passed on as they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field
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
from fusioninfer_pulumi.findings import Finding, Location
from fusioninfer_pulumi.generated import dicts
from fusioninfer_pulumi.schemas.kind_schema import GATEWAY, HTTP_ROUTE, Part

class SplitArgs(SpecModel):
    """A share of the requests for another service of the namespace, such as a canary."""

    def __init__(self, **fields: Unpack[dicts.SplitArgsDict]) -> None: ...
    service: Name
    "Name of the service; its router says `routedBy`."
    weight: Annotated[int, Field(ge=0, le=100)]
    "Percent of the requests that go to its pool; what is left of 100 stays here."

class HttpRouteRefArgs(SpecModel):
    """An HTTPRoute that is made elsewhere."""

    def __init__(self, **fields: Unpack[dicts.HttpRouteRefArgsDict]) -> None: ...
    name: str = Field(min_length=1)
    "Its name."
    namespace: Namespace | None = None
    "Its namespace, by default the service's; may be an Output."

class HttpRouteArgs(SpecModel):
    """The spec of the service's HTTPRoute, kept whole; or whose route leads to the service."""

    def __init__(self, **fields: Unpack[dicts.HttpRouteArgsDict]) -> None: ...
    parent_refs: list[dict[str, Any]] | None = None
    "Gateways that the route attaches to; by default those of `gateway`."
    hostnames: list[StringOrOutput] | None = None
    "Host names that the route answers to; each may be an Output."
    rules: list[dict[str, Any]] | None = None
    "Rules; one without `backendRefs` leads to the service's pool, and so does the default."
    use_default_gateways: str | None = None
    "Attaches the route to the cluster's default Gateways (Gateway API 1.4, experimental)."
    split: Annotated[list[SplitArgs], Field(min_length=1)] | None = None
    "Shares of other services in the requests of the rules without `backendRefs`; by default none.\n    Not every gateway takes several pools in one rule (docs/routing.md)."
    routed_by: Name | None = None
    "The service whose route leads to this one's pool; none is made here then."
    refs: Annotated[list[HttpRouteRefArgs], Field(min_length=1)] | None = None
    "HTTPRoutes made elsewhere that lead to this one's pool; none is made here then."

    @property
    def external_field(self) -> str | None: ...

class GatewayRefArgs(SpecModel):
    """A Gateway that exists already."""

    def __init__(self, **fields: Unpack[dicts.GatewayRefArgsDict]) -> None: ...
    name: str = Field(min_length=1)
    "Its name."
    namespace: Namespace | None = None
    "Its namespace, by default the service's; may be an Output."
    section_name: str | None = None
    "The one listener to attach to, by default all that take the route."
    port: Port | None = None
    "The listeners' port to attach to, by default any."
    listeners: list[dict[str, Any]] | None = None
    "The Gateway's listeners as far as they are known: with them the attachment is checked and\n    the endpoint has the right scheme and port. They are not written anywhere."

class GatewayArgs(SpecModel):
    """Gateways that exist (`refs`), or the spec of one that belongs to the service."""

    def __init__(self, **fields: Unpack[dicts.GatewayArgsDict]) -> None: ...
    implementation: str | None = Field(default=None, min_length=1)
    "The gateway software: `envoy-ai-gateway`, `agentgateway`, `istio`, `nginx-gateway-fabric`\n    or `gke`. What it needs beside the route is then generated; the class name does not say it.\n    Alone, beside `parentRefs` or `routedBy`, it creates no Gateway."
    refs: Annotated[list[GatewayRefArgs], Field(min_length=1)] | None = None
    "Existing Gateways; without it a Gateway is created."
    gateway_class_name: TextOrOutput | None = None
    "GatewayClass of the created Gateway; by default that of `implementation`, else `eg`. May be\n    an Output."
    listeners: Annotated[list[dict[str, Any]], Field(min_length=1)] | None = None
    "Its listeners; by default HTTP on port 80."
    addresses: list[dict[str, Any]] | None = None
    "Its addresses."
    infrastructure: dict[str, Any] | None = None
    "Labels, annotations and parameters of what the implementation creates for it."
    allowed_listeners: dict[str, Any] | None = None
    "Which ListenerSets may add listeners to it."
    tls: dict[str, Any] | None = None
    "TLS of the Gateway as a whole."
    default_scope: str | None = None
    "Whether it is a default Gateway (Gateway API 1.4, experimental)."
    annotations: AnnotationMap = Field(default_factory=dict)
    "Annotations of the Gateway object; values may be Outputs."

_MAY_BE_OUTPUTS = {HTTP_ROUTE: ("hostnames", "namespace"), GATEWAY: ("annotations", "hostname")}
_OWN = (
    "gateway_class_name",
    "listeners",
    "addresses",
    "infrastructure",
    "allowed_listeners",
    "tls",
    "default_scope",
    "annotations",
)

def httproute_findings(at: Location, route: HttpRouteArgs) -> Iterator[Finding]: ...
def _external_route_findings(at: Location, route: HttpRouteArgs) -> Iterator[Finding]: ...
def gateway_findings(at: Location, gateway: GatewayArgs) -> Iterator[Finding]: ...
def _spec_findings(at: Location, spec: Mapping[str, Any], part: Part) -> Iterator[Finding]: ...

class ModelTargetArgs(SpecModel):
    """A model or adapter that the engines serve."""

    def __init__(self, **fields: Unpack[dicts.ModelTargetArgsDict]) -> None: ...
    model: Text
    "Its name, as the engines serve it (`--served-model-name`, `--lora-modules`)."
    weight: Annotated[int, Field(ge=0, le=1000000)] | None = None
    "Its share of the requests, of the sum of all weights; 0 sends it none. May be left out where\n    there is one target."

class ModelRewriteArgs(SpecModel):
    """Names that clients ask for, and the models that answer."""

    def __init__(self, **fields: Unpack[dicts.ModelRewriteArgsDict]) -> None: ...
    models: Annotated[list[Text], Field(min_length=1)] | None = None
    "Names in requests; by default all that no other rewrite has."
    targets: Annotated[list[ModelTargetArgs], Field(min_length=1)]
    "What the name becomes, drawn for each request by weight."

def model_rewrite_findings(
    at: Location, rewrites: Sequence[ModelRewriteArgs]
) -> Iterator[Finding]: ...
def _duplicate_model(at: Location, number: int, name: str | None) -> Finding: ...
def _targets(at: Location, targets: Sequence[ModelTargetArgs]) -> Iterator[Finding]: ...
