"""Metrics that endpoint pickers read, compared with vLLM's."""

from __future__ import annotations

import re

import pytest

from e2e.serve.engine import RELEASES, absent, vllm
from e2e.serve.parsers import ask
from e2e.serve.services import objects_of, role, router, service

pytestmark = [pytest.mark.serve, pytest.mark.long]

NAME = re.compile(r"vllm:[a-z0-9_]+")

BY_DEFAULT = {
    "vllm:cache_config_info",
    "vllm:lora_requests_info",
    "vllm:num_requests_waiting",
}
"""Metrics that endpoint pickers read without a flag."""


@pytest.mark.proves("vLLM 0.11.0 and 0.32.0 register the metrics that the endpoint picker reads")
@pytest.mark.parametrize("release", RELEASES)
def test_engine_has_metrics_of_its_picker(release: str) -> None:
    reason = absent(release)
    if reason is not None:
        pytest.skip(reason)
    objects = objects_of(service("ns", router(), role(image=f"vllm/vllm-openai:v{release}")))
    # The oldest endpoint picker gets one by a flag.
    by_flag = set(NAME.findall(str(objects)))
    assert len(by_flag) == 1
    assert by_flag | BY_DEFAULT <= set(ask(vllm(release), []).metrics)
