"""All objects of a router in the order in which they are applied."""

from __future__ import annotations

from collections.abc import Iterator

from fusioninfer_pulumi.manifests.routing.access import (
    metrics_reviewer,
    role,
    role_binding,
    service_account,
)
from fusioninfer_pulumi.manifests.routing.common import Manifest
from fusioninfer_pulumi.manifests.routing.config_map import config_map
from fusioninfer_pulumi.manifests.routing.gateway import gateway
from fusioninfer_pulumi.manifests.routing.gateway_extras import gateway_extras
from fusioninfer_pulumi.manifests.routing.http_route import http_route
from fusioninfer_pulumi.manifests.routing.inference_pool import inference_pool
from fusioninfer_pulumi.manifests.routing.network_policy import network_policies
from fusioninfer_pulumi.manifests.routing.picker_deployment import picker_deployment
from fusioninfer_pulumi.manifests.routing.picker_service import picker_service
from fusioninfer_pulumi.manifests.routing.reference_grants import reference_grants
from fusioninfer_pulumi.plan.records import Topology
from fusioninfer_pulumi.plan.routing.records import RouterPlan
from fusioninfer_pulumi.spec.router import MetricsMode


def routing(plan: Topology, router: RouterPlan) -> Iterator[Manifest]:
    """Builds the objects of a router.

    The pool stands before the picker, which is Ready only once the pool exists; the route comes
    after all that it leads to.
    """
    yield service_account(plan, router)
    yield role(plan, router)
    yield role_binding(plan, router)
    if router.picker.metrics is MetricsMode.AUTHENTICATED:
        yield metrics_reviewer(plan, router)
    yield config_map(plan, router)
    yield inference_pool(plan, router)
    yield picker_deployment(plan, router)
    yield picker_service(plan, router)
    if router.gateway is not None:
        yield gateway(plan, router, router.gateway)
    if router.route is not None:
        yield http_route(plan, router, router.route)
    yield from gateway_extras(plan, router)
    yield from reference_grants(plan, router)
    yield from network_policies(plan, router)
