"""Outputs and state after updates: status, failures, secrets; and wait levels."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.engine.project import PROGRAM, Project
from e2e.engine.services import (
    POD_GROUP,
    TWO_NODES,
    Stack,
    list_rendered,
    list_state,
    role,
    router,
    service,
)
from e2e.harness.pods import LEADERS
from fusioninfer_pulumi import load, plan_service, render


def _read_active(status: dict[str, Any]) -> tuple[str, str]:
    (found,) = [condition for condition in status["conditions"] if condition["type"] == "Active"]
    return found["status"], found["reason"]


@pytest.mark.verifies("Unschedulable optional replicas are not awaited; status is Partial")
def test_unschedulable_optional_replicas_are_not_awaited(stack: Stack) -> None:
    stack.cluster.add_nodes(4)
    minimum = {"gangPolicy": {"minRoleReplicas": {"serve": 2}}}
    stack.deploy(role(replicas=3, gpus=8, **TWO_NODES), schedulingStrategy=minimum)
    status = stack.read_output("status")
    assert _read_active(status) == ("True", "Partial")
    assert status["components"]["serve"]["readyReplicas"] == 2
    assert stack.count_ready() == {"serve": 2}
    # Updates do not wait for the third replica either. But it may be scheduled to the nodes of a
    # restarting replica, which is then unschedulable (docs/rollout.md).
    changed = role(replicas=3, gpus=8, tag="2", **TWO_NODES)
    rollout = {"timeout": "15s"}
    stack.write(stack.service(changed, schedulingStrategy=minimum, rollout=rollout))
    result = stack.up()
    stack.cluster.wait(lambda: stack.count_ready() == {"serve": 2}, 60, "two ready replicas")
    up = {pod["metadata"]["name"] for pod in stack.cluster.ready_pods(stack.namespace, LEADERS)}
    if "svc-serve-2-0" not in up:
        result.assert_succeeded()
        stack.cluster.wait(lambda: set(stack.pod_tags().values()) == {"2"}, 60, "new images")
        return
    # The update fails for that replica with its reason, and later replicas stay unchanged.
    (down,) = {"svc-serve-0-0", "svc-serve-1-0"} - up
    assert result.status != 0
    assert f"svc: {down.removesuffix('-0')} is not available" in result.text, result.text[-4000:]
    images = stack.pod_tags()
    assert images["svc-serve-0-0"] == ("1" if down == "svc-serve-1-0" else "2")


@pytest.mark.core
@pytest.mark.verifies("wait.level None does not wait; later updates still roll")
def test_wait_level_none_still_rolls(stack: Stack) -> None:
    level = {"level": "None"}
    stack.deploy(role(), wait=level)  # The cluster has no nodes.
    assert stack.count_ready() == {"serve": 0}
    assert _read_active(stack.read_output("status"))[0] != "True"
    stack.cluster.add_nodes(2)
    stack.cluster.wait(lambda: stack.count_ready() == {"serve": 3}, 60, "replicas")
    before = stack.pods()
    bad = role(tag="2", behavior="unpullable")
    stack.write(stack.service(bad, wait=level, rollout={"timeout": "12s"}))
    stack.up().assert_failed()
    after = stack.pods()
    assert {name for name, uid in before.items() if after.get(name) != uid} == {"svc-serve-2-0"}


@pytest.mark.verifies("wait.level Scheduled waits for placement of the gang, not for ready pods")
def test_wait_level_scheduled_waits_for_placement(stack: Stack) -> None:
    stack.cluster.add_nodes(2)
    level = {"level": "Scheduled", "timeout": "20s"}
    unready = role(replicas=2, gpus=1, behavior="unpullable", **TWO_NODES)
    stack.deploy(unready, wait=level)
    assert stack.count_ready() == {"serve": 0}
    (group,) = stack.cluster.list(POD_GROUP, stack.namespace)
    assert group["status"]["phase"] == "Running"
    assert stack.preview() == {}
    larger = role(replicas=40, gpus=1, behavior="unpullable", **TWO_NODES)
    stack.write(stack.service(larger, wait=level))
    stack.up().assert_failed()  # It requests 80 GPUs; the cluster has 16.


@pytest.mark.verifies("status is an output after up, preview and refresh, also for other stacks")
def test_status_is_output_for_other_stacks(stack: Stack, project: Callable[..., Stack]) -> None:
    stack.cluster.add_nodes(2)
    stack.deploy(role(replicas=2))
    wanted = {
        "desiredReplicas": 2,
        "readyReplicas": 2,
        "nodesPerReplica": 1,
        "totalPods": 2,
        "readyPods": 2,
        "phase": "Running",
    }
    assert stack.read_output("status")["components"] == {"serve": wanted}
    assert _read_active(stack.read_output("status")) == ("True", "InferenceServiceAvailable")
    stack.deploy(role(replicas=2, tag="2", behavior="slow"))
    assert stack.read_output("status")["components"] == {"serve": wanted}
    stack.refresh().assert_succeeded()
    assert stack.preview() == {}
    stack.up().assert_succeeded()
    assert stack.read_output("status")["components"] == {"serve": wanted}
    # A preview shows the stored status without reading the cluster.
    export = 'pulumi.export("status", service.status)'
    seen = stack.folder / "seen.json"
    write = "service.status.apply(lambda known: Path('seen.json').write_text(json.dumps(known)))"
    text = PROGRAM.replace("import os\n", "import json\nimport os\n")
    stack.program = text.replace(export, f"{export}\n    {write}")
    stack.write(stack.service(role(replicas=2, tag="2", behavior="slow")))
    assert stack.preview() == {}
    assert json.loads(seen.read_text(encoding="utf-8"))["components"] == {"serve": wanted}
    seen.unlink()
    # It is unknown if the preview changes a LeaderWorkerSet, so that `up --plan` accepts the plan.
    stack.write(stack.service(role(replicas=2, tag="3", behavior="slow")))
    assert stack.preview() == {"update": 3}
    assert not seen.exists()
    stack.write(stack.service(role(replicas=2, tag="2", behavior="slow")))
    reader = project("second", backend=stack.state)
    reader.program = (
        "import pulumi\n"
        f"other = pulumi.StackReference('organization/{stack.folder.name}/dev')\n"
        "pulumi.export('seen', other.require_output('status'))\n"
    )
    reader.up().assert_succeeded()
    assert reader.read_output("seen") == stack.read_output("status")
    # After a refresh, the next update reports missing pods.
    nodes = stack.cluster.list("v1/Node")
    stack.cluster.remove_nodes([node["metadata"]["name"] for node in nodes])
    stack.cluster.wait(lambda: stack.count_ready() == {"serve": 0}, 60, "pods to go")
    time.sleep(2)
    stack.refresh().assert_succeeded()
    stack.up().assert_succeeded()
    assert stack.read_output("status")["components"]["serve"]["readyReplicas"] == 0


@pytest.mark.verifies("Secrets in a template never appear in the state in plain text")
def test_secrets_are_not_in_state(stack: Stack) -> None:
    stack.cluster.add_nodes(1)
    hidden = role(replicas=1)
    hidden["template"]["spec"]["containers"][0]["env"] = [{"name": "TOKEN", "value": "secret"}]
    stack.deploy(hidden)
    live = json.dumps(stack.lws()["svc-serve-0"]["spec"])
    assert "s3cr3t-value" in live
    assert "s3cr3t-value" not in json.dumps(stack.json("stack", "export"))
    assert "s3cr3t-value" not in stack.run("stack", "output", "--json").text


@pytest.mark.core
@pytest.mark.verifies("A service registers exactly the objects that `render` prints")
def test_service_registers_rendered_objects(tmp_path: Path) -> None:
    stack = Project(tmp_path / "all", None)
    wanted: list[dict[str, Any]] = []
    for level in ("None", "Scheduled", "Available", "Serving"):
        for layout in ("PerReplica", "PerRole"):
            for more in ({}, {"groups": 2}, {"router": True}):
                roles = [router()] if "router" in more else []
                name = f"s{len(wanted)}"
                roles.append(role(replicas=2, gpus=1, **TWO_NODES))
                manifest = service("default", *roles, name=name)
                groups = {"groups": 2} if "groups" in more else {}
                manifest["spec"] |= {"layout": layout, "wait": {"level": level}, **groups}
                wanted.append(manifest)
    stack.write(*wanted)
    steps = stack.json("preview", "--json", KUBECONFIG=str(tmp_path / "none"))["steps"]
    registered = list_state([step["newState"] for step in steps])
    assert registered == sorted(name for item in wanted for name in list_rendered(item))


@pytest.mark.core
@pytest.mark.verifies("A preview needs no cluster")
def test_preview_needs_no_cluster(tmp_path: Path) -> None:
    stack = Project(tmp_path / "alone", None)
    stack.write(service("default", role()))
    assert stack.preview(KUBECONFIG=str(tmp_path / "none")) == {"create": 6}


@pytest.mark.core
@pytest.mark.verifies("The provider's render-to-directory mode writes what `render` prints")
def test_rendered_directory_matches_render(tmp_path: Path) -> None:
    stack = Project(tmp_path / "files", None)
    wanted = service("default", role(replicas=2, **TWO_NODES), role("other", replicas=1))
    stack.write(wanted)
    stack.up(RENDER_TO=str(tmp_path / "out")).assert_succeeded()
    rendered_objects = [
        item
        for path in sorted((tmp_path / "out").rglob("*.yaml"))
        for item in yaml.safe_load_all(path.read_text(encoding="utf-8"))
    ]
    (args,) = load(wanted)

    def index_by_name(objects: Any) -> dict[tuple[str, str], Any]:
        return {(manifest["kind"], manifest["metadata"]["name"]): manifest for manifest in objects}

    assert index_by_name(rendered_objects) == index_by_name(render(plan_service(args)))
    assert len(rendered_objects) == 5


def read_phases(stack: Project) -> dict[str, str]:
    """Return the phase of each role from the stack's output."""
    found = stack.read_output("status")["components"]
    return {name: item["phase"] for name, item in found.items()}


