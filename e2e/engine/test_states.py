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
    GROUPS,
    TWO_NODES,
    Stack,
    rendered,
    role,
    router,
    service,
    state_objects,
)
from e2e.harness.pods import LEADERS
from fusioninfer_pulumi import load, plan_service, render


def _active(status: dict[str, Any]) -> tuple[str, str]:
    (found,) = [condition for condition in status["conditions"] if condition["type"] == "Active"]
    return found["status"], found["reason"]


@pytest.mark.verifies("Unschedulable optional replicas are not awaited; status is Partial")
def test_only_the_minimum_fits(stack: Stack) -> None:
    stack.cluster.add_nodes(4)
    minimum = {"gangPolicy": {"minRoleReplicas": {"serve": 2}}}
    stack.deploy(role(replicas=3, gpus=8, **TWO_NODES), schedulingStrategy=minimum)
    status = stack.output("status")
    assert _active(status) == ("True", "Partial")
    assert status["components"]["serve"]["readyReplicas"] == 2
    assert stack.ready() == {"serve": 2}
    # Updates do not wait for the third replica either. But it may be scheduled to the nodes of a
    # restarting replica, which is then unschedulable (docs/rollout.md).
    changed = role(replicas=3, gpus=8, tag="2", **TWO_NODES)
    pace = {"timeout": "15s"}
    stack.write(stack.service(changed, schedulingStrategy=minimum, rollout=pace))
    result = stack.up()
    stack.cluster.wait(lambda: stack.ready() == {"serve": 2}, 60, "as many as before")
    up = {pod["metadata"]["name"] for pod in stack.cluster.ready(stack.namespace, LEADERS)}
    if "svc-serve-2-0" not in up:
        result.assert_succeeded()
        stack.cluster.wait(lambda: set(stack.tags().values()) == {"2"}, 60, "all to change")
        return
    # The update fails for that replica with its reason, and later replicas stay unchanged.
    (lacking,) = {"svc-serve-0-0", "svc-serve-1-0"} - up
    assert result.status != 0
    assert f"svc: {lacking.removesuffix('-0')} is not available" in result.text, result.text[-4000:]
    images = stack.tags()
    assert images["svc-serve-0-0"] == ("1" if lacking == "svc-serve-1-0" else "2")


@pytest.mark.core
@pytest.mark.verifies("wait.level None does not wait; later updates still roll")
def test_wait_level_none_still_rolls(stack: Stack) -> None:
    level = {"level": "None"}
    stack.deploy(role(), wait=level)  # The cluster has no nodes.
    assert stack.ready() == {"serve": 0}
    assert _active(stack.output("status"))[0] != "True"
    stack.cluster.add_nodes(2)
    stack.cluster.wait(lambda: stack.ready() == {"serve": 3}, 60, "replicas")
    before = stack.pods()
    bad = role(tag="2", behaviour="unpullable")
    stack.write(stack.service(bad, wait=level, rollout={"timeout": "12s"}))
    stack.up().assert_failed()
    after = stack.pods()
    assert {name for name, uid in before.items() if after.get(name) != uid} == {"svc-serve-2-0"}


@pytest.mark.verifies("wait.level Scheduled waits for placement of the gang, not for ready pods")
def test_wait_level_scheduled_waits_for_placement(stack: Stack) -> None:
    stack.cluster.add_nodes(2)
    level = {"level": "Scheduled", "timeout": "20s"}
    unready = role(replicas=2, gpus=1, behaviour="unpullable", **TWO_NODES)
    stack.deploy(unready, wait=level)
    assert stack.ready() == {"serve": 0}
    (group,) = stack.cluster.list(GROUPS, stack.namespace)
    assert group["status"]["phase"] == "Running"
    assert stack.preview() == {}
    larger = role(replicas=40, gpus=1, behaviour="unpullable", **TWO_NODES)
    stack.write(stack.service(larger, wait=level))
    stack.up().assert_failed()  # It requests 80 GPUs; the cluster has 16.


