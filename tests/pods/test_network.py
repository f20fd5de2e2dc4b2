"""NetworkPolicies of prefill and decode pods."""

from __future__ import annotations

from typing import Any

from pd import pair
from samples import nodes, rendered

from fusioninfer_pulumi.endpoint_pickers.picker_families import FAMILIES

GATEWAY = {"namespaceSelector": {"matchLabels": {"name": "gateways"}}}
PICKER = {
    "podSelector": {
        "matchLabels": {"app": "svc-epp", "fusioninfer.io/component-type": "router"}
    }
}  # fmt: skip
POLICY = {"networkPolicy": {"gateway": [GATEWAY]}}


def pods(role: str) -> dict[str, Any]:
    return {
        "podSelector": {
            "matchLabels": {"fusioninfer.io/service": "svc", "fusioninfer.io/role-name": role}
        }
    }


def rule(port: int, *sources: dict[str, Any]) -> dict[str, Any]:
    return {"from": list(sources), "ports": [{"protocol": "TCP", "port": port}]}


def ingress(manifest: dict[str, Any], name: str) -> list[dict[str, Any]]:
    for item in rendered(manifest):
        if item["kind"] == "NetworkPolicy" and item["metadata"]["name"] == name:
            rules: list[dict[str, Any]] = item["spec"]["ingress"]
            return rules
    raise AssertionError(f"no policy {name}")


def test_side_channel_is_open_only_to_decode_pods() -> None:
    manifest = pair(router=POLICY)
    assert ingress(manifest, "svc-decode") == [
        rule(8000, GATEWAY, PICKER),
        {"from": [pods("prefill")]},
    ]
    assert ingress(manifest, "svc-prefill") == [rule(8000, PICKER), {"from": [pods("decode")]}]


def test_pods_of_a_replica_reach_each_other() -> None:
    manifest = pair(router=POLICY, decode_role={"multinode": nodes(2)})
    assert {"from": [pods("decode")]} in ingress(manifest, "svc-decode")


def test_picker_reaches_the_events_of_a_pods_cache() -> None:
    for listens in ({}, {"endpoint": "tcp://[::]:5557"}):
        manifest = pair(router=POLICY, decode_role={"kvEvents": listens})
        assert rule(5557, PICKER) in ingress(manifest, "svc-decode")
    elsewhere = {"kvEvents": {"endpoint": "tcp://scheduler:5557"}}
    manifest = pair(router=POLICY, decode_role=elsewhere)
    assert ingress(manifest, "svc-decode") == [
        rule(8000, GATEWAY, PICKER),
        {"from": [pods("prefill")]},
    ]


def test_engines_reach_a_picker_that_listens_for_events() -> None:
    config = {
        "endpointPicker": {"image": FAMILIES["llm-d-0.10"].image},
        "endpointPickerConfig": "plugins:\n- type: precise-prefix-cache-producer\n"
        "  parameters: {kvEventsConfig: {zmqEndpoint: 'tcp://*:5557'}}\n"
        "schedulingProfiles: [{name: default}]\n",
    }
    result = ingress(pair(router={**POLICY, **config}), "svc-epp")
    assert rule(5557, pods("decode")) in result
