"""How engines keep KV cache beyond their accelerators' memory, and which releases can.

vLLM: `vllm/v1/kv_offload`, read in 0.11.0 to 0.14.0, 0.18.0, 0.21.0 to 0.25.0 and 0.33.0.
SGLang: `server_args.py` and `mem_cache` of 0.4.6, 0.5.3 and 0.5.23. No accelerator was at hand.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from fusioninfer_pulumi.engines.command import EngineCommand
from fusioninfer_pulumi.engines.facts import Version, spelled
from fusioninfer_pulumi.engines.flags import has_flag, split_joined_flags
from fusioninfer_pulumi.engines.notes import EngineNote
from fusioninfer_pulumi.engines.parallelism import read_parallelism

#: vLLM's connector to host memory and the tiers behind it.
OFFLOADING = "OffloadingConnector"

#: First vLLM release whose connector is told bytes (`cpu_bytes_to_use`). 0.11.0 to 0.13.0 want a
#: number of blocks, whose size follows from the model.
VLLM_CPU: Version = (0, 14, 0)
#: First vLLM release with tiers behind the host memory (`TieringOffloadingSpec`; vllm#40020).
VLLM_SECONDARY: Version = (0, 22, 0)
#: First vLLM release whose tests run NixlConnector and OffloadingConnector in one MultiConnector,
#: as far as was read (`tests/v1/kv_connector/nixl_integration` of 0.21.0, not of 0.18.0).
VLLM_WITH_NIXL: Version = (0, 21, 0)
#: Oldest SGLang releases of which it was read that they have a hierarchical cache, and storage of
#: the kind `file` behind it.
SGLANG_CPU: Version = (0, 4, 6)
SGLANG_SECONDARY: Version = (0, 5, 3)

#: Folder of SGLang's `file` storage.
SGLANG_FOLDER_ENV = "SGLANG_HICACHE_FILE_BACKEND_STORAGE_DIR"
#: Seeds vLLM's block hashes. Random in each process up to 0.25.0 at least, so that no process
#: finds what another one has written.
HASH_SEED_ENV = "PYTHONHASHSEED"

_OWN_FLAGS = {
    "vllm": ("--kv-offloading-size", "--kv-offloading-backend"),
    "sglang": ("--enable-hierarchical-cache", "--hicache-size", "--hicache-ratio",
               "--hicache-storage-backend"),
}  # fmt: skip
_GIGABYTE = 10**9  # SGLang's unit


@dataclass(frozen=True)
class Offloading:
    """Where an engine's KV cache goes.

    Attributes:
        cpu: Bytes of host memory of each engine.
        eviction: Policy of the host memory, None for the engine's default.
        folders: Where the tiers behind it are mounted, in their order.
    """

    cpu: int
    eviction: str | None = None
    folders: tuple[str, ...] = ()


def offloading_settings(wanted: Offloading) -> dict[str, Any]:
    """Settings of vLLM's OffloadingConnector, for `--kv-transfer-config` or inside of it."""
    extra: dict[str, Any] = {}
    if wanted.folders:
        extra["spec_name"] = "TieringOffloadingSpec"
    extra["cpu_bytes_to_use"] = wanted.cpu
    if wanted.eviction is not None:
        extra["eviction_policy"] = wanted.eviction
    if wanted.folders:
        extra["secondary_tiers"] = [{"type": "fs", "root_dir": folder} for folder in wanted.folders]
    return {"kv_connector": OFFLOADING, "kv_role": "kv_both", "kv_connector_extra_config": extra}


def hierarchical_words(command: EngineCommand, wanted: Offloading) -> list[str]:
    """SGLang's arguments; it is told the memory of each rank, in whole gigabytes."""
    words = ["--enable-hierarchical-cache", "--hicache-size", str(_rank_size(command, wanted))]
    return [*words, "--hicache-storage-backend", "file"] if wanted.folders else words


