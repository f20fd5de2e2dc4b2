"""Says when an image or its flags do not fit the way a multi-node replica is launched."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fusioninfer_pulumi.engines.command import EngineCommand
from fusioninfer_pulumi.engines.facts import (
    VLLM_LAST_WITH_RAY,
    VLLM_MOVING_TAGS,
    VLLM_MULTI_NODE,
    VLLM_MULTI_NODE_RANKS,
    VLLM_WITHOUT_RAY,
    spelled,
)
from fusioninfer_pulumi.engines.flags import flag_value, has_flag, integer, split_joined_flags
from fusioninfer_pulumi.engines.notes import EngineNote
from fusioninfer_pulumi.engines.parallelism import read_parallelism

_BACKEND = "--distributed-executor-backend"
_NNODES = ("--nnodes", "-n")


def launcher_notes(command: EngineCommand, launcher: str, nodes: int) -> list[EngineNote]:
    """Compares an engine with the launcher of its multi-node replica.

    Args:
        command: The serving container's command line.
        launcher: `ray`, `multiprocessing`, `data-parallel` or `none`.
        nodes: Pods of one replica.

    Returns:
        What cannot work or probably does not; nothing for one node, for `none`, for `data-parallel`
        (which is checked where it is launched), and where the engine or its version is not known.
    """
    if nodes < 2 or launcher == "none":
        return []
    arguments = split_joined_flags(command.arguments)
    if command.engine == "vllm" and launcher == "ray":
        return [*_ray_image(command), *_ray_flags(command, arguments)]
    if command.engine == "vllm" and launcher == "multiprocessing":
        return [
            *_multiprocessing_version(command, nodes),
            *_nnodes(arguments, nodes),
            *_executor(arguments),
            *_divisible(command, nodes),
        ]
    if command.engine == "sglang" and launcher == "multiprocessing":
        return [*_nnodes(arguments, nodes), *_sglang_data(command, nodes)]
    return []


def _ray_image(command: EngineCommand) -> Iterator[EngineNote]:
    version, tag = command.image.version, command.image.tag
    moving = command.image.stock and tag is not None and tag.startswith(VLLM_MOVING_TAGS)
    if moving or (version is not None and version >= VLLM_WITHOUT_RAY):
        yield EngineNote(
            "warning",
            "",
            f"the image vllm/vllm-openai:{tag} has no ray ({spelled(VLLM_LAST_WITH_RAY)} is the "
            f"last with it): use launcher: multiprocessing, or an image that adds ray",
        )


def _ray_flags(command: EngineCommand, arguments: Sequence[str]) -> Iterator[EngineNote]:
    backend = flag_value(arguments, _BACKEND)
    if backend is not None and backend != "ray":
        yield EngineNote(
            "warning",
            _BACKEND,
            f"{_BACKEND} {backend} does not use the ray cluster that launcher: ray starts: leave "
            f"it out, or use launcher: multiprocessing",
        )
    if has_flag(arguments, *_NNODES) and flag_value(arguments, *_NNODES) != "1":
        yield EngineNote(
            "error",
            "--nnodes",
            "vLLM refuses --nnodes with ray: leave it out, or use launcher: multiprocessing",
        )
    parallelism = read_parallelism(command)
    ray_ranks = flag_value(arguments, "--data-parallel-backend", "-dpb") == "ray"
    # Documented in docs/serving/data_parallel_deployment.md; read in `launch_core_engines`.
    if parallelism is not None and parallelism.data > 1 and not ray_ranks:
        yield EngineNote(
            "warning",
            "--data-parallel-size",
            "without --data-parallel-backend ray vLLM starts all data parallel ranks on the "
            "leader: add it, or use launcher: multiprocessing",
        )


def _multiprocessing_version(command: EngineCommand, nodes: int) -> Iterator[EngineNote]:
    version = command.image.version
    if version is not None and version < VLLM_MULTI_NODE:
        yield EngineNote(
            "warning",
            "",
            f"vLLM {spelled(version)} cannot span nodes with multiprocessing (--nnodes exists "
            f"from {spelled(VLLM_MULTI_NODE)} on): use launcher: ray, or a newer image",
        )
        return
    parallelism = read_parallelism(command)
    if parallelism is None or version is None or version >= VLLM_MULTI_NODE_RANKS:
        return
    rank = parallelism.devices() // parallelism.data
    if parallelism.data > 1 and parallelism.devices() < rank * nodes:
        yield EngineNote(
            "warning",
            "--data-parallel-size",
            f"in vLLM {spelled(version)} a data parallel rank cannot span nodes with "
            f"multiprocessing (vllm#35429, fixed in {spelled(VLLM_MULTI_NODE_RANKS)})",
        )


def _nnodes(arguments: Sequence[str], nodes: int) -> Iterator[EngineNote]:
    given = integer(flag_value(arguments, *_NNODES))
    if given is not None and given != nodes:
        yield EngineNote(
            "error", "--nnodes", f"--nnodes {given}, but a replica has {nodes} nodes: leave it out"
        )


def _executor(arguments: Sequence[str]) -> Iterator[EngineNote]:
    # ParallelConfig: "nnodes > 1 can only be set when distributed executor backend is mp".
    if flag_value(arguments, _BACKEND) == "ray":
        yield EngineNote(
            "error",
            _BACKEND,
            f"{_BACKEND} ray cannot be used with launcher: multiprocessing: leave it out, or use "
            f"launcher: ray",
        )


def _divisible(command: EngineCommand, nodes: int) -> Iterator[EngineNote]:
    # Both engines assert it, on the product over all nodes.
    parallelism = read_parallelism(command)
    if command.engine is not None and parallelism is not None and parallelism.devices() % nodes:
        yield EngineNote(
            "error",
            "--nnodes",
            f"{parallelism.written(command.engine)} cannot be divided evenly among {nodes} nodes, "
            f"which multiprocessing needs",
        )


def _sglang_data(command: EngineCommand, nodes: int) -> Iterator[EngineNote]:
    parallelism = read_parallelism(command)
    if parallelism is None:
        return
    # `check_server_args`: "multi-node data parallel is not supported unless dp attention!"
    if parallelism.data > 1:
        yield EngineNote(
            "error",
            "--dp-size",
            f"SGLang does not run --dp-size {parallelism.data} on {nodes} nodes without data "
            f"parallel attention (--enable-dp-attention, or --attn-dp-size in newer releases)",
        )
    yield from _divisible(command, nodes)
