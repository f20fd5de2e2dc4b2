"""Resources of a component with a router: types, names, order, options, outputs."""

from __future__ import annotations

from typing import Any

import pulumi
import pytest

from fusioninfer_pulumi import InferenceService, plan_service, render
from fusioninfer_pulumi.api import InferenceServiceArgs
from fusioninfer_pulumi.component.kubernetes_objects import TOKEN, Gateway, HTTPRoute, InferencePool

CONTAINER = {
    "name": "vllm",
    "image": "vllm/vllm-openai:v0.11.0",
    "args": ["--model", "m"],
    "resources": {"requests": {"cpu": "1"}},
}
SERVING = {
    "name": "inference",
    "componentType": "worker",
    "template": {"spec": {"containers": [CONTAINER]}},
}
ROUTE = {"parentRefs": [{"name": "shared"}], "hostnames": ["svc.example.com"]}


def spec(**router: Any) -> dict[str, Any]:
    return {
        "name": "svc",
        "roles": [{"name": "router", "componentType": "router", **router}, SERVING],
    }


EVERYTHING = spec(
    gateway={"implementation": "gke"},
    httproute={
        "hostnames": ["svc.example.com"],
        "rules": [{"backendRefs": [{"name": "x", "namespace": "other", "port": 80}]}],
    },
    endpointPicker={"metrics": "Authenticated"},
    networkPolicy={"gateway": [{"podSelector": {}}]},
    referenceGrants=True,
)
RBAC = "kubernetes:rbac.authorization.k8s.io/v1"
GATEWAY_API = "kubernetes:gateway.networking.k8s.io"
REGISTERED = [
    (TOKEN, "app"),
    ("kubernetes:leaderworkerset.x-k8s.io/v1:LeaderWorkerSet", "app-inference-0"),
    ("kubernetes:core/v1:ServiceAccount", "app-epp"),
    (f"{RBAC}:Role", "app-epp"),
    (f"{RBAC}:RoleBinding", "app-epp"),
    (f"{RBAC}:ClusterRoleBinding", "app-epp"),
    ("kubernetes:core/v1:ConfigMap", "app-epp-config"),
    ("kubernetes:inference.networking.k8s.io/v1:InferencePool", "app-pool"),
    ("kubernetes:apps/v1:Deployment", "app-epp"),
    ("kubernetes:core/v1:Service", "app-epp"),
    (f"{GATEWAY_API}/v1:Gateway", "app-gateway"),
    (f"{GATEWAY_API}/v1:HTTPRoute", "app-httproute"),
    ("kubernetes:networking.gke.io/v1:HealthCheckPolicy", "app-pool"),
    ("kubernetes:networking.gke.io/v1:GCPBackendPolicy", "app-pool"),
    (f"{GATEWAY_API}/v1beta1:ReferenceGrant", "app-httproute-other"),
    ("kubernetes:networking.k8s.io/v1:NetworkPolicy", "app-epp"),
    ("kubernetes:networking.k8s.io/v1:NetworkPolicy", "app-inference"),
]


UNAWAITED = ("LeaderWorkerSet", "Service", "Gateway", "HTTPRoute", "InferencePool")


def after(deployment: Any, kind: str) -> set[str]:
    """Return the kinds that a kind depends on."""
    by_urn = {child.urn: child.key[0].rpartition(":")[2] for child in deployment.children}
    (item,) = [child for child in deployment.children if child.key[0].endswith(f":{kind}")]
    return {by_urn[urn] for urn in item.request.dependencies if urn in by_urn}


def test_logical_names_start_with_component_name(engine: Any) -> None:
    deployment = engine.run(lambda: InferenceService("app", EVERYTHING))
    # The mock engine registers resources when their dependencies resolve, in any order.
    assert sorted(deployment.keys) == sorted(REGISTERED)
    assert len(set(deployment.keys)) == len(REGISTERED), "each name stands once in its type"
    for child in deployment.children:
        assert child.request.parent == deployment.component.urn


def test_registered_inputs_equal_rendered_objects(engine: Any) -> None:
    deployment = engine.run(lambda: InferenceService("app", EVERYTHING))
    wanted = render(plan_service(InferenceServiceArgs.model_validate(EVERYTHING)))
    for entry in wanted:
        if entry["kind"] in UNAWAITED:
            # The program waits for these kinds, and the provider waits for the picker.
            value = entry["metadata"].get("annotations", {})
            entry["metadata"]["annotations"] = {**value, "pulumi.com/skipAwait": "true"}
    registered = {
        (item.inputs["kind"], item.inputs["metadata"]["name"]): item.inputs
        for item in deployment.children
    }
    assert registered == {
        (element["kind"], element["metadata"]["name"]): element for element in wanted
    }


