"""KV connectors, launchers and parallel sizes of the engines."""

from __future__ import annotations

from typing import Any

import pytest
from rows import each_row

from fusioninfer_pulumi.api.role import Launcher
from fusioninfer_pulumi.engines.engine import EngineCommand, Parallelism
from fusioninfer_pulumi.engines.engine_commands import parse_command
from fusioninfer_pulumi.engines.model_arguments import check_accelerators
from fusioninfer_pulumi.engines.vllm_kv_cache import parse_transfer_config
from fusioninfer_pulumi.findings import Finding, Location

OUTPUT: Any = type("Output", (), {"__module__": "pulumi.output"})()
SGLANG = ["python3", "-m", "sglang.launch_server"]


def vllm(arguments: str | list[str] = "m", tag: str = "v0.11.0") -> EngineCommand:
    words = arguments.split() if isinstance(arguments, str) else arguments
    return parse_command({"image": f"vllm/vllm-openai:{tag}", "args": words})


def sglang(arguments: str) -> EngineCommand:
    return parse_command({"image": "x", "command": SGLANG, "args": arguments.split()})


UNKNOWN = parse_command({"image": "x", "args": ["--tensor-parallel-size", "64"]})


def list_findings(findings: list[Finding]) -> list[tuple[str, Location, str]]:
    return [(finding.severity.value, finding.location, finding.message) for finding in findings]


NIXL = {"kv_connector": "NixlConnector", "kv_role": "kv_both"}
FLAG = "--kv-transfer-config"


@each_row(
    ("arguments", "config"),
    [
        (["m"], None),
        (["m", FLAG, '{"kv_connector":"NixlConnector","kv_role":"kv_both"}'], NIXL),
        (["m", FLAG + ' \'{"kv_connector":"NixlConnector","kv_role":"kv_both"}\''], NIXL),
        (["m", FLAG, "{kv_role:kv_both}"], "{kv_role:kv_both}"),
        (["m", FLAG, "[1]"], "[1]"),
        (["m", FLAG, "{}"], {}),
    ],
)  # fmt: skip
def test_transfer_config_is_parsed(arguments: list[str], config: Any) -> None:
    assert parse_transfer_config(vllm(arguments)) == config


def test_transfer_config_in_keys_is_not_read() -> None:
    assert vllm(["m", FLAG + ".kv_role", "kv_both"]).connector == (
        "is split into keys; write it as one JSON object"
    )


PYNCCL = '{"kv_connector":"PyNcclConnector","kv_role":"kv_producer"}'
INNER = (
    '{"kv_connector":"MultiConnector","kv_role":"kv_both",'
    f'"kv_connector_extra_config":{{"connectors":[{PYNCCL}]}}}}'
)


@pytest.mark.parametrize(
    "command", [vllm([FLAG, PYNCCL]), vllm([FLAG, PYNCCL], "latest"), vllm([FLAG, INNER])]
)
def test_removed_connector_is_a_warning(command: EngineCommand) -> None:
    assert command.engine is not None
    ((severity, _, message),) = list_findings(command.engine.kv_cache.check_connector(command))
    assert severity == "warning"
    assert message.endswith("no longer has PyNcclConnector and exits; use NixlConnector")


@each_row(
    "command",
    [
        vllm([FLAG, '{"kv_connector":"MyConnector","kv_role":"kv_both"}']),
        vllm([FLAG, "PyNcclConnector"]),
        vllm(),
        sglang(FLAG),
    ],
)
def test_unknown_connectors_are_not_checked(command: EngineCommand) -> None:
    assert command.engine is not None
    assert command.engine.kv_cache.check_connector(command) == []


NO_RAY = (
    "has no ray (v0.17.1 is the last with it); use launcher: multiprocessing, or an image that "
    "adds ray"
)
AT = ("multinode", "launcher")


