"""The model catalogue: each model is planned without warnings on each of its GPUs."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest
from profiles import slow_unless

from fusioninfer_pulumi import InferenceServiceArgs, plan_service, render
from fusioninfer_pulumi.engines.argument_tables import load_argument_table
from fusioninfer_pulumi.engines.engine_presets import PRESETS
from fusioninfer_pulumi.presets.model_catalogue import find_catalogue_model, load_catalogue

ROOT = Path(__file__).parents[2]
KINDS = ("dense", "experts", "multimodal", "embedding", "reranking")
MODELS = json.loads(
    (ROOT / "fusioninfer_pulumi" / "presets" / "models.json").read_text(encoding="utf-8")
)["models"]
ONE_OF_KIND = {*{model["kind"]: model["name"] for model in MODELS}.values()}


def tool() -> ModuleType:
    path = ROOT / "tools" / "model_catalogue.py"
    spec = importlib.util.spec_from_file_location("model_catalogue", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_catalogue_has_models_of_every_kind() -> None:
    kinds = {word for model in MODELS for word in model["kind"].split(", ")}
    assert kinds == set(KINDS)
    assert len(load_catalogue()) >= 20


@pytest.mark.parametrize("name", slow_unless(ONE_OF_KIND.__contains__, sorted(load_catalogue())))
def test_model_is_served_on_each_of_its_gpus(name: str) -> None:
    model = load_catalogue()[name]
    assert model.gpu_plans
    for accelerator, gpu_plan in model.gpu_plans.items():
        args = InferenceServiceArgs(
            name="chat",
            model={"uri": f"hf://{name}", "token_secret": {"name": "hub"}},
            roles=[{"name": "serve", "component_type": "worker", "accelerator": accelerator}],
        )
        plan = plan_service(args)
        expected = [
            f"{finding.rule}: {finding.message}"
            for finding in plan.findings
            if finding.severity != "info"
        ]
        assert expected == [], accelerator
        assert plan.total_accelerators == gpu_plan.gpus
        assert render(plan)


@pytest.mark.slow
def test_catalogue_sizes_equal_the_capacity_package() -> None:
    # `make regenerate` computes them again.
    sizes = tool().sizes
    wrong = {
        model["name"]: model["accelerators"]
        for model in MODELS
        if sizes(model) != model["accelerators"]
    }
    assert wrong == {}


def test_quantized_variant_gets_the_arguments() -> None:
    model = find_catalogue_model("Qwen/Qwen3-32B-FP8")
    assert model is not None
    assert model.name == "Qwen/Qwen3-32B"


def test_default_releases_have_argument_tables() -> None:
    for name, preset in PRESETS.items():
        assert preset.release in load_argument_table(name).releases
