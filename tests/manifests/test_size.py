"""Very large but valid services are planned and rendered in bounded time."""

from __future__ import annotations

import time
from typing import Any

import pytest
from samples import container, nodes, plan_of, prefill_decode, role, service, template

from fusioninfer_pulumi.checks.plan_service import plan_services
from fusioninfer_pulumi.loading import load
from fusioninfer_pulumi.plan.service_objects import render
from fusioninfer_pulumi.plan.service_plan import compute_capacity_for_gpus


def built(manifest: dict[str, Any]) -> tuple[int, float]:
    start = time.process_time()
    (plan,) = plan_services(load(manifest))
    objects = render(plan)
    compute_capacity_for_gpus(plan, [0, 100, 10**6])
    return len(objects), time.process_time() - start


def test_thousand_replicas_render_in_under_a_second() -> None:
    wide = role(replicas=1_000, multinode=nodes(4), template=template(container(gpus=8)))
    count, seconds = built(service(wide))
    assert count == 1_002
    assert seconds < 3  # a hundredth of that on an idle machine


@pytest.mark.slow
def test_ten_thousand_replicas_of_two_roles_take_seconds() -> None:
    count, seconds = built(prefill_decode({"replicas": 10_000}, {"replicas": 10_000}))
    assert count == 20_002
    assert seconds < 20


def test_largest_replicas_are_planned_without_pod_list() -> None:
    start = time.process_time()
    plan = plan_of(service(role(replicas=10_000, multinode=nodes(10_000))))
    assert plan.total_pods == 10**8
    assert plan.gang is not None
    assert plan.gang.min_member == 10**8
    assert time.process_time() - start < 10


@pytest.mark.slow
def test_hundred_services_are_checked_for_collisions_in_time() -> None:
    pods = template(container(gpus=1))
    services = [
        load(service(role(replicas=100, template=pods), name=f"s{index}"))[0]
        for index in range(100)
    ]
    start = time.process_time()
    plans = plan_services(services)
    assert time.process_time() - start < 10
    assert not any(plan.findings for plan in plans)
