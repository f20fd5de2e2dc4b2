"""The memory of roles in `plan`, `diff` and with an inventory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from capacity.tests.placing import LABEL, pool
from fusioninfer_capacity.fit.roles import name_accelerator, parse_accelerator
from fusioninfer_pulumi.api import NodePoolArgs
from fusioninfer_pulumi.cli.main import main

PRODUCT = "nvidia.com/gpu.product"


def service(*arguments: str, product: str | None = "NVIDIA-H100-80GB-HBM3") -> dict[str, Any]:
    container = {
        "name": "vllm",
        "image": "vllm/vllm-openai:v0.11.0",
        "args": ["--model", "Qwen/Qwen3-32B", *arguments],
        "resources": {"limits": {"nvidia.com/gpu": 1}},
    }
    spec: dict[str, Any] = {"containers": [container]}
    if product is not None:
        spec["nodeSelector"] = {PRODUCT: product}
    role = {"name": "chat", "componentType": "worker", "template": {"spec": spec}}
    return {
        "apiVersion": "fusioninfer.io/v1alpha1",
        "kind": "InferenceService",
        "metadata": {"name": "qwen"},
        "spec": {"roles": [role]},
    }


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write_file(name: str, value: Any) -> str:
    Path(name).write_text(yaml.safe_dump(value))
    return name


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(arguments)
    return status, *capsys.readouterr()


FITS = service("--max-model-len", "16000")


def test_plan_has_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "plan", write_file("a.yaml", FITS))
    assert status == 0
    lines = [line.split() for line in out.splitlines()]
    heads = "ROLE GPU USABLE GiB WEIGHTS GiB OVERHEAD GiB KV CACHE GiB CACHED TOKENS"
    assert [*heads.split(), "CONCURRENT", "REQUESTS"] in lines
    row = next(line for line in lines if line[:2] == ["chat", "H100"])
    assert row[2:] == ["71.3", "61.0", "5.9", "4.4", "17830", "1.1", "of", "16,000", "tokens"]


def test_plan_as_json_has_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "plan", write_file("a.yaml", FITS), "--output", "json")
    assert status == 0
    ((role,),) = [load["roles"] for load in json.loads(out)]
    memory = role["memory"]
    assert memory["accelerator"] == "H100"
    assert memory["usable"] == memory["weights"] + memory["overhead"] + memory["kvCache"]
    assert (memory["tokens"], memory["length"], memory["requests"]) == (17830, 16000, 1.11)


def test_plan_without_accelerator_is_unchanged(capsys: pytest.CaptureFixture[str]) -> None:
    path = write_file("a.yaml", service(product=None))
    _, out, _ = run(capsys, "plan", path, "--output", "json")
    assert "memory" not in json.loads(out)[0]["roles"][0]
    assert "WEIGHTS" not in run(capsys, "plan", path)[1]


@pytest.mark.slow
def test_services_without_accelerator_skip_the_check() -> None:
    path = write_file("a.yaml", service(product=None))
    program = (
        "import sys; from fusioninfer_pulumi.cli.main import main; "
        f"main(['plan', '{path}']); "
        "sys.exit(any(name.startswith('fusioninfer_capacity.fit') for name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert done.returncode == 0


def test_check_rejects_models_that_cannot_start(capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = run(capsys, "check", write_file("a.yaml", service()))
    assert status == 2
    assert "[cache-too-small]" in err


def test_finding_about_generated_container_is_at_the_users_field(
    capsys: pytest.CaptureFixture[str],
) -> None:
    template = {"spec": {"nodeSelector": {"disk": "ssd"}}}
    role = {"name": "chat", "componentType": "worker", "accelerator": "H100", "gpus": 1}
    model = {"uri": "hf://Qwen/Qwen3-235B-A22B"}
    manifest = {**service(), "spec": {"model": model, "roles": [{**role, "template": template}]}}
    status, _, err = run(capsys, "check", write_file("a.yaml", manifest))
    assert status == 2
    assert "roles[0].template.spec: weights need" in err


def test_diff_shows_kv_cache_change(capsys: pytest.CaptureFixture[str]) -> None:
    old = write_file("old.yaml", FITS)
    larger = write_file("new.yaml", service("--max-model-len", "16000", product="NVIDIA-H200"))
    status, out, _ = run(capsys, "diff", old, larger)
    assert status == 1
    assert "chat: KV cache per replica 17830 -> " in out
    status, out, _ = run(capsys, "diff", old, larger, "--output", "json")
    assert any("KV cache per replica" in note for note in json.loads(out)["notes"])
    scaled = service("--max-model-len", "16000")
    scaled["spec"]["roles"][0]["replicas"] = 3
    _, out, _ = run(capsys, "diff", old, write_file("new.yaml", scaled))
    assert "KV cache" not in out


def test_a_placed_role_has_the_accelerators_of_its_pool(capsys: pytest.CaptureFixture[str]) -> None:
    pools = [
        pool("small", 2, cost=1, device={"attributes": {"model": "L4"}}),
        pool("large", 2, cost=2, labels={PRODUCT: "NVIDIA-H200"}),
    ]
    inventory = write_file("pools.yaml", {"poolLabel": LABEL, "pools": pools})
    anywhere = service("--max-model-len", "16000", product=None)
    placed = write_file("a.yaml", anywhere)
    status, _, err = run(capsys, "check", placed, "--inventory", inventory)
    assert status == 2
    assert "[weights-exceed-memory]" in err
    anywhere["spec"]["roles"][0]["placement"] = {"pools": ["large"]}
    status, out, _ = run(
        capsys, "plan", write_file("a.yaml", anywhere), "--inventory", inventory, "--output", "json"
    )
    assert status == 0
    assert json.loads(out)[0]["roles"][0]["memory"]["accelerator"] == "H200"


@pytest.mark.parametrize(
    ("labels", "name"),
    [
        ({"nvidia.com/gpu.memory": "81920"}, "81920Mi"),
        ({"nvidia.com/gpu.product": "NVIDIA-X9000", "nvidia.com/gpu.memory": "81920"}, "81920Mi"),
        ({"nvidia.com/gpu.product": "NVIDIA-H200", "nvidia.com/gpu.memory": "143771"}, "H200"),
    ],
)
def test_pool_of_unknown_product_is_named_by_its_memory(labels: dict[str, str], name: str) -> None:
    args = NodePoolArgs(name="a", nodes=1, accelerators=8, labels=labels)
    assert name_accelerator(args) == name
    assert parse_accelerator(name) is not None
