"""The ConfigMap with the endpoint picker's configuration."""

from __future__ import annotations

import hashlib

from fusioninfer_pulumi.manifests.routing.common import Manifest, router_metadata
from fusioninfer_pulumi.plan.routing.records import RouterPlan
from fusioninfer_pulumi.plan.service_meta import ServiceMeta

KEY = "config.yaml"


def config_map(plan: ServiceMeta, router: RouterPlan) -> Manifest:
    """Builds the ConfigMap."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": router_metadata(plan, router, router.picker.config_name),
        "data": {KEY: router.picker.config},
    }


def checksum(router: RouterPlan) -> str:
    """Changes with the configuration, which the picker reads once, when it starts."""
    return hashlib.sha256(router.picker.config.encode()).hexdigest()
