"""What a proposed service runs of each engine: image, program and flags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class ProposedEngine:
    """An engine as `size` proposes it.

    Attributes:
        image: The newest release whose memory is held against recorded start-ups.
        program: Words that start it; the image's own entrypoint has no others.
        in_image: Whether the image starts the program by itself.
        model_flag: Flag of the model.
        tensor_flag: Flag of the ways that each layer is split.
        pipeline_flag: Flag of the stages.
        length_flag: Flag of the longest sequence.
        more: Further arguments of a pod.
        launcher: Launcher of several nodes, None for the default.
        connector: What hands the KV cache from prefill to decode.
    """

    image: str
    program: Sequence[str]
    in_image: bool
    model_flag: str
    tensor_flag: str
    pipeline_flag: str
    length_flag: str
    connector: str
    more: Sequence[str] = ()
    launcher: str | None = None


PROPOSED: Mapping[str, ProposedEngine] = {
    "vllm": ProposedEngine(
        image="vllm/vllm-openai:v0.21.0",
        program=("python3", "-m", "vllm.entrypoints.openai.api_server"),
        in_image=True,
        model_flag="--model",
        tensor_flag="--tensor-parallel-size",
        pipeline_flag="--pipeline-parallel-size",
        length_flag="--max-model-len",
        connector="NixlConnector",
        launcher="multiprocessing",  # its newer images have no ray
    ),
    "sglang": ProposedEngine(
        image="lmsysorg/sglang:v0.5.9",
        program=("python3", "-m", "sglang.launch_server"),
        in_image=False,
        model_flag="--model-path",
        tensor_flag="--tp-size",
        pipeline_flag="--pp-size",
        length_flag="--context-length",
        connector="nixl",
        # By default it listens on the pod itself alone, and on a port of its own.
        more=("--host", "0.0.0.0", "--port", "8000"),  # noqa: S104  # a pod's interfaces
    ),
}
