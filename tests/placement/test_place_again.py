"""What runs stays where an earlier placement put it; what would have to move for it is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fusioninfer_pulumi.findings import InvalidServiceError, Severity
from fusioninfer_pulumi.placement import place
from fusioninfer_pulumi.placement.result import Origin
from tests.placing import (
    inventory,
    only,
    pool,
    refusal,
    where,
    worker,
)


def test_what_runs_is_not_moved_for_a_new_service_but_the_way_out_is_named() -> None:
    stock = inventory(pool("a", 4), pool("b", 2))
    before = {"small": {"serve": "a"}}
    found = refusal([worker("small", 2), worker("large", 4)], stock, previous=before)
    assert found == (
        "large: placement: has no place; nearest is serve on a, which lacks 2 more nodes of a "
        "(16 accelerators) beside the other services; it would have one if small/serve to b "
        "moved: leave them out of the previous placement"
    )
    assert where(place([worker("small", 2), worker("large", 4)], stock)) == {
        "small": {"serve": "b"},
        "large": {"serve": "a"},
    }


def test_a_way_out_is_not_to_turn_another_one_out() -> None:
    told = refusal(
        [worker("new", 4), worker("runs", 4)],
        inventory(pool("a", 4)),
        previous={"runs": {"serve": "a"}},
    )
    assert told.startswith("new: placement: has no place")
    assert told.endswith("beside the other services")


@pytest.mark.parametrize("form", ["record", "json", "mapping", "namespaced"])
def test_a_previous_placement_has_several_forms(form: str, tmp_path: Path) -> None:
    stock = inventory(pool("a", 4), pool("b", 4))
    old = place([worker("w", 2, placement={"pools": ["b"]})], stock)
    written = [{"service": "w", "namespace": "default", "placement": {
        "roles": [{"name": "serve", "pool": "b", "accelerators": 16}]}}]  # fmt: skip
    (tmp_path / "placed.json").write_text(json.dumps(written))
    previous: Any = {
        "record": old,
        "json": tmp_path / "placed.json",
        "mapping": {"w": {"serve": "b"}},
        "namespaced": {"default/w": {"serve": "b"}, "other/w": {"serve": "a"}},
    }[form]
    found = place([worker("w", 2)], stock, previous=previous)
    assert [(each.pool, each.origin) for each in only(found).roles] == [("b", Origin.KEPT)]


MANY = {"name": "serve", "pool": "a", "accelerators": "many"}


@pytest.mark.parametrize("wrong", [
    {"w": "a"}, {"w": {"serve": 1}}, [{"service": "w"}], [1],
    [{"service": "w", "namespace": "default", "placement": {"roles": [MANY]}}],
])  # fmt: skip
def test_a_previous_placement_of_another_shape_is_refused(wrong: Any) -> None:
    told = refusal([worker("w")], inventory(pool("a", 1)), previous=wrong)
    assert told.startswith("must be the JSON of `plan --inventory`, or a mapping of service")


def test_a_previous_placement_that_is_no_json_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{")
    with pytest.raises(InvalidServiceError, match=r"x\.json: not JSON"):
        place([worker("w")], inventory(pool("a", 1)), previous=tmp_path / "x.json")


def test_a_role_that_has_to_move_says_so() -> None:
    found = place([worker("w", 2)], inventory(pool("a", 2)), previous={"w": {"serve": "gone"}})
    ((finding,),) = found.findings.values()
    assert (finding.severity, finding.message) == (
        Severity.WARNING,
        "serve moves from gone to a: all of its replicas restart",
    )
