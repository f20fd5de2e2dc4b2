"""Defaults of the containers that the library generates, and editions: fixed sets of defaults.

A changed default needs a new edition. Editions are supported for at least a year, and
`tests/presets/test_editions.py` pins their values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from fusioninfer_pulumi.api.engine import Edition
from fusioninfer_pulumi.engines.sglang import SGLANG
from fusioninfer_pulumi.engines.vllm import VLLM


@dataclass(frozen=True)
class EnginePreset:
    """The defaults of one engine.

    Attributes:
        release: The default release. It changes only with minor versions of the library, because
            a new image restarts pods.
        images: Image pattern with `{release}`, keyed by hardware (`GPUs`, `CPUs`, `AMD GPUs`).
            Hardware is missing if its image names contain more than the release.
        program: Words that start the engine.
        arguments: Arguments that every pod needs.
        length_arguments: Arguments that limit sequences to the longest that fits. Without them vLLM
            exits if a sequence of the model's full length does not fit.
        drain_arguments: Arguments that let a terminating pod finish its requests.
        drain_since: The first release with `drain_arguments`.
        cpu_variables: Environment variables on CPUs.
        cpu_cache: Bytes of KV cache that `cpu_variables` request.
        supports_wide_ep: Whether data parallel ranks that share experts may span nodes.
    """

    release: str
    images: Mapping[str, str]
    program: tuple[str, ...]
    arguments: tuple[str, ...] = ()
    length_arguments: tuple[str, ...] = ()
    drain_arguments: tuple[str, ...] = ()
    drain_since: str = ""
    cpu_variables: Mapping[str, str] = field(default_factory=dict)
    cpu_cache: int = 0
    supports_wide_ep: bool = False


#: Seconds until an engine in a generated container closes an idle connection. Envoy closes idle
#: connections after an hour. With the engines' default of 5 s a gateway sends some requests on a
#: connection that the engine is closing, and clients get HTTP 503 (measured: docs/failures.md).
KEEP_ALIVE_SECONDS = "3700"

#: Name of the engine that the arguments in the model catalogue are for.
CATALOGUE_ENGINE = VLLM.name

#: Presets, keyed by engine name. `e2e/serve` runs vLLM 0.32.0, whose parser accepts the generated
#: arguments. The names of vLLM's images are from cpu.x86.inc.md and gpu.rocm.inc.md in its
#: docs/getting_started/installation. The ROCm image has NIXL (docker/Dockerfile.rocm). vLLM's GPU
#: images have no ray. SGLang's image names for AMD contain the release of ROCm and, before 0.5.12,
#: the GPU.
PRESETS: Mapping[str, EnginePreset] = {
    VLLM.name: EnginePreset(
        release="0.32.0",
        images={
            "GPUs": "vllm/vllm-openai:v{release}",
            "CPUs": "vllm/vllm-openai-cpu:v{release}-x86_64",
            "AMD GPUs": "vllm/vllm-openai-rocm:v{release}",  # 0.14.0 and later
        },
        program=("vllm", "serve"),
        length_arguments=("--max-model-len", "auto"),
        # Without it, requests that outlast the `preStop` hook are lost (docs/failures.md).
        drain_arguments=("--shutdown-timeout", "300"),
        drain_since="0.18.0",
        cpu_variables={"VLLM_CPU_KVCACHE_SPACE": "4"},
        cpu_cache=4 * 2**30,
        supports_wide_ep=True,
    ),
    SGLANG.name: EnginePreset(
        release="0.5.23",
        images={"GPUs": "lmsysorg/sglang:v{release}"},
        program=("python3", "-m", "sglang.launch_server"),
        # By default SGLang listens on localhost only, and does not serve the metrics from which
        # endpoint pickers and autoscalers read its load.
        arguments=("--host", "0.0.0.0", "--enable-metrics"),  # noqa: S104  # a pod's interfaces
    ),
}


class EditionDefaults(NamedTuple):
    """The presets, keyed by engine name, and the images of endpoint pickers and the sidecar.

    `picker` is the image in FusionInfer's router document. It has no flow control; services that
    need that use `flow_control_picker`. Only `pd_picker` supports `pd-disaggregation`.
    """

    presets: Mapping[str, EnginePreset]
    picker: str
    flow_control_picker: str
    pd_picker: str
    sidecar: str


_EDITIONS = {
    Edition.OF_2026_11: EditionDefaults(
        PRESETS,
        picker="registry.k8s.io/gateway-api-inference-extension/epp:v1.2.1",
        flow_control_picker="registry.k8s.io/gateway-api-inference-extension/epp:v1.5.0",
        pd_picker="ghcr.io/llm-d/llm-d-router-endpoint-picker:v0.10.0",
        sidecar="ghcr.io/llm-d/llm-d-router-disagg-sidecar:v0.10.0",
    )
}


def get_edition_defaults(edition: Edition | None = None) -> EditionDefaults:
    """Return the defaults of an edition, the newest edition by default."""
    return _EDITIONS[edition or list(Edition)[-1]]
