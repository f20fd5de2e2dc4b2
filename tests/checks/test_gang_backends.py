"""A service whose gang backend a cluster lacks, and what is proposed instead."""

from __future__ import annotations

from typing import Any

import pytest
from clusters import FakeCluster, stored
from samples import plan_of, prefill_decode, role, service

from fusioninfer_pulumi.checks.cluster_checks import KUEUE_FRAMEWORK, check_gang_backends

Manifest = dict[str, Any]
KUEUE = {"schedulingStrategy": {"queue": "team", "gangPolicy": {"backend": "Kueue"}}}
CONFIG = "apiVersion: config.kueue.x-k8s.io/v1beta2\nintegrations: {{frameworks: [{}]}}"


def cluster(*groups: str, queues: Any = ("team",), frameworks: Any = None) -> FakeCluster:
    """A cluster that serves some API groups, `NAME/VERSION` with one more version."""
    backends = {VOLCANO, QUEUES, "scheduling.k8s.io"}
    data = {"a": CONFIG.format(", ".join(frameworks or ()))}
    api = "kueue.x-k8s.io/v1beta2"
    return FakeCluster(
        *(stored(api, "LocalQueue", name, "default") for name in queues or ()),
        *([stored("v1", "ConfigMap", "config", "kueue-system", data=data)] if frameworks else ()),
        without=backends - {name.partition("/")[0] for name in groups},
        more=[(name, "PodGroup") for name in groups if "/" in name],
        denied=["/localqueues"] if queues is None else (),
    )


def said(manifest: Manifest, *groups: str, **more: Any) -> list[str]:
    """The findings about a service."""
    (findings,) = check_gang_backends(cluster(*groups, **more), [plan_of(manifest)], "default")
    return [str(finding) for finding in findings]


VOLCANO, QUEUES = "scheduling.volcano.sh", "kueue.x-k8s.io"
AT = "schedulingStrategy.gangPolicy.backend"


@pytest.mark.parametrize(
    ("manifest", "groups"),
    [
        (prefill_decode(), [VOLCANO]),
        (prefill_decode(**KUEUE), [QUEUES]),
        (service(role()), ["apps"]),
        # The same program may install it first; the objects' dry run says that the kind is missing.
        (prefill_decode(), ["apps"]),
        (prefill_decode(), []),
    ],
)
def test_nothing_is_said_of_a_backend_that_is_there_or_may_be_soon(
    manifest: Manifest, groups: list[str]
) -> None:
    assert said(manifest, *groups, frameworks=[KUEUE_FRAMEWORK]) == []


def test_the_other_backend_is_proposed() -> None:
    text = f"{AT}: the cluster does not have"
    assert said(prefill_decode(**KUEUE), VOLCANO) == [
        f"{text} Kueue, but another one: gangPolicy.backend: Volcano"
    ]
    assert said(prefill_decode(), QUEUES, queues=("b", "a")) == [
        f"{text} Volcano, but another one: gangPolicy.backend: Kueue with queue: a or b"
    ]
    for queues in ((), None):
        (line,) = said(prefill_decode(), QUEUES, queues=queues)
        assert line.endswith("with queue: a LocalQueue, of which the namespace has none")
    # Kueue is no way out where it cannot do what is asked, or does nothing for LeaderWorkerSets.
    minimum = {"schedulingStrategy": {"gangPolicy": {"minRoleReplicas": {"decode": 1}}}}
    assert said(prefill_decode(**minimum), QUEUES) == []
    assert said(prefill_decode(), QUEUES, frameworks=["batch/job"]) == []


def test_gangs_of_kubernetes_are_the_last_to_be_proposed() -> None:
    native, plain = "scheduling.k8s.io/v1beta1", "scheduling.k8s.io"
    strategy = {"schedulingStrategy": {"gangPolicy": {"backend": "Native"}}}
    assert said(prefill_decode(**strategy), native) == []
    (line,) = said(prefill_decode(), native)
    assert line.endswith("Volcano, but another one: gangPolicy.backend: Native")
    (line,) = said(prefill_decode(), native, QUEUES)
    assert line.endswith("gangPolicy.backend: Kueue with queue: team")
    # Every cluster has the group, for PriorityClasses.
    assert said(prefill_decode(), plain) == []
    (line,) = said(prefill_decode(**strategy), plain, VOLCANO)
    assert line.endswith("does not have Native, but another one: gangPolicy.backend: Volcano")


def test_what_kueue_lacks_is_said() -> None:
    manifest = prefill_decode(**KUEUE)
    assert said(manifest, "apps") == [
        (
            f"warning: {AT}: the cluster does not have Kueue: without it pods start one by one, in "
            "no queue"
        )
    ]
    (line,) = said(manifest, QUEUES, frameworks=["batch/job"])
    assert line.startswith(f"{AT}: Kueue does not manage LeaderWorkerSets here")


def test_services_share_what_is_read() -> None:
    api = cluster(QUEUES, frameworks=[KUEUE_FRAMEWORK])
    plans = [plan_of(service(role())), plan_of(prefill_decode()), plan_of(prefill_decode(**KUEUE))]
    single, without, queued = check_gang_backends(api, plans, "default")
    assert (single, queued) == ((), ())
    assert "does not have Volcano" in str(*without)
    assert len(api.requests) == len(set(api.requests))
