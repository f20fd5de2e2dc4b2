"""The table of upstream samples: their classification and counts."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import yaml

from importers.tests.kserve_samples import config, llm, pod
from importers.tests.kthena_samples import role as kthena_role, server, serving

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


def test_checkout_inputs_are_classified(tmp_path: Path) -> None:
    samples, tests = tmp_path / "docs/samples/llmisvc", tmp_path / "test/e2e/llmisvc"
    for folder in (samples, tests):
        folder.mkdir(parents=True)
    command = {"command": ["vllm", "serve", "Qwen/Qwen3-8B", "--tensor-parallel-size", "2"]}
    documents = {
        "good": [llm(baseRefs=[{"name": "base"}])],
        "base": [config()],
        "lossy": [llm(name, router={"route": {}, "ingress": {}}) for name in ("a", "b")],
        "bad": [llm("bad", template=pod(gpus=1, image="vllm/vllm-openai:v0.11.0", **command))],
        "documented": [llm("documented", baseRefs=[{"name": "elsewhere"}])],
        "invalid": [llm("invalid", replicas=-1)],
    }
    for name, items in documents.items():
        text = yaml.safe_dump_all(items)
        (samples / f"{name}.yaml").write_text(text, encoding="utf-8")
    (tests / "fixtures.py").write_text(FIXTURES, encoding="utf-8")
    (tests / "test_a.py").write_text('TestCase(base_refs=["model", "pods"])', encoding="utf-8")
    module = tool()
    checked = [
        ("KServe", sample, *module.classify_sample(sample)) for sample in module.collect(tmp_path)
    ]
    results = {Path(sample.name).stem: result for _, sample, result, _ in checked}
    assert results == {
        "good": "as is",
        "lossy": "with --allow-lossy",
        "bad": "rejected",
        "documented": "rejected, expected",
        "invalid": "rejected by both",
        "model + pods": "with warnings",
    }
    assert sys.modules["pytest"].__name__ == "pytest"
    lines = list(module.render_table(checked))
    assert "| KServe | 1 | 1 | 2 | 1 | 1 | 1 | 40 % |" in lines


def test_prefill_labels_tell_which_workload_a_server_selects() -> None:
    module = tool()
    name, role = "modelserving.volcano.sh/name", "modelserving.volcano.sh/role"
    pair, single = (
        serving(*(kthena_role(item) for item in names), name=service)
        for service, names in (("pair", ("first", "second")), ("single", ("server",)))
    )
    group = {"groupKey": "g", "prefillLabels": {role: "first"}, "decodeLabels": {role: "second"}}
    for labels, group_labels, selected in (
        ({"modelserving.volcano.sh/entry": "true"}, group, pair),
        ({name: "single"}, None, single),
    ):
        selecting = server(labels=labels, **({"pdGroup": group_labels} if group_labels else {}))
        assert list(module._find_related(selecting, [single, pair])) == [selecting, selected]


def test_duplicate_services_of_go_tests_are_read_once(tmp_path: Path) -> None:
    def create(test: str, namespace: str, name: str, **spec: Any) -> list[str]:
        service = llm(name, **spec)
        service["metadata"] |= {"namespace": namespace, "creationTimestamp": None}
        base = config()
        base["metadata"]["namespace"] = namespace
        return [
            json.dumps({"test": test, "object": {**item, "status": {}}}) for item in (service, base)
        ]

    lines = [
        *create("", "kserve", "preset"),
        *create("first", "test-1", "first-service", baseRefs=[{"name": "base"}]),
        *create("second", "test-2", "second-service", baseRefs=[{"name": "base"}]),
        *create("third", "test-3", "third-service", replicas=3),
    ]
    recording = tmp_path / "recording"
    recording.write_text("\n".join(lines), encoding="utf-8")
    samples = list(tool()._read_recording(recording))
    names = [(sample.name, len(sample.documents)) for sample in samples]
    assert names == [("first", 2), ("third", 1)]
    (service, base) = samples[0].documents
    assert service["metadata"] == {"name": "first-service", "namespace": "test-1"}
    assert base["kind"] == "LLMInferenceServiceConfig"
    assert "status" not in service
