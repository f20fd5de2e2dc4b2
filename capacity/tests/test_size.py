"""Proposals of `size`: `check` accepts them, and their replicas fit the pools."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml
from profiles import slow_unless

from capacity.tests.placing import LABEL, pool
from fusioninfer_capacity import place, proposals, size as sizing
from fusioninfer_capacity.fit.accelerators import ACCELERATORS
from fusioninfer_capacity.fit.architecture import find_architecture, load_models
from fusioninfer_capacity.fit.shapes import find_problems
from fusioninfer_capacity.fit.sizing import (
    SizingRequest,
    add_copies,
    add_fp8_caches,
    build_command,
    list_layouts,
)
from fusioninfer_capacity.placement.result import Status
from fusioninfer_capacity.proposals import Place, Proposal, count_replicas
from fusioninfer_pulumi.checks.plan_service import plan_service
from fusioninfer_pulumi.cli.main import main
from fusioninfer_pulumi.findings import InvalidServiceError
from fusioninfer_pulumi.loading import load, load_inventory, loads

MODELS = ("Qwen/Qwen3-8B", "Qwen/Qwen3-32B", "meta-llama/Llama-3.3-70B-Instruct",
          "deepseek-ai/DeepSeek-R1", "openai/gpt-oss-120b")  # fmt: skip


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(["size", *arguments])
    return status, *capsys.readouterr()


def inventory(path: Path, *pools: dict[str, Any]) -> str:
    path.write_text(yaml.safe_dump({"poolLabel": LABEL, "pools": list(pools)}))
    return str(path)


def h100(name: str = "a", nodes: int = 4, gpus: int = 8, **fields: Any) -> dict[str, Any]:
    return pool(name, nodes, gpus, device={"attributes": {"model": "H100"}}, **fields)


@pytest.mark.parametrize(
    ("model", "engine", "accelerator"),
    slow_unless(
        lambda row: row[0] == MODELS[0], product(MODELS, ("vllm", "sglang"), ("H100", "H200"))
    ),
)
def test_check_accepts_every_manifest(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, model: str, engine: str, accelerator: str
) -> None:
    status, out, _ = run(
        capsys, model, "--accelerator", accelerator, "--engine", engine, "--max-model-len", "8192",
        "--output", "yaml",
    )  # fmt: skip
    assert status == 0
    path = tmp_path / "sized.yaml"
    path.write_text(out)
    assert main(["check", "--strict", str(path)]) == 0, capsys.readouterr().err
    (service,) = load(str(path))
    plan = plan_service(service)
    assert plan.memory["serve"].accelerator.name == accelerator
    assert (plan.memory["serve"].requests or 0) >= 1


def test_a_program_declares_the_same_service(capsys: pytest.CaptureFixture[str]) -> None:
    wanted = (MODELS[3], "--accelerator", "H100", "--max-model-len", "8192")
    _, manifest, _ = run(capsys, *wanted, "--output", "yaml")
    _, program, _ = run(capsys, *wanted, "--output", "python")
    variables: dict[str, Any] = {}
    text = program.replace("    InferenceService,\n", "").replace(
        "\nInferenceService(", "\narguments = ("
    )
    exec(text, variables)  # our own program, without the component
    name, args = variables["arguments"]
    (service,) = loads(manifest)
    assert name == service.name
    assert args.roles == service.roles


@pytest.mark.parametrize(
    ("model", "accelerator", "length"),
    slow_unless((MODELS[3], "H200", 4096).__eq__, product(MODELS, ("H100", "H200"), (4096, 32768))),
)
def test_layouts_agree_with_planned_services(model: str, accelerator: str, length: int) -> None:
    """Each layout is planned as a service; the first one needs the fewest accelerators."""
    architecture = find_architecture(model)
    assert architecture is not None
    request = SizingRequest(model, architecture, ACCELERATORS[accelerator], length=length)
    result = list_layouts(request)
    assert {(item.tensor, item.nodes) for item in result} == {
        (1, 1), (2, 1), (4, 1), (8, 1), (8, 2), (8, 3), (8, 4)
    }  # fmt: skip
    for layout in result:
        proposal = Proposal(layout, Place(None, None), 1)
        (service,) = load(sizing.build_manifest(request, proposal, None))
        plan = plan_service(service)
        rules = {finding.rule for finding in plan.findings if finding.severity.value != "info"}
        fits = not rules & {"weights-exceed-memory", "cache-too-small"}
        assert fits is (layout.reason is None), (layout, rules)
    fitting = [item.accelerators for item in result if item.reason is None]
    assert fitting == sorted(fitting)


def small_pools() -> Iterator[tuple[int, int, list[int]]]:
    for nodes, gpus in product((1, 2, 3), (2, 4, 8)):
        for used in ([], [1], [gpus], [gpus - 1, 1][:nodes]):
            if len(used) <= nodes:
                yield nodes, gpus, used


@pytest.mark.slow
@pytest.mark.parametrize(("nodes", "gpus", "used"), [*small_pools()])
def test_count_replicas_agrees_with_placement(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, nodes: int, gpus: int, used: list[int]
) -> None:
    """The computed number of replicas is placed, one more is not."""
    pools = inventory(tmp_path / "pools.yaml", h100("a", nodes, gpus, inUse=used))
    status, out, _ = run(
        capsys, "Qwen/Qwen3-32B", "--accelerator", "H100", "--inventory", pools,
        "--max-model-len", "8192", "--output", "yaml",
    )  # fmt: skip
    if status:
        assert out == ""
        return
    architecture = find_architecture("Qwen/Qwen3-32B")
    assert architecture is not None
    stock = load_inventory(pools)
    request = SizingRequest("Qwen/Qwen3-32B", architecture, ACCELERATORS["H100"], gpus, length=8192)
    for layout in list_layouts(request):
        if layout.reason is not None:
            continue
        count = count_replicas(stock.pools[0], layout)
        for replicas in (count, count + 1):
            if not replicas:
                continue
            proposal = Proposal(layout, Place(stock.pools[0], count), replicas)
            (service,) = load(sizing.build_manifest(request, proposal, stock))
            if replicas == count:
                (record,) = place([service], stock).placed
                assert record.status is Status.PLACED
            else:
                with pytest.raises(InvalidServiceError, match="does not fit"):
                    place([service], stock)


def test_proposals_select_and_tolerate_their_pool(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    taint = {"key": "gpu", "value": "x", "effect": "NoSchedule"}
    pools = inventory(
        tmp_path / "pools.yaml",
        h100("expensive", cost=2),
        h100("full", 1, inUse=[8]),
        h100("cheap", cost=1, taints=[taint]),
        pool("other", 4, device={"attributes": {"model": "L4"}}),
    )
    wanted = ("Qwen/Qwen3-32B", "--accelerator", "H100", "--inventory", pools)
    status, out, _ = run(capsys, *wanted, "--output", "yaml")
    assert status == 0
    spec = yaml.safe_load(out)["spec"]["roles"][0]["template"]["spec"]
    assert spec["nodeSelector"] == {LABEL: "cheap"}
    assert spec["tolerations"] == [{**taint, "operator": "Equal"}]
    path = tmp_path / "sized.yaml"
    path.write_text(out)
    assert main(["check", str(path), "--inventory", pools]) == 0
    _, text, _ = run(capsys, *wanted)
    assert "16 on cheap" in text


def test_text_has_basis_and_reasons_of_other_layouts(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "Qwen/Qwen3-32B", "--accelerator", "H100")
    assert status == 0
    assert (
        out
        == """\
