"""Kthena's ModelServer and ModelRoute, field by field (networking.serving.volcano.sh)."""

from __future__ import annotations

import enum
from typing import Annotated, Any

from pydantic import Field

from fusioninfer_pulumi.importers.metadata import ObjectMetadata
from fusioninfer_pulumi.importers.model import DialectModel


class InferenceEngine(str, enum.Enum):
    """The program that serves the model."""

    VLLM = "vLLM"
    SGLANG = "SGLang"


class Protocol(str, enum.Enum):
    """How the pods are spoken to."""

    HTTP = "http"
    HTTPS = "https"


class Connector(str, enum.Enum):
    """How prefill hands the KV cache to decode."""

    HTTP = "http"
    NIXL = "nixl"
    LMCACHE = "lmcache"
    MOONCAKE = "mooncake"


class RateUnit(str, enum.Enum):
    """The time that a rate is about."""

    SECOND = "second"
    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"
    MONTH = "month"


class PDGroup(DialectModel):
    """Which pods prefill and decode, and which of them belong together."""

    group_key: str
    prefill_labels: dict[str, str]
    decode_labels: dict[str, str]


class WorkloadSelector(DialectModel):
    """The pods of a ModelServer."""

    match_labels: dict[str, str] | None = None
    pd_group: Annotated[PDGroup | None, Field(alias="pdGroup")] = None


class WorkloadPort(DialectModel):
    """Where the pods serve."""

    port: Annotated[int, Field(ge=1, le=65535)]
    protocol: Annotated[Protocol, Field(strict=False)] | None = None


class Retry(DialectModel):
    """How often a request is tried again."""

    attempts: Annotated[int, Field(ge=0)]
    retry_interval: str | None = None


class TrafficPolicy(DialectModel):
    """How requests are sent to the pods."""

    timeout: str | None = None
    retry: Retry | None = None


class KvConnector(DialectModel):
    """How prefill hands the KV cache to decode."""

    type: Annotated[Connector, Field(strict=False)] | None = None


class ModelServerSpec(DialectModel):
    """The spec of a ModelServer."""

    model: Annotated[str, Field(max_length=256)] | None = None
    inference_engine: Annotated[InferenceEngine, Field(strict=False)]
    workload_selector: WorkloadSelector
    workload_port: WorkloadPort
    traffic_policy: TrafficPolicy | None = None
    kv_connector: KvConnector | None = None


class StringMatch(DialectModel):
    """A condition on a text."""

    exact: str | None = None
    prefix: str | None = None
    regex: str | None = None


class BodyMatch(DialectModel):
    """A condition on a request's body."""

    model: str | None = None


class ModelMatch(DialectModel):
    """Which requests a rule is for."""

    headers: dict[str, StringMatch] | None = None
    uri: StringMatch | None = None
    body: BodyMatch | None = None


class TargetModel(DialectModel):
    """Where a rule leads."""

    model_server_name: str | None = None
    external_model_provider_name: str | None = None
    weight: Annotated[int, Field(ge=0, le=100)] | None = None


class Rule(DialectModel):
    """One rule of a ModelRoute."""

    name: str | None = None
    model_match: ModelMatch | None = None
    target_models: Annotated[list[TargetModel], Field(min_length=1, max_length=16)]


class Redis(DialectModel):
    """Where a global limit is kept."""

    address: str


class GlobalLimit(DialectModel):
    """A limit over all routers."""

    redis: Redis | None = None


class RateLimit(DialectModel):
    """How many tokens may be asked for and answered."""

    input_tokens_per_unit: Annotated[int, Field(ge=1)] | None = None
    output_tokens_per_unit: Annotated[int, Field(ge=1)] | None = None
    unit: Annotated[RateUnit, Field(strict=False)] | None = None
    global_: Annotated[GlobalLimit | None, Field(alias="global")] = None


class ModelRouteSpec(DialectModel):
    """The spec of a ModelRoute."""

    model_name: str | None = None
    lora_adapters: Annotated[list[str], Field(max_length=10)] | None = None
    parent_refs: list[dict[str, Any]] | None = None
    rules: Annotated[list[Rule], Field(max_length=16)]
    rate_limit: RateLimit | None = None


class ModelServer(DialectModel):
    """A ModelServer."""

    api_version: str
    kind: str
    metadata: ObjectMetadata
    spec: ModelServerSpec
    status: dict[str, Any] | None = None


class ModelRoute(DialectModel):
    """A ModelRoute."""

    api_version: str
    kind: str
    metadata: ObjectMetadata
    spec: ModelRouteSpec
    status: dict[str, Any] | None = None
