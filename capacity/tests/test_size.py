"""`size`: proposals that `check` accepts, held against every other layout and against the pools."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

from capacity.tests.placing import LABEL, pool
from fusioninfer_capacity import place
from fusioninfer_capacity import size as sizing
from fusioninfer_capacity.fit.accelerators import ACCELERATORS
from fusioninfer_capacity.fit.architecture import known_architecture
from fusioninfer_capacity.fit.sizing import Wish, layouts
from fusioninfer_capacity.placement.result import Status
from fusioninfer_pulumi.checks.stages import plan_service
from fusioninfer_pulumi.cli.main import main
from fusioninfer_pulumi.findings import InvalidServiceError
from fusioninfer_pulumi.loading import load, load_inventory, loads

MODELS = ("Qwen/Qwen3-8B", "Qwen/Qwen3-32B", "meta-llama/Llama-3.3-70B-Instruct",
          "deepseek-ai/DeepSeek-R1", "openai/gpt-oss-120b")  # fmt: skip


def ran(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(["size", *arguments])
    return status, *capsys.readouterr()


def inventory(path: Path, *pools: dict[str, Any]) -> str:
    path.write_text(yaml.safe_dump({"poolLabel": LABEL, "pools": list(pools)}))
    return str(path)


def h100(name: str = "a", nodes: int = 4, each: int = 8, **more: Any) -> dict[str, Any]:
    return pool(name, nodes, each, device={"attributes": {"model": "H100"}}, **more)


@pytest.mark.parametrize(
    ("model", "engine", "accelerator"),
    [*product(MODELS, ("vllm", "sglang"), ("H100", "H200"))],
)
def test_check_accepts_every_manifest(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, model: str, engine: str, accelerator: str
) -> None:
    status, out, _ = ran(
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
    _, manifest, _ = ran(capsys, *wanted, "--output", "yaml")
    _, program, _ = ran(capsys, *wanted, "--output", "python")
    made: dict[str, Any] = {}
    text = program.replace("    InferenceService,\n", "").replace(
        "\nInferenceService(", "\nmade = ("
    )
    exec(text, made)  # our own program, without the component
    name, args = made["made"]
    (service,) = loads(manifest)
    assert name == service.name
    assert args.roles == service.roles


@pytest.mark.parametrize(
    ("model", "accelerator", "length"), [*product(MODELS, ("H100", "H200"), (4096, 32768))]
)
def test_layouts_are_all_that_fit_in_order(model: str, accelerator: str, length: int) -> None:
    """Each layout is planned as a service of its own; the first one takes the fewest."""
    architecture = known_architecture(model)
    assert architecture is not None
    wish = Wish(model, architecture, ACCELERATORS[accelerator], length=length)
    found = layouts(wish)
    assert {(each.tensor, each.nodes) for each in found} == {
        (1, 1), (2, 1), (4, 1), (8, 1), (8, 2), (8, 3), (8, 4)
    }  # fmt: skip
    for each in found:
        proposal = sizing.Proposal(each, sizing.Place(None, None), 1)
        (service,) = load(sizing.manifest(wish, proposal, None))
        plan = plan_service(service)
        rules = {found.rule for found in plan.findings if found.severity.value != "info"}
        fits = not rules & {"weights-exceed-memory", "cache-too-small"}
        assert fits is (each.reason is None), (each, rules)
    fitting = [each.accelerators for each in found if each.reason is None]
    assert fitting == sorted(fitting)


def small_pools() -> Iterator[tuple[int, int, list[int]]]:
    for nodes, each in product((1, 2, 3), (2, 4, 8)):
        for used in ([], [1], [each], [each - 1, 1][:nodes]):
            if len(used) <= nodes:
                yield nodes, each, used


@pytest.mark.parametrize(("nodes", "each", "used"), [*small_pools()])
def test_room_in_a_pool_is_what_placement_finds(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, nodes: int, each: int, used: list[int]
) -> None:
    """As many replicas as it says have a place, and one more has none."""
    pools = inventory(tmp_path / "pools.yaml", h100("a", nodes, each, inUse=used))
    status, out, _ = ran(
        capsys, "Qwen/Qwen3-32B", "--accelerator", "H100", "--inventory", pools,
        "--max-model-len", "8192", "--output", "yaml",
    )  # fmt: skip
    if status:
        assert out == ""
        return
    architecture = known_architecture("Qwen/Qwen3-32B")
    assert architecture is not None
    held = load_inventory(pools)
    wish = Wish("Qwen/Qwen3-32B", architecture, ACCELERATORS["H100"], each, length=8192)
    for layout in layouts(wish):
        if layout.reason is not None:
            continue
        room = sizing.room(held.pools[0], layout)
        for replicas in (room, room + 1):
            if not replicas:
                continue
            proposal = sizing.Proposal(layout, sizing.Place(held.pools[0], room), replicas)
            (service,) = load(sizing.manifest(wish, proposal, held))
            if replicas == room:
                (record,) = place([service], held).placed
                assert record.status is Status.PLACED
            else:
                with pytest.raises(InvalidServiceError, match="no place"):
                    place([service], held)


def test_proposals_select_and_tolerate_their_pool(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    taint = {"key": "gpu", "value": "x", "effect": "NoSchedule"}
    pools = inventory(
        tmp_path / "pools.yaml",
        h100("dear", cost=2),
        h100("full", 1, inUse=[8]),
        h100("cheap", cost=1, taints=[taint]),
        pool("other", 4, device={"attributes": {"model": "L4"}}),
    )
    wanted = ("Qwen/Qwen3-32B", "--accelerator", "H100", "--inventory", pools)
    status, out, _ = ran(capsys, *wanted, "--output", "yaml")
    assert status == 0
    spec = yaml.safe_load(out)["spec"]["roles"][0]["template"]["spec"]
    assert spec["nodeSelector"] == {LABEL: "cheap"}
    assert spec["tolerations"] == [{**taint, "operator": "Equal"}]
    path = tmp_path / "sized.yaml"
    path.write_text(out)
    assert main(["check", str(path), "--inventory", pools]) == 0
    _, text, _ = ran(capsys, *wanted)
    assert "16 on cheap" in text


def test_why_others_do_not_fit(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = ran(capsys, "Qwen/Qwen3-32B", "--accelerator", "H100")
    assert status == 0
    assert out.splitlines()[2].split() == [
        "LAYOUT", "ROLES", "GPUS", "WEIGHTS", "KV", "CACHE", "TOKENS", "REQUESTS", "FREE", "FOR"
    ]  # fmt: skip
    assert out.splitlines()[3].split()[:3] == ["TP2", "1", "serve"]
    assert "not TP1: a sequence of 40960 tokens takes 10.0 GiB" in out


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("team/unknown", "--accelerator", "H100"), "not in the table of models"),
        (("Qwen/Qwen3-8B", "--accelerator", "H9000"), "H9000 is not known"),
        (("Qwen/Qwen3-8B", "--accelerator", "L4", "--inventory", "none.yaml"), "none.yaml"),
        (("Qwen/Qwen3-8B", "--accelerator", "L4", "--ttft", "2s"), "a load needs"),
        (
            ("Qwen/Qwen3-8B", "--accelerator", "L4", "--ttft", "2", "--requests-per-second", "1",
             "--input-tokens", "10", "--output-tokens", "10"),
            "--ttft must be a time",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_sized(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], reason: str
) -> None:
    status, out, err = ran(capsys, *arguments)
    assert (status, out) == (2, "")
    assert reason in err


def test_a_pool_without_these_accelerators(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    pools = inventory(tmp_path / "pools.yaml", h100())
    status, _, err = ran(capsys, "Qwen/Qwen3-8B", "--accelerator", "H200", "--inventory", pools)
    assert status == 2
    assert "has H200" in err


LOADED = ("--requests-per-second", "5", "--input-tokens", "2000", "--output-tokens", "300")


def test_a_load_without_the_extra(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "aiconfigurator_core", None)
    status, out, err = ran(capsys, "Qwen/Qwen3-8B", "--accelerator", "H100", *LOADED)
    assert (status, out) == (2, "")
    assert "fusioninfer-capacity[estimate]" in err


class Times:
    """Times that halve with each doubling of the accelerators."""

    source = "a test"

    def __init__(self, _model: str, _kind: str, _engine: str, tensor: int, nodes: int) -> None:
        self.ways = tensor * nodes

    def prefill(self, tokens: int) -> float:
        return 0.0002 * tokens / self.ways

    def decode(self, sequences: int, _tokens: int) -> float:
        return (0.02 + 0.0005 * sequences) / self.ways


def test_a_load_chooses_replicas_and_roles(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sizing, "Estimates", Times)
    within = ("--ttft", "1s", "--tpot", "20ms", "--max-model-len", "8192")
    wanted = ("Qwen/Qwen3-32B", "--accelerator", "H100", *LOADED, *within)
    status, text, _ = ran(capsys, *wanted)
    assert status == 0
    assert "Times are estimates by a test" in text
    rows = [line.split() for line in text.splitlines() if line.startswith("TP")]
    gpus = [int(row[row.index("serve" if "serve" in row else "decode") + 1]) for row in rows]
    assert gpus == sorted(gpus)
    status, out, _ = ran(capsys, *wanted, "--output", "yaml")
    assert status == 0
    path = tmp_path / "sized.yaml"
    path.write_text(out)
    assert main(["check", "--strict", str(path)]) == 0, capsys.readouterr().err


def test_separate_roles_are_a_manifest_that_check_accepts(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for engine in ("vllm", "sglang"):
        architecture = known_architecture("Qwen/Qwen3-32B")
        assert architecture is not None
        wish = Wish("Qwen/Qwen3-32B", architecture, ACCELERATORS["H200"], engine=engine)
        proposal = sizing.Proposal(layouts(wish)[0], sizing.Place(None, None), 2, 3)
        path = tmp_path / f"{engine}.yaml"
        path.write_text(yaml.safe_dump(sizing.manifest(wish, proposal, None)))
        assert main(["check", "--strict", str(path)]) == 0, capsys.readouterr().err
