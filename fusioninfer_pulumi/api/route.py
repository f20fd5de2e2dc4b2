"""A router's route, Gateway and model rewrites; Gateway API fields are passed through."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field
from pydantic.alias_generators import to_snake

from fusioninfer_pulumi.api.field_rules import check_fields, inapplicable_rule, required_rule
from fusioninfer_pulumi.api.field_types import (
    AnnotationMap,
    Name,
    Namespace,
    Port,
    StringOrOutput,
    Text,
    TextOrOutput,
    check_json_and_reject_outputs,
)
from fusioninfer_pulumi.api.spec_model import SpecModel
from fusioninfer_pulumi.findings import Finding, Location, error
from fusioninfer_pulumi.rules.common import OUT_OF_RANGE
from fusioninfer_pulumi.schemas.kind_schema import GATEWAY, HTTP_ROUTE, Part
from fusioninfer_pulumi.schemas.schema_check import part_findings


class SplitArgs(SpecModel):
    """A share of requests for another service in the namespace, such as a canary."""

    service: Name
    """Name of the other service; its router must set `routedBy` to the name of this service."""

    weight: Annotated[int, Field(ge=0, le=100)]
    """Percentage of requests for the other service's pool; this service's pool gets the rest."""


class HttpRouteRefArgs(SpecModel):
    """An HTTPRoute that is created elsewhere."""

    name: str = Field(min_length=1)
    """Name of the HTTPRoute."""

    namespace: Namespace | None = None
    """Namespace of the HTTPRoute; the service's by default. May be an Output."""


class HttpRouteArgs(SpecModel):
    """The spec of the service's HTTPRoute, or a reference to another route to the service."""

    parent_refs: list[dict[str, Any]] | None = None
    """Gateways that the route attaches to; by default the Gateways of `gateway`."""

    hostnames: list[StringOrOutput] | None = None
    """Host names of the route; each may be an Output."""

    rules: list[dict[str, Any]] | None = None
    """Rules; one for all paths by default. Rules without `backendRefs` lead to the service's
    pool."""

    use_default_gateways: str | None = None
    """`All` attaches the route to all default Gateways (Gateway API 1.4, experimental)."""

    split: Annotated[list[SplitArgs], Field(min_length=1)] | None = None
    """Shares of requests for other services, in rules without `backendRefs`; none by default. Not
    every gateway supports multiple pools in one rule (docs/routing.md)."""

    routed_by: Name | None = None
    """Name of the service whose route leads to this service's pool; no route is created here."""

    refs: Annotated[list[HttpRouteRefArgs], Field(min_length=1)] | None = None
    """HTTPRoutes created elsewhere that lead to this service's pool; no route is created here."""

    @property
    def external_field(self) -> str | None:
        """The field that refers to a route created elsewhere, or None if the service creates it."""
        if self.routed_by is not None:
            return "routedBy"
        return None if self.refs is None else "refs"

    def findings(self, location: Location) -> Iterator[Finding]:
        """Check the spec of the route, which must be empty if the route is created elsewhere."""
        fields = ("parent_refs", "hostnames", "rules", "use_default_gateways")
        yield from _spec_findings(location, _read_fields(self, fields), HTTP_ROUTE)
        total = sum(share.weight for share in self.split or ())
        if total > 100:
            message = f"weights add up to {total}%; must be at most 100%"
            yield error(OUT_OF_RANGE, (*location, "split"), message)
        if self.external_field is not None:
            message = (
                f"has no effect, because with {self.external_field} no route is created here; "
                "remove one of them"
            )
            ignored = sorted(self.model_fields_set - {to_snake(self.external_field)})
            yield from check_fields(location, self, inapplicable_rule(ignored, message))


class GatewayRefArgs(SpecModel):
    """An existing Gateway."""

    name: str = Field(min_length=1)
    """Name of the Gateway."""

    namespace: Namespace | None = None
    """Namespace of the Gateway; the service's by default. May be an Output."""

    section_name: str | None = None
    """Name of the listener to attach to; by default all listeners that accept the route."""

    port: Port | None = None
    """Port of the listeners to attach to; any by default."""

    listeners: list[dict[str, Any]] | None = None
    """Listeners of the Gateway, if known: used to check the attachment and to compute the
    endpoint's scheme and port, not to change the Gateway."""


