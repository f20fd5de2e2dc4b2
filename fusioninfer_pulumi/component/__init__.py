"""The components `InferenceService` and `ServingPrerequisites`, typed children and outputs."""

from fusioninfer_pulumi.component.inference_service import InferenceService
from fusioninfer_pulumi.component.kubernetes_objects import (
    TOKEN,
    Gateway,
    HTTPRoute,
    InferencePool,
    KubernetesObject,
    LeaderWorkerSet,
    PodGroup,
)
from fusioninfer_pulumi.component.status import (
    ComponentStatus,
    Condition,
    ServiceStatus,
    service_status,
)

__all__ = [
    "TOKEN",
    "ComponentStatus",
    "Condition",
    "Gateway",
    "HTTPRoute",
    "InferencePool",
    "InferenceService",
    "KubernetesObject",
    "LeaderWorkerSet",
    "PodGroup",
    "ServiceStatus",
    "service_status",
]
