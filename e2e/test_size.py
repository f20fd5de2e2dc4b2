"""Proposals of `size` on the real schedulers: Volcano for gangs, else kube-scheduler."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.harness import Cluster
from e2e.test_placement import GPU, LABEL, add_pools, apply_services, count_bound, load_all
from fusioninfer_pulumi.cli.main import main
from fusioninfer_pulumi.loading import load_inventory

POOLS: dict[str, Any] = {
    "poolLabel": LABEL,
    "pools": [
        {"name": "h100", "nodes": 3, "accelerators": 8, "taints": [GPU],
         "device": {"attributes": {"model": "H100"}}},
        {"name": "l40s", "nodes": 2, "accelerators": 4,
         "device": {"attributes": {"model": "L40S"}}},
    ],
}  # fmt: skip
INVENTORY = load_inventory(POOLS)


def wait_for_pods_on(cluster: Cluster, namespace: str, pool: str, pods: int) -> None:
    def count() -> Counter[str]:
        counts: Counter[str] = Counter()
        for (_, _, on), number in count_bound(cluster, namespace).items():
            counts[on] += number
        return counts

    cluster.wait(lambda: count() == {pool: pods}, 120, lambda: f"{count()}, wanted {pods}")


@pytest.mark.parametrize(
    ("model", "accelerator", "pods"),
    [("deepseek-ai/DeepSeek-R1", "H100", 2), ("Qwen/Qwen3-32B", "L40S", 1)],
)
@pytest.mark.verifies("Manifests that `size` prints for free pools are schedulable")
def test_printed_manifest_is_schedulable(
    cluster: Cluster, namespace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    model: str, accelerator: str, pods: int,
) -> None:  # fmt: skip
    path = tmp_path / "pools.yaml"
    path.write_text(yaml.safe_dump(POOLS))
    command = ["size", model, "--accelerator", accelerator, "--inventory", str(path)]
    assert main([*command, "--max-model-len", "8192", "--output", "yaml"]) == 0
    services = load_all(namespace, yaml.safe_load(capsys.readouterr().out))
    add_pools(cluster, INVENTORY)
    apply_services(cluster, namespace, services)
    wait_for_pods_on(cluster, namespace, accelerator.lower(), pods)
