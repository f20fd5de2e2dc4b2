"""Rendered objects have the values that the source systems' controllers set.

`originals/` has manifests and the objects that their own controllers create: pods, PodGroups,
claims, pools, routes and the picker's configuration. Ours may have more values there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
import yaml_files

from importers.tests.reads import read_source

CASES = [
    pytest.param(case, id=f"{path.stem}: {case['case']}")
    for path in sorted((Path(__file__).parent / "originals").glob("*.yaml"))
    for case in yaml_files.read(path)
]


def missing(theirs: Any, ours: Any, at: str = "") -> Iterator[str]:
    """Yield values of `theirs` that `ours` lacks; list items match by name, else by content."""
    if isinstance(theirs, Mapping):
        if not isinstance(ours, Mapping):
            yield f"{at}: {ours!r}"
            return
        for key, value in theirs.items():
            yield from missing(value, ours.get(key), f"{at}.{key}")
    elif isinstance(theirs, list) and theirs and isinstance(theirs[0], Mapping):
        for number, entry in enumerate(theirs):
            kept = ours if isinstance(ours, list) else []
            named = [item for item in kept if "name" in entry and item["name"] == entry["name"]]
            if named:
                yield from missing(entry, named[0], f"{at}[{entry['name']}]")
            elif not any(not list(missing(entry, item)) for item in kept):
                yield f"{at}[{number}]: {entry!r} is not in {ours!r}"
    elif theirs != ours:
        yield f"{at}: {ours!r}, theirs {theirs!r}"


@pytest.mark.parametrize("case", CASES)
def test_rendered_objects_have_values_of_source_controllers(case: dict[str, Any]) -> None:
    read = read_source(*case["documents"])
    built = read.render()
    assert built, [str(item) for _, item in read.findings]
    for wanted in case["objects"]:
        result = [
            item
            for item in built
            if item["kind"] == wanted["kind"]
            and wanted.get("name") in (None, item["metadata"]["name"])
        ]
        if wanted.get("absent"):
            assert not result
            continue
        assert result, (
            wanted["kind"],
            [(item["kind"], item["metadata"]["name"]) for item in built],
        )
        (place, *_) = result
        if wanted["at"] == ["data", "config"]:
            (text,) = place["data"].values()
            place = {"data": {"config": yaml.safe_load(text)}}
        for part in wanted["at"]:
            place = place[part]
        assert list(missing(wanted["has"], place)) == []


def test_worker_next_to_prefill_and_decode_joins_the_gang_unless_optional() -> None:
    """Where FusionInfer's controller differs: docs/deviations.md."""
    (pair, *_) = yaml_files.read(Path(__file__).parent / "originals" / "fusioninfer.yaml")
    (document,) = pair["documents"]
    worker = {**document["spec"]["roles"][1], "name": "w", "componentType": "worker"}
    del worker["kvTransfer"]
    document["spec"]["roles"].append(worker)
    (group,) = [
        manifest for manifest in read_source(document).render() if manifest["kind"] == "PodGroup"
    ]
    assert group["spec"]["minTaskMember"] == {
        f"{role}-{replica}": 1
        for role, replicas in (("prefill", 1), ("decode", 2), ("w", 2))
        for replica in range(replicas)
    }
    optional = {"gangPolicy": {"minRoleReplicas": {"w": 0}}}
    document["spec"]["schedulingStrategy"] = optional
    (group,) = [
        manifest for manifest in read_source(document).render() if manifest["kind"] == "PodGroup"
    ]
    assert group["spec"]["minMember"] == 3  # the pair's pods
