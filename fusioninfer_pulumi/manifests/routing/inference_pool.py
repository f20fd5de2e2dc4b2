"""The InferencePool (inference.networking.k8s.io/v1): the pods that a route leads to."""

from __future__ import annotations

from fusioninfer_pulumi import names
from fusioninfer_pulumi.manifests.routing.common import Manifest, router_metadata
from fusioninfer_pulumi.pickers.flags import GRPC_PORT
from fusioninfer_pulumi.plan.routing.records import RouterPlan
from fusioninfer_pulumi.plan.service_meta import ServiceMeta


def inference_pool(plan: ServiceMeta, router: RouterPlan) -> Manifest:
    """Builds the InferencePool."""
    pool = router.pool
    return {
        "apiVersion": f"{names.POOL_GROUP}/v1",
        "kind": names.POOL_KIND,
        "metadata": router_metadata(plan, router, pool.name),
        "spec": {
            "selector": {"matchLabels": dict(pool.selector)},
            "targetPorts": [{"number": pool.port}],
            "endpointPickerRef": {
                "name": router.picker.name,
                "port": {"number": GRPC_PORT},
                "failureMode": pool.failure_mode.value,
            },
        },
    }


def pool_target(router: RouterPlan) -> Manifest:
    """The pool as policies name what they are for."""
    return {"group": names.POOL_GROUP, "kind": names.POOL_KIND, "name": router.pool.name}
