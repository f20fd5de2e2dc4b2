"""Facts about engine releases, each with the evidence for it.

Read in the source distributions of vLLM 0.8.0, 0.9.2, 0.10.2, 0.11.0, 0.11.1, 0.12.0, 0.16.0,
0.17.0, 0.18.0 and 0.33.0, in the requirements that the vLLM 0.8.5 to 0.20.0 wheels declare, and in
the wheels of SGLang 0.4.6, 0.5.3 and 0.5.23. Nothing was run on accelerators. Where nothing is
written down here, nothing is known, and nothing is said about it.
"""

from __future__ import annotations

Version = tuple[int, ...]

#: Where the processes of an engine share memory: 64 MiB unless a volume is mounted there.
SHARED_MEMORY = "/dev/shm"  # noqa: S108  # a mount path

#: First vLLM release without ray. The wheels of 0.8.5 to 0.17.1 require `ray[cgraph]`, those of
#: 0.18.0 and later do not, and `docker/Dockerfile` of 0.18.0 and 0.33.0 installs none.
VLLM_WITHOUT_RAY: Version = (0, 18, 0)
VLLM_LAST_WITH_RAY: Version = (0, 17, 1)

#: Moving tags of vllm/vllm-openai. They only move forward, and were past 0.18.0 when this was read.
VLLM_MOVING_TAGS = ("latest", "nightly")

#: First vLLM release whose multiprocessing executor spans nodes (`--nnodes`, `--node-rank`,
#: `--master-addr`, `--master-port`; vllm#23691): in `vllm/engine/arg_utils.py` of 0.11.1, not of
#: 0.11.0. Only `vllm serve` obeys `--headless` (`vllm/entrypoints/cli/serve.py`): the older
#: `python3 -m vllm.entrypoints.openai.api_server` accepts it and starts a server all the same.
VLLM_MULTI_NODE: Version = (0, 11, 1)

#: First vLLM release in which data parallel ranks that each span several nodes work with
#: multiprocessing (vllm#35429: workers bound the message queue to the head's address). The old
#: line is in `vllm/v1/executor/multiproc_executor.py` of 0.16.0, the fix in that of 0.17.0.
VLLM_MULTI_NODE_RANKS: Version = (0, 17, 0)

# The entrypoint of vllm/vllm-openai is `python3 -m vllm.entrypoints.openai.api_server` up to
# 0.11.0 and `vllm serve` from 0.11.1 on (`docker/Dockerfile`). `vllm serve --model X` is an error
# up to 0.11.0 and a warning from 0.11.1 to 0.33.0 (`FlexibleArgumentParser`), so the model is
# written as the positional argument, which all of them take.

#: Connectors that `KVConnectorFactory` registers, by the releases that were read. 0.9.2 still has
#: PyNcclConnector, for its old (V0) engine; 0.10.2 and later do not.
VLLM_CONNECTORS: dict[Version, tuple[str, ...]] = {
    (0, 10, 2): (
        "LMCacheConnectorV1",
        "MultiConnector",
        "NixlConnector",
        "P2pNcclConnector",
        "SharedStorageConnector",
    ),
    (0, 11, 0): (
        "LMCacheConnectorV1",
        "MultiConnector",
        "NixlConnector",
        "OffloadingConnector",
        "P2pNcclConnector",
        "SharedStorageConnector",
    ),
    (0, 12, 0): (
        "DecodeBenchConnector",
        "LMCacheConnectorV1",
        "LMCacheMPConnector",
        "MultiConnector",
        "NixlConnector",
        "OffloadingConnector",
        "P2pNcclConnector",
        "SharedStorageConnector",
    ),
    (0, 18, 0): (
        "LMCacheConnectorV1",
        "LMCacheMPConnector",
        "MooncakeConnector",
        "MultiConnector",
        "NixlConnector",
        "OffloadingConnector",
        "P2pNcclConnector",
    ),
    (0, 33, 0): (
        "LMCacheConnectorV1",
        "LMCacheMPConnector",
        "MooncakeConnector",
        "MultiConnector",
        "NixlConnector",
        "OffloadingConnector",
    ),
}

#: HTTP port that a server listens on without `--port`: vLLM `vllm/entrypoints`, SGLang
#: `ServerArgs.port`.
DEFAULT_PORTS = {"vllm": 8000, "sglang": 30000}

#: Path that answers 200 once the engine serves; the same for both.
HEALTH_PATHS = {"vllm": "/health", "sglang": "/health"}

#: Ports of the multi-node rendezvous. torch's own default, which FusionInfer's later design writes
#: for vLLM (vLLM's default is 29501; its data parallel ports are free ports that the head picks);
#: the one of SGLang's multi-node guide for `--dist-init-addr`; and ray's.
VLLM_MASTER_PORT = 29500
SGLANG_INIT_PORT = 20000
RAY_PORT = 6379


def spelled(version: Version) -> str:
    """Writes a version as image tags do: `v0.11.0`."""
    return "v" + ".".join(str(part) for part in version)
