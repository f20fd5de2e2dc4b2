"""The table of upstream samples: what it says of each, and how it counts."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import yaml

from importers.tests.kserve_samples import llm

TOOL = Path(__file__).parents[1] / "tools" / "upstream_samples.py"
FIXTURES = """
import pytest
from kserve import KServeClient
from ..common.gw_api import create_or_update_route

SCHEDULER_CONFIGMAP_NAME, SCHEDULER_CONFIGMAP_KEY = "scheduler", "epp"
SCHEDULER_CONFIG_YAML = "plugins: []"
LLMINFERENCESERVICE_CONFIGS = {
    "model": {"model": {"uri": "hf://a/b"}},
    "pods": lambda namespace: {"template": {"containers": [{"name": "main", "image": namespace}]}},
}
"""


def tool() -> Any:
    spec = importlib.util.spec_from_file_location("upstream_samples", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look themselves up
    spec.loader.exec_module(module)
    return module


def test_samples_of_a_checkout_are_told_apart(tmp_path: Path) -> None:
    samples, tests = tmp_path / "docs/samples/llmisvc", tmp_path / "test/e2e/llmisvc"
    for folder in (samples, tests):
        folder.mkdir(parents=True)
    documents = {
        "good": llm(),
        "lossy": llm(router={"route": {}, "scheduler": {"tokenizer": {}}}),
        "bad": llm(replicas=-1),
    }
    for name, document in documents.items():
        (samples / f"{name}.yaml").write_text(yaml.safe_dump(document), encoding="utf-8")
    (tests / "fixtures.py").write_text(FIXTURES, encoding="utf-8")
    (tests / "test_a.py").write_text('TestCase(base_refs=["model", "pods"])', encoding="utf-8")
    module = tool()
    outcomes = [module.outcome(each) for each in module.kserve(tmp_path)]
    assert {outcome.sample.name: outcome.result for outcome in outcomes} == {
        "good.yaml": "accepted",
        "lossy.yaml": "with loss",
        "bad.yaml": "refused",
        "model + pods": "accepted",
    }
    assert sys.modules["pytest"].__name__ == "pytest"
    lines = list(module.table(outcomes))
    assert lines[-2] == (
        "documentation: 3 samples, 1 accepted, 1 with loss, 1 refused; 33 % as they are"
    )
