"""KServe's LLMInferenceService, field by field as its CRD publishes it (serving.kserve.io).

Pod specs and Gateway API specs are checked by our own rules.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from fusioninfer_importers.model import ImportedModel, MappingOrText, Quantity
from fusioninfer_importers.objects import ImportedObject
from fusioninfer_pulumi.plugins.importers import CountOrAnyPercentage

Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
Text = Annotated[str, StringConstraints(min_length=1)]
#: Kubernetes' IntOrString.
CountOrPercentage = CountOrAnyPercentage
Raw = dict[str, Any]
#: Only in v1alpha1.
Criticality = Literal["Critical", "Standard", "Sheddable"]


class LocalReference(ImportedModel):
    name: Text


class GatewayReference(ImportedModel):
    """A Gateway; by default it is in the service's namespace."""

    name: Text
    namespace: str | None = None
    section_name: str | None = None


class Adapter(ImportedModel):
    """A LoRA adapter. The CRD describes it as a model, which may have adapters itself."""

    uri: Text
    name: str | None = None
    criticality: Criticality | None = None
    lora: Raw | None = None
    confidential: Raw | None = None


class Lora(ImportedModel):
    adapters: list[Adapter] | None = None
    max_rank: Positive | None = None
    max_adapters: Positive | None = None
    max_cpu_adapters: Positive | None = None


class Model(ImportedModel):
    # Empty if a config sets the URI: the API server requires the field here.
    uri: str
    name: str | None = None
    criticality: Criticality | None = None
    lora: Lora | None = None
    confidential: Raw | None = None


class StorageInitializer(ImportedModel):
    enabled: bool | None = None


class Parallelism(ImportedModel):
    tensor: Positive | None = None
    pipeline: Positive | None = None
    data: Positive | None = None
    data_local: Positive | None = None
    data_rpc_port: Annotated[Positive | None, Field(alias="dataRPCPort")] = None
    expert: bool | None = None


class EmptyDirTier(ImportedModel):
    """The node's disk."""

    size: Quantity


class ClaimReference(ImportedModel):
    name: str
    path: str | None = None


class ClaimTier(ImportedModel):
    """A claim for each pod, or an existing one."""

    spec: Raw | None = None
    ref: ClaimReference | None = None


class FileSystemTier(ImportedModel):
    """A directory of a volume."""

    empty_dir: EmptyDirTier | None = None
    pvc: ClaimTier | None = None


class SecondaryTier(ImportedModel):
    """Storage behind the host memory."""

    file_system: FileSystemTier | None = None


class KvCacheOffloading(ImportedModel):
    """Where the KV cache goes beyond the accelerators' memory."""

    cpu: Quantity
    eviction_policy: Literal["lru", "arc"] | None = None
    secondary: list[SecondaryTier] | None = None


class Rollout(ImportedModel):
    max_unavailable: CountOrPercentage | None = None
    max_surge: CountOrPercentage | None = None


class Workload(ImportedModel):
    """Serving pods: the main ones (decode, if there is a prefill block) or the prefill pods."""

    replicas: Count | None = None
    scaling: Raw | None = None
    parallelism: Parallelism | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    template: Raw | None = None
    worker: Raw | None = None
    kv_cache_offloading: KvCacheOffloading | None = None
    rollout_strategy: Rollout | None = None


class HttpRoute(ImportedModel):
    """Existing HTTPRoutes, or the spec of a managed one."""

    refs: list[LocalReference] | None = None
    spec: Raw | None = None


class Route(ImportedModel):
    """The route; `{}` is a managed one."""

    http: HttpRoute | None = None
    group: str | None = None
    weight: Count | None = None


class Gateway(ImportedModel):
    """The Gateway; `{}` is a managed one."""

    refs: list[GatewayReference] | None = None


class SchedulerConfig(ImportedModel):
    # The CRD's RawExtension accepts a string, which KServe reads as YAML.
    inline: MappingOrText | None = None
    ref: Raw | None = None


class Scheduler(ImportedModel):
    """The endpoint picker."""

    pool: Raw | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    template: Raw | None = None
    config: SchedulerConfig | None = None
    replicas: Positive | None = None
    tokenizer: Raw | None = None


class Router(ImportedModel):
    route: Route | None = None
    gateway: Gateway | None = None
    ingress: Raw | None = None
    scheduler: Scheduler | None = None


class Spec(Workload):
    """The spec of a service or config; the model may be in either."""

    model: Model | None = None
    storage_initializer: StorageInitializer | None = None
    router: Router | None = None
    prefill: Workload | None = None
    tracing: Raw | None = None
    base_refs: list[LocalReference] | None = None


class LLMInferenceService(ImportedObject):
    spec: Spec


class LLMInferenceServiceConfig(ImportedObject):
    """Fields that several services share; the service's own fields take precedence."""

    spec: Spec
