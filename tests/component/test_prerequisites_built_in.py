"""What services need of Kubernetes itself, against what is known of it."""

from __future__ import annotations

from typing import Any

import pytest

from fusioninfer_pulumi import plan_service
from fusioninfer_pulumi.api import InferenceServiceArgs
from fusioninfer_pulumi.component.prerequisites import _table as table
from fusioninfer_pulumi.component.prerequisites._check import check_built_in
from fusioninfer_pulumi.component.prerequisites._read import ClusterFacts
from tests import samples

CLAIM = {"name": "gpus", "deviceClassName": "gpu.nvidia.com", "count": 8}
METRIC = {"name": "vllm_num_requests_waiting", "target": 5}


def plan(name: str = "qwen", *, gpus: Any = 8, pod: Any = None, **role: Any) -> Any:
    template = samples.template(samples.container(gpus=gpus), **(pod or {}))
    spec: dict[str, Any] = {"roles": [samples.role("serve", "worker", template=template, **role)]}
    if "autoscaling" in role:
        spec["layout"] = "PerRole"
    return plan_service(InferenceServiceArgs.model_validate(spec), name)


def claiming(*claims: Any, name: str = "qwen") -> Any:
    return plan(name, gpus=None, resourceClaims=list(claims))


def scaled(**metric: Any) -> Any:
    return plan(autoscaling={"maxReplicas": 3, "metrics": [{**METRIC, **metric}]})


def told(*plans: Any, **known: Any) -> list[str]:
    return [str(finding) for finding in check_built_in(plans, ClusterFacts(**known))]


def apis(**versions: str) -> dict[str, frozenset[str]]:
    groups = {"resource": "resource.k8s.io", "custom": "custom.metrics.k8s.io"}
    return {groups[name]: frozenset({version}) for name, version in versions.items()}


@pytest.mark.parametrize(
    ("given", "served", "wanted"),
    [
        (plan(), {}, None),
        (
            claiming(CLAIM),
            {},
            "resource.k8s.io/v1 is not served; qwen needs it: Kubernetes v1.34 or later",
        ),
        (
            claiming(CLAIM),
            apis(resource="v1beta1"),
            "resource.k8s.io/v1 is not served (v1beta1 is); qwen needs it",
        ),
        (claiming(CLAIM), apis(resource="v1"), None),
        (claiming({"name": "a", "templateName": "b"}), apis(resource="v1beta1"), None),
        (
            claiming({"name": "a", "claimName": "b"}),
            {},
            "resource.k8s.io/v1 or v1beta2 or v1beta1 is not served; qwen needs it",
        ),
        (
            plan(pod={"resourceClaims": [{"name": "a", "resourceClaimName": "b"}]}),
            {},
            "resource.k8s.io/v1 or v1beta2 or v1beta1 is not served; qwen needs it",
        ),
        (scaled(), {}, "custom.metrics.k8s.io/v1beta2 or v1beta1 is not served; qwen needs it"),
        (scaled(), apis(custom="v1beta1"), None),
        (
            scaled(source="External"),
            apis(custom="v1beta1"),
            "external.metrics.k8s.io/v1beta1 is not served; qwen needs it",
        ),
    ],
)
def test_an_api_that_is_not_served_is_named(given: Any, served: Any, wanted: str | None) -> None:
    found = told(given, apis=served)
    assert len(found) == (wanted is not None)
    assert wanted is None or wanted in found[0]
    # Whoever may not ask is told nothing.
    assert told(given, apis=None) == []


@pytest.mark.parametrize(
    ("release", "wanted"),
    [
        ((1, 30, 9), "Image volumes: v1.30.9 does not have them; qwen needs Kubernetes v1.35.0"),
        ((1, 34, 1), "warning: Image volumes: need the feature gate ImageVolume in v1.34.1"),
        ((1, 35, 4), None),
        (None, None),
    ],
)
@pytest.mark.parametrize("own", [True, False], ids=["model", "volume of a template"])
def test_image_volumes_are_judged_by_the_release(release: Any, wanted: Any, own: bool) -> None:
    spec: dict[str, Any] = {"roles": [samples.role("serve", "worker")]}
    volume = {"name": "weights", "image": {"reference": "registry.example.com/m:1"}}
    if own:
        spec["model"] = {"uri": "oci://registry.example.com/m:1"}
    else:
        template = samples.template(samples.container(), volumes=[volume])
        spec["roles"] = [samples.role("serve", "worker", template=template)]
    given = plan_service(InferenceServiceArgs.model_validate(spec), "qwen")
    found = told(given, kubernetes=release)
    assert len(found) == (wanted is not None)
    assert wanted is None or found[0].startswith(wanted)


@pytest.mark.parametrize(
    ("release", "problems"), [((1, 27, 0), 1), ((1, 28, 3), 1), ((1, 29, 0), 0)]
)
def test_sidecars_are_judged_by_the_release(release: Any, problems: int) -> None:
    sidecar = {"name": "proxy", "image": "proxy", "restartPolicy": "Always"}
    found = told(plan(pod={"initContainers": [sidecar]}), kubernetes=release)
    assert len(found) == problems
    assert all("Sidecar containers: " in text for text in found)


@pytest.mark.parametrize(
    ("release", "problems"), [((1, 28, 0), 1), ((1, 29, 3), 1), ((1, 30, 0), 0)]
)
def test_a_picker_that_sleeps_is_judged_by_the_release(release: Any, problems: int) -> None:
    roles = [{"name": "router", "componentType": "router"}, samples.role("serve", "worker")]
    routed = plan_service(InferenceServiceArgs.model_validate({"roles": roles}), "qwen")
    found = [text for text in told(routed, kubernetes=release) if "Sleeping hooks: " in text]
    assert len(found) == problems


def test_tolerances_of_autoscalers_are_judged_by_the_release() -> None:
    behavior = {"scaleUp": {"tolerance": "50m"}}
    given = plan(autoscaling={"maxReplicas": 3, "metrics": [METRIC], "behavior": behavior})
    (found,) = told(given, kubernetes=(1, 34, 0))
    assert found.startswith("warning: Tolerances of autoscalers: need the feature gate HPAConfig")
    assert not told(given, kubernetes=(1, 35, 4))
    assert not told(scaled(), kubernetes=(1, 34, 0))


def test_of_one_group_the_most_demanding_row_comes_first() -> None:
    assert table.SERVED.index(table.CLAIM_TEMPLATES) < table.SERVED.index(table.CLAIMS)
    both = (claiming(CLAIM), claiming({"name": "a", "claimName": "b"}, name="other"))
    assert len(told(*both, apis={})) == 1


@pytest.mark.parametrize(
    ("release", "warned"),
    [((1, 34, 9), False), ((1, 35, 0), True), ((1, 35, 3), True), ((1, 35, 4), False),
     ((1, 36, 0), False), (None, False)],
)  # fmt: skip
def test_releases_in_which_updates_repair_nothing_are_named(release: Any, warned: bool) -> None:
    found = told(plan(), kubernetes=release)
    assert [each.partition(" does")[0] for each in found] == (
        [f"warning: Kubernetes: v{'.'.join(map(str, release))}"] if warned else []
    )
    assert not told(kubernetes=release)
