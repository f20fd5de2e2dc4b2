"""Upgrades of stacks that an earlier release created."""

from __future__ import annotations

import io
import json
import subprocess
import tarfile
from collections.abc import Callable
from typing import Any

import pytest

from e2e.engine.project import REPOSITORY
from e2e.engine.services import TWO_NODES, Stack, list_rendered, list_state, role, router, service
from e2e.objects import create_bound_claim

#: Commits of the released versions.
RELEASES = {"0.1.0": "262481f", "0.2.0": "65390fc4"}
SPREAD: dict[str, Any] = {**TWO_NODES, "gpus": 1}


@pytest.fixture(scope="module")
def unpack_release(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """Return a function that unpacks the package of a released version, for `PYTHONPATH`."""

    def unpack(version: str) -> str:
        commit = RELEASES[version]
        git = ["git", "-C", str(REPOSITORY), "archive", commit, "fusioninfer_pulumi"]
        result = subprocess.run(git, capture_output=True, check=False)
        if result.returncode:
            pytest.skip(f"this clone does not have the commit {commit}")
        folder = tmp_path_factory.mktemp("release")
        with tarfile.open(fileobj=io.BytesIO(result.stdout)) as archive:
            archive.extractall(folder, filter="data")
        return str(folder)

    return unpack


def make_services(namespace: str, tag: str) -> list[dict[str, Any]]:
    """Return services with all shapes: a gang, PerRole, groups, strategies, a router."""
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


def omit_pickers(pods: dict[str, Any]) -> dict[str, Any]:
    """Return the pods except those of endpoint pickers."""
    return {name: pod for name, pod in pods.items() if "-epp-" not in name}


@pytest.mark.core
@pytest.mark.parametrize("tag", ["1", "2"])
@pytest.mark.verifies("A stack of version 0.1.0 upgrades with one `up` without restarting engines")
def test_stack_of_version_0_1_0_upgrades(
    stack: Stack, unpack_release: Callable[[str], str], tag: str
) -> None:
    stack.cluster.add_nodes(4)
    old = make_services(stack.namespace, "1")
    stack.write(*old)
    stack.up(PYTHONPATH=unpack_release("0.1.0")).assert_succeeded()
    patches = [item for item in stack.read_resources() if item["type"].endswith("Patch")]
    assert len(patches) > len(old)
    before, uids = stack.pods(), stack.list_lws_uids()
    new = make_services(stack.namespace, tag)
    stack.write(*new)
    if tag == "1":
        result = stack.json("preview", "--json")
        changes = result["changeSummary"]
        assert changes["delete"] == len(patches)
        # 0.3.0 changed the default scorers; the provider replaces a ConfigMap if its data changes.
        replaced = [step["urn"] for step in result["steps"] if step["op"] == "replace"]
        assert [urn.rpartition("::")[2] for urn in replaced] == ["routed-epp-config"]
    with stack.min_ready_replicas() as min_ready:
        stack.up().assert_succeeded()
    assert stack.list_lws_uids() == uids
    assert stack.list_objects() == list_state(stack.read_resources())
    assert list_state(stack.read_resources()) == sorted(
        name for item in new for name in list_rendered(item)
    )
    assert set(stack.lws_tags().values()) == {tag}
    if tag == "1":
        after = stack.pods()
        assert omit_pickers(after) == omit_pickers(before)
        assert len(after) == len(before)
        assert stack.preview() == {}
        return
    assert min_ready["samples"]
    assert stack.preview() == {}
    assert stack.count_ready()["serve"] == 12
    for live in stack.lws().values():
        assert set(live["metadata"]["annotations"]) == {"pulumi.com/skipAwait"}


def make_services_0_2(namespace: str) -> list[dict[str, Any]]:
    """Return services with shapes new in 0.2.0: prefill/decode, autoscaling, model caches."""
    connector = {"kv_connector": "NixlConnector", "kv_role": "kv_both"}
    arguments = ["--model=Qwen/Qwen3-8B", f"--kv-transfer-config={json.dumps(connector)}"]
    engine = {
        "name": "engine",
        "image": "docker.io/vllm/vllm-openai:v0.31.0",
        "args": arguments,
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
    }
    template = {"template": {"spec": {"containers": [engine]}}}
    pair = [
        {**role("prefill", "prefiller", replicas=2), **template},
        {**role("decode", "decoder", replicas=2), **template},
    ]
    metric = {"name": "requests_waiting", "target": "5"}
    scaled: dict[str, Any] = {
        "autoscaling": {"minReplicas": 2, "maxReplicas": 4, "metrics": [metric]}
    }
    cache = {"uri": "hf://Qwen/Qwen3-8B", "cache": {"claimName": "shared"}}
    return [
        *make_services(namespace, "1"),
        service(namespace, *pair, router(strategy="pd-disaggregation"), name="pair"),
        service(namespace, role(replicas=2, **scaled), name="scaled", layout="PerRole"),
        service(namespace, role(replicas=2), name="budget", disruptionBudget={"maxUnavailable": 1}),
        service(namespace, role(replicas=1), name="cached", model=cache),
    ]


@pytest.mark.core
@pytest.mark.verifies(
    "A stack of version 0.2.0 upgrades with one `up`: no workload is replaced, and engine pods "
    "restart only where the changelog says so"
)
def test_stack_of_version_0_2_0_upgrades(
    stack: Stack, unpack_release: Callable[[str], str]
) -> None:
    stack.cluster.add_nodes(8)
    with create_bound_claim(stack.cluster, stack.namespace):
        stack.write(*make_services_0_2(stack.namespace))
        stack.up(PYTHONPATH=unpack_release("0.2.0")).assert_succeeded()
        before, uids = stack.pods(), stack.list_lws_uids()
        result = stack.json("preview", "--json")
        deleted = [step["urn"].split("::")[2] for step in result["steps"] if step["op"] == "delete"]
        assert all(kind.endswith("Patch") for kind in deleted), deleted
        replaced = [step["urn"] for step in result["steps"] if step["op"] == "replace"]
        assert sorted(urn.rpartition("::")[2] for urn in replaced) == [
            "pair-epp-config",
            "routed-epp-config",
        ]
        with stack.min_ready_replicas() as min_ready:
            stack.up().assert_succeeded()
        assert stack.list_lws_uids() == uids
        after = stack.pods()
        kept = {name: uid for name, uid in before.items() if not name.startswith("pair-")}
        assert omit_pickers(kept).items() <= after.items()
        # The restart adds the label of the pair revision to prefill and decode pods.
        assert {name for name in before if "-epp-" not in name} <= after.keys()
        assert min_ready["samples"]
        assert min_ready["prefill"] >= 1
        assert min_ready["decode"] >= 1
        assert stack.preview() == {}
