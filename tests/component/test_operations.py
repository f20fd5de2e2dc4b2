"""Objects of day two are children like all others, and the engine leaves a scaled role alone."""

from __future__ import annotations

from typing import Any

from samples import container, role, service, template

from fusioninfer_pulumi import InferenceService

AUTOSCALING = {"maxReplicas": 4, "metrics": [{"name": "waiting", "target": 5}]}
SET = "kubernetes:leaderworkerset.x-k8s.io/v1:LeaderWorkerSet"


def deployed(engine: Any, *, scaled: bool) -> Any:
    own = container(ports=[{"name": "http", "containerPort": 8000}])
    more = {"autoscaling": AUTOSCALING} if scaled else {}
    made = role(template=template(own), **more)
    manifest = service(made, layout="PerRole", disruptionBudget={}, monitoring={})
    return engine.run(lambda: InferenceService("svc", manifest) and None)


def test_each_object_is_registered_under_a_name_of_its_own(engine: Any) -> None:
    deployment = deployed(engine, scaled=True)
    assert {
        ("kubernetes:policy/v1:PodDisruptionBudget", "svc-inference"),
        ("kubernetes:autoscaling/v2:HorizontalPodAutoscaler", "svc-inference"),
        ("kubernetes:monitoring.coreos.com/v1:PodMonitor", "svc-inference"),
    } <= set(deployment.keys)
    assert len(set(deployment.keys)) == len(deployment.keys)


def test_the_replicas_of_a_scaled_role_are_not_the_engines(engine: Any) -> None:
    for scaled in (True, False):
        registered = deployed(engine, scaled=scaled).registered
        (made,) = [each for each in registered if each.request.type == SET]
        assert ("spec.replicas" in list(made.request.ignoreChanges)) == scaled
        assert made.inputs["spec"]["replicas"] == 1
