"""Previews check the service's objects and their pods on the API server."""

from __future__ import annotations

from typing import Any

import pulumi
import pytest
from clusters import FakeCluster
from component.services import CAMEL

from fusioninfer_pulumi import InferenceService
from fusioninfer_pulumi.checks import cluster_checks
from fusioninfer_pulumi.checks.live_cluster import ClusterFindings, LiveCluster
from fusioninfer_pulumi.checks.quota_checks import QUOTA_TOO_SMALL
from fusioninfer_pulumi.checks.server_dry_run import API_SERVER_CHECK_INCOMPLETE, API_SERVER_REJECTS
from fusioninfer_pulumi.component import cluster_access, server_check
from fusioninfer_pulumi.findings import Finding, error, warning
from fusioninfer_pulumi.kube.client import UnreadableError

AT = ("roles", 0, "template")
REJECTED = error(API_SERVER_REJECTS, AT, "the API server rejects the Pod of it")
DOUBTED = warning(API_SERVER_REJECTS, AT, "no PriorityClass")
UNASKED = warning(API_SERVER_CHECK_INCOMPLETE, (), "no rights")


class FakeServer:
    """Fake server checks that record calls and return `found` and `of_cluster`."""

    def __init__(self) -> None:
        self.found: tuple[Finding, ...] = ()
        self.of_cluster: tuple[Finding, ...] = ()
        self.problem: Exception | None = None
        self.calls: list[tuple[Any, ...]] = []

    def connect(self, kubeconfig: str | None, context: str | None) -> FakeCluster:
        self.calls.append((kubeconfig, context))
        return FakeCluster()

    def check(self, cluster: LiveCluster) -> ClusterFindings:
        (plan,) = cluster.plans
        self.calls.append((plan.service, plan.namespace))
        if self.problem is not None:
            raise self.problem
        yield from ((plan, finding) for finding in self.found)
        yield from ((None, finding) for finding in self.of_cluster)


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> FakeServer:
    """Return the fake API server; the program runs as on a Pulumi engine."""
    result = FakeServer()
    monkeypatch.setattr(server_check, "has_pulumi_engine", lambda: True)
    monkeypatch.setattr(cluster_access, "KubernetesApi", result.connect)
    monkeypatch.setattr(cluster_checks, "PREVIEW_CHECKS", [result.check])
    return result


def previewed(engine: Any, *, preview: bool = True, **fields: Any) -> list[str]:
    """Return the messages that a preview logs."""
    value = {**CAMEL, **fields}
    logged: list[str] = engine.run(
        lambda: InferenceService("svc", value) and None, preview=preview
    ).logged
    return [item for item in logged if "API server" in item or "PriorityClass" in item]


def test_preview_queries_cluster_of_program(engine: Any, requests: FakeServer) -> None:
    assert previewed(engine) == []
    assert requests.calls == [(None, None), ("svc", "default")]


def test_update_does_not_query_server(engine: Any, requests: FakeServer) -> None:
    previewed(engine, preview=False)
    assert requests.calls == []


def test_mocks_do_not_query_server(
    engine: Any, requests: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_check, "has_pulumi_engine", lambda: False)
    previewed(engine)
    assert requests.calls == []


def test_rejected_object_fails_preview(engine: Any, requests: FakeServer) -> None:
    requests.found = (REJECTED, DOUBTED)
    with pytest.raises(pulumi.RunError, match=r"^svc: roles\[0\].template: the API server rejects"):
        previewed(engine)


def test_warnings_of_server_are_logged(engine: Any, requests: FakeServer) -> None:
    requests.found, requests.of_cluster = (DOUBTED,), (UNASKED,)
    assert previewed(engine) == [
        "warning: roles[0].template: no PriorityClass [api-server-rejects]"
    ]


def test_small_quota_is_logged(engine: Any, requests: FakeServer) -> None:
    requests.found = (warning(QUOTA_TOO_SMALL, (), "allows 1: the API server creates no more"),)
    assert previewed(engine) == [
        "warning: allows 1: the API server creates no more [quota-too-small]"
    ]


def test_warnings_can_be_ignored(engine: Any, requests: FakeServer) -> None:
    requests.found = (DOUBTED,)
    annotations = {"fusioninfer.io/ignore-rules": "api-server-rejects"}
    assert previewed(engine, annotations=annotations) == []


@pytest.mark.parametrize("problem", [UnreadableError("it does not answer"), KeyError("x")])
def test_unreadable_cluster_does_not_fail_preview(
    engine: Any, requests: FakeServer, problem: Exception
) -> None:
    requests.problem = problem
    assert previewed(engine) == []
    assert len(requests.calls) == 2


def test_provider_without_known_kubeconfig_is_skipped(
    engine: Any, requests: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The update creates that cluster first; the default kubeconfig is of another cluster."""

    async def state(provider: Any) -> Any:
        return known

    monkeypatch.setattr("fusioninfer_pulumi.component.cluster_access.read_provider_state", state)
    monkeypatch.setattr("fusioninfer_pulumi.component.pulumi_sdk.read_provider_state", state)

    def program() -> None:
        import pulumi_kubernetes  # noqa: PLC0415  # takes seconds

        provider = pulumi_kubernetes.Provider("new")
        InferenceService("svc", CAMEL, pulumi.ResourceOptions(provider=provider))

    known: dict[str, Any] = {}
    engine.run(program, preview=True)
    assert requests.calls == []
    known = {"context": "staging"}
    engine.run(program, preview=True)
    assert requests.calls[0] == (None, "staging")
