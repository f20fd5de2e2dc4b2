"""Services whose gang backend is missing from the cluster."""

from __future__ import annotations

from typing import Any

from clusters import FakeCluster, stored
from rows import each_row
from samples import plan_of, prefill_decode, role, service

from fusioninfer_pulumi.checks.live_cluster import KUEUE_FRAMEWORK, LiveCluster
from fusioninfer_pulumi.checks.prerequisite_checks import check_gang_backends

VOLCANO, KUEUE = "scheduling.volcano.sh", "kueue.x-k8s.io"
#: Every cluster has the API group, because it contains PriorityClass.
NATIVE, NO_GANGS = "scheduling.k8s.io/v1beta1", "scheduling.k8s.io"
GANG = prefill_decode()
QUEUED = prefill_decode(schedulingStrategy={"queue": "team", "gangPolicy": {"backend": "Kueue"}})
OWN_GANG = prefill_decode(schedulingStrategy={"gangPolicy": {"backend": "Native"}})
CONFIG = "apiVersion: config.kueue.x-k8s.io/v1beta2\nintegrations: {{frameworks: [{}]}}"


def cluster(*groups: str, framework: str = KUEUE_FRAMEWORK) -> FakeCluster:
    """Return a cluster with these API groups; `NAME/VERSION` adds a version."""
    config = {"a": CONFIG.format(framework)}
    return FakeCluster(
        stored("v1", "ConfigMap", "config", "kueue-system", data=config),
        without={VOLCANO, KUEUE, NO_GANGS} - {name.partition("/")[0] for name in groups},
        more=[(name, "PodGroup") for name in groups if "/" in name],
    )


@each_row(
    ("manifest", "groups", "expected"),
    [
        (GANG, [VOLCANO], None),
        (QUEUED, [KUEUE], None),
        (OWN_GANG, [NATIVE], None),
        (service(role()), ["apps"], None),
        # The program may install the backend first; dry runs report the missing kind.
        (GANG, ["apps"], None),
        (GANG, [], None),
        (GANG, [NO_GANGS], None),
        (QUEUED, [VOLCANO], "does not have Kueue; install it, or use backend Volcano"),
        (GANG, [KUEUE], "does not have Volcano; install it, or use backend Kueue"),
        (
            GANG,
            [NATIVE, KUEUE],
            "does not have Volcano; install it, or use backend Kueue or Native",
        ),
        (OWN_GANG, [NO_GANGS, VOLCANO], "does not have Native; install it, or use backend Volcano"),
        (QUEUED, ["apps"], None),
    ],
)
def test_missing_backend_is_reported(
    manifest: Any, groups: list[str], expected: str | None
) -> None:
    live = LiveCluster(cluster(*groups), [plan_of(manifest)])
    findings = [finding for _, finding in check_gang_backends(live)]
    text = f"schedulingStrategy.gangPolicy.backend: the cluster {expected}"
    assert list(map(str, findings)) == ([] if expected is None else [text])


def test_kueue_without_leader_worker_sets_is_reported() -> None:
    api = cluster(KUEUE, framework="batch/job")
    live = LiveCluster(api, [plan_of(GANG), plan_of(QUEUED)])
    # Kueue is not proposed where it ignores LeaderWorkerSets.
    ((plan, finding),) = check_gang_backends(live)
    assert plan is live.plans[1]
    assert "backend: Kueue does not manage LeaderWorkerSets here" in str(finding)
    assert len(api.requests) == len(set(api.requests))
