"""What `place` refuses, with the way out, all at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fusioninfer_pulumi.findings import InvalidServiceError
from fusioninfer_pulumi.placement import place
from tests.placing import (
    inventory,
    pool,
    refusal,
    role,
    worker,
)


@pytest.mark.parametrize(
    ("services", "told"),
    [
        ([worker("w"), worker("w")],
         "w: metadata.name: is also the name of service 1 of the list"),
        ([worker("w", placement={"pools": ["x"]})],
         'w: roles[0].placement.pools[0]: no pool of that name, got "x"; the inventory has a'),
        ([worker("w", pod={"nodeSelector": ["a"]})],
         "roles[0].template.spec.nodeSelector: must be a mapping, got"),
        ([worker("w", pod={"affinity": {"nodeAffinity": 3}})],
         "roles[0].template.spec.affinity.nodeAffinity: must be a mapping"),
        ([worker("w", pod={"tolerations": "all"})],
         "roles[0].template.spec.tolerations: must be a list, got"),
        ([worker("w", nodes=0)], "roles[0].multinode"),
        ([worker("w", -1)], "roles[0].replicas: must be at least 0, got -1"),
    ],
)  # fmt: skip
def test_what_cannot_be_placed_is_refused(services: Any, told: str) -> None:
    if "multinode" in told:
        services[0]["spec"]["roles"][0]["multinode"] = {"nodeCount": 0}
    assert refusal(services, inventory(pool("a", 9))).startswith(told)


def test_a_service_needs_a_name() -> None:
    flat = {"roles": worker("w")["spec"]["roles"]}
    assert "name" in refusal([flat], inventory(pool("a", 1)))


def test_an_output_where_pools_are_chosen_by_is_refused(output: Callable[..., Any]) -> None:
    selector = {"nodeSelector": {"zone": output("a")}}
    told = refusal([worker("w", pod=selector)], inventory(pool("a", 1)))
    assert told.startswith("w: roles[0].template.spec.nodeSelector.zone: is read to choose a pool")


def test_other_errors_of_a_service_come_first() -> None:
    long = worker("w" * 64)
    with pytest.raises(InvalidServiceError):
        place([long], inventory(pool("a", 1)))


def test_too_many_combinations_are_refused() -> None:
    roles = [role(f"r{index}", "worker") for index in range(5)]
    service = {**worker("w"), "spec": {"roles": roles}}
    stock = inventory(*(pool(f"p{index}", 9) for index in range(6)))
    assert refusal([service], stock) == (
        "w: placement: its roles may be combined on pools in 7776 ways, at most 5000 are looked "
        "at; name pools in placement.pools"
    )


def test_several_problems_are_told_at_once() -> None:
    told = refusal([worker("a", 9), worker("b", 9)], inventory(pool("p", 1)))
    assert [line.partition(":")[0] for line in told.splitlines()] == ["a", "b"]
