"""A role's `resourceClaims`: their templates, and the pods that use them."""

from __future__ import annotations

from typing import Any

from tests.samples import container, kinds, nodes, pod_templates, rendered, role, service, template

GPUS = {"name": "gpus", "deviceClassName": "gpu.nvidia.com", "count": 8}


def claiming(*claims: Any, multinode: Any = None, **more: Any) -> Any:
    return service(role(template=template(container(**more)), multinode=multinode,
                        resourceClaims=list(claims)))  # fmt: skip


def find_template(manifest: Any) -> Any:
    (item,) = [entry for entry in rendered(manifest) if entry["kind"] == "ResourceClaimTemplate"]
    return item


def test_template_precedes_the_pods_that_claim_its_devices() -> None:
    selector = "device.attributes['gpu.nvidia.com'].productName == 'H100'"
    manifest = claiming({**GPUS, "selectors": [selector]}, multinode=nodes(2))
    order = [kind.partition("/")[0] for kind in kinds(manifest)]
    assert order.index("ResourceClaimTemplate") < order.index("LeaderWorkerSet")
    claim = find_template(manifest)
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


def test_changed_devices_create_another_template() -> None:
    names = {
        find_template(claiming({**GPUS, "count": count}))["metadata"]["name"] for count in (4, 8)
    }
    assert len(names) == 2
