"""What somebody did to a service by hand: found by a refresh, repaired by the next update."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.engine.services import GROUPS, SETS, TWO_NODES, Stack, rendered, role

SPREAD: dict[str, Any] = {**TWO_NODES, "gpus": 1}


@pytest.mark.proves(
    "A deleted PodGroup or Service returns without restarts; edited images conflict until forced"
)
def test_manual_changes_of_gang_are_repaired(stack: Stack) -> None:
    stack.cluster.add_nodes(2)
    wanted = stack.service(role(replicas=2, **SPREAD))
    stack.deploy_services(wanted)
    before = stack.pods()
    stack.cluster.delete(GROUPS, "svc", stack.namespace)
    stack.cluster.delete("v1/Service", "svc", stack.namespace)
    stack.refresh().assert_succeeded()
    assert stack.preview()["create"] == 2
    stack.up().assert_succeeded()
    assert stack.remaining_objects() == rendered(wanted)
    assert stack.pods() == before
    assert stack.preview() == {}
    template = stack.lws()["svc-serve-0"]["spec"]["leaderWorkerTemplate"]
    template["workerTemplate"]["spec"]["containers"][0]["image"] = "registry.example/engine:hand"
    edited = {"spec": {"leaderWorkerTemplate": {"workerTemplate": template["workerTemplate"]}}}
    stack.cluster.patch(SETS, "svc-serve-0", edited, stack.namespace)
    stack.refresh().assert_succeeded()
    assert stack.preview() == {"update": 1}
    result = stack.up().assert_failed()
    assert 'conflict with "' in result.text
    assert '.containers[name="engine"].image' in result.text
    assert stack.images() == {"svc-serve-0": "hand", "svc-serve-1": "1"}
    stack.up(PULUMI_K8S_ENABLE_PATCH_FORCE="true").assert_succeeded()
    assert set(stack.images().values()) == {"1"}
    assert stack.ready() == {"serve": 2}
    assert stack.preview() == {}
