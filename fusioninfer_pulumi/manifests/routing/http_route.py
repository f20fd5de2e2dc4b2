"""The HTTPRoute (gateway.networking.k8s.io/v1) that leads requests to the pool."""

from __future__ import annotations

from typing import Any

from fusioninfer_pulumi.manifests.routing.common import Manifest, router_metadata
from fusioninfer_pulumi.manifests.routing.inference_pool import pool_target
from fusioninfer_pulumi.plan.routing.records import RoutePlan, RouterPlan, RulePlan
from fusioninfer_pulumi.plan.service_meta import ServiceMeta

API_VERSION = "gateway.networking.k8s.io/v1"

#: What a backend keeps that is corrected to the pool; its port and kind were those of a Service.
_KEPT = ("weight", "filters")


def http_route(plan: ServiceMeta, router: RouterPlan, route: RoutePlan) -> Manifest:
    """Builds the HTTPRoute."""
    spec: dict[str, Any] = {}
    if route.parent_refs is not None:
        spec["parentRefs"] = list(route.parent_refs)
    if route.use_default_gateways is not None:
        spec["useDefaultGateways"] = route.use_default_gateways
    if route.hostnames is not None:
        spec["hostnames"] = list(route.hostnames)
    spec["rules"] = [_rule(router, route, rule) for rule in route.rules]
    return {
        "apiVersion": API_VERSION,
        "kind": "HTTPRoute",
        "metadata": router_metadata(plan, router, route.name),
        "spec": spec,
    }


def _rule(router: RouterPlan, route: RoutePlan, rule: RulePlan) -> Manifest:
    built = dict(rule.given)
    if rule.completed and route.split:
        built["backendRefs"] = [
            {**pool_target(router), "name": pool, "weight": weight} for pool, weight in route.split
        ]
    elif rule.completed:
        built["backendRefs"] = [pool_target(router)]
    elif rule.repaired:
        built["backendRefs"] = [
            _repaired(router, backend) if index in rule.repaired else backend
            for index, backend in enumerate(rule.given["backendRefs"])
        ]
    if rule.request_timeout is not None:
        built["timeouts"] = {"request": rule.request_timeout, **(rule.given.get("timeouts") or {})}
    return built


def _repaired(router: RouterPlan, backend: Manifest) -> Manifest:
    return {**pool_target(router), **{key: backend[key] for key in _KEPT if key in backend}}
