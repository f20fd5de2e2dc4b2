"""The record of one family of endpoint pickers."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from fusioninfer_pulumi.engines.engine import LoadMetrics
from fusioninfer_pulumi.generated import FOLDER

X_K8S_API = "inference.networking.x-k8s.io/v1alpha1"
LLM_D_API = "llm-d.ai/v1alpha1"
EPP_CONFIG_KIND = "EndpointPickerConfig"

#: Image versions as numbers: `v1.2.1` is (1, 2, 1).
Version = tuple[int, int, int]


class Family(str, enum.Enum):
    """Generations of endpoint pickers; within one, every image reads the same configuration."""

    GAIE_1_2 = "gaie-1.2"
    GAIE_1_3 = "gaie-1.3"
    GAIE_1_4 = "gaie-1.4"
    GAIE_1_5 = "gaie-1.5"
    LLM_D_0_9 = "llm-d-0.9"
    LLM_D_0_10 = "llm-d-0.10"

    @property
    def later(self) -> frozenset[Family]:
        """This family and those after it; llm-d's come after the inference extension's."""
        families = list(Family)
        return frozenset(families[families.index(self) :])


@cache
def release_data(family: Family) -> dict[str, Any]:
    """Return what a family's newest release has, as `tools/picker_plugins.py` read it."""
    path = FOLDER / "endpoint_pickers" / f"{family.value}.json"
    data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return data


class PrefixKeys(str, enum.Enum):
    """Where the block size of the approximate prefix index is configured, and in which unit."""

    CHARACTERS = "characters"  #: `blockSize` of prefix-cache-scorer, in characters
    TOKENS = "tokens"  #: `blockSizeTokens` of prefix-cache-scorer
    PRODUCER = "producer"  #: `blockSizeTokens` of approx-prefix-cache-producer, at least 64


class FlowControl(NamedTuple):
    """Metrics of a picker that can hold requests; they outlive the pods.

    Attributes:
        held: Requests that wait in the picker (gauge).
        running: Requests that it has sent to a pod, and that are not answered (gauge).
    """

    held: str
    running: str


@dataclass(frozen=True)
class EppFamily:
    """What is known about the images of one family.

    Attributes:
        sidecar_repository: Repository of the prefill/decode sidecar, which has the same versions;
            None where there is none.
        versions: Range of image versions, both ends included.
        api_versions: apiVersions that it registers for its configuration; the first is generated.
        plugins: Plugin types that it registers.
        prefix_keys: How it reads the block size.
        engine_metrics: Metrics of an engine that it reads by default. v1.2.1 asks for the KV cache
            by a name that current vLLM does not have, and scores all pods 1.0 without it
            (`pkg/epp/server/runserver.go`).
        refused_flags: Flags that it knows but refuses when they are set, with the reason.
        needs_inference_objective_crd: Whether it exits when the cluster has no InferenceObjective.
        rewrite_api: apiVersion of the InferenceModelRewrites that it carries out; None where it
            knows none (v1.2 has the kind, and nothing that reads it).
        flow_control: Its metrics of flow control, None where it looks for a pod before it holds a
            request, and answers 503 without one (v1.2.1 `requestcontrol/director.go`).
        averages_saturation: Whether flow control compares the pods' mean saturation, in which a
            long queue of one pod outweighs idle pods, instead of looking for one pod with room
            (v1.4.0 `utilizationdetector/detector.go`).
        limits_waiting: Whether flow control ends a request that waits for 60 s, if nothing else
            is written (llm-d v0.10.0 `flowcontrol/controller/config.go`; 0s there is no limit,
            which is the default of all others).
        traces_tls: Whether it sends traces by TLS where the endpoint says so; up to v0.9.0 it
            never does (`tracing/telemetry.go`: `otlptracegrpc.WithInsecure()`).
    """

    family: Family
    repository: str
    sidecar_repository: str | None
    versions: tuple[Version, Version]
    api_versions: tuple[str, ...]
    plugins: frozenset[str]
    integer_weights: bool
    prefix_keys: PrefixKeys
    engine_metrics: LoadMetrics
    averages_saturation: bool
    flags: frozenset[str]
    refused_flags: Mapping[str, str]
    needs_inference_objective_crd: bool
    rewrite_api: str | None
    flow_control: FlowControl | None
    limits_waiting: bool
    traces_tls: bool

    @property
    def name(self) -> str:
        """The family's name as a user writes it in `endpointPicker.family`."""
        return self.family.value

    @property
    def image(self) -> str:
        """The family's newest image."""
        return f"{self.repository}:{version_text(self.versions[1])}"

    @property
    def sidecar_image(self) -> str | None:
        """The sidecar of the newest image's release, None where there is none."""
        if self.sidecar_repository is None:
            return None
        return f"{self.sidecar_repository}:{version_text(self.versions[1])}"

    @property
    def supports_pd(self) -> bool:
        """Whether it can disaggregate prefill and decode."""
        return self.registers("disagg-profile-handler")

    def registers(self, plugin: str) -> bool:
        """Whether it registers a plugin type."""
        return plugin in self.plugins


def version_text(version: Version) -> str:
    """`v1.2.1` for (1, 2, 1)."""
    return "v" + ".".join(str(part) for part in version)