class GatewayArgs(SpecModel):
    """References to existing Gateways (`refs`), or the spec of a Gateway to create."""

    implementation: str | None = Field(default=None, min_length=1)
    """Gateway implementation: `envoy-ai-gateway`, `agentgateway`, `istio`, `nginx-gateway-fabric`
    or `gke`. The library generates the additional objects that it requires. If no other field is
    set, and the route has `parentRefs`, `routedBy` or `refs`, no Gateway is created."""

    refs: Annotated[list[GatewayRefArgs], Field(min_length=1)] | None = None
    """Existing Gateways to use instead of creating one."""

    gateway_class_name: TextOrOutput | None = None
    """GatewayClass of the created Gateway; by default that of `implementation`, else `eg`. May be
    an Output."""

    listeners: Annotated[list[dict[str, Any]], Field(min_length=1)] | None = None
    """Listeners; HTTP on port 80 by default."""

    addresses: list[dict[str, Any]] | None = None
    """Addresses that the Gateway requests; assigned by the implementation by default."""

    infrastructure: dict[str, Any] | None = None
    """Labels, annotations and parameters of the infrastructure that the implementation creates."""

    allowed_listeners: dict[str, Any] | None = None
    """ListenerSets that may add listeners."""

    tls: dict[str, Any] | None = None
    """TLS settings of the whole Gateway."""

    default_scope: str | None = None
    """`All` makes this a default Gateway (Gateway API 1.4, experimental)."""

    annotations: AnnotationMap = Field(default_factory=dict)
    """Annotations of the Gateway object; values may be Outputs."""

    def build_spec(self, default_class: str) -> dict[str, Any]:
        """Return the spec of the Gateway to create; `default_class` is its default GatewayClass."""
        return {
            "gatewayClassName": self.gateway_class_name or default_class,
            "listeners": self.listeners or [{"name": "http", "port": 80, "protocol": "HTTP"}],
            **_read_fields(self, _OPTIONAL_GATEWAY_FIELDS),
        }

    def findings(self, location: Location) -> Iterator[Finding]:
        """Check the spec of the Gateway, or the references to existing ones."""
        if self.refs is None:
            yield from _spec_findings(location, self.build_spec(default_class="any"), GATEWAY)
            return
        message = (
            "belongs to a Gateway that is created here, but refs name existing ones; remove one of "
            "them"
        )
        created = ("gateway_class_name", "listeners", *_OPTIONAL_GATEWAY_FIELDS, "annotations")
        yield from check_fields(location, self, inapplicable_rule(created, message))
        for index, ref in enumerate(self.refs):
            if ref.listeners:
                spec = {"gatewayClassName": "any", "listeners": ref.listeners}
                yield from _spec_findings((*location, "refs", index), spec, GATEWAY)


#: Keys below which Outputs are allowed, because the values are only passed through.
_OUTPUT_KEYS = {
    HTTP_ROUTE: ("hostnames", "namespace"),
    GATEWAY: ("annotations", "gatewayClassName", "hostname"),
}
#: Optional fields in the spec of a Gateway that the service creates.
_OPTIONAL_GATEWAY_FIELDS = (
    "addresses", "infrastructure", "allowed_listeners", "tls", "default_scope",
)  # fmt: skip


def _read_fields(model: SpecModel, names: Iterable[str]) -> dict[str, Any]:
    """Return the values of the fields that are not null, by YAML name."""
    fields = type(model).model_fields
    values = {fields[name].alias or name: getattr(model, name) for name in names}
    return {key: value for key, value in values.items() if value is not None}


def _spec_findings(location: Location, spec: Mapping[str, Any], part: Part) -> Iterator[Finding]:
    yield from part_findings(location, spec, part)
    yield from check_json_and_reject_outputs(location, spec, _OUTPUT_KEYS[part])


class ModelTargetArgs(SpecModel):
    """A model or adapter that the engines serve."""

    model: Text
    """Name under which the engines serve it (`--served-model-name`, `--lora-modules`)."""

    weight: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    """Weight relative to the sum of all weights; a target with 0 receives no requests. Optional if
    there is one target."""


class ModelRewriteArgs(SpecModel):
    """Maps model names in requests to models or adapters."""

    models: Annotated[list[Text], Field(min_length=1)] | None = None
    """Model names in requests; by default all names without another rewrite."""

    targets: Annotated[list[ModelTargetArgs], Field(min_length=1)]
    """Models or adapters that replace the name, chosen for each request by weight."""

    def findings(self, location: Location) -> Iterator[Finding]:
        """Check the weights."""
        message = "is required if there are several targets"
        weight_rule = required_rule("weight", message, when=len(self.targets) > 1)
        for index, target in enumerate(self.targets):
            yield from check_fields((*location, "targets", index), target, weight_rule)
        if all(target.weight == 0 for target in self.targets):
            message = "all have weight 0, so no model would answer; give one a weight above 0"
            yield error(OUT_OF_RANGE, (*location, "targets"), message)
