"""Serves: a model's name and `accelerator: cpu`, with nothing but requests that fit this node."""

from __future__ import annotations

import pytest

from e2e.harness.pods import LEADERS
from e2e.serve.deploy import model_name, wait_serving
from e2e.serve.gateway import Gateway
from e2e.serve.load import complete
from e2e.serve.services import objects_of, router, service
from e2e.serve.serving import Serving

pytestmark = pytest.mark.serve

MODEL = "Qwen/Qwen3-0.6B"
#: A container of the library asks for four processors and 4 GiB of cache, which this node may lack.
SMALL = {"name": "vllm", "env": [{"name": "VLLM_CPU_KVCACHE_SPACE", "value": "1"}],
         "resources": {"requests": {"cpu": "200m", "memory": "1Gi"}}}  # fmt: skip


@pytest.mark.proves("A role with only a model name and `accelerator: cpu` serves through Envoy")
def test_model_name_is_enough(running: Serving) -> None:
    namespace = running.cluster.new_namespace()
    role = {"name": "serve", "componentType": "worker", "accelerator": "cpu",
            "template": {"spec": {"containers": [SMALL]}}}  # fmt: skip
    written = service(namespace, router(), role, model={"uri": f"hf://{MODEL}"})
    objects = objects_of(written)
    assert model_name(objects) == MODEL
    running.apply(objects)
    wait_serving(running, objects, namespace)
    (pod,) = running.pods(namespace, LEADERS)
    (container,) = pod["spec"]["containers"]
    assert container["image"] == "vllm/vllm-openai-cpu:v0.32.0-x86_64"
    assert container["command"] == ["vllm", "serve"]
    assert container["args"] == [MODEL, "--max-model-len", "auto", "--shutdown-timeout", "300"]
    assert container["startupProbe"]
    gateway = Gateway(running.cluster, namespace, "svc-httproute")
    answer = complete(gateway.url, MODEL, "the quick brown fox", host=gateway.host)
    assert answer["usage"]["completion_tokens"] == 8
    assert answer["choices"][0]["text"]
    gateway.close()
    running.cluster.delete_namespace(namespace)
