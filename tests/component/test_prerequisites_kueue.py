"""What a service that waits in Kueue's queue needs of a cluster."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from samples import container, template

from fusioninfer_pulumi import plan_service
from fusioninfer_pulumi.api import InferenceServiceArgs
from fusioninfer_pulumi.checks.gang_backends import KUEUE_FRAMEWORK
from fusioninfer_pulumi.component.prerequisites import _table as table
from fusioninfer_pulumi.component.prerequisites._check import check, named_objects, needs
from fusioninfer_pulumi.component.prerequisites._read import ClusterFacts, Definition, _Reader

GPU = template(container(gpus="1"))
QUEUED = {"queue": "team", "gangPolicy": {"backend": "Kueue"}}
TEAM = table.NamedObject(table.LOCAL_QUEUE, "inference", "team")
FOUND = {table.KUEUE.definition: Definition({"v1beta2": {}})}
MANAGED = frozenset({KUEUE_FRAMEWORK})
CONFIG = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"


def plan(strategy: Any = None, nodes: int = 2) -> Any:
    role = {"name": "serve", "componentType": "worker", "template": GPU}
    spec = {"roles": [{**role, "multinode": {"nodeCount": nodes}}], "namespace": "inference"}
    return plan_service(
        InferenceServiceArgs.model_validate(
            {**spec, **({"schedulingStrategy": strategy} if strategy else {})}
        ),
        "qwen",
    )


def told(*given: Any, **facts: Any) -> list[str]:
    known = ClusterFacts(**{"definitions": FOUND, "releases": {"Kueue": (0, 15, 2)}, **facts})
    return [str(each) for each in check(list(given), known)]


def test_kueue_is_needed_and_volcano_is_not() -> None:
    assert [row.product for row in needs([plan(QUEUED)])] == ["LeaderWorkerSet", "Kueue"]
    assert named_objects([plan(QUEUED), plan()]) == {TEAM: ["qwen"]}


def test_a_good_cluster_passes() -> None:
    assert told(plan(QUEUED), kueue_frameworks=MANAGED, named={TEAM: True}) == []


def test_what_kueue_lacks_is_said() -> None:
    (problem,) = told(plan(QUEUED), kueue_frameworks=frozenset({"batch/job"}))
    assert problem == (
        "Kueue: it does not manage LeaderWorkerSets, and pods of qwen would start one by one "
        "beside its queues; add leaderworkerset.x-k8s.io/leaderworkerset to "
        "integrations.frameworks in its configuration and restart its manager"
    )
    (unknown,) = told(plan(QUEUED))
    assert unknown.startswith("warning: Kueue: whether it manages LeaderWorkerSets was not checked")
    (missing,) = told(plan(QUEUED), kueue_frameworks=MANAGED, named={TEAM: False})
    assert missing == (
        "warning: Kueue: there is no LocalQueue team in inference; qwen needs it: no replica is "
        "admitted without it; create it, unless this program does first"
    )
    (old,) = told(plan(QUEUED), kueue_frameworks=MANAGED, releases={"Kueue": (0, 10, 4)})
    assert old.startswith("Kueue: v0.10.4 is installed; qwen needs v0.11.0 or later")


@pytest.mark.parametrize(
    ("strategy", "row", "group", "end"),
    [
        (
            QUEUED,
            table.KUEUE,
            "scheduling.volcano.sh",
            "the cluster has another: gangPolicy.backend: Volcano",
        ),
        (
            None,
            table.ALL_OR_NOTHING,
            "kueue.x-k8s.io",
            "the cluster has another: gangPolicy.backend: Kueue with queue: a or b",
        ),
    ],
)
def test_the_backend_that_a_cluster_has_is_proposed(
    strategy: Any, row: Any, group: str, end: str
) -> None:
    missing = {row.definition: None}
    apis = {group: frozenset({"v1"})}
    queues = {"inference": frozenset({"b", "a"})}
    lacks = told(plan(strategy), definitions=missing, apis=apis, lws_provider="", queues=queues)
    assert next(text for text in lacks if "is not installed" in text).endswith(f"; {end}")
    lacks = told(plan(strategy), definitions=missing, apis={}, lws_provider="")
    assert end not in lacks[0]


def test_kueue_is_proposed_where_it_can_do_what_is_asked() -> None:
    missing = {table.ALL_OR_NOTHING.definition: None}
    apis = {"kueue.x-k8s.io": frozenset({"v1"})}

    def end(*given: Any, **facts: Any) -> str:
        known = {"definitions": missing, "apis": apis, "lws_provider": "", **facts}
        return told(*given, **known)[0].rpartition("; ")[2]

    none = "gangPolicy.backend: Kueue with queue: a LocalQueue, of which the namespace has none"
    assert end(plan()) == f"the cluster has another: {none}"
    unmanaged = frozenset({"batch/job"})
    assert end(plan(), kueue_frameworks=unmanaged) == (
        "Kueue is there, but does not manage LeaderWorkerSets"
    )
    partial = plan({"gangPolicy": {"minRoleReplicas": {"serve": 1}}})
    topology = plan({"gangPolicy": {"networkTopology": {"groupPolicy": {"mode": "soft"}}}})
    for only_volcano in (partial, topology):
        assert "Kueue" not in end(only_volcano)


@pytest.mark.parametrize(
    ("texts", "frameworks"),
    [
        ([CONFIG], frozenset()),
        ([f"{CONFIG}integrations:\n  frameworks: [batch/job]\n"], {"batch/job"}),
        ([f"{CONFIG}integrations:\n  frameworks: [{KUEUE_FRAMEWORK}]\n"], MANAGED),
        ([f"{CONFIG}integrations: other\n"], None),
        (["kind: Values"], None),
    ],
)
def test_the_frameworks_of_the_manager(texts: list[str], frameworks: Any) -> None:
    listed = {"items": [{"data": {"a.yaml": text}} for text in texts]}
    core = SimpleNamespace(list_namespaced_config_map=None)
    client = SimpleNamespace(CoreV1Api=lambda _: core)
    api: Any = SimpleNamespace(client=client, connection=None, get=lambda *_: listed)
    assert _Reader(api).kueue_frameworks("kueue-system") == frameworks
