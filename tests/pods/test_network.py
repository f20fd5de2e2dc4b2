"""Who reaches prefill and decode pods where a NetworkPolicy is asked for."""

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
    for each in rendered(manifest):
        if each["kind"] == "NetworkPolicy" and each["metadata"]["name"] == name:
            rules: list[dict[str, Any]] = each["spec"]["ingress"]
            return rules
    raise AssertionError(f"no policy {name}")


def test_clients_reach_decode_pods_and_decode_pods_alone_the_side_channel() -> None:
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
    manifest = pair(router=POLICY, decode_role={"kvEvents": {}})
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
    found = ingress(pair(router={**POLICY, **config}), "svc-epp")
    assert rule(5557, pods("decode")) in found
