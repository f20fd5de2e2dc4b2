"""The importers of this package, each an entry point of `fusioninfer.importers`."""

from __future__ import annotations

from fusioninfer_importers import _advice
from fusioninfer_pulumi.plugins.importers import Importer

_KTHENA_WORKLOAD = ("workload.serving.volcano.sh/v1alpha1",)
_MODELPLANE = ("modelplane.ai/v1alpha1",)
_KTHENA_NETWORKING = ("networking.serving.volcano.sh/v1alpha1",)
_KSERVE = ("serving.kserve.io/v1alpha2", "serving.kserve.io/v1alpha1")

KTHENA = Importer(
    "Kthena",
    "fusioninfer_importers.kthena.convert",
    services={"ModelServing": _KTHENA_WORKLOAD},
    companions={
        "ModelServer": _KTHENA_NETWORKING,
        "ModelRoute": _KTHENA_NETWORKING,
        "AutoscalingPolicy": _KTHENA_WORKLOAD,
        "AutoscalingPolicyBinding": _KTHENA_WORKLOAD,
        "ModelBooster": _KTHENA_WORKLOAD,
        "ExternalModelProvider": _KTHENA_NETWORKING,
    },
    words=_advice.KTHENA,
)

MODELPLANE = Importer(
    "Modelplane",
    "fusioninfer_importers.modelplane.convert",
    services={"ModelDeployment": _MODELPLANE},
    companions=dict.fromkeys(("ModelCache", "ModelEndpoint", "ModelService"), _MODELPLANE),
    words=_advice.MODELPLANE,
)

KSERVE = Importer(
    "KServe",
    "fusioninfer_importers.kserve.convert",
    services={"LLMInferenceService": _KSERVE},
    companions={"LLMInferenceServiceConfig": _KSERVE},
    words=_advice.KSERVE,
)
