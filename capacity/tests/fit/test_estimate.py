"""The adapter for aiconfigurator-core, with a fake of the package.

With release 0.12.0 of the package it was tested by hand: `size ... --requests-per-second`.
"""

from __future__ import annotations

import sys
from importlib import metadata
from types import ModuleType
from typing import Any

import pytest
from rows import each_row

from fusioninfer_capacity.fit.architecture import load_models
from fusioninfer_capacity.fit.estimate import SYSTEMS, NotCoveredError, StepTimeEstimates

COMPILED: list[tuple[Any, ...]] = []


class FakeEngineHandle:
    @classmethod
    def compile(cls, *arguments: Any, **options: Any) -> FakeEngineHandle:
        COMPILED.append((*arguments, options))
        if options["tp_size"] == 3:
            raise RuntimeError("odd\nand a trace")
        return cls()

    def predict_prefill_latency(self, _sequences: int, tokens: int) -> float:
        return tokens / 10

    def predict_decode_latency(self, sequences: int, _tokens: int, output: int) -> float:
        assert output == 2
        if sequences > 100:
            raise ValueError("no such batch")
        return 10.0 + sequences


@pytest.fixture(autouse=True)
def package(monkeypatch: pytest.MonkeyPatch) -> None:
    COMPILED.clear()
    modules = {
        name: ModuleType(name)
        for name in (
            "aiconfigurator_core", "aiconfigurator_core.sdk", "aiconfigurator_core.sdk.engine",
            "aiconfigurator_core.sdk.perf_database", "aiconfigurator_core.sdk.common",
        )
    }  # fmt: skip
    database = modules["aiconfigurator_core.sdk.perf_database"]
    known = {"h100_sxm": "0.24.0", "l4": None}
    database.get_latest_database_version = (  # type: ignore[attr-defined]  # a stand-in
        lambda system, _engine: known.get(system)
    )
    modules["aiconfigurator_core.sdk"].perf_database = database  # type: ignore[attr-defined]  # likewise
    modules["aiconfigurator_core.sdk.engine"].EngineHandle = FakeEngineHandle  # type: ignore[attr-defined]  # likewise
    modules["aiconfigurator_core.sdk.common"].DefaultHFModels = {  # type: ignore[attr-defined]  # likewise
        "meta-llama/Meta-Llama-3.1-70B"
    }
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(metadata, "version", lambda _name: "0.12.0")


LLAMA = "meta-llama/Llama-3.3-70B-Instruct"


def test_times_come_from_the_package() -> None:
    times = StepTimeEstimates(LLAMA, "H100", "vllm", 4, 2)
    assert times.prefill(2000) == pytest.approx(0.2)
    assert times.decode(8, 1000) == pytest.approx(0.018)
    assert "aiconfigurator-core 0.12.0" in times.source
    assert "0.24.0" in times.source
    (layout,) = COMPILED
    # The package knows the model by the name of its base model.
    assert layout[:3] == ("meta-llama/Meta-Llama-3.1-70B", "h100_sxm", "vllm")
    assert (layout[3]["tp_size"], layout[3]["pp_size"], layout[3]["moe_tp_size"]) == (4, 2, 4)


@each_row(
    ("model", "accelerator", "tensor", "reason"),
    [
        (LLAMA, "RTX-3090", 1, "no times of RTX-3090"),
        (LLAMA, "L4", 1, "no times of vllm on L4"),
        ("google/gemma-3-27b-it", "H100", 1, "no config of google/gemma-3-27b-it"),
        # Its weights are quantized, those of the base model are not.
        ("RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic", "H100", 1, "no config of RedHatAI"),
        (LLAMA, "H100", 3, "does not cover this layout: odd"),
    ],
)
def test_unknown_model_is_rejected(model: str, accelerator: str, tensor: int, reason: str) -> None:
    with pytest.raises(NotCoveredError, match=reason):
        StepTimeEstimates(model, accelerator, "vllm", tensor, 1)


def test_load_outside_the_data_is_rejected() -> None:
    with pytest.raises(NotCoveredError, match="does not cover this load: no such batch"):
        StepTimeEstimates(LLAMA, "H100", "vllm", 1, 1).decode(200, 1000)


def test_systems_and_bases_are_in_our_tables() -> None:
    assert "H200" in SYSTEMS
    assert all(
        model["base"] in load_models() for model in load_models().values() if "base" in model
    )