Qwen/Qwen3-32B on H100 (79.2 GiB), sequences of 40,960 tokens
Estimate for vLLM 0.32.0, --gpu-memory-utilization 0.92, 8192 tokens and 1024 sequences per step
Per GPU: WEIGHTS and KV CACHE in GiB. Per replica: GPUS, TOKENS in its KV cache, \
concurrent REQUESTS of 40,960 tokens.

LAYOUT          GPUS  WEIGHTS  KV CACHE     TOKENS  REQUESTS
TP1, FP8 cache     1     61.0       9.3     76,079       1.9
TP2                2     30.5      39.6    324,685       7.9
TP4                4     15.3      54.9    899,425      22.0
TP8                8      7.6      62.5  2,048,800      50.0

Quantized: Qwen/Qwen3-32B-FP8 fits with TP1, 157,079 tokens
not TP1: a sequence of 40960 tokens needs 10.0 GiB of KV cache on each H100, but only 9.3 GiB \
are left; --max-model-len 37888 or --kv-cache-dtype fp8 fits
"""
    )


def test_layouts_whose_weights_do_not_fit_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "meta-llama/Llama-3.1-405B-Instruct", "--accelerator", "H100")
    (line,) = (line for line in out.splitlines() if line.startswith("not "))
    assert line == (
        "not TP1, TP2, TP4, TP8: weights and engine need 761.0, 382.6, 193.0, 98.4 GiB "
        "per GPU, but only 72.8 GiB are usable"
    )


def test_fp8_cache_is_in_manifest_only_if_nothing_else_fits(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    wanted = ("Qwen/Qwen3-32B", "--accelerator")
    for per_node, parallelism in (("2", {"tensor": 2}), ("1", {"tensor": 1, "pipeline": 2})):
        _, text, _ = run(capsys, *wanted, "H100", "--per-node", per_node)
        assert "TP1, FP8 cache" in text
        _, out, _ = run(capsys, *wanted, "H100", "--per-node", per_node, "--output", "yaml")
        assert yaml.safe_load(out)["spec"]["roles"][0]["parallelism"] == parallelism
    _, text, _ = run(capsys, *wanted, "A100")
    assert "FP8 cache" not in text
    architecture = find_architecture("Qwen/Qwen3-32B")
    assert architecture is not None
    request = SizingRequest(
        "Qwen/Qwen3-32B", architecture, ACCELERATORS["H100"], per_node=1, max_nodes=1
    )
    layout = add_fp8_caches(request, list_layouts(request))[0]
    path = tmp_path / "sized.yaml"
    proposal = Proposal(layout, Place(None, None), 1)
    path.write_text(yaml.safe_dump(sizing.build_manifest(request, proposal, None)))
    assert main(["check", "--strict", str(path)]) == 0, capsys.readouterr().err
    (service,) = load(str(path))
    fitted = plan_service(service).memory["serve"].to_json()
    assert fitted["tokens"] == 76079


def test_unknown_values_have_no_column(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    config = dict(load_models()["Qwen/Qwen3-8B"]["config"], _name_or_path="own")
    del config["max_position_embeddings"]
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    _, out, _ = run(capsys, str(path), "--accelerator", "H200")
    assert out.splitlines()[0] == "own on H200 (139.8 GiB)"
    assert out.splitlines()[4].split() == ["LAYOUT", "GPUS", "WEIGHTS", "KV", "CACHE"]


def test_expert_parallelism_is_proposed_if_experts_cannot_be_split(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    model = "Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8"
    # vLLM accepts padded FP8 experts since 0.29.0.
    for engine, spread in (("vllm", False), ("sglang", True)):
        wanted = (model, "--accelerator", "H200", "--engine", engine)
        _, out, _ = run(capsys, *wanted)
        assert ("TP8+EP" in out) is spread
        _, out, _ = run(capsys, *wanted, "--output", "yaml")
        (role,) = yaml.safe_load(out)["spec"]["roles"]
        assert role["parallelism"] == {"tensor": 8, **({"expert": True} if spread else {})}
        path = tmp_path / "sized.yaml"
        path.write_text(out)
        assert main(["check", str(path)]) == 0, capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_proposals_are_accepted_by_engines(engine: str) -> None:
    """Every layout of every model in the table."""
    for name in load_models():
        architecture = find_architecture(name)
        assert architecture is not None
        request = SizingRequest(
            name, architecture, ACCELERATORS["B200"], engine=engine, length=1024
        )
        for layout in list_layouts(request):
            if layout.reason is None:
                problems = find_problems(build_command(request, layout), architecture, {})
                assert list(problems) == [], (name, layout)
                assert architecture.heads[0] % layout.tensor == 0


def test_model_config_is_read(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = {**load_models()["Qwen/Qwen3-32B"]["config"], "_name_or_path": "team/chat"}
    Path("config.json").write_text(json.dumps(config))
    _, known, _ = run(capsys, "Qwen/Qwen3-32B", "--accelerator", "H200")
    status, out, _ = run(capsys, "config.json", "--accelerator", "H200")
    assert status == 0
    assert out.splitlines()[0].startswith("team/chat on H200")
    assert out.splitlines()[1:8] == known.splitlines()[1:8]
    for text, reason in (("{}", "has no model_type"), ("[", "is not JSON")):
        Path("config.json").write_text(text)
        status, _, err = run(capsys, "config.json", "--accelerator", "H200")
        assert status == 2
        assert reason in err


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("team/unknown", "--accelerator", "H100"), "pass the path of its config.json"),
        (("Qwen/Qwen3-32", "--accelerator", "H100"), "did you mean Qwen/Qwen3-32B?"),
        (("none.json", "--accelerator", "H100"), "none.json cannot be read"),
        (("Qwen/Qwen3-8B", "--accelerator", "H9000"), "unknown accelerator H9000"),
        (("Qwen/Qwen3-8B", "--accelerator", "L4", "--inventory", "none.yaml"), "none.yaml"),
        (("Qwen/Qwen3-8B", "--accelerator", "L4", "--ttft", "2s"), "a load requires"),
        (
            ("Qwen/Qwen3-8B", "--accelerator", "L4", "--ttft", "2", "--requests-per-second", "1",
             "--input-tokens", "10", "--output-tokens", "10"),
            "--ttft must be a time",
        ),
    ],
)  # fmt: skip
def test_unsupported_model_is_rejected(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], reason: str
) -> None:
    status, out, err = run(capsys, *arguments)
    assert (status, out) == (2, "")
    assert reason in err


def test_inventory_without_the_accelerator_is_rejected(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    pools = inventory(tmp_path / "pools.yaml", h100())
    status, _, err = run(capsys, "Qwen/Qwen3-8B", "--accelerator", "H200", "--inventory", pools)
    assert status == 2
    assert "has H200" in err


LOAD = ("--requests-per-second", "5", "--input-tokens", "2000", "--output-tokens", "300")


def test_load_without_the_extra_is_rejected(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "aiconfigurator_core", None)
    status, out, err = run(capsys, "Qwen/Qwen3-8B", "--accelerator", "H100", *LOAD)
    assert (status, out) == (2, "")
    assert "fusioninfer-capacity[estimate]" in err


class FakeEstimates:
    """Step times that halve if the tensor parallel size doubles."""

    source = "a test"

    def __init__(self, _model: str, _kind: str, _engine: str, tensor: int, nodes: int) -> None:
        self.tensor = tensor
        self.stages = nodes

    def prefill(self, tokens: int) -> float:
        return 0.0002 * tokens / self.tensor

    def decode(self, sequences: int, _tokens: int) -> float:
        return (0.02 + 0.0005 * sequences) / self.tensor


def test_a_load_chooses_replicas_and_roles(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(proposals, "StepTimeEstimates", FakeEstimates)
    latencies = ("--ttft", "1s", "--tpot", "20ms", "--max-model-len", "8192")
    wanted = ("Qwen/Qwen3-32B", "--accelerator", "H100", *LOAD, *latencies)
    status, text, _ = run(capsys, *wanted)
    assert status == 0
    assert "Source: a test." in text
    rows = [line.split() for line in text.splitlines() if line.startswith("TP")]
    gpus = [int(row[row.index("serve" if "serve" in row else "decode") + 1]) for row in rows]
    assert gpus == sorted(gpus)
    status, out, _ = run(capsys, *wanted, "--output", "yaml")
    assert status == 0
    path = tmp_path / "sized.yaml"
    path.write_text(out)
    assert main(["check", "--strict", str(path)]) == 0, capsys.readouterr().err


def test_prefill_decode_manifest_is_accepted(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for engine in ("vllm", "sglang"):
        architecture = find_architecture("Qwen/Qwen3-32B")
        assert architecture is not None
        request = SizingRequest("Qwen/Qwen3-32B", architecture, ACCELERATORS["H200"], engine=engine)
        proposal = Proposal(list_layouts(request)[0], Place(None, None), 2, 3)
        path = tmp_path / f"{engine}.yaml"
        path.write_text(yaml.safe_dump(sizing.build_manifest(request, proposal, None)))
        assert main(["check", "--strict", str(path)]) == 0, capsys.readouterr().err


@pytest.mark.parametrize(
    ("accelerator", "layout", "parallelism", "pods"),
    [
        ("H200", "TP2 x DP4+EP", {"tensor": 2, "data": 4, "expert": True}, [8]),
        pytest.param(
            "H100",
            "TP4 x DP4+EP (2 nodes)",
            {"tensor": 4, "data": 4, "dataLocal": 2, "expert": True},
            [8, 8],
            marks=pytest.mark.slow,
        ),
    ],
)
def test_copies_that_share_experts_are_layouts(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    accelerator: str,
    layout: str,
    parallelism: dict[str, Any],
    pods: list[int],
) -> None:
    wanted = ("deepseek-ai/DeepSeek-R1", "--accelerator", accelerator)
    _, text, _ = run(capsys, *wanted)
    (row,) = (line for line in text.splitlines() if line.startswith(f"{layout}  "))
    assert row.rstrip().endswith("uncertain")
    assert f"{layout}: uncertain, the experts process 32768 tokens per step" in text
    _, first, _ = run(capsys, *wanted, "--output", "yaml")
    assert "expert" not in yaml.safe_load(first)["spec"]["roles"][0]["parallelism"]
    status, out, _ = run(capsys, *wanted, "--layout", layout, "--output", "yaml")
    assert status == 0
    assert yaml.safe_load(out)["spec"]["roles"][0]["parallelism"] == parallelism
    path = tmp_path / "sized.yaml"
    path.write_text(out)
    assert main(["check", "--strict", str(path)]) == 0, capsys.readouterr().err
    (service,) = load(str(path))
    plan = plan_service(service)
    assert list(plan.roles[0].pod_accelerators) == pods
    assert f"{plan.memory['serve'].to_json()['tokens']:,}" in row


def test_shared_uncertainty_is_reported_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Also if layouts that are not listed are uncertain for another reason."""
    _, text, _ = run(capsys, "deepseek-ai/DeepSeek-V4-Pro", "--accelerator", "H200")
    assert "Uncertain: no startup log with its activations is published" in text.splitlines()
    assert text.lower().count("uncertain") == 1