@pytest.mark.verifies("status is an output after up, preview and refresh, also for other stacks")
def test_status(stack: Stack, project: Callable[..., Stack]) -> None:
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
    assert stack.output("status")["components"] == {"serve": wanted}
    assert _active(stack.output("status")) == ("True", "InferenceServiceAvailable")
    stack.deploy(role(replicas=2, tag="2", behaviour="slow"))
    assert stack.output("status")["components"] == {"serve": wanted}
    stack.refresh().assert_succeeded()
    assert stack.preview() == {}
    stack.up().assert_succeeded()
    assert stack.output("status")["components"] == {"serve": wanted}
    # A preview shows the stored status without reading the cluster.
    export = 'pulumi.export("status", service.status)'
    seen = stack.folder / "seen.json"
    keep = "service.status.apply(lambda known: Path('seen.json').write_text(json.dumps(known)))"
    text = PROGRAM.replace("import os\n", "import json\nimport os\n")
    stack.program = text.replace(export, f"{export}\n    {keep}")
    stack.write(stack.service(role(replicas=2, tag="2", behaviour="slow")))
    assert stack.preview() == {}
    assert json.loads(seen.read_text(encoding="utf-8"))["components"] == {"serve": wanted}
    seen.unlink()
    # It is unknown if the preview changes a LeaderWorkerSet, so that `up --plan` accepts the plan.
    stack.write(stack.service(role(replicas=2, tag="3", behaviour="slow")))
    assert stack.preview() == {"update": 3}
    assert not seen.exists()
    stack.write(stack.service(role(replicas=2, tag="2", behaviour="slow")))
    reader = project("second", backend=stack.state)
    reader.program = (
        "import pulumi\n"
        f"other = pulumi.StackReference('organization/{stack.folder.name}/dev')\n"
        "pulumi.export('seen', other.require_output('status'))\n"
    )
    reader.up().assert_succeeded()
    assert reader.output("seen") == stack.output("status")
    # A refresh notices missing pods, and the next update reports them.
    nodes = stack.cluster.list("v1/Node")
    stack.cluster.remove_nodes([node["metadata"]["name"] for node in nodes])
    stack.cluster.wait(lambda: stack.ready() == {"serve": 0}, 60, "pods to go")
    time.sleep(2)
    stack.refresh().assert_succeeded()
    stack.up().assert_succeeded()
    assert stack.output("status")["components"]["serve"]["readyReplicas"] == 0


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
                made = service("default", *roles, role(replicas=2, gpus=1, **TWO_NODES), name=name)
                groups = {"groups": 2} if "groups" in more else {}
                made["spec"] |= {"layout": layout, "wait": {"level": level}, **groups}
                wanted.append(made)
    stack.write(*wanted)
    steps = stack.json("preview", "--json", KUBECONFIG=str(tmp_path / "none"))["steps"]
    registered = state_objects([step["newState"] for step in steps])
    assert registered == sorted(name for each in wanted for name in rendered(each))


@pytest.mark.core
@pytest.mark.verifies("A preview needs no cluster")
def test_preview_without_a_cluster(tmp_path: Path) -> None:
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
    written = [
        each
        for path in sorted((tmp_path / "out").rglob("*.yaml"))
        for each in yaml.safe_load_all(path.read_text(encoding="utf-8"))
    ]
    (args,) = load(wanted)

    def by_name(objects: Any) -> dict[tuple[str, str], Any]:
        return {(manifest["kind"], manifest["metadata"]["name"]): manifest for manifest in objects}

    assert by_name(written) == by_name(render(plan_service(args)))
    assert len(written) == 5


def phases(stack: Project) -> dict[str, str]:
    """Return the phase of each role from the stack's output."""
    found = stack.output("status")["components"]
    return {name: each["phase"] for name, each in found.items()}


def failed(stack: Project) -> tuple[str, str]:
    (found,) = [
        condition
        for condition in stack.output("status")["conditions"]
        if condition["type"] == "Failed"
    ]
    return found["status"], found["message"]


def show(stack: Stack, text: str) -> None:
    stack.cluster.wait(
        lambda: text in str(stack.cluster.pods(stack.namespace)), 60, f"{text} of a pod"
    )


BACK_OFF = 'Back-off pulling image "registry.example/engine:1"'


@pytest.mark.verifies("With wait.level None, the next `up` reports and clears phase Failed")
def test_next_update_reports_failed_role(stack: Stack) -> None:
    stack.cluster.add_nodes(2)
    nothing: dict[str, Any] = {"level": "None"}
    bad = role("bad", replicas=1, behaviour="unpullable")
    stack.deploy(role("good", replicas=1), bad, wait=nothing)
    show(stack, "ImagePullBackOff")
    result = stack.up().assert_succeeded()
    assert stack.changes() == {}
    assert phases(stack)["bad"] == "Failed"
    assert phases(stack)["good"] != "Failed"
    why = f"svc-bad-0: pod svc-bad-0-0: container engine: ImagePullBackOff: {BACK_OFF}"
    assert failed(stack) == ("True", why)
    assert "was not read" not in result.text
    # A preview does not read the cluster, and shows no changed resources.
    assert stack.preview() == {}
    good = role("bad", replicas=1, tag="2")
    stack.deploy(role("good", replicas=1), good, wait=nothing)
    assert phases(stack)["bad"] == "Running"
    assert failed(stack)[0] == "False"


def deletions(stack: Project) -> dict[str, float | None]:
    """Return the deletion timeout of each LeaderWorkerSet in the state, in seconds."""
    return {
        resource["urn"].rpartition("::")[2]: (resource.get("customTimeouts") or {}).get("delete")
        for resource in stack.resources()
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
    assert deletions(stack) == noted
    state = stack.json("stack", "export")
    for resource in state["deployment"]["resources"]:
        (resource.get("customTimeouts") or {}).pop("delete", None)
    (stack.folder / "old.json").write_text(json.dumps(state), encoding="utf-8")
    stack.run("stack", "import", "--file", "old.json").assert_succeeded()
    assert deletions(stack) == {"svc-serve-0": None, "svc-serve-1": None}
    assert stack.preview() == {}
    stack.up().assert_succeeded()
    assert stack.changes() == {}
    assert deletions(stack) == noted
    stack.down().assert_succeeded()
    assert stack.remaining_objects() == []