@each_row(
    ("command", "launcher", "expected"),
    [
        (vllm("m -tp 16"), "ray", []),
        (vllm("m", "v0.17.1"), "ray", []),
        (vllm("m", "v0.18.0"), "ray",
         [("warning", AT, f"the image vllm/vllm-openai:v0.18.0 {NO_RAY}")]),
        (vllm("m", "latest"), "ray",
         [("warning", AT, f"the image vllm/vllm-openai:latest {NO_RAY}")]),
        (parse_command({"image": "me/vllm:v0.30.0"}), "ray", []),
        (vllm("m -dp 2"), "ray", [(
            "warning", ("multinode", "launcher"),
            ("without --data-parallel-backend ray vLLM starts all data parallel ranks on the "
            "leader; add that flag, or use launcher: multiprocessing"))]),
        (vllm("m -dp 2 --data-parallel-backend=ray"), "ray", []),
        (vllm("m -dp 2", "latest"), "multiprocessing", []),
        (sglang("--tp 16"), "multiprocessing", []),
        (vllm("m", "v0.18.0"), "none", []),
    ],
)  # fmt: skip
def test_launcher_conflicts_are_reported(
    command: EngineCommand, launcher: str, expected: Any
) -> None:
    engine, chosen = command.engine, Launcher(launcher)
    assert engine is not None
    assert list_findings(engine.multi_node.check_launcher(command, chosen)) == expected


PROGRAMS = {"vllm": ["vllm", "serve"], "sglang": ["python3", "-m", "sglang.launch_server"]}


def command(engine: str, arguments: str | list[Any]) -> EngineCommand:
    words = arguments.split() if isinstance(arguments, str) else arguments
    return parse_command({"name": "c", "image": "x", "command": PROGRAMS[engine], "args": words})


@each_row(
    ("engine", "arguments", "expected"),
    [
        ("vllm", "m", Parallelism(1, 1, 1, None, False)),
        ("vllm", "m --tensor-parallel-size 16", Parallelism(16, 1, 1, None, True)),
        ("vllm", "m -tp=8 -pp 2", Parallelism(8, 2, 1, None, True)),
        ("vllm", "m -tp 2 -dp 16 -dpl 8", Parallelism(2, 1, 16, 8, True)),
        ("vllm", "m --data_parallel_size=4 -pcp 2", Parallelism(1, 1, 4, None, True, 2)),
        ("vllm", "m -dp 4 --data-parallel-rank 1", Parallelism(1, 1, 4, 1, True)),
        ("vllm", "m -dp 4 -dpl 0", Parallelism(1, 1, 4, 0, True)),
        ("vllm", ["m", "--tensor-parallel-size 4"], Parallelism(4, 1, 1, None, True)),
        # SGLang's flags are not vLLM's.
        ("vllm", "m --tp 4", Parallelism(1, 1, 1, None, False)),
        ("sglang", "--tp 16 --pp-size 2", Parallelism(16, 2, 1, None, True)),
        ("sglang", "--tensor-parallel-size 4 --dp 2", Parallelism(4, 1, 2, None, True)),
        ("sglang", "--tp-size 8 --dp-size 8 --enable-dp-attention",
         Parallelism(8, 1, 1, None, True)),
        ("sglang", "--tp-size 8 --attn-dp-size 8", Parallelism(8, 1, 1, None, True)),
        ("sglang", "--tp 8 --dp 2 --cpu-offload-gb 4", Parallelism(8, 1, 2, None, True)),
        ("sglang", "--tp 8 --dp 2 --served-model-name cp", Parallelism(8, 1, 2, None, True)),
        # Unknown sizes.
        ("sglang", "--tp 8 --dp 2 --attn-cp-size 2", None),
        ("vllm", "m -tp $TP", None),
        ("vllm", "m -tp $(TP)", None),
        ("vllm", "m -tp 0", None),
        ("vllm", "m -tp", None),
        ("vllm", "m --config c.yaml", None),
        ("vllm", ["m", OUTPUT], None),
    ],
)  # fmt: skip
def test_parallel_sizes_are_read(
    engine: str, arguments: str | list[Any], expected: Parallelism | None
) -> None:
    assert command(engine, arguments).parallelism == expected


def test_unknown_engine_has_no_parallelism() -> None:
    assert UNKNOWN.parallelism is None
    assert check_accelerators(UNKNOWN, 8, 1) == []


@each_row(
    ("parallelism", "nodes", "devices"),
    [
        (Parallelism(8, 2, 1, None, True), None, 16),
        (Parallelism(2, 1, 16, 8, True), None, 32),
        (Parallelism(2, 1, 16, 8, True), 1, 16),
        (Parallelism(2, 1, 16, 8, True), 2, 32),
        (Parallelism(2, 1, 16, 8, True), 4, 32),
        (Parallelism(2, 1, 2, None, True, 2), 1, 8),
    ],
)
def test_devices_of_a_replica_are_counted(
    parallelism: Parallelism, nodes: int | None, devices: int
) -> None:
    assert parallelism.count_accelerators(nodes) == devices


