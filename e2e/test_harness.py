"""The harness itself: each promise that the other end-to-end tests build on, shown once."""

from __future__ import annotations

import os
import time
from datetime import datetime
from pathlib import Path

import pytest

from e2e import objects
from e2e.harness import ApiError, Cluster, Object
from e2e.harness.pods import is_ready
from e2e.harness.stages import BEHAVIOUR, CRASHING, DELAY, FAILING, SLOW, UNPULLABLE


def test_cluster_starts_within_15_seconds(cluster: Cluster) -> None:
    # Five to seven on two idle cores. What else runs on them meanwhile is not the harness's fault.
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    assert cluster.startup_seconds < 15 * max(1.0, load)
    cluster.programs.check()


def test_volcano_binds_whole_gangs(cluster: Cluster, namespace: str) -> None:
    cluster.add_nodes(1)
    cluster.apply(objects.gang("gang", pods=2, gpus=8), namespace=namespace)
    time.sleep(1.5)  # several scheduling periods, in which one pod would have had room
    assert cluster.bound(namespace) == []

    cluster.add_nodes(1)

    cluster.wait(lambda: len(cluster.bound(namespace)) == 2, message="both pods of the gang bound")


def test_nodes_have_given_labels_taints_and_accelerators(cluster: Cluster, namespace: str) -> None:
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


def test_pods_follow_their_behaviour_annotation(cluster: Cluster, namespace: str) -> None:
    cluster.add_nodes(1)
    behaviours = {
        "ready": {},
        "slow": {BEHAVIOUR: SLOW, DELAY: "3s"},
        "failing": {BEHAVIOUR: FAILING},
        "crashing": {BEHAVIOUR: CRASHING},
        "unpullable": {BEHAVIOUR: UNPULLABLE},
    }
    pods = [objects.pod(name, annotations=given) for name, given in behaviours.items()]
    cluster.apply(pods, namespace=namespace)

    def read(name: str) -> Object:
        return cluster.get("v1/Pod", name, namespace)

    def container(name: str) -> Object:
        return dict(read(name)["status"].get("containerStatuses", [{}])[0])

    for name in ("ready", "slow"):
        cluster.wait(lambda: is_ready(read(name)), message=lambda: read(name))  # noqa: B023  # waited for
    # Read from the pod: on a busy machine three seconds pass between two readings.
    (ready,) = [each for each in read("slow")["status"]["conditions"] if each["type"] == "Ready"]
    times = (read("slow")["metadata"]["creationTimestamp"], ready["lastTransitionTime"])
    created, changed = (datetime.fromisoformat(each.replace("Z", "+00:00")) for each in times)
    assert (changed - created).total_seconds() >= 2
    cluster.wait(lambda: read("failing")["status"]["phase"] == "Failed")
    cluster.wait(lambda: container("crashing").get("restartCount") == 1)
    assert not is_ready(read("crashing"))
    assert container("crashing")["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    cluster.wait(lambda: container("unpullable"))
    assert container("unpullable")["state"]["waiting"]["reason"] == "ImagePullBackOff"
    cluster.patch(
        "v1/Pod", "ready", {"metadata": {"annotations": {BEHAVIOUR: CRASHING}}}, namespace
    )
    cluster.wait(lambda: not is_ready(read("ready")))


def test_strict_validation_rejects_unknown_fields(cluster: Cluster, namespace: str) -> None:
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
    with pytest.raises(ApiError, match="cannot list resource") as rejected:
        other.pods(namespace)
    assert rejected.value.status == 403


def test_kind_of_several_groups_needs_its_group(cluster: Cluster) -> None:
    assert cluster.resource("Pod").api_version == "v1"
    assert cluster.resource("PodGroup").api_version == "scheduling.volcano.sh/v1beta1"
    with pytest.raises(LookupError, match="no kind Unknown"):
        cluster.resource("Unknown")


def test_kubeconfigs_are_readable_by_their_owner_only(cluster: Cluster) -> None:
    for path in (cluster.kubeconfig, cluster.kubeconfig_for("someone")):
        assert Path(path).stat().st_mode & 0o077 == 0


def test_wait_timeout_has_message_and_last_value(cluster: Cluster) -> None:
    with pytest.raises(TimeoutError, match=r"the story \(last seen: \[\]\)"):
        cluster.wait(lambda: cluster.pods("default"), 0.2, lambda: "the story")
