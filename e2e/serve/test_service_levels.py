"""Priorities and tenants on a real engine that has more requests than it serves at a time."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Any

import pytest

from e2e.harness import Object
from e2e.routers import OBJECTIVE, install_llm_d_kind
from e2e.serve.deploy import Deployed, deploy_service
from e2e.serve.load import Load, describe_latency
from e2e.serve.services import needs, role, router
from e2e.serve.serving import Serving

pytestmark = [pytest.mark.serve, pytest.mark.long, needs("llm-d-epp")]

SLOTS = 4
#: Clients of the batch job, and tokens of their requests.
CLIENTS, TOKENS = 16, 100
LEVELS: Object = {
    "levels": [{"name": "interactive", "priority": 10}, {"name": "batch", "priority": -10}],
    "maxConcurrency": SLOTS,
}


@pytest.fixture(scope="module")
def levelled(running: Serving) -> Iterator[Deployed]:
    engine = role(args=("--max-num-seqs", str(SLOTS)))
    front = router("queue-size", endpointPicker={"serviceLevels": LEVELS})
    with (
        install_llm_d_kind(running.cluster, OBJECTIVE),
        deploy_service(running, front, engine) as service,
    ):
        yield service


def send(service: Deployed, level: str, tenant: str, **more: Any) -> Load:
    load = service.load(pause=0, **more)
    load.headers["x-llm-d-inference-objective"] = f"svc-{level}"
    load.headers["x-llm-d-inference-fairness-id"] = tenant
    return load


def measure_latency(service: Deployed, level: str, tenant: str) -> float:
    """Return the median time to first token of short requests behind a batch job's."""
    with send(service, "batch", "loud", clients=CLIENTS, tokens=TOKENS) as batch:
        batch.wait(CLIENTS)
        with send(service, level, tenant, clients=1) as load:
            load.wait(12)
    print(f"{level}, tenant {tenant}: {describe_latency(load.answers)}")
    print(f"batch job: {describe_latency(batch.answers)}")
    assert load.list_failed() == batch.list_failed() == []
    return median(answer.first for answer in load.answers)


@pytest.mark.verifies(
    "Overloaded vLLM: interactive requests pass waiting batch requests, and one tenant's requests "
    "do not delay another's"
)
def test_overload_delays_no_other_level_or_tenant(levelled: Deployed) -> None:
    same_tenant = measure_latency(levelled, "batch", "loud")
    other_tenant = measure_latency(levelled, "batch", "quiet")
    interactive = measure_latency(levelled, "interactive", "loud")
    assert other_tenant < same_tenant / 2
    assert interactive < same_tenant / 2
