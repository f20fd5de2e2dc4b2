"""Canary of a LoRA adapter (docs/how-to/canary.md).

An engine's text depends on the batch and does not identify the model, so tests read metrics of the
picker and the engine.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from e2e.harness import Object
from e2e.routers import DEFINITIONS, count_decisions, install_llm_d_kind
from e2e.serve.deploy import apply_service, deployed
from e2e.serve.load import metrics
from e2e.serve.services import MODEL, PROMPT, role, router
from e2e.serve.serving import Serving

pytestmark = [
    pytest.mark.serve,
    pytest.mark.long,
    pytest.mark.skipif(not shutil.which("llm-d-epp"), reason="not on PATH: llm-d-epp"),
]

PUBLIC, ADAPTER = "chat", "poet"
PICKER = "app=svc-epp"
METRICS_PORT = 9090
REQUESTS = 60
#: Bounds of the adapter's requests, exceeded by chance once in a million runs.
BOUNDS = {0: (0, 0), 50: (11, 49), 100: (REQUESTS, REQUESTS)}


@pytest.fixture
def _llm_d_kind(running: Serving) -> Iterator[None]:
    definition = install_llm_d_kind(running.cluster)
    yield
    running.cluster.delete(DEFINITIONS, definition)


@pytest.mark.proves("A LoRA adapter's share goes from 0 to 100 % and back without failed requests")
@pytest.mark.usefixtures("_llm_d_kind")
def test_adapter_share_goes_up_and_back(running: Serving) -> None:
    with deployed(running, *canary(0)) as service:
        (pod,), (engine,) = service.pods(PICKER), service.pods()

        def ask(times: int) -> Counter[str]:
            """Send requests; return the number of requests per target model."""
            before = count_decisions(metrics(pod, METRICS_PORT))
            for number in range(times):
                assert service.ask(f"{number} {PROMPT}", PUBLIC, tokens=2)["model"] == PUBLIC
            return count_decisions(metrics(pod, METRICS_PORT)) - before

        assert not ran_adapter(engine)
        for share in (0, 50, 100, 0):
            apply_service(running, service.namespace, *canary(share))
            # The picker watches the object and applies new weights with a delay.
            running.cluster.wait(partial(_is_applied, ask, share), 60)
            counted = ask(REQUESTS)
            least, most = BOUNDS[share]
            assert sum(counted.values()) == REQUESTS, counted
            assert least <= counted[ADAPTER] <= most, (share, counted)
            print(f"{share} %: {counted}")
        assert ran_adapter(engine)
        assert service.uids() == {engine["metadata"]["uid"]}


def canary(share: int) -> list[Object]:
    """Return roles of a service whose adapter gets this percentage of requests."""
    targets = [{"model": MODEL, "weight": 100 - share}, {"model": ADAPTER, "weight": share}]
    rewrites = [{"models": [PUBLIC], "targets": targets}]
    picker = {"metrics": "Unauthenticated"}
    args = ("--enable-lora", "--max-lora-rank", "8", "--lora-modules", f"{ADAPTER}=adapter")
    return [router(None, modelRewrites=rewrites, endpointPicker=picker), role(args=args)]


def ran_adapter(engine: Object) -> bool:
    return f'running_lora_adapters="{ADAPTER}"' in metrics(engine)


def _is_applied(ask: Callable[[int], Counter[str]], share: int) -> bool:
    """Return whether the distribution of ten requests matches this share and no other."""
    drawn = ask(10)[ADAPTER]
    return {0: drawn == 0, 50: 0 < drawn < 10, 100: drawn == 10}[share]
