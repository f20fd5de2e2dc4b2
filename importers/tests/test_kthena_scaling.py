"""AutoscalingPolicies of a ModelServing become `autoscaling` of its roles."""

from __future__ import annotations

from typing import Any

import pytest
from rows import each_row

from fusioninfer_pulumi.plan.service_objects import render
from importers.tests.kthena_samples import ON, Manifest, binding, policy, role, scaled, serving
from importers.tests.reads import check, read_source, reject, to_spec, warn

PROMETHEUS = {"serverURL": "http://prometheus:9090", "query": "sum(rate(requests[2m]))"}
DEFAULTS = {
    "scaleUp": {
        "stabilizationWindowSeconds": 0,
        "policies": [
            {"type": "Pods", "value": 4, "periodSeconds": 60},
            {"type": "Percent", "value": 100, "periodSeconds": 60},
        ],
        "selectPolicy": "Max",
    },
    "scaleDown": {
        "stabilizationWindowSeconds": 300,
        "policies": [{"type": "Percent", "value": 100, "periodSeconds": 60}],
        "selectPolicy": "Max",
    },
}
BOUNDS = {"minReplicas": 1, "maxReplicas": 4}
WAITING = {"metrics": [{"name": "waiting", "target": "5"}]}


def convert_scaling(*documents: Manifest) -> Any:
    return to_spec(*documents)["roles"][0].get("autoscaling")


def convert_policy(**fields: Any) -> Any:
    return convert_scaling(serving(role(replicas=2)), policy(**fields))


def target(**fields: Any) -> Manifest:
    return scaled({"server": {**BOUNDS, **fields}})


def homogeneous(sub: Any = None, **fields: Any) -> Manifest:
    """A homogeneousTarget: the ModelServing, or its role `sub`."""
    part = {"subTargets": {"kind": "Role", "name": sub}} if sub else {}
    ref = {"targetRef": {"kind": "ModelServing", "name": "ms"}}
    return {"target": {**ref, **part, **fields}, **BOUNDS}


def test_pod_metric_becomes_autoscaler_metric() -> None:
    assert convert_policy() == {**WAITING, **BOUNDS, "behavior": DEFAULTS}
    documents = serving(role(replicas=2)), policy()
    assert to_spec(*documents)["layout"] == "PerRole"
    objects = render(read_source(*documents).plans[0])
    (hpa,) = [manifest for manifest in objects if manifest["kind"] == "HorizontalPodAutoscaler"]
    assert hpa["spec"]["scaleTargetRef"]["kind"] == "LeaderWorkerSet"
    assert any("reads waiting from custom.metrics.k8s.io" in item for item in warn(*documents))


def test_metric_uses_name_of_its_source() -> None:
    source_of_pods = {"waiting": {"pod": {"name": "vllm:waiting", "uri": "/m", "port": 9000}}}
    result = convert_policy(disaggregatedTarget=target(metricSources=source_of_pods))
    assert result["metrics"] == [{"name": "vllm:waiting", "target": "5"}]


def test_queries_use_keda() -> None:
    sources = {"waiting": {"prometheus": PROMETHEUS}}
    result = convert_policy(disaggregatedTarget=target(metricSources=sources))
    assert result == {
        "engine": "KEDA",
        "prometheus": PROMETHEUS["serverURL"],
        "metrics": [{"query": PROMETHEUS["query"], "target": "5"}],
        **BOUNDS,
        "behavior": DEFAULTS,
    }


def test_role_metrics_replace_policy_metrics() -> None:
    fields = [{"name": "own", "targetValue": "500m"}]
    result = convert_policy(disaggregatedTarget=target(metrics=fields), metrics=None)
    assert result["metrics"] == [{"name": "own", "target": "500m"}]


def test_binding_of_older_release_scales_its_role() -> None:
    old = policy(disaggregatedTarget=None, metrics=[{"metricName": "waiting", "targetValue": 5}])
    sub = homogeneous("server", metricEndpoint={"uri": "/metrics", "port": 8000})
    bound = binding(homogeneousTarget=sub)
    result = convert_scaling(serving(role(replicas=2)), old, bound)
    assert result == {**WAITING, **BOUNDS, "behavior": DEFAULTS}


