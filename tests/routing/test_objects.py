"""The objects of a router: RBAC, picker pods, DestinationRule and NetworkPolicies."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from routed import LLM_D, V1_5, objects, only, pair, picker_container, routed
from rows import each_row
from samples import Manifest, problems, rendered, role

from fusioninfer_pulumi.kube.containers import overlay

READ = ["get", "list", "watch"]
CUSTOM = "plugins: [{type: queue-scorer}]\nschedulingProfiles: [{name: default, plugins: []}]\n"


def pod(manifest: Manifest) -> Any:
    return only(manifest, "Deployment")["spec"]["template"]


def test_every_object_has_the_services_metadata() -> None:
    fields = {"labels": {"team": "a"}, "annotations": {"note": "b"}, "namespace": "team-a"}
    manifest = routed(endpointPicker={"metrics": "Authenticated"}, metadata=fields)
    for item in rendered(manifest):
        assert item["metadata"]["labels"]["team"] == "a"
        assert item["metadata"]["labels"]["fusioninfer.io/service"] == "svc"
        assert item["metadata"]["annotations"]["note"] == "b"
        cluster_wide = item["kind"] == "ClusterRoleBinding"
        assert item["metadata"].get("namespace") == (None if cluster_wide else "team-a")
    assert "team" not in pod(manifest)["metadata"]["labels"]


@pytest.mark.parametrize(
    ("picker", "groups"), [({}, []), ({"image": V1_5}, []), ({"image": LLM_D}, ["llm-d.ai"])]
)
def test_rbac_role_allows_only_what_the_picker_watches(picker: Manifest, groups: list[str]) -> None:
    objectives = ["inferenceobjectives", "inferencemodelrewrites"]
    watched = [
        ("", ["pods"]),
        ("inference.networking.k8s.io", ["inferencepools"]),
        *((group, objectives) for group in ("inference.networking.x-k8s.io", *groups)),
    ]
    assert only(routed(endpointPicker=picker), "Role")["rules"] == [
        {"apiGroups": [group], "resources": resources, "verbs": READ}
        for group, resources in watched
    ]


@each_row(
    ("picker", "pauses"),
    [
        ({}, True),
        ({"template": {"spec": {"terminationGracePeriodSeconds": 300}}}, True),
        ({"template": {"spec": {"terminationGracePeriodSeconds": 60}}}, False),
        ({"template": {"spec": {"containers": [{"name": "epp", "lifecycle": {}}]}}}, False),
        ({"replicas": 2}, True),
        ({"replicas": 2, "leaderElection": True}, False),
    ],
)
def test_picker_keeps_serving_after_deletion(picker: dict[str, Any], pauses: bool) -> None:
    container = picker_container(routed(endpointPicker=picker))
    hook = (container.get("lifecycle") or {}).get("preStop")
    assert hook == ({"sleep": {"seconds": 60}} if pauses else None)


@each_row(
    ("router", "picker", "elects"),
    [
        ({"strategy": "prefix-cache"}, {}, False),
        ({"strategy": "session-affinity"}, {"image": LLM_D}, False),
        ({"strategy": "queue-size"}, {"leaderElection": True}, True),
        ({"strategy": "queue-size"}, {"flowControl": True, "image": LLM_D}, True),
        (
            {"strategy": "queue-size"},
            {"flowControl": True, "image": LLM_D, "leaderElection": False},
            False,
        ),
        ({"endpointPickerConfig": CUSTOM}, {}, True),
        ({"strategy": "prefix-cache"}, {"replicas": 1, "leaderElection": True}, False),
    ],
)
def test_pickers_with_queues_or_own_configuration_elect_a_leader(
    router: Manifest, picker: Manifest, elects: bool
) -> None:
    manifest = routed(**router, endpointPicker={"replicas": 2, **picker})
    spec = only(manifest, "Deployment")["spec"]
    assert spec["strategy"]["type"] == ("Recreate" if elects else "RollingUpdate")
    container = picker_container(manifest)
    assert ("--ha-enable-leader-election" in container["args"]) == elects
    assert ("lifecycle" in container) != elects
    resources = [rule["resources"] for rule in only(manifest, "Role")["rules"]]
    assert (["leases"] in resources) == elects


def test_picker_is_not_ready_before_it_listens() -> None:
    probe = picker_container(routed())["startupProbe"]
    assert probe == {"tcpSocket": {"port": 9002}, "periodSeconds": 1, "failureThreshold": 120}


def test_checksum_depends_only_on_the_configuration() -> None:
    def checksum(manifest: Manifest) -> str:
        annotations = pod(manifest)["metadata"]["annotations"]
        return str(annotations["fusioninfer.io/config-checksum"])

    assert checksum(routed()) == checksum(routed(metadata={"labels": {"a": "b"}}))
    assert checksum(routed()) == checksum(routed(endpointPicker={"logVerbosity": 5}))
    assert checksum(routed()) != checksum(routed(strategy="queue-size"))


@pytest.mark.parametrize("mode", ["Off", "Authenticated", "Unauthenticated"])
def test_metrics_port_exists_if_metrics_are_enabled(mode: str) -> None:
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


def test_destination_rule_names_the_pickers_service(output: Any) -> None:
    istio = {"implementation": "istio"}
    manifest = routed(gateway=istio, metadata={"namespace": "team-a"})
    assert only(manifest, "DestinationRule")["spec"] == {
        "host": "svc-epp.team-a.svc.cluster.local",
        "trafficPolicy": {"tls": {"mode": "SIMPLE", "insecureSkipVerify": True}},
    }
    unknown = routed(gateway=istio, metadata={"namespace": output("team-a")})
    assert only(unknown, "DestinationRule")["spec"]["host"] == "svc-epp"


@each_row(
    ("generated", "fields", "wanted"),
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
def test_overlays_merge_by_key_and_by_name(generated: Any, fields: Any, wanted: Any) -> None:
    before = copy.deepcopy(generated)
    assert overlay(generated, fields) == wanted
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
    result = {item["metadata"]["name"]: item["spec"] for item in objects(manifest, "NetworkPolicy")}
    for spec in result.values():
        assert spec["policyTypes"] == ["Ingress"]
    return result


def allow_from(sources: list[Manifest], *ports: int) -> Manifest:
    return {"from": sources, "ports": [{"protocol": "TCP", "port": port} for port in ports]}


def test_only_decode_pods_reach_prefill_pods() -> None:
    result = policies(pair(networkPolicy={"gateway": [GATEWAY]}))
    assert result["svc-decode"]["ingress"] == [
        allow_from([GATEWAY, PICKER], 8000),
        {"from": [role_pods("prefill")]},
    ]
    assert result["svc-prefill"]["ingress"] == [
        allow_from([PICKER], 8000),
        {"from": [role_pods("decode")]},
    ]


def test_role_outside_the_pool_has_no_ingress() -> None:
    result = policies(pair(role("w"), strategy="queue-size", networkPolicy={"gateway": [GATEWAY]}))
    assert result["svc-w"]["ingress"] == []


@pytest.mark.parametrize(("mode", "read"), [("Off", False), ("Unauthenticated", True)])
def test_network_policy_admits_named_metrics_readers(mode: str, read: bool) -> None:
    policy = {"gateway": [GATEWAY], "metrics": [PROMETHEUS]}
    result = policies(routed(endpointPicker={"metrics": mode}, networkPolicy=policy))
    assert allow_from([PROMETHEUS], 8000) in result["svc-inference"]["ingress"]
    assert (allow_from([PROMETHEUS], 9090) in result["svc-epp"]["ingress"]) == read


def namespace(name: str) -> Manifest:
    return {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}}


OTHER_NAMESPACE = {"parentRefs": [{"name": "shared", "namespace": "gateways"}]}
SAME_NAMESPACE = {
    "podSelector": {"matchLabels": {"gateway.networking.k8s.io/gateway-name": "svc-gateway"}}
}
OWNED = {"podSelector": {"matchLabels": {"gateway.envoyproxy.io/owning-gateway-name": "shared"}}}


@each_row(
    ("router", "peers"),
    [
        (
            {"httproute": OTHER_NAMESPACE, "gateway": {"implementation": "istio"}},
            [namespace("gateways")],
        ),
        ({"httproute": {}, "gateway": {"implementation": "agentgateway"}}, [SAME_NAMESPACE]),
        (
            {"httproute": OTHER_NAMESPACE, "gateway": {"implementation": "envoy-ai-gateway"}},
            [namespace("envoy-gateway-system"), {**namespace("gateways"), **OWNED}],
        ),
        ({"networkPolicy": {"gatewayNamespace": "ingress"}}, [namespace("ingress")]),
        (
            {
                "httproute": OTHER_NAMESPACE,
                "gateway": {"implementation": "istio"},
                "networkPolicy": {"gatewayNamespace": "ingress"},
            },
            [namespace("ingress")],
        ),
    ],
)
def test_network_policy_admits_gateway_proxies(router: Manifest, peers: list[Manifest]) -> None:
    result = policies(routed(**router))
    assert result["svc-epp"]["ingress"] == [allow_from(peers, 9002, 9003)]
    assert result["svc-inference"]["ingress"] == [allow_from([*peers, PICKER], 8000)]


ISTIO = {"httproute": OTHER_NAMESPACE, "gateway": {"implementation": "istio"}}


@pytest.mark.parametrize(
    ("router", "spec"),
    [
        ({"httproute": OTHER_NAMESPACE}, {}),
        ({"httproute": OTHER_NAMESPACE, "gateway": {"implementation": "gke"}}, {}),
        ({**ISTIO, "networkPolicy": {"enabled": False}}, {}),
    ],
)
def test_network_policy_is_not_created_for_unknown_gateway(
    router: Manifest, spec: Manifest
) -> None:
    manifest = routed(**router)
    manifest["spec"] |= spec
    assert not objects(manifest, "NetworkPolicy")


EXTERNAL = {"httproute": {"routedBy": "other"}, "gateway": {"implementation": "istio"}}
MONITORED: Manifest = {"monitoring": {"engines": False}}
MONITORING = namespace("monitoring")
BLOCKED = "roles[0].networkPolicy: blocks Prometheus, which monitoring needs; "
UNKNOWN_LOCATION = "roles[0].networkPolicy: the location of the gateway's proxies is unknown; "


@each_row(
    ("router", "spec", "problem"),
    [
        (ISTIO, MONITORED, BLOCKED),
        (
            {**ISTIO, "networkPolicy": {"gatewayNamespace": "a"}},
            {"monitoring": {"engines": False}},
            BLOCKED,
        ),
        (EXTERNAL, {}, UNKNOWN_LOCATION),
        ({**EXTERNAL, "httproute": {"refs": [{"name": "a"}]}}, {}, UNKNOWN_LOCATION),
        ({"networkPolicy": {"metrics": [MONITORING]}}, {}, UNKNOWN_LOCATION),
    ],
)
def test_unknown_peers_are_reported_unless_policies_are_disabled(
    router: Manifest, spec: Manifest, problem: str
) -> None:
    manifest = routed(**router)
    manifest["spec"] |= spec
    (finding,) = problems(manifest)
    assert finding.startswith(problem)
    opened = copy.deepcopy(manifest)
    opened["spec"]["roles"][0]["networkPolicy"] = {"enabled": False}
    assert not problems(opened)
    named = {"gatewayNamespace": "gateways", "metrics": [MONITORING]}
    manifest["spec"]["roles"][0]["networkPolicy"] = named
    assert not problems(manifest)
    assert len(objects(manifest, "NetworkPolicy")) == 2


def test_routed_service_has_network_policies() -> None:
    gateway = {"implementation": "istio", "refs": [{"name": "shared", "namespace": "gateways"}]}
    result = policies(routed(httproute={"routedBy": "other"}, gateway=gateway))
    assert result["svc-epp"]["ingress"] == [allow_from([namespace("gateways")], 9002, 9003)]