@each_row(
    ("engine", "arguments", "per_pod", "nodes", "expected"),
    [
        ("vllm", "m --tensor-parallel-size 32", 8, 4, []),
        ("vllm", "m", 1, 1, []),
        ("vllm", "m --tensor-parallel-size 32", 8, 2, [("error", ("--tensor-parallel-size",),
            ("--tensor-parallel-size 32 needs 32 accelerators, but a replica has "
            "2 nodes x 8 = 16; request 16 per pod, or use smaller sizes"))]),
        ("vllm", "m -tp 8 -pp 4", 8, 2, [("error", ("--tensor-parallel-size",),
            ("--tensor-parallel-size 8 x --pipeline-parallel-size 4 needs 32 accelerators, but a "
            "replica has 2 nodes x 8 = 16; request 16 per pod, or use smaller sizes"))]),
        ("vllm", "m -tp 2", 1, 1, [("error", ("--tensor-parallel-size",),
            ("--tensor-parallel-size 2 needs 2 accelerators, but the pod has 1; request 2 per pod, "
            "or use smaller sizes"))]),
        ("vllm", "m -tp 2", 8, 1, [("warning", ("--tensor-parallel-size",),
            ("--tensor-parallel-size 2 uses 2 accelerators, but the pod has 8; request fewer, or "
            "use all"))]),
        ("vllm", "m -tp 1", 2, 1, [("warning", ("--tensor-parallel-size",),
            ("--tensor-parallel-size 1 uses 1 accelerator, but the pod has 2; request fewer, or "
            "use all"))]),
        ("vllm", "m", 8, 2, [("warning", ("--tensor-parallel-size",),
            ("no parallelism is set, so vllm uses 1 accelerator, but a replica has "
            "2 nodes x 8 = 16; set --tensor-parallel-size 16, or request fewer accelerators"))]),
        # Ranks of other deployments do not count.
        ("vllm", "m -tp 2 -dp 16 -dpl 4", 8, 1, []),
        ("vllm", "m -tp 4 -dp 16 -dpl 4", 8, 1, [("error", ("--tensor-parallel-size",),
            ("--tensor-parallel-size 4 x --data-parallel-size-local 4 on each node needs 16 "
            "accelerators, but the pod has 8; request 16 per pod, or use smaller sizes"))]),
        ("vllm", "m -dp 16", 8, 1, [("error", ("--data-parallel-size",),
            ("--data-parallel-size 16 needs 16 accelerators, but the pod has 8; request 16 per "
            "pod, or use smaller sizes"))]),
        ("vllm", "m -tp 8 -dp 16 -dpn 3", 8, 1, []),
        # The head node has no ranks, so the ranks of the other nodes are unknown.
        ("vllm", "m -tp 64 -dp 16 -dpl 0", 8, 1, []),
        ("vllm", "m -tp $TP", 8, 1, []),
        ("sglang", "--tp 16 --dp 2 --enable-dp-attention", 8, 2, []),
        ("sglang", "--tp 8 --dp 2", 8, 1, [("error", ("--tp-size",),
            ("--tp-size 8 x --dp-size 2 needs 16 accelerators, but the pod has 8; request 16 per "
            "pod, or use smaller sizes"))]),
        ("sglang", "", 8, 1, [("warning", ("--tp-size",),
            ("no parallelism is set, so sglang uses 1 accelerator, but the pod has 8; set "
            "--tp-size 8, or request fewer accelerators"))]),
    ],
)  # fmt: skip
def test_accelerators_that_contradict_parallel_sizes_are_reported(
    engine: str, arguments: str, per_pod: int, nodes: int, expected: list[tuple[str, Location, str]]
) -> None:
    assert list_findings(check_accelerators(command(engine, arguments), per_pod, nodes)) == expected


def test_parallel_sizes_are_read_from_scripts() -> None:
    script = {"image": "x", "command": ["/bin/sh", "-c", "cd /x && vllm serve m -tp 16 | tee log"]}
    assert [
        accelerator.rule for accelerator in check_accelerators(parse_command(script), 8, 1)
    ] == ["accelerators-too-few"]
