"""The router document's generated objects, equal to ours but for the deviations that are listed.

Each deviation is a function in `router_deviations.py` that changes what the document shows.
"""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from router_deviations import DEVIATIONS, DOCUMENTS, Objects, text

from fusioninfer_pulumi.loading import load
from fusioninfer_pulumi.objects import render
from fusioninfer_pulumi.planning import plan_service

FIXTURES = Path(__file__).parents[1] / "fixtures"
DEVIATIONS_TEXT = Path(__file__).parents[2] / "docs" / "deviations.md"

CASES = {
    "example-1": "router-example-1-simple-strategy",
    "example-3": "router-example-3-pd",
}


def generated(name: str) -> Objects:
    (args,) = load(FIXTURES / "inputs" / f"{CASES[name]}.yaml")
    workloads = ("PodGroup", "LeaderWorkerSet")
    objects = [each for each in render(plan_service(args)) if each["kind"] not in workloads]
    return copy.deepcopy(objects)


def comparable(objects: Objects) -> dict[str, dict[str, Any]]:
    """By name; a configuration as data, for its comments and order mean nothing."""
    named = {f"{each['kind']}/{each['metadata']['name']}": copy.deepcopy(each) for each in objects}
    assert len(named) == len(objects)
    for each in named.values():
        if each["kind"] == "ConfigMap":
            each["data"] = {key: yaml.safe_load(value) for key, value in each["data"].items()}
    return named


@pytest.mark.parametrize("case", CASES)
def test_what_the_document_shows_is_ours_but_for_the_listed_deviations(case: str) -> None:
    ours, expected = generated(case), list(yaml.safe_load_all(text(case)))
    for deviate in DEVIATIONS.values():
        deviate(expected, ours)
    assert comparable(ours) == comparable(expected)


@pytest.mark.parametrize("name", DEVIATIONS)
def test_a_listed_deviation_still_deviates(name: str) -> None:
    differ = []
    for case in CASES:
        ours, expected = generated(case), list(yaml.safe_load_all(text(case)))
        try:
            for other, deviate in DEVIATIONS.items():
                if other != name:
                    deviate(expected, ours)
        except (KeyError, ValueError):
            # A later deviation rests on this one.
            differ.append(True)
            continue
        differ.append(comparable(ours) != comparable(expected))
    assert any(differ)


def test_every_generated_object_of_the_document_is_compared() -> None:
    assert {path.stem for path in DOCUMENTS.glob("*.yaml")} == set(CASES)


def test_every_deviation_of_the_objects_is_explained() -> None:
    whole = DEVIATIONS_TEXT.read_text(encoding="utf-8")
    section = whole.partition("\n## Router objects\n")[2].partition("\n## ")[0]
    headings = re.findall(r"^### (.+)$", section, re.MULTILINE)
    assert [re.sub("[^a-z0-9 ]", "", each.lower()) for each in headings] == list(DEVIATIONS)
    for heading, body in zip(headings, re.split(r"^### .+$", section, flags=re.M)[1:], strict=True):
        assert len(body.split()) > 20, f"{heading}: a deviation needs its reason"