@each_row(
    ("fields", "expected"),
    [
        ({"stabilizationWindow": "2m"}, (120, [("Pods", 1, 15), ("Percent", 100, 15)], "Max")),
        (
            {"instances": 2, "percent": 50, "period": "30s", "selectPolicy": "And"},
            (0, [("Pods", 2, 30), ("Percent", 50, 30)], "Min"),
        ),
        ({"instances": 0}, (0, [("Percent", 100, 15)], "Max")),
        ({"instances": 0, "selectPolicy": "And"}, (0, None, "Disabled")),
        ({"instances": 0, "percent": 0}, (0, None, "Disabled")),
    ],
)
def test_behavior_is_converted(fields: Manifest, expected: Any) -> None:
    behavior = convert_policy(behavior={"scaleUp": {"stablePolicy": fields}})["behavior"]
    window, policies, select = expected
    wanted: Manifest = {"stabilizationWindowSeconds": window, "selectPolicy": select}
    if policies is not None:
        wanted["policies"] = [
            {"type": kind, "value": value, "periodSeconds": period}
            for kind, value, period in policies
        ]
    assert behavior["scaleUp"] == wanted
    assert behavior["scaleDown"] == DEFAULTS["scaleDown"]


def test_non_default_tolerance_is_a_warning() -> None:
    assert convert_policy(tolerancePercent=10)["behavior"] == DEFAULTS
    behavior = convert_policy(tolerancePercent=5)["behavior"]
    assert [behavior[item]["tolerance"] for item in ("scaleUp", "scaleDown")] == ["50m", "50m"]
    documents = serving(role(replicas=2)), policy(tolerancePercent=5)
    assert any("tolerancePercent: 5 needs Kubernetes 1.35" in item for item in warn(*documents))


@each_row(("replicas", "start"), [(0, 1), (9, 4), (3, None), (None, None)])
def test_initial_replicas_are_within_bounds(replicas: int | None, start: int | None) -> None:
    documents = serving(role(replicas=replicas)), policy()
    assert to_spec(*documents)["roles"][0].get("replicas") == (start or replicas)
    expected = any("server starts with" in message for message in check(*documents))
    assert expected == (start is not None)


@pytest.mark.parametrize(
    ("least", "gang"),
    [
        ({"server": 1}, {**ON, "minRoleReplicas": {"server": 1}}),
        ({"server": 0}, {"mode": "Off"}),
        ({"server": 0, "other": 1}, {**ON, "minRoleReplicas": {"server": 0, "other": 1}}),
    ],
)
def test_gang_minimum_is_autoscaler_minimum(least: dict[str, int], gang: Manifest) -> None:
    queried = {"metricSources": {"waiting": {"prometheus": PROMETHEUS}}, "maxReplicas": 4}
    roles = {name: {"minReplicas": count, **queried} for name, count in least.items()}
    document = serving(*(role(name, replicas=2) for name in least))
    result = to_spec(document, policy(disaggregatedTarget=scaled(roles)))
    assert result["schedulingStrategy"]["gangPolicy"] == gang


def test_role_with_equal_bounds_gets_no_autoscaler() -> None:
    fixed = scaled({"server": {"minReplicas": 3, "maxReplicas": 3}})
    documents = serving(), policy(metrics=None, disaggregatedTarget=fixed)
    roles = to_spec(*documents)["roles"][0]
    assert roles["replicas"] == 3
    assert "autoscaling" not in roles


PAIR = serving(role("prefill", replicas=1), role("decode", replicas=2))
ROLES = {"prefill": {**BOUNDS}, "decode": {"minReplicas": 2, "maxReplicas": 6}}


@pytest.mark.parametrize(
    ("roles", "bounds", "expected"),
    [
        (("prefill", "decode"), ("250m", 1), {"min": 0.25, "max": 1}),
        (("decode", "prefill"), (1, 4), {"min": 0.25, "max": 1}),
        (("prefill", "decode"), (0, "1.5"), {"max": 1.5}),
        (("decode", "prefill"), (0, 4), {"min": 0.25}),
    ],
)
def test_replica_ratio_is_converted_and_gang_gets_minimum(
    roles: Any, bounds: Any, expected: Manifest
) -> None:
    ratio = dict(zip(("numeratorRole", "denominatorRole"), roles, strict=True))
    ratio |= dict(zip(("minRatio", "maxRatio"), bounds, strict=True))
    documents = PAIR, policy(disaggregatedTarget=scaled(ROLES, ratioConstraint=ratio))
    result = to_spec(*documents)
    assert result["prefillDecodeRatio"] == expected
    gang = result["schedulingStrategy"]["gangPolicy"]["minRoleReplicas"]
    assert gang == {"prefill": 1, "decode": 2}
    assert any(
        "checked only at preview; the autoscalers of the two roles are independent" in item
        for item in warn(*documents)
    )


