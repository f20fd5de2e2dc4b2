"""Disaggregated serving with KV cache transfer by NIXL."""

from __future__ import annotations

import json
import shutil

import pytest

from e2e.harness import Object
from e2e.serve.deploy import deployed, wait_serving
from e2e.serve.engine import PREVIOUS, VLLM, absent
from e2e.serve.gateway import Gateway
from e2e.serve.load import BY_SOURCE, by_pod, complete
from e2e.serve.services import IMAGE, MODEL, PROMPT, objects_of, role, router, service
from e2e.serve.serving import START_SECONDS, Serving

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
    "Prefill/decode: the decode engine computes no prompt token; NIXL transfers all"
)
def test_decode_gets_cache_from_prefill(running: Serving) -> None:
    roles = [
        router("pd-disaggregation"),
        role("prefill", "prefiller", kvTransfer={}),
        role("decode", "decoder", kvTransfer={}),
    ]
    with deployed(running, *roles) as service:
        prompt = service.ask(PROMPT)["usage"]["prompt_tokens"]

        def tokens(source: str) -> list[float]:
            return list(
                by_pod(service.pods(DECODE), BY_SOURCE, ENGINE_PORT, source=source).values()
            )

        assert tokens("external_kv_transfer") == [prompt]
        assert tokens("local_compute") == [0]
        for pod in service.pods(""):
            assert "kv_both" not in running.logs(pod)


@pytest.mark.long
@pytest.mark.skipif(absent(PREVIOUS) is not None, reason=absent(PREVIOUS) or "")
@pytest.mark.proves(f"Requests succeed while prefill runs vLLM {PREVIOUS} and decode {VLLM}")
def test_prefill_and_decode_of_two_releases_serve(running: Serving) -> None:
    namespace = running.cluster.new_namespace()
    objects = _between_releases(namespace)
    running.apply(objects)
    wait_serving(running, objects, namespace)
    gateway = Gateway(running.cluster, namespace, "svc-httproute")
    prompts = [f"{number} {PROMPT}" for number in range(4)]
    answers = [complete(gateway.url, MODEL, prompt, host=gateway.host) for prompt in prompts]
    expected = sum(answer["usage"]["prompt_tokens"] for answer in answers)
    computed = by_pod(
        running.pods(namespace, DECODE), BY_SOURCE, ENGINE_PORT, source="local_compute"
    )
    assert list(computed.values()) == [expected]

    text = json.dumps(objects).replace(',\\"kv_load_failure_policy\\":\\"recompute\\"', "")
    old_decode = {pod["metadata"]["uid"] for pod in running.pods(namespace, DECODE)}
    failing = json.loads(text)
    running.apply(failing)
    running.cluster.wait(
        lambda: old_decode.isdisjoint(
            pod["metadata"]["uid"] for pod in running.pods(namespace, DECODE)
        ),
        START_SECONDS,
    )
    wait_serving(running, failing, namespace)
    for prompt in prompts:
        with pytest.raises(AssertionError, match="500"):
            complete(gateway.url, MODEL, prompt, host=gateway.host)
    gateway.close()
    running.cluster.delete_namespace(namespace)


def _between_releases(namespace: str) -> list[Object]:
    """Return a service during an update: only the decode role has the new release."""

    def render_release(image: str) -> list[Object]:
        roles = [
            role(name, kind, image=image, kvTransfer={})
            for name, kind in (("prefill", "prefiller"), ("decode", "decoder"))
        ]
        return objects_of(service(namespace, router("pd-disaggregation"), *roles))

    old, new = render_release(IMAGE.replace(VLLM, PREVIOUS)), render_release(IMAGE)
    return [
        after if before["metadata"]["name"].startswith("svc-decode") else before
        for before, after in zip(old, new, strict=True)
    ]
