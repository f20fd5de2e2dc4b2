"""What the tables say about engines, images and launchers."""

from __future__ import annotations

from typing import Any

import pytest

from fusioninfer_pulumi.engines.command import EngineCommand, read_command
from fusioninfer_pulumi.engines.notes import EngineNote
from fusioninfer_pulumi.engines.table import (
    block_size,
    connector_notes,
    default_port,
    health_path,
    kv_transfer_config,
    launcher_notes,
    serves_https,
    serving_port,
)

SGLANG = ["python3", "-m", "sglang.launch_server"]


def vllm(arguments: str | list[str] = "m", tag: str = "v0.11.0") -> EngineCommand:
    words = arguments.split() if isinstance(arguments, str) else arguments
    return read_command({"image": f"vllm/vllm-openai:{tag}", "args": words})


def sglang(arguments: str) -> EngineCommand:
    return read_command({"image": "x", "command": SGLANG, "args": arguments.split()})


UNKNOWN = read_command({"image": "x", "args": ["--port", "1", "--block-size", "2"]})


def test_ports() -> None:
    assert [default_port(engine) for engine in ("vllm", "sglang", None)] == [8000, 30000, None]
    assert serving_port(vllm("m --port 9000")) == 9000
    assert serving_port(sglang("--port=9000")) == 9000
    assert serving_port(vllm("m")) is None
    assert serving_port(vllm("m --port $PORT")) is None
    assert serving_port(vllm("m --port 70000")) is None
    assert serving_port(UNKNOWN) is None


def test_health_paths() -> None:
    assert [health_path(engine) for engine in ("vllm", "sglang", None)] == ["/health"] * 2 + [None]


def test_https() -> None:
    assert serves_https(vllm("m --ssl-certfile=/tls/tls.crt --ssl-keyfile /tls/tls.key"))
    assert not serves_https(vllm("m"))
    assert not serves_https(read_command({"image": "x", "args": ["--ssl-certfile=c"]}))


def test_block_sizes() -> None:
    assert block_size(vllm("m --block-size 64")) == 64
    assert block_size(sglang("--page-size 32")) == 32
    assert block_size(sglang("--block-size 32")) is None
    assert block_size(UNKNOWN) is None


NIXL = {"kv_connector": "NixlConnector", "kv_role": "kv_both"}
FLAG = "--kv-transfer-config"


@pytest.mark.parametrize(
    ("arguments", "config"),
    [
        (["m"], None),
        (["m", FLAG, '{"kv_connector":"NixlConnector","kv_role":"kv_both"}'], NIXL),
        (["m", FLAG + ' \'{"kv_connector":"NixlConnector","kv_role":"kv_both"}\''], NIXL),
        (["m", FLAG, '{"kv_role":"x"}', FLAG + ".kv_role=kv_both",
          "--kv_transfer_config.kv_connector", "NixlConnector"], NIXL),
        (["m", FLAG + ".kv_role", "kv_both"], {"kv_role": "kv_both"}),
        (["m", FLAG, "{kv_role:kv_both}"], "{kv_role:kv_both}"),
        (["m", FLAG, "[1]"], "[1]"),
        (["m", FLAG, "{}"], {}),
    ],
)  # fmt: skip
def test_kv_transfer_config(arguments: list[str], config: Any) -> None:
    assert kv_transfer_config(vllm(arguments)) == config


PYNCCL = '{"kv_connector":"PyNcclConnector","kv_role":"kv_producer"}'


@pytest.mark.parametrize(
    ("command", "known"),
    [
        (
            vllm([FLAG, PYNCCL]),
            (
                "vLLM v0.11.0 has LMCacheConnectorV1, MultiConnector, NixlConnector, "
                "OffloadingConnector, P2pNcclConnector, SharedStorageConnector"
            ),
        ),
        (
            vllm([FLAG, PYNCCL], "latest"),
            (
                "vLLM v0.33.0 has LMCacheConnectorV1, LMCacheMPConnector, MooncakeConnector, "
                "MultiConnector, NixlConnector, OffloadingConnector"
            ),
        ),
    ],
)
def test_connector_that_does_not_exist(command: EngineCommand, known: str) -> None:
    message = (
        "PyNcclConnector is not a connector of vLLM's V1 engine, which stops with 'Unsupported "
        f"connector type': {known}"
    )
    assert connector_notes(command) == [EngineNote("warning", FLAG, message)]


@pytest.mark.parametrize(
    "command",
    [
        vllm([FLAG, PYNCCL], "v0.8.5"),
        vllm([FLAG, '{"kv_connector":"MyConnector"}']),
        vllm([FLAG, '{"kv_connector":"PyNcclConnector","kv_connector_module_path":"mine"}']),
        vllm([FLAG, "PyNcclConnector"]),
        vllm(),
        read_command({"image": "x", "args": [FLAG, PYNCCL]}),
    ],
)
def test_connectors_that_are_not_judged(command: EngineCommand) -> None:
    assert connector_notes(command) == []


