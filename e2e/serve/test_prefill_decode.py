"""Disaggregated serving with KV cache transfer by NIXL."""

from __future__ import annotations

import pytest

from e2e.serve.deploy import deploy_service
from e2e.serve.load import BY_SOURCE, read_by_pod
from e2e.serve.services import PROMPT, needs, role, router
from e2e.serve.serving import Serving

pytestmark = [pytest.mark.serve, needs("llm-d-epp", "llm-d-sidecar")]

DECODE = "fusioninfer.io/component-type=decoder"
ENGINE_PORT = 8001


@pytest.mark.verifies(
    "Prefill/decode: the decode engine computes no prompt token; NIXL transfers all"
)
def test_decode_gets_cache_from_prefill(running: Serving) -> None:
    roles = [
        router("pd-disaggregation"),
        role("prefill", "prefiller", kvTransfer={}),
        role("decode", "decoder", kvTransfer={}),
    ]
    with deploy_service(running, *roles) as service:
        prompt = service.send_request(PROMPT)["usage"]["prompt_tokens"]

        def count_tokens(source: str) -> list[float]:
            return list(
                read_by_pod(service.pods(DECODE), BY_SOURCE, ENGINE_PORT, source=source).values()
            )

        assert count_tokens("external_kv_transfer") == [prompt]
        assert count_tokens("local_compute") == [0]
        for pod in service.pods(""):
            assert "kv_both" not in running.read_logs(pod)
