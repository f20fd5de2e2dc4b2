"""The objects of a router one by one: rights, pods, Service, policies, extras."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from routed import LLM_D, V1_5, objects, only, pair, picker_container, routed
from samples import Manifest, kinds, listening, nodes, problems, rendered, role

from fusioninfer_pulumi.kube.containers import overlaid

READ = ["get", "list", "watch"]


def pod(manifest: Manifest) -> Any:
    return only(manifest, "Deployment")["spec"]["template"]


def test_the_order_is_that_in_which_objects_need_each_other() -> None:
    manifest = routed(
        httproute={"hostnames": ["a.example.com"],
                   "rules": [{"backendRefs": [{"name": "x", "namespace": "y", "port": 1}]}]},
        gateway={"implementation": "istio"},
        endpointPicker={"metrics": "Authenticated"},
        networkPolicy={"gateway": [{"podSelector": {}}]},
        referenceGrants=True,
    )  # fmt: skip
    assert kinds(manifest) == [
        "LeaderWorkerSet/svc-inference-0",
        "ServiceAccount/svc-epp",
        "Role/svc-epp",
        "RoleBinding/svc-epp",
        "ClusterRoleBinding/fusioninfer:default:svc-epp",
        "ConfigMap/svc-epp-config",
        "InferencePool/svc-pool",
        "Deployment/svc-epp",
        "Service/svc-epp",
        "Gateway/svc-gateway",
        "HTTPRoute/svc-httproute",
        "DestinationRule/svc-epp",
        "ReferenceGrant/default.svc-httproute",
        "NetworkPolicy/svc-epp",
        "NetworkPolicy/svc-inference",
    ]


def test_every_object_carries_the_services_metadata() -> None:
    own = {"labels": {"team": "a"}, "annotations": {"note": "b"}, "namespace": "team-a"}
    manifest = routed(endpointPicker={"metrics": "Authenticated"}, metadata=own)
    for each in rendered(manifest):
        assert each["metadata"]["labels"]["team"] == "a"
        assert each["metadata"]["labels"]["fusioninfer.io/service"] == "svc"
        assert each["metadata"]["annotations"]["note"] == "b"
        cluster_wide = each["kind"] == "ClusterRoleBinding"
        assert each["metadata"].get("namespace") == (None if cluster_wide else "team-a")
    assert "team" not in pod(manifest)["metadata"]["labels"]


@pytest.mark.parametrize(
    ("picker", "more"),
    [
        ({}, []),
        ({"image": V1_5}, []),
        ({"image": LLM_D}, ["llm-d.ai"]),
    ],
)
def test_the_role_holds_what_the_picker_watches_and_no_more(
    picker: Manifest, more: list[str]
) -> None:
    objectives = ["inferenceobjectives", "inferencemodelrewrites"]
    watched = [
        ("", ["pods"]),
        ("inference.networking.k8s.io", ["inferencepools"]),
        *((group, objectives) for group in ("inference.networking.x-k8s.io", *more)),
    ]
    assert only(routed(endpointPicker=picker), "Role")["rules"] == [
        {"apiGroups": [group], "resources": resources, "verbs": READ}
        for group, resources in watched
    ]


def test_several_replicas_may_elect_a_leader_and_are_not_awaited() -> None:
    one, two = routed(), routed(endpointPicker={"replicas": 2})
    assert only(two, "Role")["rules"][len(only(one, "Role")["rules"]) :] == [
        {
            "apiGroups": ["coordination.k8s.io"],
            "resources": ["leases"],
            "verbs": [*READ, "create", "update", "patch", "delete"],
        },
        {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
    ]
    assert only(one, "Deployment")["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    # A new replica is Ready only once the old leader is gone.
    assert only(two, "Deployment")["spec"]["strategy"] == {"type": "Recreate"}
    assert "annotations" not in only(one, "Deployment")["metadata"]
    assert only(two, "Deployment")["metadata"]["annotations"] == {"pulumi.com/skipAwait": "true"}
    assert only(two, "Deployment")["spec"]["replicas"] == 2


@pytest.mark.parametrize(
    ("picker", "pauses"),
    [
        ({}, True),
        ({"template": {"spec": {"terminationGracePeriodSeconds": 300}}}, True),
        ({"template": {"spec": {"terminationGracePeriodSeconds": 60}}}, False),
        ({"template": {"spec": {"containers": [{"name": "epp", "lifecycle": {}}]}}}, False),
        ({"replicas": 2}, False),
    ],
)
def test_a_picker_goes_on_until_gateways_know_of_the_next(
    picker: dict[str, Any], pauses: bool
) -> None:
    container = picker_container(routed(endpointPicker=picker))
    hook = (container.get("lifecycle") or {}).get("preStop")
    assert hook == ({"sleep": {"seconds": 60}} if pauses else None)


def test_the_token_is_mounted_where_the_picker_runs_and_nowhere_else() -> None:
    manifest = routed()
    assert only(manifest, "ServiceAccount")["automountServiceAccountToken"] is False
    assert pod(manifest)["spec"]["automountServiceAccountToken"] is True
    assert pod(manifest)["spec"]["serviceAccountName"] == "svc-epp"


def test_the_checksum_follows_the_configuration_alone() -> None:
    def checksum(manifest: Manifest) -> str:
        annotations = pod(manifest)["metadata"]["annotations"]
        return str(annotations["fusioninfer.io/config-checksum"])

    assert checksum(routed()) == checksum(routed(metadata={"labels": {"a": "b"}}))
    assert checksum(routed()) == checksum(routed(endpointPicker={"logVerbosity": 5}))
    assert checksum(routed()) != checksum(routed(strategy="queue-size"))


@pytest.mark.parametrize("mode", ["Off", "Authenticated", "Unauthenticated"])
def test_metrics_have_a_port_where_somebody_may_read_them(mode: str) -> None:
    manifest = routed(endpointPicker={"metrics": mode})
    ports = [port["name"] for port in only(manifest, "Service")["spec"]["ports"]]
    inside = [port["name"] for port in picker_container(manifest)["ports"]]
    assert ("http-metrics" in ports, "metrics" in inside) == (mode != "Off",) * 2
    bindings = objects(manifest, "ClusterRoleBinding")
    assert len(bindings) == (mode == "Authenticated")
    for binding in bindings:
        assert binding["roleRef"]["name"] == "system:auth-delegator"
        assert binding["subjects"] == [
            {"kind": "ServiceAccount", "name": "svc-epp", "namespace": "default"}
        ]


def test_a_certificate_is_mounted_from_its_secret() -> None:
    manifest = routed(endpointPicker={"tls": {"secretName": "picker-tls"}})
    assert {"name": "certificate", "secret": {"secretName": "picker-tls"}} in pod(manifest)["spec"][
        "volumes"
    ]
    mount = {"name": "certificate", "mountPath": "/certificate", "readOnly": True}
    assert mount in picker_container(manifest)["volumeMounts"]


def test_gke_gets_its_policies() -> None:
    manifest = routed(
        listening("inference", 8080),
        gateway={"implementation": "gke"},
        httproute={"hostnames": ["a.b"]},
    )
    target = {"group": "inference.networking.k8s.io", "kind": "InferencePool", "name": "svc-pool"}
    health = only(manifest, "HealthCheckPolicy")["spec"]
    assert health["targetRef"] == target
    assert health["default"]["config"]["httpHealthCheck"] == {
        "requestPath": "/health",
        "port": 8080,
    }
    backend = only(manifest, "GCPBackendPolicy")["spec"]
    assert backend["targetRef"] == target
    assert backend["default"]["timeoutSec"] > 300
    (port, *_) = only(manifest, "Service")["spec"]["ports"]
    assert port["appProtocol"] == "kubernetes.io/h2c"


def test_a_destination_rule_names_the_pickers_service(output: Any) -> None:
    istio = {"implementation": "istio"}
    manifest = routed(gateway=istio, metadata={"namespace": "team-a"})
    assert only(manifest, "DestinationRule")["spec"] == {
        "host": "svc-epp.team-a.svc.cluster.local",
        "trafficPolicy": {"tls": {"mode": "SIMPLE", "insecureSkipVerify": True}},
    }
    unknown = routed(gateway=istio, metadata={"namespace": output("team-a")})
    assert only(unknown, "DestinationRule")["spec"]["host"] == "svc-epp"


def overridden(**template: Any) -> Any:
    return pod(routed(endpointPicker={"template": template}))


def test_a_template_is_laid_over_the_generated_one() -> None:
    plain = pod(routed())
    made = overridden(
        metadata={"labels": {"team": "a"}, "annotations": {"note": "b"}},
        spec={
            "nodeSelector": {"pool": "system"},
            "terminationGracePeriodSeconds": 600,
            "containers": [
                {"name": "epp", "env": [{"name": "GOGC", "value": "50"},
                                        {"name": "POD_NAME", "value": "x",
                                         "valueFrom": None}]},
                {"name": "side", "image": "side:1"},
            ],
            "volumes": [{"name": "extra", "emptyDir": {}}],
        },
    )  # fmt: skip
    expected = copy.deepcopy(plain)
    expected["metadata"]["labels"]["team"] = "a"
    expected["metadata"]["annotations"]["note"] = "b"
    expected["spec"]["nodeSelector"] = {"pool": "system"}
    expected["spec"]["terminationGracePeriodSeconds"] = 600
    expected["spec"]["volumes"].append({"name": "extra", "emptyDir": {}})
    (container,) = expected["spec"]["containers"]
    container["env"][1] = {"name": "POD_NAME", "value": "x"}
    container["env"].append({"name": "GOGC", "value": "50"})
    expected["spec"]["containers"].append({"name": "side", "image": "side:1"})
    assert made == expected


@pytest.mark.parametrize(
    ("generated", "given", "wanted"),
    [
        ({"a": 1, "b": 2}, {"b": 3}, {"a": 1, "b": 3}),
        ({"a": {"b": 1}}, {"a": {"c": 2}}, {"a": {"b": 1, "c": 2}}),
        ({"a": 1, "b": 2}, {"b": None}, {"a": 1}),
        ([{"name": "a", "x": 1}], [{"name": "a", "y": 2}], [{"name": "a", "x": 1, "y": 2}]),
        ([{"name": "a"}], [{"name": "b"}], [{"name": "a"}, {"name": "b"}]),
        (["x"], ["y"], ["y"]),
        ([{"key": "a"}], [{"key": "b"}], [{"key": "b"}]),
        ({"a": [1]}, {"a": "text"}, {"a": "text"}),
    ],
)
def test_overlays_merge_by_key_and_by_name(generated: Any, given: Any, wanted: Any) -> None:
    before = copy.deepcopy(generated)
    assert overlaid(generated, given) == wanted
    assert generated == before


GATEWAY = {"namespaceSelector": {"matchLabels": {"gateways": "yes"}}}
PROMETHEUS = {"podSelector": {"matchLabels": {"app": "prometheus"}}}
PICKER = {
    "podSelector": {"matchLabels": {"app": "svc-epp", "fusioninfer.io/component-type": "router"}}
}


def role_pods(name: str) -> Manifest:
    return {
        "podSelector": {
            "matchLabels": {"fusioninfer.io/service": "svc", "fusioninfer.io/role-name": name}
        }
    }


def policies(manifest: Manifest) -> dict[str, Any]:
    found = {each["metadata"]["name"]: each["spec"] for each in objects(manifest, "NetworkPolicy")}
    for spec in found.values():
        assert spec["policyTypes"] == ["Ingress"]
    return found


def let_in(sources: list[Manifest], *ports: int) -> Manifest:
    return {"from": sources, "ports": [{"protocol": "TCP", "port": port} for port in ports]}


def test_only_the_gateway_and_the_picker_reach_the_serving_port() -> None:
    assert not objects(routed(), "NetworkPolicy")
    found = policies(routed(role(multinode=nodes(2)), networkPolicy={"gateway": [GATEWAY]}))
    assert found["svc-epp"]["podSelector"] == PICKER["podSelector"]
    assert found["svc-epp"]["ingress"] == [let_in([GATEWAY], 9002, 9003)]
    assert found["svc-inference"]["podSelector"] == role_pods("inference")["podSelector"]
    assert found["svc-inference"]["ingress"] == [
        let_in([GATEWAY, PICKER], 8000),
        {"from": [role_pods("inference")]},
    ]


def test_only_decode_pods_reach_prefill_pods() -> None:
    found = policies(pair(networkPolicy={"gateway": [GATEWAY]}))
    assert found["svc-decode"]["ingress"] == [
        let_in([GATEWAY, PICKER], 8000),
        {"from": [role_pods("prefill")]},
    ]
    assert found["svc-prefill"]["ingress"] == [
        let_in([PICKER], 8000),
        {"from": [role_pods("decode")]},
    ]


def test_a_role_outside_of_the_pool_lets_nobody_in() -> None:
    found = policies(pair(role("w"), strategy="queue-size", networkPolicy={"gateway": [GATEWAY]}))
    assert found["svc-w"]["ingress"] == []


@pytest.mark.parametrize(("mode", "read"), [("Off", False), ("Unauthenticated", True)])
def test_metrics_are_read_by_those_who_are_named(mode: str, read: bool) -> None:
    policy = {"gateway": [GATEWAY], "metrics": [PROMETHEUS]}
    found = policies(routed(endpointPicker={"metrics": mode}, networkPolicy=policy))
    assert let_in([PROMETHEUS], 8000) in found["svc-inference"]["ingress"]
    assert (let_in([PROMETHEUS], 9090) in found["svc-epp"]["ingress"]) == read


def namespace(name: str) -> Manifest:
    return {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}}


ELSEWHERE = {"parentRefs": [{"name": "shared", "namespace": "gateways"}]}
BESIDE = {"podSelector": {"matchLabels": {"gateway.networking.k8s.io/gateway-name": "svc-gateway"}}}
OWNED = {"podSelector": {"matchLabels": {"gateway.envoyproxy.io/owning-gateway-name": "shared"}}}


@pytest.mark.parametrize(
    ("router", "peers"),
    [
        ({"httproute": ELSEWHERE, "gateway": {"implementation": "istio"}}, [namespace("gateways")]),
        ({"httproute": {}, "gateway": {"implementation": "agentgateway"}}, [BESIDE]),
        (
            {"httproute": ELSEWHERE, "gateway": {"implementation": "envoy-ai-gateway"}},
            [namespace("envoy-gateway-system"), {**namespace("gateways"), **OWNED}],
        ),
        ({"networkPolicy": {"gatewayNamespace": "ingress"}}, [namespace("ingress")]),
        (
            {
                "httproute": ELSEWHERE,
                "gateway": {"implementation": "istio"},
                "networkPolicy": {"gatewayNamespace": "ingress"},
            },
            [namespace("ingress")],
        ),
    ],
)
def test_the_gateways_proxies_are_let_in(router: Manifest, peers: list[Manifest]) -> None:
    found = policies(routed(**router))
    assert found["svc-epp"]["ingress"] == [let_in(peers, 9002, 9003)]
    assert found["svc-inference"]["ingress"] == [let_in([*peers, PICKER], 8000)]


ISTIO = {"httproute": ELSEWHERE, "gateway": {"implementation": "istio"}}


@pytest.mark.parametrize(
    ("router", "spec"),
    [
        ({"httproute": ELSEWHERE}, {}),
        ({"httproute": ELSEWHERE, "gateway": {"implementation": "gke"}}, {}),
        ({**ISTIO, "networkPolicy": {"enabled": False}}, {}),
    ],
)
def test_no_policy_shuts_out_who_is_not_known(router: Manifest, spec: Manifest) -> None:
    manifest = routed(**router)
    manifest["spec"] |= spec
    assert not objects(manifest, "NetworkPolicy")


EXTERNAL = {"httproute": {"routedBy": "other"}, "gateway": {"implementation": "istio"}}
MONITORED: Manifest = {"monitoring": {"engines": False}}
PROMETHEUS = namespace("monitoring")
OUT = "roles[0].networkPolicy: keeps Prometheus out, which monitoring needs; "
WHERE = "roles[0].networkPolicy: it is not known where the gateway's proxies run; "


@pytest.mark.parametrize(
    ("router", "spec", "problem"),
    [
        (ISTIO, MONITORED, OUT),
        (
            {**ISTIO, "networkPolicy": {"gatewayNamespace": "a"}},
            {"monitoring": {"engines": False}},
            OUT,
        ),
        (EXTERNAL, {}, WHERE),
        ({**EXTERNAL, "httproute": {"refs": [{"name": "a"}]}}, {}, WHERE),
        ({"networkPolicy": {"metrics": [PROMETHEUS]}}, {}, WHERE),
    ],
)
def test_no_other_field_removes_network_policies(
    router: Manifest, spec: Manifest, problem: str
) -> None:
    manifest = routed(**router)
    manifest["spec"] |= spec
    (found,) = problems(manifest)
    assert found.startswith(problem)
    opened = copy.deepcopy(manifest)
    opened["spec"]["roles"][0]["networkPolicy"] = {"enabled": False}
    assert not problems(opened)
    named = {"gatewayNamespace": "gateways", "metrics": [PROMETHEUS]}
    manifest["spec"]["roles"][0]["networkPolicy"] = named
    assert not problems(manifest)
    assert len(objects(manifest, "NetworkPolicy")) == 2


def test_network_policies_of_a_service_that_another_one_routes() -> None:
    gateway = {"implementation": "istio", "refs": [{"name": "shared", "namespace": "gateways"}]}
    found = policies(routed(httproute={"routedBy": "other"}, gateway=gateway))
    assert found["svc-epp"]["ingress"] == [let_in([namespace("gateways")], 9002, 9003)]