def read_failure(stack: Project) -> tuple[str, str]:
    (found,) = [
        condition
        for condition in stack.read_output("status")["conditions"]
        if condition["type"] == "Failed"
    ]
    return found["status"], found["message"]


def wait_for_text(stack: Stack, text: str) -> None:
    stack.cluster.wait(
        lambda: text in str(stack.cluster.pods(stack.namespace)), 60, f"{text} of a pod"
    )


BACK_OFF = 'Back-off pulling image "registry.example/engine:1"'


@pytest.mark.verifies("With wait.level None, the next `up` reports and clears phase Failed")
def test_next_update_reports_failed_role(stack: Stack) -> None:
    stack.cluster.add_nodes(2)
    no_wait: dict[str, Any] = {"level": "None"}
    bad = role("bad", replicas=1, behavior="unpullable")
    stack.deploy(role("good", replicas=1), bad, wait=no_wait)
    wait_for_text(stack, "ImagePullBackOff")
    result = stack.up().assert_succeeded()
    assert stack.read_changes() == {}
    assert read_phases(stack)["bad"] == "Failed"
    assert read_phases(stack)["good"] != "Failed"
    reason = f"svc-bad-0: pod svc-bad-0-0: container engine: ImagePullBackOff: {BACK_OFF}"
    assert read_failure(stack) == ("True", reason)
    assert "was not read" not in result.text
    # A preview does not read the cluster, and shows no changed resources.
    assert stack.preview() == {}
    good = role("bad", replicas=1, tag="2")
    stack.deploy(role("good", replicas=1), good, wait=no_wait)
    assert read_phases(stack)["bad"] == "Running"
    assert read_failure(stack)[0] == "False"


