"""A service whose gang backend a cluster lacks, and what is proposed instead."""

from __future__ import annotations

from typing import Any

import pytest
from samples import plan_of, prefill_decode, role, service

from fusioninfer_pulumi.checks.gang_backends import KUEUE_FRAMEWORK, gang_backend_findings

Manifest = dict[str, Any]
KUEUE = {"schedulingStrategy": {"queue": "team", "gangPolicy": {"backend": "Kueue"}}}
CONFIG = "apiVersion: config.kueue.x-k8s.io/v1beta2\nintegrations: {{frameworks: [{}]}}"


def group(name: str) -> Manifest:
    """A group, `NAME/VERSION` with one more version."""
    name, _, more = name.partition("/")
    preferred = {"version": "v1beta2"}
    versions = [preferred, *([{"version": more}] if more else [])]
    return {"name": name, "preferredVersion": preferred, "versions": versions}


class FakeApi:
    """A cluster that serves some API groups; None where rights are missing."""

    def __init__(self, *groups: str, queues: Any = ("team",), frameworks: Any = None) -> None:
        self.groups, self.queues, self.frameworks = groups, queues, frameworks

    def request(self, method: str, path: str) -> tuple[int, Manifest]:
        assert method == "GET"
        if path == "/apis":
            return 200, {"groups": [group(name) for name in self.groups]}
        if path.endswith("/localqueues"):
            assert path == "/apis/kueue.x-k8s.io/v1beta2/namespaces/default/localqueues"
            if self.queues is None:
                return 403, {}
            return 200, {"items": [{"metadata": {"name": name}} for name in self.queues]}
        assert path == "/api/v1/namespaces/kueue-system/configmaps"
        if self.frameworks is None:
            return 403, {}
        return 200, {"items": [{"data": {"a": CONFIG.format(", ".join(self.frameworks))}}]}


def said(manifest: Manifest, *groups: str, **more: Any) -> list[str]:
    """What is said of a service."""
    api: Any = FakeApi(*groups, **more)
    (findings,) = gang_backend_findings(api, [plan_of(manifest)], "default")
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
    for queues, end in (((), ""), (("b", "a"), "; it has a, b")):
        assert said(manifest, QUEUES, queues=queues) == [
            (
                "warning: schedulingStrategy.queue: the namespace has no LocalQueue team: no "
                f"replica is admitted without it{end}"
            )
        ]
    assert said(manifest, QUEUES, queues=None) == []


def test_services_share_what_is_read() -> None:
    api: Any = FakeApi(QUEUES, frameworks=[KUEUE_FRAMEWORK])
    paths: list[str] = []
    answer = api.request

    def request(method: str, path: str) -> tuple[int, Manifest]:
        paths.append(path)
        return answer(method, path)

    api.request = request
    plans = [plan_of(service(role())), plan_of(prefill_decode()), plan_of(prefill_decode(**KUEUE))]
    single, without, queued = gang_backend_findings(api, plans, "default")
    assert (single, queued) == ((), ())
    assert "does not have Volcano" in str(*without)
    assert len(paths) == len(set(paths)) == 3
