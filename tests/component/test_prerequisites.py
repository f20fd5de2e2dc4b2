"""ServingPrerequisites: the cluster that it reads, its warnings and its errors."""

from __future__ import annotations

from typing import Any

import pulumi
import pytest
from clusters import FakeCluster, stored
from pulumi.runtime.settings import SETTINGS, _get_rpc_manager
from pulumi_kubernetes import Provider

from fusioninfer_pulumi import (
    InferenceService,
    InvalidServiceError,
    ServingPrerequisites,
    ServingPrerequisitesArgs,
)
from fusioninfer_pulumi.component import serving_prerequisites
from fusioninfer_pulumi.component.pulumi_sdk import collected_services
from fusioninfer_pulumi.component.serving_prerequisites import TOKEN

UNCHECKED = "warning: the cluster's prerequisites were not checked: "
LWS = "leaderworkerset.x-k8s.io"


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return kubeconfigs and contexts of the clusters that are read; each has LeaderWorkerSet."""
    result: list[Any] = []

    def connect(kubeconfig: Any, context: Any) -> FakeCluster:
        result.append((kubeconfig, context))
        return cluster

    container = {"image": "registry.k8s.io/lws/lws:v0.9.1"}
    spec = {"template": {"spec": {"containers": [container]}}}
    cluster = FakeCluster(
        *(stored("apps/v1", "Deployment", "lws", name, spec=spec) for name in ("lws-system", "lws"))
    )
    monkeypatch.setattr(serving_prerequisites, "KubernetesApi", connect)
    return result


@pytest.fixture
def lacking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connect to a cluster without LeaderWorkerSet."""
    monkeypatch.setattr(
        serving_prerequisites, "KubernetesApi", lambda *_: FakeCluster(without=[LWS])
    )


@pytest.fixture
def service(story: Any) -> Any:
    return story(1)


def run(
    engine: Any, service: Any, options: Any = None, *, preview: bool = True, **more: Any
) -> Any:
    def program() -> dict[str, Any]:
        fields = {key: value() if callable(value) else value for key, value in more.items()}
        args = ServingPrerequisitesArgs(services=[service], **fields)
        result = ServingPrerequisites("needs", args, options() if options else None)
        return {"checked": result.checked, "releases": result.releases}

    return engine.run(program, preview=preview)


def test_type_token_is_unchanged(engine: Any, service: Any, calls: list[Any]) -> None:
    assert TOKEN == "fusioninfer:index:ServingPrerequisites"
    assert run(engine, service).keys == [(TOKEN, "needs")]


def test_valid_cluster_is_checked(engine: Any, service: Any, calls: list[Any]) -> None:
    done = run(engine, service, kubeconfig="~/.kube/a", context="east", lws_namespace="lws")
    assert done.exports == {"checked": True, "releases": {"LeaderWorkerSet": "v0.9.1"}}
    assert done.outputs[-1][1] == done.exports
    assert calls == [("~/.kube/a", "east")]
    assert not done.logged


def test_missing_prerequisite_fails_before_registration(
    engine: Any, service: Any, lacking: None
) -> None:

    def program() -> None:
        ServingPrerequisites("needs", {"services": [service]})
        InferenceService("app", service)

    with pytest.raises(InvalidServiceError, match=r"needs: .*LeaderWorkerSet: LeaderWorkerSet"):
        engine.run(program, preview=True)


def test_missing_prerequisite_fails_with_output_kubeconfig(
    engine: Any, service: Any, lacking: None
) -> None:
    with pytest.raises(InvalidServiceError, match="is not served"):
        run(engine, service, kubeconfig=lambda: pulumi.Output.from_input("a\nb"))
    # Otherwise the SDK would wait for the failed program's pending calls in the next test.
    _get_rpc_manager().clear()
    SETTINGS.outputs.clear()


def test_secret_kubeconfig_does_not_make_outputs_secret(
    engine: Any, service: Any, calls: list[Any]
) -> None:
    done = run(engine, service, kubeconfig=lambda: pulumi.Output.secret("apiVersion: v1\n"))
    assert calls[0][0] == "apiVersion: v1\n"
    assert done.outputs[-1][1] == {"checked": True, "releases": {"LeaderWorkerSet": "v0.9.1"}}


def test_unknown_kubeconfig_is_a_warning(engine: Any, service: Any, calls: list[Any]) -> None:
    def unknown() -> Any:
        return pulumi.Output.from_input(pulumi.output.UNKNOWN)

    done = run(engine, service, kubeconfig=unknown)
    assert done.logged == [f"{UNCHECKED}the kubeconfig is not known before the update"]
    assert not calls


def test_explicit_provider_needs_kubeconfig_or_context(
    engine: Any, service: Any, calls: list[Any]
) -> None:
    def options() -> pulumi.ResourceOptions:
        return pulumi.ResourceOptions(provider=Provider("east"))

    done = run(engine, service, options)
    assert done.logged == [
        f"{UNCHECKED}the provider's cluster is not known here; pass its kubeconfig or context"
    ]
    assert done.exports == {"checked": False, "releases": {}}
    assert not calls
    run(engine, service, options, kubeconfig="k", context="east")
    run(engine, service, options, context="west")
    assert calls == [("k", "east"), (None, "west")]


def test_stack_config_selects_cluster(engine: Any, service: Any, calls: list[Any]) -> None:
    config = {"kubernetes:kubeconfig": "from-config", "kubernetes:context": "west"}

    def program() -> None:
        pulumi.runtime.set_all_config(config)
        ServingPrerequisites("needs", {"services": [service]})

    engine.run(program)
    assert calls[0] == ("from-config", "west")


def test_command_line_reads_no_cluster(engine: Any, service: Any, calls: list[Any]) -> None:
    token = collected_services.set([])
    try:
        done = run(engine, service)
    finally:
        collected_services.reset(token)
    assert not calls
    assert not done.logged


def test_specs_plans_and_components_are_accepted(
    engine: Any, service: Any, calls: list[Any]
) -> None:
    def program() -> None:
        result = InferenceService("app", service)
        ServingPrerequisites("needs", {"services": [service, result.plan, result]})

    engine.run(program)
    assert len(calls) == 1


def test_warnings_are_logged(engine: Any, service: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    denied = FakeCluster(denied=["/resourcequotas"])
    monkeypatch.setattr(serving_prerequisites, "KubernetesApi", lambda *_: denied)
    assert (
        "warning: not checked: resourcequotas in default: 403 Forbidden [cluster-not-checked]"
        in (run(engine, service).logged)
    )


@pytest.mark.parametrize(
    "kubeconfig",
    ["/nowhere/kubeconfig", "users: [\n", "apiVersion: v1\nkind: Config\n", "\n- 1\n- 2\n"],
)
def test_unusable_kubeconfig_is_a_warning(engine: Any, service: Any, kubeconfig: str) -> None:
    (finding,) = run(engine, service, kubeconfig=kubeconfig).logged
    assert finding.startswith(f"{UNCHECKED}no usable kubeconfig: ")
    assert "\n" not in finding


def test_unreachable_cluster_is_a_warning(engine: Any, service: Any) -> None:
    text = (
        "apiVersion: v1\nkind: Config\ncurrent-context: a\n"
        "clusters: [{name: a, cluster: {server: 'http://127.0.0.1:9'}}]\n"
        "users: [{name: a, user: {token: t}}]\n"
        "contexts: [{name: a, context: {cluster: a, user: a}}]\n"
    )
    (finding,) = run(engine, service, kubeconfig=text).logged
    assert finding.startswith(f"{UNCHECKED}the cluster does not respond: ")
