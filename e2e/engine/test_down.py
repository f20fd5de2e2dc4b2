"""Updates of a service of which a replica is down for another reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from e2e.engine.project import ENGINE, PROGRAM, Project
from e2e.engine.services import images, lowest, pods, ready, role, service
from e2e.harness import Cluster

Make = Callable[..., Project]


def hold_down(cluster: Cluster, namespace: str, pod: str) -> None:
    """Has a pod stay as it is, but not ready."""
    down = [{"type": each, "status": "False"} for each in ("Ready", "ContainersReady")]
    status = {"status": {"conditions": down}}
    cluster.patch("v1/Pod", pod, status, namespace, subresource="status")

    def seen() -> bool:
        name = pod.rpartition("-")[0]
        found = cluster.get("leaderworkerset.x-k8s.io/v1/LeaderWorkerSet", name, namespace)
        conditions = {
            condition["type"]: condition["status"] for condition in found["status"]["conditions"]
        }
        return bool(conditions["Available"] != "True")

    cluster.wait(seen, 30, f"{pod} to count as down")


#: The program of the other tests with a provider of its own, whose kubeconfig is a secret.
EXPLICIT = PROGRAM.replace(
    "options = None\n",
    """import pulumi_kubernetes
config = pulumi.Output.secret(Path("cluster.yaml").read_text())
provider = pulumi_kubernetes.Provider("east", kubeconfig=config)
options = pulumi.ResourceOptions(provider=provider)
""",
)


@pytest.mark.core
@pytest.mark.parametrize("provider", ["default", "explicit"])
@pytest.mark.proves(
    "Unavailable replicas update first; others wait until they are back",
    needs=ENGINE,
)
def test_what_is_down_changes_first(
    cluster: Cluster, namespace: str, project: Make, provider: str
) -> None:
    cluster.add_nodes(2)
    stack = project()
    if provider == "explicit":
        config = cluster.kubeconfig.read_text(encoding="utf-8")
        (stack.folder / "cluster.yaml").write_text(config, encoding="utf-8")
        (stack.folder / "__main__.py").write_text(EXPLICIT, encoding="utf-8")
        del stack.environment["KUBECONFIG"]
    stack.write(service(namespace, role(replicas=4)))
    stack.up().assert_fine()
    hold_down(cluster, namespace, "svc-serve-1-0")
    assert ready(cluster, namespace) == {"serve": 3}
    # Nothing changes, so nobody looks.
    stack.up().assert_fine()
    stack.write(service(namespace, role(replicas=4, tag="2", behaviour="slow")))
    with lowest(cluster, namespace) as least:
        stack.up().assert_fine()
    assert least["serve"] == 3, least
    assert ready(cluster, namespace) == {"serve": 4}
    assert set(images(cluster, namespace).values()) == {"2"}
    assert stack.preview() == {}


@pytest.mark.proves(
    "A replica that stays unavailable counts against maxUnavailable until rollout.timeout",
    needs=ENGINE,
)
def test_what_stays_down_takes_its_place(cluster: Cluster, namespace: str, project: Make) -> None:
    cluster.add_nodes(2)
    stack = project()
    held: dict[str, Any] = {"timeout": "12s", "partition": 1}
    stack.write(service(namespace, role(replicas=4), rollout=held))
    stack.up().assert_fine()
    hold_down(cluster, namespace, "svc-serve-0-0")
    before = pods(cluster, namespace)
    stack.write(service(namespace, role(replicas=4, tag="2", behaviour="slow"), rollout=held))
    told = stack.up()
    assert told.status != 0
    assert "svc: no replica of role serve may change: svc-serve-0 not available, and" in told.text
    assert "pod svc-serve-0-0: phase Running, not ready" in told.text
    assert "Traceback" not in told.text
    assert pods(cluster, namespace) == before
    assert set(images(cluster, namespace).values()) == {"1"}
    held |= {"maxUnavailable": 2, "timeout": "150s"}
    stack.write(service(namespace, role(replicas=4, tag="2", behaviour="slow"), rollout=held))
    with lowest(cluster, namespace) as least:
        stack.up().assert_fine()
    assert least["serve"] == 2, least
    assert images(cluster, namespace) == {
        **{f"svc-serve-{index}": "2" for index in (1, 2, 3)},
        "svc-serve-0": "1",
    }
    assert stack.preview() == {}


@pytest.mark.proves(
    "After a halted update, the same program continues once the replica is back",
    needs=ENGINE,
)
def test_the_same_update_again(cluster: Cluster, namespace: str, project: Make) -> None:
    cluster.add_nodes(2)
    stack = project()
    stack.write(service(namespace, role()))
    stack.up().assert_fine()
    late = role(tag="2", behaviour="slow", delay="15s")
    stack.write(service(namespace, late, rollout={"timeout": "4s"}))
    assert stack.up().status != 0
    assert sorted(images(cluster, namespace).values()) == ["1", "1", "2"]
    stack.write(service(namespace, late))
    with lowest(cluster, namespace) as least:
        stack.up().assert_fine()
    assert least["serve"] == 2, least
    assert set(images(cluster, namespace).values()) == {"2"}
    assert stack.preview() == {}
