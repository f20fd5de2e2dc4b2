"""Defaults of generated containers for each engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fusioninfer_pulumi.engines.sglang import SGLANG
from fusioninfer_pulumi.engines.vllm import VLLM


@dataclass(frozen=True)
class EnginePreset:
    """A container of one engine.

    Attributes:
        release: The default release. It changes only with minor versions of the library, because
            a new image restarts pods.
        images: Image by what it runs on (`GPUs`, `CPUs`, `AMD GPUs`), with `{release}` in it; only
            those whose names follow from the release.
        program: Words that start it.
        arguments: Arguments that every pod needs.
        length_arguments: Arguments for the longest sequence that fits: without them vLLM exits if
            one of the model's full length does not fit.
        drain_arguments: Arguments with which a terminating pod finishes its requests.
        drain_since: The first release that has them.
        cpu_variables: Variables of processors.
        cpu_cache: Bytes of KV cache that these variables ask for.
        expert_layouts: Whether data parallel ranks and spread experts may span nodes.
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
    expert_layouts: bool = False


#: Seconds until a generated engine closes an idle connection: more than the hour for which Envoy
#: keeps one. With the engines' default of 5 s a gateway sends some requests on a connection that
#: the engine is closing, and clients get 503 (measured: docs/failures.md).
KEEP_ALIVE_SECONDS = "3700"

#: Name of the engine whose recipes the catalogue of models is made of.
CATALOGUE_ENGINE = VLLM.name

#: By the engine's name. vLLM 0.32.0 is the release that `e2e/serve` runs, and whose parser takes
#: the arguments of all presets. Its image for processors: vLLM's
#: docs/getting_started/installation/cpu.x86.inc.md; for AMD: gpu.rocm.inc.md there, and
#: docker/Dockerfile.rocm, which installs NIXL. Its GPU images have no ray. SGLang's images for AMD
#: name the release of ROCm and, before 0.5.12, the GPU.
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
        # Without it requests that run longer than 20 s are lost (docs/failures.md).
        drain_arguments=("--shutdown-timeout", "300"),
        drain_since="0.18.0",
        cpu_variables={"VLLM_CPU_KVCACHE_SPACE": "4"},
        cpu_cache=4 * 2**30,
        expert_layouts=True,
    ),
    SGLANG.name: EnginePreset(
        release="0.5.23",
        images={"GPUs": "lmsysorg/sglang:v{release}"},
        program=("python3", "-m", "sglang.launch_server"),
        # By default it listens on the pod itself alone, and serves no metrics, by which endpoint
        # pickers and autoscalers see its load.
        arguments=("--host", "0.0.0.0", "--enable-metrics"),  # noqa: S104  # a pod's interfaces
    ),
}