def read_timeouts(stack: Project) -> dict[str, float | None]:
    """Return the deletion timeout of each LeaderWorkerSet in the state, in seconds."""
    return {
        resource["urn"].rpartition("::")[2]: (resource.get("customTimeouts") or {}).get("delete")
        for resource in stack.read_resources()
        if resource["type"].endswith(":LeaderWorkerSet")
    }


@pytest.mark.verifies(
    "Deletion waits for long grace periods; storing the longer timeout restarts nothing"
)
def test_deletion_waits_for_grace_period(stack: Stack) -> None:
    stack.cluster.add_nodes(1)
    slow: dict[str, Any] = role(replicas=2)
    slow["template"]["spec"]["terminationGracePeriodSeconds"] = 900
    stack.deploy(slow)
    noted = {"svc-serve-0": 1200, "svc-serve-1": 1200}
    assert read_timeouts(stack) == noted
    state = stack.json("stack", "export")
    for resource in state["deployment"]["resources"]:
        (resource.get("customTimeouts") or {}).pop("delete", None)
    (stack.folder / "old.json").write_text(json.dumps(state), encoding="utf-8")
    stack.run("stack", "import", "--file", "old.json").assert_succeeded()
    assert read_timeouts(stack) == {"svc-serve-0": None, "svc-serve-1": None}
    assert stack.preview() == {}
    stack.up().assert_succeeded()
    assert stack.read_changes() == {}
    assert read_timeouts(stack) == noted
    stack.down().assert_succeeded()
    assert stack.list_objects() == []