def pod_memory(command: EngineCommand, wanted: Offloading, nodes: int) -> Decimal:
    """Bytes of host memory that the engines of one pod take for their KV cache.

    vLLM's ranks share one region in /dev/shm, which every pod of an engine makes in full size;
    each data parallel copy has its own.
    """
    sizes = read_parallelism(command)
    if sizes is None:
        return Decimal(wanted.cpu)
    if command.engine == "sglang":
        return Decimal(_rank_size(command, wanted) * _GIGABYTE * sizes.devices() // nodes)
    local = sizes.data_local or max(sizes.data // nodes, 1)
    return Decimal(wanted.cpu * min(local, sizes.data))


def offloading_notes(
    command: EngineCommand, wanted: Offloading, *, decodes: bool
) -> Iterator[tuple[str, EngineNote]]:
    """What an engine cannot do.

    Args:
        command: The container's command line.
        wanted: What is asked for.
        decodes: Whether it gets its KV cache from a prefiller.

    Yields:
        The field of `kvCacheOffloading` and what is to be said; the flag of the note is empty
        where the field itself is meant.
    """
    for flag in _OWN_FLAGS[command.engine or "vllm"]:
        if has_flag(split_joined_flags(command.arguments), flag):
            message = f"{flag} is what kvCacheOffloading stands for; remove one of them"
            yield "", EngineNote("error", flag, message)
    if command.engine == "sglang":
        yield from _sglang(command, wanted, decodes=decodes)
    else:
        yield from _vllm(command.image.version, wanted)


def _vllm(version: Version | None, wanted: Offloading) -> Iterator[tuple[str, EngineNote]]:
    needed, field = (VLLM_SECONDARY, "secondary") if wanted.folders else (VLLM_CPU, "")
    if version is not None and version < VLLM_CPU:
        message = (
            f"needs vLLM {spelled(VLLM_CPU)}: the connector of {spelled(version)} cannot be told "
            "how much memory to use"
        )
        yield "", EngineNote("error", "", message)
    elif version is not None and version < needed:
        message = f"needs vLLM {spelled(needed)}; {spelled(version)} offloads to host memory alone"
        yield field, EngineNote("error", "", message)
    elif version is None:
        message = f"needs vLLM {spelled(needed)} or later, which the image's tag does not say"
        yield field, EngineNote("info", "", message)


def _sglang(
    command: EngineCommand, wanted: Offloading, *, decodes: bool
) -> Iterator[tuple[str, EngineNote]]:
    version = command.image.version
    if decodes:
        message = "SGLang has no hierarchical cache on decoders; state it on prefillers"
        yield "", EngineNote("error", "", message)
    needed, field = (SGLANG_SECONDARY, "secondary") if wanted.folders else (SGLANG_CPU, "")
    if version is not None and version < needed:
        message = f"needs SGLang {spelled(needed)} or later, got {spelled(version)}"
        yield field, EngineNote("error", "", message)
    if wanted.eviction == "arc":
        yield "evictionPolicy", EngineNote("error", "", "arc is vLLM's; SGLang has lru")
    if len(wanted.folders) > 1:
        message = f"SGLang has one tier behind the host memory, got {len(wanted.folders)}"
        yield "secondary", EngineNote("error", "", message)
    if read_parallelism(command) is None:
        message = (
            "SGLang is told the memory of each rank, but how many there are cannot be read here; "
            "write --hicache-size yourself"
        )
        yield "cpu", EngineNote("error", "", message)
    elif _rank_size(command, wanted) < 1:
        message = "is less than SGLang's smallest amount, one gigabyte for each rank"
        yield "cpu", EngineNote("error", "", message)


def _rank_size(command: EngineCommand, wanted: Offloading) -> int:
    sizes = read_parallelism(command)
    ranks = 1 if sizes is None else sizes.tensor * sizes.pipeline
    return wanted.cpu // (_GIGABYTE * ranks)
