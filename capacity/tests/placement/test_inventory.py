"""Inventories: their three forms, invalid fields, and the label that identifies a pool."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from rows import each_row

from capacity.tests.placing import LABEL, pool, rejection, where, worker
from fusioninfer_capacity import place
from fusioninfer_pulumi.api import NodePoolArgs
from fusioninfer_pulumi.findings import InvalidServiceError
from fusioninfer_pulumi.loading import load_inventory

POOLS = [pool("a", 2, labels={LABEL: "a"}), pool("b", 4, labels={LABEL: "b"})]
MANIFEST = {
    "apiVersion": "fusioninfer.io/v1alpha1",
    "kind": "NodePoolInventory",
    "metadata": {"name": "east"},
    "spec": {"pools": POOLS},
}


@pytest.mark.parametrize("raw", [MANIFEST, {"pools": POOLS}, POOLS], ids=["kind", "spec", "list"])
def test_file_and_data_forms_are_equal(raw: Any, tmp_path: Path) -> None:
    (tmp_path / "pools.yaml").write_text(yaml.safe_dump(raw))
    read = load_inventory(raw)
    assert read == load_inventory(tmp_path / "pools.yaml") == load_inventory(read)
    assert read == load_inventory([NodePoolArgs.model_validate(item) for item in POOLS])
    assert read.selector_label == LABEL
    assert where(place([worker("w", 2)], tmp_path / "pools.yaml")) == {"w": {"serve": "a"}}


@each_row(
    ("raw", "expected"),
    [
        ([], "pools: must contain at least 1 item, got none"),
        ({**MANIFEST, "kind": "InferenceService"},
         'kind: must be NodePoolInventory, got "InferenceService"'),
        ({"spec": {}}, "apiVersion: is required, must be fusioninfer.io/v1alpha1"),
        ([pool("a", 1)], "poolLabel: is required: the node label that identifies a pool"),
        ({"poolLabel": "a b", "pools": POOLS}, "poolLabel: must be a Kubernetes label"),
        ([*POOLS, pool("a", 1, labels={LABEL: "c"})],
         'pools[2].name: "a" is also the name of pools[0]'),
        ([*POOLS, pool("c", 1, labels={LABEL: "b"})],
         f"pools[2].labels: must differ between pools: {LABEL} is b in pool b, too"),
        ([pool("a", 1, labels={LABEL: "a"}, inUse=[1, 1])],
         "pools[0].inUse: must have at most 1 items, one per node, got 2"),
        ([pool("a", 1, labels={LABEL: "a"}, inUse=[9])],
         "pools[0].inUse[0]: must be at most 8, got 9"),
        ([pool("a", 1, cost=-1)], "pools[0].cost: must be at least 0"),
        ([pool("a", 1, cost=float("inf"))], "pools[0].cost: must be a finite number"),
        ([pool("a", "1")], 'pools[0].nodes: must be an integer, got "1"'),
        ([pool("a", 1, device={"memory": "much"})],
         'pools[0].device.memory: must be an amount of bytes such as 80Gi, got "much"'),
        ([pool("a", 1, gpus=8)], "pools[0].gpus: unknown key"),
        ([pool("a", 1, taints=[{"key": "x", "effect": "Never"}])],
         "pools[0].taints[0].effect: must be one of NoSchedule, PreferNoSchedule, NoExecute"),
        ([pool("a", 1, labels={LABEL: "not valid!"})], "pools[0].labels["),
    ],
)  # fmt: skip
def test_invalid_inventory_is_rejected(raw: Any, expected: str) -> None:
    with pytest.raises(InvalidServiceError) as errors:
        load_inventory(raw)
    assert any(str(finding).startswith(expected) for finding in errors.value.findings)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "is empty"),
        ("text", "must be a mapping"),
        ("a: 1\n---\nb: 1", "contains 2 documents"),
        ("a: [", "invalid YAML"),
    ],
)
def test_a_file_is_one_document(text: str, expected: str, tmp_path: Path) -> None:
    (tmp_path / "pools.yaml").write_text(text)
    with pytest.raises(InvalidServiceError, match=expected):
        load_inventory(tmp_path / "pools.yaml")


def test_missing_file_raises_file_not_found(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load_inventory(tmp_path / "none.yaml")


def test_resource_that_is_not_an_accelerator_is_rejected() -> None:
    odd = [pool("a", 1, resource="example.com/fpga", labels={LABEL: "a"})]
    assert rejection([worker("w")], odd) == (
        'inventory: pools[0].resource: "example.com/fpga" is not an accelerator resource'
    )
