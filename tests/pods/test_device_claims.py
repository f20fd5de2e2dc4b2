"""A role's `resourceClaims`: their templates, and the pods that use them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.samples import (
    container,
    kinds,
    nodes,
    pod_templates,
    problems,
    rendered,
    role,
    said,
    scheduling,
    service,
    template,
    warnings,
)

GPUS = {"name": "gpus", "deviceClassName": "gpu.nvidia.com", "count": 8}


def claiming(*claims: Any, multinode: Any = None, **more: Any) -> Any:
    return service(role(template=template(container(**more)), multinode=multinode,
                        resourceClaims=list(claims)))  # fmt: skip


def made(manifest: Any) -> Any:
    (found,) = [each for each in rendered(manifest) if each["kind"] == "ResourceClaimTemplate"]
    return found


def test_template_precedes_the_pods_that_claim_its_devices() -> None:
    selector = "device.attributes['gpu.nvidia.com'].productName == 'H100'"
    manifest = claiming({**GPUS, "selectors": [selector]}, multinode=nodes(2))
    order = [kind.partition("/")[0] for kind in kinds(manifest)]
    assert order.index("ResourceClaimTemplate") < order.index("LeaderWorkerSet")
    claim = made(manifest)
    assert claim["apiVersion"] == "resource.k8s.io/v1"
    (request,) = claim["spec"]["spec"]["devices"]["requests"]
    assert request["exactly"] == {
        "deviceClassName": "gpu.nvidia.com", "allocationMode": "ExactCount", "count": 8,
        "selectors": [{"cel": {"expression": selector}}],
    }  # fmt: skip
    name = claim["metadata"]["name"]
    assert name.startswith("svc-inference-gpus-")
    for pod in pod_templates(manifest):
        assert pod["spec"]["resourceClaims"] == [
            {"name": "gpus", "resourceClaimTemplateName": name}
        ]
        assert pod["spec"]["containers"][0]["resources"] == {
            "limits": {"cpu": "1"}, "claims": [{"name": "gpus"}],
        }  # fmt: skip


def test_other_devices_are_another_template() -> None:
    names = {made(claiming({**GPUS, "count": count}))["metadata"]["name"] for count in (4, 8)}
    assert len(names) == 2


def test_resource_claims_with_volcano_are_a_warning() -> None:
    in_template = template({**container(), "resources": {"claims": [{"name": "a"}]}})
    in_template["spec"]["resourceClaims"] = [{"name": "a", "resourceClaimName": "shared"}]
    for manifest, at, out in (
        (claiming(GPUS, multinode=nodes(2)), "resourceClaims", "gangPolicy.mode to Off"),
        (
            service(
                role(resourceClaims=[GPUS], template=template(container())),
                **scheduling(schedulerName="volcano"),
            ),
            "resourceClaims",
            "schedulerName to another scheduler",
        ),
        (
            service(role(template=in_template, multinode=nodes(2))),
            "template.spec.resourceClaims",
            "gangPolicy.mode to Off",
        ),
    ):
        (one,) = [warning for warning in warnings(manifest) if "Volcano binds" in warning]
        assert one.startswith(f"warning: roles[0].{at}: Volcano binds these pods without")
        assert one.endswith(f"or set schedulingStrategy.{out}")
    assert said(claiming(GPUS)) == []


AT = "roles[0].resourceClaims"
REFUSED: list[tuple[Any, list[str]]] = [
    (
        claiming({"name": "a"}),
        [f"{AT}[0]: needs one of deviceClassName, spec, templateName, claimName"],
    ),
    (
        claiming({**GPUS, "claimName": "x"}),
        [(f"{AT}[0]: needs one of deviceClassName, spec, templateName, claimName, got "
         "deviceClassName and claimName")],
    ),
    (
        claiming({"name": "a", "claimName": "x", "count": 2}),
        [f"{AT}[0].count: has no effect without deviceClassName; remove it"],
    ),
    (
        claiming(GPUS, GPUS),
        [f'{AT}[1].name: "gpus" is also the name of resourceClaims[0]'],
    ),
    (
        claiming(GPUS, gpus=8),
        [("roles[0].template.spec.containers[0].resources.limits[nvidia.com/gpu]: requests "
          "accelerators in addition to resourceClaims, so the pod would get both; remove one of "
          "them")],
    ),
    (
        service(role(template=template(resourceClaims=[{"name": "gpus", "resourceClaimName": "x"}]),
                     resourceClaims=[GPUS])),
        [('roles[0].template.spec.resourceClaims: "gpus" is also the name of one of '
         "resourceClaims; rename one")],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("manifest", "expected"), REFUSED)
def test_invalid_resource_claims_are_rejected(manifest: Any, expected: list[str]) -> None:
    assert problems(manifest) == expected