@pytest.mark.parametrize(
    ("model", "engine"), [("Qwen/Qwen3-8B", "vllm"), ("deepseek-ai/DeepSeek-R1", "sglang")]
)
def test_layouts_with_copies_require_shared_experts(
    capsys: pytest.CaptureFixture[str], model: str, engine: str
) -> None:
    _, text, _ = run(capsys, model, "--accelerator", "H200", "--engine", engine)
    assert "DP" not in text


def test_unknown_layout_is_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    wanted = ("Qwen/Qwen3-8B", "--accelerator", "H100", "--layout")
    status, _, err = run(capsys, *wanted, "TP3")
    assert status == 2
    assert err.startswith(
        "fusioninfer-pulumi size: --layout: unknown layout TP3; expected one of: TP1; TP2; TP4; TP8"
    )
    _, text, _ = run(capsys, *wanted, "tp4")
    assert [line for line in text.splitlines() if line.startswith("TP")] == [
        "TP4        4      3.8      66.8  1,945,359      47.5"
    ]


def test_no_copies_where_ranks_do_not_divide_the_experts() -> None:
    architecture = find_architecture("deepseek-ai/DeepSeek-R1")
    assert architecture is not None
    assert architecture.experts == 256
    changed = replace(architecture, experts=20)
    request = SizingRequest("deepseek-ai/DeepSeek-R1", changed, ACCELERATORS["H200"])
    assert {layout.accelerators for layout in add_copies(request, [])} == {2, 4}