def test_dependencies_of_router_objects(engine: Any) -> None:
    deployment = engine.run(lambda: InferenceService("app", EVERYTHING))
    assert after(deployment, "InferencePool") == set()
    assert after(deployment, "Deployment") == {
        "ServiceAccount",
        "Role",
        "RoleBinding",
        "ClusterRoleBinding",
        "ConfigMap",
        "InferencePool",
    }
    assert after(deployment, "HTTPRoute") == {"InferencePool", "Service", "Gateway"}
    assert after(deployment, "LeaderWorkerSet") == set()
    assert after(deployment, "HealthCheckPolicy") == {"InferencePool"}


@pytest.mark.parametrize("guard", [{}, {"protect": True}, {"retainOnDelete": True}])
def test_pool_can_be_protected_and_retained(engine: Any, guard: dict[str, bool]) -> None:
    deployment = engine.run(lambda: InferenceService("app", spec(httproute=ROUTE, pool=guard)))
    for child in deployment.children:
        pool = child.request.name == "app-pool"
        assert child.request.protect == (pool and "protect" in guard)
        assert child.request.retainOnDelete == (pool and "retainOnDelete" in guard)


def test_attributes_of_absent_children_are_none(engine: Any) -> None:
    built: list[InferenceService] = []

    def program() -> None:
        built.append(InferenceService("all", {**spec(gateway={}), "name": "all"}))
        built.append(InferenceService("routed", {**spec(httproute=ROUTE), "name": "routed"}))
        built.append(InferenceService("pool", {**spec(), "name": "pool"}))
        built.append(InferenceService("plain", {"roles": [SERVING]}))

    engine.run(program)
    whole, routed, pool, plain = built
    for service, types in (
        (whole, (InferencePool, HTTPRoute, Gateway)),
        (routed, (InferencePool, HTTPRoute, type(None))),
        (pool, (InferencePool, type(None), type(None))),
        (plain, (type(None),) * 3),
    ):
        result = (service.inference_pool, service.http_route, service.gateway)
        assert tuple(map(type, result)) == types
    assert whole.service is None
    assert plain.service is not None


def endpoint(engine: Any, args: Any, **options: Any) -> Any:
    def program() -> dict[str, Any]:
        return {"url": InferenceService("app", args() if callable(args) else args).endpoint}

    return engine.run(program, **options).exports["url"]


def test_endpoint_is_url_of_route(engine: Any) -> None:
    https = {
        "listeners": [
            {
                "name": "https",
                "port": 443,
                "protocol": "HTTPS",
                "tls": {"certificateRefs": [{"name": "certificate"}]},
            }
        ]
    }
    assert endpoint(engine, spec(httproute=ROUTE)) == "http://svc.example.com"
    hosts = {"hostnames": ["svc.example.com"]}
    assert endpoint(engine, spec(httproute=hosts, gateway=https)) == "https://svc.example.com"
    assert endpoint(engine, spec()) == ""
    assert endpoint(engine, spec(httproute={"parentRefs": [{"name": "g"}]})) == ""


def test_endpoint_of_output_host_name(engine: Any) -> None:
    def args() -> dict[str, Any]:
        return spec(httproute={**ROUTE, "hostnames": [pulumi.Output.from_input("svc.example.org")]})

    assert endpoint(engine, args) == "http://svc.example.org"


def test_endpoint_is_gateway_address(engine: Any) -> None:
    assert endpoint(engine, spec(gateway={})) == ""
    engine.live["svc-gateway"] = {"status": {"addresses": [{"value": "192.0.2.7"}]}}
    assert endpoint(engine, spec(gateway={})) == "http://192.0.2.7"


def test_route_without_picker_depends_on_service(engine: Any) -> None:
    result: list[InferenceService] = []
    off = {"endpointPicker": {"enabled": False}}

    def program() -> dict[str, Any]:
        result.append(InferenceService("app", spec(httproute=ROUTE, **off)))
        return {"url": result[0].endpoint, "status": result[0].status}

    rejection = {"type": "ResolvedRefs", "status": "False", "reason": "BackendNotFound"}
    parents = [{"parentRef": {"name": "shared"}, "conditions": [rejection]}]
    engine.live["svc-httproute"] = {"status": {"parents": parents}}
    available = [{"type": "Available", "status": "True"}]
    engine.live["svc-inference-0"] = {"status": {"readyReplicas": 1, "conditions": available}}
    deployment = engine.run(program)
    assert after(deployment, "HTTPRoute") == {"Service"}
    assert [result[0].inference_pool, result[0].gateway] == [None, None]
    assert result[0].service is not None
    assert deployment.exports["url"] == "http://svc.example.com"
    assert "BackendNotFound" in str(deployment.exports["status"]["conditions"])
    assert endpoint(engine, spec(**off)) == "http://svc.default.svc:8000"
