"""The table of importers: one row for each system, with the kinds that it converts."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fusioninfer_pulumi.importers._advice import KSERVE, KTHENA, MODELPLANE
from fusioninfer_pulumi.importers.conversion import Conversion
from fusioninfer_pulumi.importers.source import SourceDocument
from fusioninfer_pulumi.kube import labels

#: API version, kind, namespace and name of an object.
ObjectKey = tuple[Any, Any, Any, Any]


@dataclass(frozen=True)
class Importer:
    """A system whose manifests are converted.

    Attributes:
        name: Name of the system in messages.
        module: Module with `convert(documents, allow_lossy=...) -> Conversion`; imported when a
            document of these kinds comes.
        services: Kinds that become a service, each with its supported API versions.
        companions: Kinds that configure a service of the same input.
        platform: Kinds that configure the cluster and no service.
        pod_labels: Labels of its pods that ours do not carry, by `KEY` or `KEY=VALUE`; the key
            under which ours have the same value, None where there is none.
        scaling: What scales its services in place of an object that names them.
        words: By the rule of a finding about a converted service, what to say in the system's terms
            in place of ours.
    """

    name: str
    module: str
    services: Mapping[str, tuple[str, ...]]
    companions: Mapping[str, tuple[str, ...]]
    platform: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    pod_labels: Mapping[str, str | None] = field(default_factory=dict)
    scaling: str = ""
    words: Mapping[str, str] = field(default_factory=dict)

    @property
    def kinds(self) -> dict[str, tuple[str, ...]]:
        """All kinds that are converted, each with its API versions."""
        return {**self.services, **self.companions}

    def convert(self, documents: Sequence[SourceDocument], *, allow_lossy: bool) -> Conversion:
        """Converts the documents of one input."""
        made: Conversion = self._converter.convert(documents, allow_lossy=allow_lossy)
        return made

    def named(self, documents: Sequence[SourceDocument]) -> frozenset[ObjectKey]:
        """Other objects that its documents refer to, such as ConfigMaps, and that it converts too.

        A module that converts such objects has a function `named(documents)`.
        """
        named = getattr(self._converter, "named", None)
        return frozenset() if named is None else named(documents)

    def selects(self, documents: Sequence[SourceDocument], raw: Mapping[str, Any]) -> bool:
        """Whether its documents select another object by its labels, and it converts that too.

        A module that converts such objects has a function `selects(documents, raw)`.
        """
        selects = getattr(self._converter, "selects", None)
        return selects is not None and bool(selects(documents, raw))

    @property
    def _converter(self) -> Any:
        return importlib.import_module(f"{__package__}.{self.module}")


_KTHENA_WORKLOAD = ("workload.serving.volcano.sh/v1alpha1",)
_MODELPLANE = ("modelplane.ai/v1alpha1",)
_KTHENA_NETWORKING = ("networking.serving.volcano.sh/v1alpha1",)
_KSERVE = ("serving.kserve.io/v1alpha2", "serving.kserve.io/v1alpha1")

IMPORTERS = (
    Importer(
        "Kthena",
        "kthena.convert",
        {"ModelServing": _KTHENA_WORKLOAD},
        {
            "ModelServer": _KTHENA_NETWORKING,
            "ModelRoute": _KTHENA_NETWORKING,
            "AutoscalingPolicy": _KTHENA_WORKLOAD,
            "AutoscalingPolicyBinding": _KTHENA_WORKLOAD,
            "ModelBooster": _KTHENA_WORKLOAD,
        },
        pod_labels={
            "modelserving.volcano.sh/name": labels.SERVICE,
            "modelserving.volcano.sh/role": labels.ROLE_NAME,
            **dict.fromkeys(
                f"modelserving.volcano.sh/{each}"
                for each in ("entry", "group-name", "revision", "role-id", "role-template-hash")
            ),
        },
        scaling="scale its roles by an AutoscalingPolicy (disaggregatedTarget)",
        words=KTHENA,
    ),
    Importer(
        "Modelplane",
        "modelplane.convert",
        {"ModelDeployment": _MODELPLANE},
        dict.fromkeys(("ModelCache", "ModelEndpoint", "ModelService"), _MODELPLANE),
        dict.fromkeys(("InferenceClass", "InferenceCluster", "InferenceGateway"), _MODELPLANE),
        pod_labels=dict.fromkeys(
            f"modelplane.ai/{each}" for each in ("lws-role", "serving", "workload")
        ),
        words=MODELPLANE,
    ),
    Importer(
        "KServe",
        "kserve.convert",
        {"LLMInferenceService": _KSERVE},
        {"LLMInferenceServiceConfig": _KSERVE},
        pod_labels=dict.fromkeys(
            ("app.kubernetes.io/part-of=llminferenceservice", "kserve.io/component")
        ),
        words=KSERVE,
    ),
)


def importer_of(raw: Any) -> Importer | None:
    """The importer of a document's kind, None for our own kind and unknown ones."""
    if not isinstance(raw, Mapping):
        return None
    kind, version = raw.get("kind"), raw.get("apiVersion")
    if not isinstance(kind, str) or not isinstance(version, str):
        return None
    return next((each for each in IMPORTERS if version in each.kinds.get(kind, ())), None)


def platform_of(raw: Any) -> Importer | None:
    """The importer of the system whose platform a document configures, else None."""
    if not isinstance(raw, Mapping):
        return None
    kind, version = raw.get("kind"), raw.get("apiVersion")
    for each in IMPORTERS:
        if isinstance(kind, str) and version in each.platform.get(kind, ()):
            return each
    return None
