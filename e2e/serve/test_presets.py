"""Serves: a model's name and `accelerator: cpu`, with nothing but requests that fit this node."""

from __future__ import annotations

import pytest

from e2e.serve.deploy import deployed
from e2e.serve.services import router
from e2e.serve.serving import Serving

pytestmark = pytest.mark.serve

MODEL = "Qwen/Qwen3-0.6B"
#: A container of the library asks for four processors and 4 GiB of cache, which this node may lack.
SMALL = {"name": "vllm", "env": [{"name": "VLLM_CPU_KVCACHE_SPACE", "value": "1"}],
         "resources": {"requests": {"cpu": "200m", "memory": "1Gi"}}}  # fmt: skip


@pytest.mark.proves("A role with only a model name and `accelerator: cpu` serves through Envoy")
def test_model_name_is_enough(running: Serving) -> None:
    role = {"name": "serve", "componentType": "worker", "accelerator": "cpu",
            "template": {"spec": {"containers": [SMALL]}}}  # fmt: skip
    with deployed(running, router(), role, model={"uri": f"hf://{MODEL}"}) as service:
        (pod,) = service.pods()
        (container,) = pod["spec"]["containers"]
        assert container["image"] == "vllm/vllm-openai-cpu:v0.32.0-x86_64"
        assert container["command"] == ["vllm", "serve"]
        assert container["args"] == [MODEL, "--max-model-len", "auto", "--shutdown-timeout", "300"]
        assert container["startupProbe"]
        assert service.ask("the quick brown fox", MODEL)["choices"][0]["text"]
