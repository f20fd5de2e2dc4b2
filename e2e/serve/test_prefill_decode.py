"""Serves: prompts are computed on a prefill pod, their KV cache comes to the decode pod by NIXL."""

from __future__ import annotations

import shutil

import pytest

from e2e.serve.counters import BY_SOURCE, by_pod
from e2e.serve.deploy import wait_serving
from e2e.serve.gateway import Gateway
from e2e.serve.load import complete
from e2e.serve.services import MODEL, NEED, PROMPT, objects_of, role, router, service
from e2e.serve.serving import Serving

pytestmark = [
    pytest.mark.serve,
    pytest.mark.skipif(
        not (shutil.which("llm-d-epp") and shutil.which("llm-d-sidecar")),
        reason="not on PATH: llm-d-epp, llm-d-sidecar",
    ),
]

DECODE = "fusioninfer.io/component-type=decoder"
ENGINE_PORT = 8001


@pytest.mark.proves(
    "a prefill/decode service answers through Envoy, llm-d's endpoint picker and sidecar: the "
    "decode engine computes no token of the prompt, all come from the prefill pod by NIXL, and "
    "neither engine warns of its role",
    needs=f"{NEED} with llm-d's programs on PATH",
)
def test_the_cache_comes_from_the_prefill_pod(running: Serving) -> None:
    namespace = running.cluster.new_namespace()
    roles = [
        router("pd-disaggregation"),
        role("prefill", "prefiller", kvTransfer={}),
        role("decode", "decoder", kvTransfer={}),
    ]
    objects = objects_of(service(namespace, *roles))
    running.apply(objects)
    wait_serving(running, objects, namespace)
    gateway = Gateway(running.cluster, namespace, "svc-httproute")
    answer = complete(gateway.url, MODEL, PROMPT, host=gateway.host)
    gateway.close()
    decoders = running.pods(namespace, DECODE)

    def tokens(source: str) -> list[float]:
        return list(by_pod(decoders, BY_SOURCE, ENGINE_PORT, source=source).values())

    prompt = answer["usage"]["prompt_tokens"]
    assert answer["usage"]["completion_tokens"] == 8
    assert tokens("external_kv_transfer") == [prompt]
    assert tokens("local_compute") == [0]
    for pod in running.pods(namespace):
        assert "kv_both" not in running.logs(pod)
    running.cluster.delete_namespace(namespace)
