"""Stacks that an earlier release made: one `up` moves them over."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

from e2e.engine.project import REPOSITORY
from e2e.engine.services import TWO_NODES, Stack, rendered, role, router, service, state_objects

#: The commit that is version 0.1.0.
RELEASE = "262481f"
SPREAD: dict[str, Any] = {**TWO_NODES, "gpus": 1}


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    git = ["git", "-C", str(REPOSITORY), "archive", RELEASE, "fusioninfer_pulumi"]
    found = subprocess.run(git, capture_output=True, check=False)
    if found.returncode:
        pytest.skip(f"this clone does not have the commit {RELEASE}")
    folder = tmp_path_factory.mktemp("release")
    with tarfile.open(fileobj=io.BytesIO(found.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder


def services(namespace: str, tag: str) -> list[dict[str, Any]]:
    """One of each kind: a gang, one set for each role, groups, levels, strategies, a router."""
    scheduled: dict[str, Any] = {"wait": {"level": "Scheduled", "timeout": "150s"}}
    grouped: dict[str, Any] = {"groups": 2, "rollout": {"level": "Group", "timeout": "150s"}}
    at_once: dict[str, Any] = {"rollout": {"strategy": "AllAtOnce", "timeout": "150s"}}
    return [
        service(namespace, role(replicas=3, tag=tag, **SPREAD), name="gang"),
        service(namespace, role(replicas=2, tag=tag), name="whole", layout="PerRole"),
        service(namespace, role(replicas=1, tag=tag, **SPREAD), name="grouped", **grouped),
        service(namespace, role(replicas=2, tag=tag, **SPREAD), name="placed", **scheduled),
        service(namespace, role(replicas=2, tag=tag), name="together", **at_once),
        service(namespace, router(), role(replicas=1, tag=tag), name="routed"),
    ]


def engines(pods: dict[str, Any]) -> dict[str, Any]:
    return {name: pod for name, pod in pods.items() if not name.startswith("routed-epp-")}


@pytest.mark.core
@pytest.mark.parametrize("tag", ["1", "2"])
@pytest.mark.proves("A stack of version 0.1.0 upgrades with one `up` without restarting engines")
def test_stack_of_version_0_1_0_upgrades(stack: Stack, release: Path, tag: str) -> None:
    stack.cluster.add_nodes(4)
    old = services(stack.namespace, "1")
    stack.write(*old)
    stack.up(PYTHONPATH=str(release)).assert_succeeded()
    patches = [resource for resource in stack.resources() if resource["type"].endswith("Patch")]
    assert len(patches) > len(old)
    before, identities = stack.pods(), stack.lws_uids()
    new = services(stack.namespace, tag)
    stack.write(*new)
    if tag == "1":
        result = stack.json("preview", "--json")
        changes = result["changeSummary"]
        assert changes["delete"] == len(patches)
        # The provider replaces a ConfigMap whose data changes: the picker weighs load since 0.3.0.
        replaced = [step["urn"] for step in result["steps"] if step["op"] == "replace"]
        assert [urn.rpartition("::")[2] for urn in replaced] == ["routed-epp-config"]
    with stack.min_ready_replicas() as least:
        stack.up().assert_succeeded()
    assert stack.lws_uids() == identities
    assert stack.remaining_objects() == state_objects(stack.resources())
    assert state_objects(stack.resources()) == sorted(
        name for each in new for name in rendered(each)
    )
    assert set(stack.images().values()) == {tag}
    if tag == "1":
        after = stack.pods()
        assert engines(after) == engines(before)
        assert len(after) == len(before)
        assert stack.preview() == {}
        return
    assert least["samples"]
    assert stack.preview() == {}
    assert stack.ready()["serve"] == 12
    for live in stack.lws().values():
        assert set(live["metadata"]["annotations"]) == {"pulumi.com/skipAwait"}
