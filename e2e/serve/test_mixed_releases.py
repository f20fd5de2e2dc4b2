"""Prefill and decode change to another release of vLLM, and back, under load."""

from __future__ import annotations

from contextlib import closing

import pytest

from e2e.engine.project import PROGRAMS
from e2e.harness import Object
from e2e.serve.engine import PREVIOUS, VLLM
from e2e.serve.images import LLM_D
from e2e.serve.load import RequestResult, describe_failures, describe_latency
from e2e.serve.services import IMAGE, PROMPT, needs, role, router
from e2e.serve.serving import Serving
from e2e.serve.stack import COMPUTED, FETCHED, Stack

NEEDED = needs(*PROGRAMS, *LLM_D.values(), releases=[PREVIOUS])
pytestmark = [pytest.mark.serve, pytest.mark.long, NEEDED]

DECODE = "fusioninfer.io/component-type=decoder"
ENGINE_PORT = 8001
PICKER = {"args": ["--refresh-metrics-interval=500ms"]}
"""Reads metrics ten times less often than the default, which would take half of the CPUs."""
WITHOUT_FILTER = {**PICKER, "image": "ghcr.io/llm-d/llm-d-router-endpoint-picker:v0.9.0"}
"""It cannot keep requests within a pair revision."""
SMALL = ("--num-gpu-blocks-override", "64")
"""A small KV cache, because up to five engines run at a time."""

SURGE = {"layout": "PerRole", "rollout": {"maxSurge": 1, "maxUnavailable": 0}}


def _make(*, release: str, replicas: int, picker: Object = PICKER) -> tuple[list[Object], Object]:
    image = IMAGE.replace(VLLM, release)
    roles = [
        role(name, kind, replicas=replicas, image=image, args=SMALL, kvTransfer={})
        for name, kind in (("prefill", "prefiller"), ("decode", "decoder"))
    ]
    roles.insert(0, router("pd-disaggregation", endpointPicker=picker))
    return roles, dict(SURGE if replicas == 1 else {})


def _change(stack: Stack, release: str) -> tuple[list[RequestResult], int]:
    """Update under load; return the failed requests and the prompt tokens that decode computed."""
    with (
        stack.prompt_tokens(DECODE, ENGINE_PORT) as count,
        stack.load(pause=2, prompts=lambda number: f"{number} {PROMPT}") as load,
    ):
        load.wait(10)
        stack.update(release=release)
        load.wait(10)
    computed, fetched = count(COMPUTED), count(FETCHED)
    print(f"{stack.settings}: {describe_latency(load.answers)}; {describe_failures(load.answers)}")
    print(f"decode computed {computed} prompt tokens of {computed + fetched}")
    assert fetched
    return load.list_failed(), computed


@pytest.mark.verifies(
    "One prefill and one decode replica change their release without failed requests: PerRole, "
    "maxSurge 1 and maxUnavailable 0"
)
def test_surge_of_single_replicas_loses_no_request(running: Serving) -> None:
    with closing(Stack(running, _make, release=PREVIOUS, replicas=1)) as stack:
        assert _change(stack, VLLM)[0] == []


@pytest.mark.verifies(
    f"Two prefill and two decode replicas change from vLLM {PREVIOUS} to {VLLM} and back with no "
    "failed request and no recomputed prompt"
)
def test_release_change_recomputes_no_prompt(running: Serving) -> None:
    with closing(Stack(running, _make, release=PREVIOUS, replicas=2)) as stack:
        for release in (VLLM, PREVIOUS):
            assert _change(stack, release) == ([], 0)


@needs("llm-d-epp-0.9", "llm-d-sidecar-0.9")
@pytest.mark.verifies(
    f"Without a filter for pair revisions (llm-d's picker 0.9), the change from vLLM {PREVIOUS} to "
    f"{VLLM} with two prefill and two decode replicas fails no request; decode recomputes prompts"
)
def test_release_change_without_pair_filter_loses_no_request(running: Serving) -> None:
    settings = {"release": PREVIOUS, "replicas": 2, "picker": WITHOUT_FILTER}
    with closing(Stack(running, _make, **settings)) as stack:
        failed, computed = _change(stack, VLLM)
    assert failed == []
    assert computed
