"""ResourceQuotas against what the services of a namespace ask for."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from fusioninfer_pulumi import plan_service
from fusioninfer_pulumi.api import InferenceServiceArgs
from fusioninfer_pulumi.component.prerequisites._check import check_quotas, quota_namespaces
from fusioninfer_pulumi.component.prerequisites._read import ClusterFacts, _Reader
from fusioninfer_pulumi.findings import Severity
from fusioninfer_pulumi.kube.outputs import UnknownOutput
from tests import samples


def plan(
    name: str, *, replicas: int = 2, gpus: Any = 4, namespace: Any = "prod", **role: Any
) -> Any:
    container = samples.container(gpus=gpus)
    own = samples.role(replicas=replicas, template=samples.template(container), **role)
    return plan_service(
        InferenceServiceArgs.model_validate({"namespace": namespace, "roles": [own]}), name
    )


def quota(hard: Any, **spec: Any) -> Any:
    return {"metadata": {"name": "gpus"}, "spec": {"hard": hard, **spec}}


def told(plans: Any, *quotas: Any) -> list[str]:
    found = list(check_quotas(plans, ClusterFacts(quotas={"prod": quotas})))
    assert {finding.severity for finding in found} <= {Severity.WARNING}
    return [finding.message for finding in found]


GPU = "requests.nvidia.com/gpu"


def test_the_services_of_a_namespace_are_added_up() -> None:
    plans = [
        plan("one"),
        plan("two", replicas=1, multinode={"nodeCount": 2}),
        plan("elsewhere", namespace="dev"),
        plan("cpu", gpus=None),
    ]
    assert quota_namespaces(plans) == ["dev", "prod"]
    assert told(plans, quota({GPU: "16"})) == []
    (message,) = told(plans, quota({GPU: "15"}))
    assert message == (
        "ResourceQuota gpus in prod allows 15 nvidia.com/gpu, and one, two ask for 16: pods beyond "
        "it are not created"
    )


@pytest.mark.parametrize(
    "harmless",
    [
        quota({"requests.amd.com/gpu": 1}),
        quota({"requests.cpu": "1"}),
        quota({GPU: "1"}, scopes=["BestEffort"]),
        quota({GPU: "1"}, scopeSelector={"matchExpressions": []}),
        {"metadata": {"name": "empty"}},
    ],
)
def test_quotas_of_other_pods_do_not_count(harmless: Any) -> None:
    assert told([plan("one")], harmless) == []


def test_a_namespace_that_is_not_known_is_not_read() -> None:
    assert quota_namespaces([plan("one", namespace=UnknownOutput())]) == []


def test_quotas_are_listed_in_their_namespace() -> None:
    asked: list[Any] = []

    def get(what: str, call: Any, *args: Any) -> Any:
        asked.append((what, call, args))
        return json.loads('{"items": [{"metadata": {"name": "gpus"}}]}')

    core = SimpleNamespace(list_namespaced_resource_quota="list")
    client = SimpleNamespace(CoreV1Api=lambda _: core)
    reader = _Reader(SimpleNamespace(get=get, client=client, connection=None))  # type: ignore[arg-type]  # the client stands for all of it
    assert reader.quotas("prod") == [{"metadata": {"name": "gpus"}}]
    assert asked == [("ResourceQuotas in prod", "list", ("prod",))]