BOTH = {"a": {"prometheus": PROMETHEUS}, "b": {"pod": {}}}
TWO = {"a": {"prometheus": PROMETHEUS},
       "b": {"prometheus": {**PROMETHEUS, "serverURL": "http://other:9090"}}}  # fmt: skip
NAMES = [{"name": "a", "targetValue": 1}, {"name": "b", "targetValue": 1}]
ZONE = {"waiting": {"pod": {"labelSelector": {"matchLabels": {"zone": "a"}}}}}
BOOSTER = {"apiVersion": "workload.serving.volcano.sh/v1alpha1", "kind": "ModelBooster",
           "metadata": {"name": "m"}, "spec": {"backend": {}}}  # fmt: skip
LOST = "cannot be carried over: "
ROLE = "f#2: disaggregatedTarget.roles.server"


@each_row(
    ("documents", "wanted"),
    [
        ([policy(disaggregatedTarget=None, homogeneousTarget=homogeneous())],
         f"f#2: homogeneousTarget: {LOST}scales whole serving groups"),
        ([policy(disaggregatedTarget=None, heterogeneousTarget={"params": [{"cost": 3}]})],
         f"f#2: heterogeneousTarget: {LOST}distributes instances"),
        ([policy(behavior={"scaleUp": {"panicPolicy": {"period": "5s"}}})],
         f"f#2: behavior.scaleUp.panicPolicy: {LOST}is not supported by Horizonta"),
        ([policy(behavior={"scaleDown": {"stabilizationWindow": "2h"}})],
         f"f#2: behavior.scaleDown.stabilizationWindow: {LOST}must be 0 to 3600 whole seconds"),
        ([policy(behavior={"scaleDown": {"period": "soon"}})],
         "f#2: behavior.scaleDown.period: must be a duration such as 30s, got soon"),
        ([policy(disaggregatedTarget=scaled({"other": BOUNDS}))],
         f"f#2: disaggregatedTarget.roles.other: {LOST}the ModelServing has no role"),
        ([policy(disaggregatedTarget=scaled({"server": BOUNDS}, "else"))],
         f"f#2: disaggregatedTarget.targetRef.name: {LOST}ModelServing else is not in this inpu"),
        ([policy(disaggregatedTarget=target(minReplicas=5))],
         f"{ROLE}.minReplicas: must be at most maxReplicas (4), got 5"),
        ([policy(metrics=None)], f"{ROLE}: {LOST}has no supported metric"),
        ([policy(), policy("two")],
         f"f#3: disaggregatedTarget.roles.server: {LOST}server is scaled by another policy"),
        ([policy(metrics=NAMES, disaggregatedTarget=target(metricSources=BOTH))],
         f"{ROLE}: {LOST}mixes pod metrics and Prometheus queries; an au"),
        ([policy(metrics=NAMES, disaggregatedTarget=target(metricSources=TWO))],
         f"{ROLE}.metricSources.b.prometheus.serverURL: {LOST}must be the same addre"),
        ([policy(disaggregatedTarget=target(metricSources=ZONE))],
         f"{ROLE}.metricSources.waiting.pod.labelSelector: {LOST}the metric covers all ent"),
        ([policy(homogeneousTarget=homogeneous())], "f#2: spec: must have one target"),
        ([binding("none")], f"f#2: policyRef: {LOST}AutoscalingPolicy none is not in this input"),
        ([BOOSTER], f"{LOST}Kthena's controller creates a ModelServing"),
    ],
)  # fmt: skip
def test_unsupported_scaling_is_rejected(documents: list[Manifest], wanted: str) -> None:
    findings = reject(serving(), *documents)
    assert len(findings) == 1, findings
    assert wanted in findings[0]


def test_policy_without_target_is_a_warning() -> None:
    findings = check(serving(), policy(disaggregatedTarget=None))
    assert any("f#2: warning: spec: has no target, and no Autosca" in item for item in findings)


def test_selector_of_the_roles_pods_is_accepted() -> None:
    labels = {"modelserving.volcano.sh/role": "server", "modelserving.volcano.sh/name": "ms"}
    pods = {"waiting": {"pod": {"labelSelector": {"matchLabels": labels}}}}
    result = convert_policy(disaggregatedTarget=target(metricSources=pods))
    assert result["metrics"] == WAITING["metrics"]
