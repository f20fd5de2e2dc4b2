"""What an update leaves in the stack: status, secrets, files; and what survives interruptions."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.engine.project import ENGINE, PROGRAM, Project
from e2e.engine.services import (
    GROUPS,
    QUICK,
    left,
    lws,
    noted,
    pods,
    ready,
    rendered,
    role,
    router,
    service,
    tags,
)
from e2e.harness import Cluster
from e2e.harness.pods import LEADERS
from fusioninfer_pulumi import load, plan_service, render

Make = Callable[..., Project]
SPREAD: dict[str, Any] = {"multinode": {"nodeCount": 2, "launcher": "none"}}


def _active(status: dict[str, Any]) -> tuple[str, str]:
    (found,) = [condition for condition in status["conditions"] if condition["type"] == "Active"]
    return found["status"], found["reason"]


@pytest.mark.proves(
    "Unschedulable optional replicas are not awaited; status is Partial", needs=ENGINE
)
def test_only_the_minimum_fits(cluster: Cluster, namespace: str, project: Make) -> None:
    cluster.add_nodes(4)
    stack = project()
    minimum = {"gangPolicy": {"minRoleReplicas": {"serve": 2}}}
    stack.write(service(namespace, role(replicas=3, gpus=8, **SPREAD), schedulingStrategy=minimum))
    stack.up().assert_fine()
    status = stack.output("status")
    assert _active(status) == ("True", "Partial")
    assert status["components"]["serve"]["readyReplicas"] == 2
    assert ready(cluster, namespace) == {"serve": 2}
    # Nothing waits for the third in an update either. But it asks for the same nodes, and may be
    # placed on those of a replica that restarts: then that one has no room (docs/rollout.md).
    changed = role(replicas=3, gpus=8, tag="2", **SPREAD)
    pace = {"timeout": "15s"}
    stack.write(service(namespace, changed, schedulingStrategy=minimum, rollout=pace))
    told = stack.up()
    cluster.wait(lambda: ready(cluster, namespace) == {"serve": 2}, 60, "as many as before")
    up = {pod["metadata"]["name"] for pod in cluster.ready(namespace, LEADERS)}
    if "svc-serve-2-0" not in up:
        told.assert_fine()
        cluster.wait(lambda: set(tags(cluster, namespace).values()) == {"2"}, 60, "all to change")
        return
    # It fails for that one, and says so; what comes after it is as it was.
    (lacking,) = {"svc-serve-0-0", "svc-serve-1-0"} - up
    assert told.status != 0
    assert f"svc: {lacking.removesuffix('-0')} is not available" in told.text, told.text[-4000:]
    images = tags(cluster, namespace)
    assert images["svc-serve-0-0"] == ("1" if lacking == "svc-serve-1-0" else "2")


@pytest.mark.proves(
    "With LowestOrdinals, optional replicas never take a required replica's capacity",
    needs=ENGINE,
)
def test_the_required_ones_keep_their_room(cluster: Cluster, namespace: str, project: Make) -> None:
    cluster.add_nodes(4)
    stack = project()
    gang = {"minRoleReplicas": {"serve": 2}, "requiredReplicas": "LowestOrdinals"}
    for tag in range(5):
        wanted = role(replicas=3, gpus=8, tag=str(tag), **SPREAD)
        stack.write(service(namespace, wanted, schedulingStrategy={"gangPolicy": gang}))
        stack.up().assert_fine()
        assert ready(cluster, namespace) == {"serve": 2}
        placed = {pod["metadata"]["name"] for pod in cluster.bound(namespace)}
        assert placed == {f"svc-serve-{at}-0{worker}" for at in (0, 1) for worker in ("", "-1")}
    assert _active(stack.output("status")) == ("True", "Partial")


@pytest.mark.proves(
    "An unschedulable update fails at its timeout and names the replicas", needs=ENGINE
)
def test_nothing_fits(cluster: Cluster, namespace: str, project: Make) -> None:
    cluster.add_nodes(1)
    stack = project()
    stack.write(service(namespace, role(replicas=2, gpus=8, **SPREAD), wait={"timeout": "15s"}))
    started = time.monotonic()
    told = stack.up()
    assert told.status != 0
    assert "svc-serve-1" in told.text
    assert time.monotonic() - started < 120
    assert ready(cluster, namespace) == {"serve": 0}
    cluster.add_nodes(3)
    stack.write(service(namespace, role(replicas=2, gpus=8, **SPREAD)))
    stack.up().assert_fine()
    assert ready(cluster, namespace) == {"serve": 2}
    assert stack.preview() == {}


@pytest.mark.core
@pytest.mark.proves("wait.level None does not wait; later updates still roll", needs=ENGINE)
def test_no_wait_but_paced(cluster: Cluster, namespace: str, project: Make) -> None:
    stack = project()
    level = {"level": "None"}
    stack.write(service(namespace, role(), wait=level))
    stack.up().assert_fine()  # there is no node
    assert ready(cluster, namespace) == {"serve": 0}
    assert _active(stack.output("status"))[0] != "True"
    cluster.add_nodes(2)
    cluster.wait(lambda: ready(cluster, namespace) == {"serve": 3}, 60, "replicas")
    before = pods(cluster, namespace)
    bad = role(tag="2", behaviour="unpullable")
    stack.write(service(namespace, bad, wait=level, rollout={"timeout": "12s"}))
    assert stack.up().status != 0
    after = pods(cluster, namespace)
    assert {name for name, uid in before.items() if after.get(name) != uid} == {"svc-serve-2-0"}


@pytest.mark.proves(
    "wait.level Scheduled waits for placement of the gang, not for ready pods", needs=ENGINE
)
def test_scheduled(cluster: Cluster, namespace: str, project: Make) -> None:
    cluster.add_nodes(2)
    stack = project()
    level = {"level": "Scheduled", "timeout": "20s"}
    unready = role(replicas=2, gpus=1, behaviour="unpullable", **SPREAD)
    stack.write(service(namespace, unready, wait=level))
    stack.up().assert_fine()
    assert ready(cluster, namespace) == {"serve": 0}
    (group,) = cluster.list(GROUPS, namespace)
    assert group["status"]["phase"] == "Running"
    assert stack.preview() == {}
    larger = role(replicas=40, gpus=1, behaviour="unpullable", **SPREAD)
    stack.write(service(namespace, larger, wait=level))
    assert stack.up().status != 0  # 80 accelerators are asked for, 16 are there


@pytest.mark.proves("wait.level Scheduled waits at creation too", needs=ENGINE)
def test_scheduled_at_creation(cluster: Cluster, namespace: str, project: Make) -> None:
    cluster.add_nodes(1)
    stack = project()
    level = {"level": "Scheduled", "timeout": "5s"}
    stack.write(service(namespace, role(replicas=1, gpus=8, **SPREAD), wait=level))
    told = stack.up()
    assert told.status != 0
    assert "PodGroup svc" in told.text


@pytest.mark.parametrize("strategy", ["AllAtOnce", "Recreate"])
@pytest.mark.proves(
    "AllAtOnce and Recreate change all replicas and wait for rollout.timeout",
    needs=ENGINE,
)
def test_other_strategies(cluster: Cluster, namespace: str, project: Make, strategy: str) -> None:
    cluster.add_nodes(3)
    stack = project()
    rollout = {**QUICK, "strategy": strategy}
    stack.write(service(namespace, role(), rollout=rollout))
    stack.up().assert_fine()
    before = lws(cluster, namespace)
    stack.write(service(namespace, role(tag="2", behaviour="slow"), rollout=rollout))
    stack.up().assert_fine()
    assert ready(cluster, namespace) == {"serve": 3}
    after = lws(cluster, namespace)
    same = [after[name]["metadata"]["uid"] == before[name]["metadata"]["uid"] for name in before]
    assert same == [strategy == "AllAtOnce"] * 3
    assert stack.preview() == {}
    stack.write(service(namespace, role(tag="3", behaviour="unpullable"),
                        rollout={**rollout, "timeout": "15s"}))  # fmt: skip
    started = time.monotonic()
    assert stack.up().status != 0
    assert time.monotonic() - started < 90, "an update has wait.timeout, which is 150s"
    assert ready(cluster, namespace) == {"serve": 0}
    stack.write(service(namespace, role(tag="4"), rollout=rollout))
    stack.up().assert_fine()
    assert ready(cluster, namespace) == {"serve": 3}


@pytest.mark.proves(
    "status is an output after up, preview and refresh, also for other stacks", needs=ENGINE
)
def test_status(cluster: Cluster, namespace: str, project: Make) -> None:
    cluster.add_nodes(2)
    stack = project("first")
    stack.write(service(namespace, role(replicas=2)))
    stack.up().assert_fine()
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
    stack.write(service(namespace, role(replicas=2, tag="2", behaviour="slow")))
    stack.up().assert_fine()
    assert stack.output("status")["components"] == {"serve": wanted}
    stack.refresh().assert_fine()
    assert stack.preview() == {}
    stack.up().assert_fine()
    assert stack.output("status")["components"] == {"serve": wanted}
    # A preview knows it as well: as it is, not as it was asked of the cluster just now.
    export = 'pulumi.export("status", service.status)'
    seen = stack.folder / "seen.json"
    keep = "service.status.apply(lambda known: Path('seen.json').write_text(json.dumps(known)))"
    text = PROGRAM.replace("import os\n", "import json\nimport os\n")
    text = text.replace(export, f"{export}\n    {keep}")
    (stack.folder / "__main__.py").write_text(text, encoding="utf-8")
    for tag in ("2", "3"):
        stack.write(service(namespace, role(replicas=2, tag=tag, behaviour="slow")))
        assert stack.preview() == ({} if tag == "2" else {"update": 2})
        assert json.loads(seen.read_text(encoding="utf-8"))["components"] == {"serve": wanted}
        seen.unlink()
    stack.write(service(namespace, role(replicas=2, tag="2", behaviour="slow")))
    reader = project("second", backend=stack.state)
    (reader.folder / "__main__.py").write_text(
        "import pulumi\n"
        f"other = pulumi.StackReference('organization/{stack.folder.name}/dev')\n"
        "pulumi.export('seen', other.require_output('status'))\n",
        encoding="utf-8",
    )
    reader.up().assert_fine()
    assert reader.output("seen") == stack.output("status")
    # A pod that goes is seen by a refresh, and told by the update after it.
    cluster.remove_nodes([each["metadata"]["name"] for each in cluster.list("v1/Node")])
    cluster.wait(lambda: ready(cluster, namespace) == {"serve": 0}, 60, "pods to go")
    time.sleep(2)
    stack.refresh().assert_fine()
    stack.run("up", "--yes", "--skip-preview").assert_fine()
    assert stack.output("status")["components"]["serve"]["readyReplicas"] == 0


@pytest.mark.proves("Secrets in a template never appear in the state in plain text", needs=ENGINE)
def test_secrets(cluster: Cluster, namespace: str, project: Make) -> None:
    cluster.add_nodes(1)
    stack = project()
    hidden = role(replicas=1)
    hidden["template"]["spec"]["containers"][0]["env"] = [{"name": "TOKEN", "value": "secret"}]
    stack.write(service(namespace, hidden))
    stack.up().assert_fine()
    live = json.dumps(lws(cluster, namespace)["svc-serve-0"]["spec"])
    assert "s3cr3t-value" in live
    assert "s3cr3t-value" not in json.dumps(stack.json("stack", "export"))
    assert "s3cr3t-value" not in stack.run("stack", "output", "--json").text


@pytest.mark.proves("Two stacks share one namespace", needs=ENGINE)
def test_two_stacks(cluster: Cluster, namespace: str, project: Make) -> None:
    cluster.add_nodes(2)
    one, two = project("one"), project("two")
    one.write(service(namespace, role(replicas=1), name="one"))
    two.write(service(namespace, role(replicas=1), name="two"))
    one.up().assert_fine()
    two.up().assert_fine()
    assert one.preview() == two.preview() == {}
    one.down().assert_fine()
    assert left(cluster, namespace) == ["LeaderWorkerSet/two-serve-0", "Service/two"]


@pytest.mark.core
@pytest.mark.proves(
    "A service registers exactly the objects that `render` prints",
    needs=ENGINE,
)
def test_one_resource_for_each_object(tmp_path: Path) -> None:
    stack = Project(tmp_path / "all", None)
    wanted: list[dict[str, Any]] = []
    for level in ("None", "Scheduled", "Available", "Serving"):
        for layout in ("PerReplica", "PerRole"):
            for more in ({}, {"groups": 2}, {"router": True}):
                roles = [router()] if "router" in more else []
                name = f"s{len(wanted)}"
                made = service("default", *roles, role(replicas=2, gpus=1, **SPREAD), name=name)
                groups = {"groups": 2} if "groups" in more else {}
                made["spec"] |= {"layout": layout, "wait": {"level": level}, **groups}
                wanted.append(made)
    stack.write(*wanted)
    steps = stack.json("preview", "--json", KUBECONFIG=str(tmp_path / "none"))["steps"]
    registered = noted([step["newState"] for step in steps])
    assert registered == sorted(name for each in wanted for name in rendered(each))


@pytest.mark.core
@pytest.mark.proves("A preview needs no cluster", needs=ENGINE)
def test_preview_without_a_cluster(tmp_path: Path) -> None:
    stack = Project(tmp_path / "alone", None)
    stack.write(service("default", role()))
    assert stack.preview(KUBECONFIG=str(tmp_path / "none")) == {"create": 6}


@pytest.mark.core
@pytest.mark.proves(
    "The provider's render-to-directory mode writes what `render` prints", needs=ENGINE
)
def test_files(tmp_path: Path) -> None:
    stack = Project(tmp_path / "files", None)
    wanted = service("default", role(replicas=2, **SPREAD), role("other", replicas=1))
    stack.write(wanted)
    stack.up(RENDER_TO=str(tmp_path / "out")).assert_fine()
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