NO_RAY = (
    "has no ray (v0.17.1 is the last with it): use launcher: multiprocessing, or an image that "
    "adds ray"
)
BACKEND = "--distributed-executor-backend"


@pytest.mark.parametrize(
    ("command", "launcher", "expected"),
    [
        # ray
        (vllm("m -tp 16"), "ray", []),
        (vllm("m", "v0.17.1"), "ray", []),
        (vllm("m", "v0.18.0"), "ray",
         [("warning", "", f"the image vllm/vllm-openai:v0.18.0 {NO_RAY}")]),
        (vllm("m", "latest"), "ray",
         [("warning", "", f"the image vllm/vllm-openai:latest {NO_RAY}")]),
        (read_command({"image": "me/vllm:v0.30.0"}), "ray", []),
        (vllm(f"m {BACKEND} ray"), "ray", []),
        (vllm(f"m {BACKEND}=mp"), "ray", [(
            "warning", BACKEND,
            (f"{BACKEND} mp does not use the ray cluster that launcher: ray starts: leave it out, "
            "or use launcher: multiprocessing"))]),
        (vllm("m --nnodes 2"), "ray", [(
            "error", "--nnodes",
            "vLLM refuses --nnodes with ray: leave it out, or use launcher: multiprocessing")]),
        (vllm("m -dp 2"), "ray", [(
            "warning", "--data-parallel-size",
            ("without --data-parallel-backend ray vLLM starts all data parallel ranks on the "
            "leader: add it, or use launcher: multiprocessing"))]),
        (vllm("m -dp 2 --data-parallel-backend=ray"), "ray", []),
        # multiprocessing
        (vllm("m -tp 16", "v0.11.0"), "multiprocessing", [(
            "warning", "",
            ("vLLM v0.11.0 cannot span nodes with multiprocessing (--nnodes exists from v0.11.1 "
            "on): use launcher: ray, or a newer image"))]),
        (vllm("m -tp 16", "v0.11.1"), "multiprocessing", []),
        (vllm("m -tp 16", "latest"), "multiprocessing", []),
        (vllm("m -tp 16 --nnodes 3", "v0.12.0"), "multiprocessing", [(
            "error", "--nnodes", "--nnodes 3, but a replica has 2 nodes: leave it out")]),
        (vllm("m -tp 16 --nnodes 2", "v0.12.0"), "multiprocessing", []),
        (vllm(f"m -tp 16 {BACKEND} ray", "v0.12.0"), "multiprocessing", [(
            "error", BACKEND,
            (f"{BACKEND} ray cannot be used with launcher: multiprocessing: leave it out, or use "
            "launcher: ray"))]),
        (vllm("m -tp 3 -dp 3", "v0.17.0"), "multiprocessing", [(
            "error", "--nnodes",
            ("--tensor-parallel-size 3 x --data-parallel-size 3 cannot be divided evenly among "
            "2 nodes, which multiprocessing needs"))]),
        (vllm("m -tp 1", "v0.17.0"), "multiprocessing", [(
            "error", "--nnodes",
            ("--tensor-parallel-size 1 cannot be divided evenly among 2 nodes, which "
            "multiprocessing needs"))]),
        (vllm("m -tp 16 -dp 2", "v0.16.0"), "multiprocessing", []),
        (sglang("--tp 16"), "multiprocessing", []),
        (sglang("--tp 16 --dp 16 --enable-dp-attention"), "multiprocessing", []),
        (sglang("--tp 16 --dp 2"), "multiprocessing", [(
            "error", "--dp-size",
            ("SGLang does not run --dp-size 2 on 2 nodes without data parallel attention "
            "(--enable-dp-attention, or --attn-dp-size in newer releases)"))]),
        (sglang("--tp 3 --nnodes 4"), "multiprocessing", [
            ("error", "--nnodes", "--nnodes 4, but a replica has 2 nodes: leave it out"),
            ("error", "--nnodes", ("--tp-size 3 cannot be divided evenly among 2 nodes, which "
             "multiprocessing needs"))]),
        (sglang("--tp $TP"), "multiprocessing", []),
        (UNKNOWN, "ray", []),
        (UNKNOWN, "multiprocessing", []),
        (vllm("m", "v0.18.0"), "none", []),
    ],
)  # fmt: skip
def test_launcher_notes(command: EngineCommand, launcher: str, expected: Any) -> None:
    assert launcher_notes(command, launcher, 2) == [EngineNote(*note) for note in expected]


def test_ranks_that_span_nodes() -> None:
    message = (
        "in vLLM v0.16.0 a data parallel rank cannot span nodes with multiprocessing "
        "(vllm#35429, fixed in v0.17.0)"
    )
    spanning = vllm("m -tp 16 -dp 2", "v0.16.0")
    assert launcher_notes(spanning, "multiprocessing", 4) == [
        EngineNote("warning", "--data-parallel-size", message)
    ]
    assert launcher_notes(vllm("m -tp 16 -dp 2", "v0.17.0"), "multiprocessing", 4) == []
    assert launcher_notes(spanning, "multiprocessing", 1) == []
