"""What a service with a gang of Kubernetes itself needs of a cluster."""

from __future__ import annotations

from typing import Any

import pytest
from samples import container, template

from fusioninfer_pulumi import plan_service
from fusioninfer_pulumi.api import InferenceServiceArgs
from fusioninfer_pulumi.component.prerequisites._check import check, needs
from fusioninfer_pulumi.component.prerequisites._read import ClusterFacts

GPU = template(container(gpus="1"))


def plan(backend: str = "Native") -> Any:
    role = {"name": "serve", "componentType": "worker", "template": GPU}
    spec = {
        "roles": [{**role, "multinode": {"nodeCount": 2}}],
        "schedulingStrategy": {"gangPolicy": {"backend": backend}},
    }
    return plan_service(InferenceServiceArgs.model_validate(spec), "qwen")


def told(*versions: str) -> list[str]:
    facts = ClusterFacts(apis={"scheduling.k8s.io": frozenset(versions)}, lws_provider="volcano")
    return [str(finding) for finding in check([plan()], facts)]


def test_volcano_is_not_needed() -> None:
    assert [row.product for row in needs([plan()])] == ["LeaderWorkerSet"]
    assert [row.product for row in needs([plan("Volcano")])] == ["LeaderWorkerSet", "Volcano"]


@pytest.mark.parametrize("served", [("v1",), ("v1", "v1alpha1"), ("v1", "v1alpha2")])
def test_older_kubernetes_and_gates_that_are_off_are_refused(served: tuple[str, ...]) -> None:
    (problem,) = told(*served)
    assert problem == (
        "Gangs of Kubernetes: scheduling.k8s.io/v1beta1 is not served "
        f"({', '.join(served)} is); qwen needs it: Kubernetes v1.37 with "
        "--runtime-config=scheduling.k8s.io/v1beta1=true and the feature gate GenericWorkload in "
        "API server, controller manager and scheduler; or gangPolicy.backend Volcano or Kueue"
    )


def test_the_schedulers_gate_cannot_be_read() -> None:
    (unknown,) = told("v1", "v1beta1")
    assert unknown == (
        "warning: Gangs of Kubernetes: qwen needs the feature gate GenericWorkload in the "
        "scheduler, too, where nothing shows it from outside; without it pods start one by one"
    )
