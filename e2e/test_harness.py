"""The harness itself: each promise that the other end-to-end tests build on, shown once."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TypeVar

import pytest

from e2e import objects
from e2e.harness import ApiError, Cluster, Object
from e2e.harness.stages import BEHAVIOUR, CRASHING, DELAY, FAILING, SLOW, UNPULLABLE

T = TypeVar("T")


def test_is_up_within_15_seconds(cluster: Cluster) -> None:
    # Five to seven on two idle cores. What else runs on them meanwhile is not the harness's fault.
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    assert cluster.startup_seconds < 15 * max(1.0, load)
    cluster.programs.check()


def test_lws_makes_the_pods_of_a_group_with_its_names_and_labels(
    cluster: Cluster, namespace: str
) -> None:
    cluster.add_nodes(2)
    (stored,) = cluster.apply([objects.leader_worker_set("lws", size=2)], namespace=namespace)
    # The mutating webhook's default, which a server without the webhook would not know.
    assert stored["spec"]["networkConfig"]["subdomainPolicy"] == "Shared"

    pods = cluster.wait(
        lambda: _if_count(cluster.pods(namespace, "leaderworkerset.sigs.k8s.io/name=lws"), 2),
        message=lambda: cluster.pods(namespace),
    )

    assert [pod["metadata"]["name"] for pod in pods] == ["lws-0", "lws-0-1"]
    indices = [
        pod["metadata"]["labels"]["leaderworkerset.sigs.k8s.io/worker-index"] for pod in pods
    ]
    assert indices == ["0", "1"]
    cluster.wait(
        lambda: cluster.get("LeaderWorkerSet", "lws", namespace)["status"].get("readyReplicas"),
        message=lambda: cluster.get("LeaderWorkerSet", "lws", namespace)["status"],
    )


def test_lws_webhook_refuses_what_its_schema_accepts(cluster: Cluster, namespace: str) -> None:
    too_few = objects.leader_worker_set("lws", size=2)
    too_few["spec"]["leaderWorkerTemplate"]["subGroupPolicy"] = {"subGroupSize": 3}
    with pytest.raises(ApiError, match="subGroupSize"):
        cluster.apply([too_few], namespace=namespace)


def test_volcano_binds_a_gang_only_as_a_whole(cluster: Cluster, namespace: str) -> None:
    cluster.add_nodes(1)
    cluster.apply(objects.gang("gang", pods=2, gpus=8), namespace=namespace)
    time.sleep(1.5)  # several scheduling periods, in which one pod would have had room
    assert cluster.bound(namespace) == []

    cluster.add_nodes(1)

    cluster.wait(lambda: len(cluster.bound(namespace)) == 2, message="both pods of the gang bound")


def test_the_default_scheduler_binds_other_pods(cluster: Cluster, namespace: str) -> None:
    (node,) = cluster.add_nodes(1, gpus=0)
    cluster.apply([objects.pod("alone")], namespace=namespace)
    bound = cluster.wait(lambda: cluster.bound(namespace), message="the pod bound")
    assert bound[0]["spec"]["nodeName"] == node


def test_nodes_have_the_labels_taints_and_accelerators_asked_for_and_go_again(
    cluster: Cluster, namespace: str
) -> None:
    taint = {"key": "reserved", "value": "yes", "effect": "NoSchedule"}
    names = cluster.add_nodes(
        2, gpus=4, accelerator="amd.com/gpu", labels={"rack": "r1"}, taints=[taint], prefix="amd"
    )
    nodes = [cluster.get("v1/Node", name) for name in names]
    assert [node["status"]["allocatable"]["amd.com/gpu"] for node in nodes] == ["4", "4"]
    assert [node["metadata"]["labels"]["rack"] for node in nodes] == ["r1", "r1"]
    assert [node["spec"]["taints"] for node in nodes] == [[taint], [taint]]

    (plain,) = cluster.add_nodes(1, gpus=0)
    cluster.apply([objects.pod("lost")], namespace=namespace)
    cluster.wait(lambda: cluster.bound(namespace), message="a pod on the node without a taint")
    cluster.remove_nodes([*names, plain])

    cluster.wait(lambda: not cluster.pods(namespace), message="pods of a lost node gone")
    assert not any(cluster.exists("v1/Node", name) for name in [*names, plain])


def test_pods_play_the_stage_that_they_name(cluster: Cluster, namespace: str) -> None:
    cluster.add_nodes(1)
    told = {
        "ready": {},
        "slow": {BEHAVIOUR: SLOW, DELAY: "2s"},
        "failing": {BEHAVIOUR: FAILING},
        "crashing": {BEHAVIOUR: CRASHING},
        "unpullable": {BEHAVIOUR: UNPULLABLE},
    }
    cluster.apply([objects.pod(name, annotations=told[name]) for name in told], namespace=namespace)

    def status(name: str) -> Object:
        found: Object = cluster.get("v1/Pod", name, namespace)["status"]
        return found

    def container(name: str) -> Object:
        return dict(status(name).get("containerStatuses", [{}])[0])

    cluster.wait(lambda: _is_ready(status("ready")), message=lambda: status("ready"))
    assert not _is_ready(status("slow"))
    cluster.wait(lambda: _is_ready(status("slow")), message=lambda: status("slow"))
    cluster.wait(lambda: status("failing")["phase"] == "Failed", message=lambda: status("failing"))
    cluster.wait(
        lambda: container("crashing").get("restartCount") == 1, message=lambda: status("crashing")
    )
    assert not _is_ready(status("crashing"))
    assert container("crashing")["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    cluster.wait(lambda: container("unpullable"), message=lambda: status("unpullable"))
    assert container("unpullable")["state"]["waiting"]["reason"] == "ImagePullBackOff"


def test_a_ready_pod_crashes_when_told_later(cluster: Cluster, namespace: str) -> None:
    cluster.add_nodes(1)
    cluster.apply([objects.pod("pod")], namespace=namespace)
    cluster.wait(lambda: _is_ready(cluster.get("v1/Pod", "pod", namespace)["status"]))
    told = {"metadata": {"annotations": {BEHAVIOUR: CRASHING}}}
    cluster.patch("v1/Pod", "pod", told, namespace)
    cluster.wait(lambda: not _is_ready(cluster.get("v1/Pod", "pod", namespace)["status"]))


def test_pods_have_loopback_addresses(cluster: Cluster, namespace: str) -> None:
    cluster.add_nodes(1)
    cluster.apply([objects.pod("one"), objects.pod("two")], namespace=namespace)
    addresses = cluster.wait(
        lambda: _if_count(
            [p["status"]["podIP"] for p in cluster.pods(namespace) if "podIP" in p["status"]], 2
        )
    )
    assert len(set(addresses)) == 2
    assert all(address.startswith("127.") for address in addresses)


def test_strict_validation_refuses_unknown_fields_of_custom_and_core_kinds(
    cluster: Cluster, namespace: str
) -> None:
    group = objects.gang("gang", pods=1, gpus=1)[0]
    group["spec"]["minMembers"] = 1
    account = objects.service_account("account") | {"tokens": 1}
    for manifest, field in ((group, "minMembers"), (account, "tokens")):
        with pytest.raises(ApiError, match=field):
            cluster.apply([manifest], namespace=namespace)
        with pytest.raises(ApiError, match=field):
            cluster.create(manifest, namespace=namespace)
        cluster.create(manifest, namespace=namespace, strict=False)


@pytest.mark.parametrize("subject", ["someone", "system:serviceaccount:{namespace}:default"])
def test_rbac_denies_what_was_not_granted(cluster: Cluster, namespace: str, subject: str) -> None:
    other = cluster.client_for(subject.format(namespace=namespace))
    with pytest.raises(ApiError, match="cannot list resource") as refused:
        other.pods(namespace)
    assert refused.value.status == 403


def test_a_kind_in_several_groups_has_to_be_told_apart(cluster: Cluster) -> None:
    assert cluster.resource("Pod").api_version == "v1"
    assert cluster.resource("PodGroup").api_version == "scheduling.volcano.sh/v1beta1"
    with pytest.raises(LookupError, match="no kind Unknown"):
        cluster.resource("Unknown")


def test_kubeconfigs_are_readable_by_their_owner_only(cluster: Cluster) -> None:
    for path in (cluster.kubeconfig, cluster.kubeconfig_for("someone")):
        assert Path(path).stat().st_mode & 0o077 == 0


def test_wait_says_how_things_stand_when_the_time_is_up(cluster: Cluster) -> None:
    with pytest.raises(TimeoutError, match=r"the story \(last seen: \[\]\)"):
        cluster.wait(lambda: cluster.pods("default"), 0.2, lambda: "the story")


def _is_ready(status: Object) -> bool:
    conditions = status.get("conditions", ())
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def _if_count(found: list[T], count: int) -> list[T]:
    return found if len(found) == count else []
