"""Engines whose data parallel ranks serve on a port each, and pools with several target ports."""

from __future__ import annotations

from routed import objects, only, routed
from samples import Manifest, container, pod_templates, role, template

RELEASE = "vllm/vllm-openai:v0.32.0-cpu"
BY_HAND = ["m", "--data-parallel-size=4", "--data-parallel-size-local=4", "-dpm"]


def ranked(name: str = "inference", kind: str = "worker", **fields: object) -> Manifest:
    """Return a role with four data-parallel ranks, each with its own port."""
    plain = template(container(image=RELEASE, args=["m"]))
    ranks = {"data": 4, "portPerRank": True}
    return role(name, kind, **{"template": plain, "parallelism": ranks, **fields})


def target_ports(manifest: Manifest) -> list[int]:
    """Return the pool's target ports."""
    return [port["number"] for port in only(manifest, "InferencePool")["spec"]["targetPorts"]]


def engine(manifest: Manifest) -> Manifest:
    """Return the serving container of the only role."""
    (findings,) = pod_templates(manifest)[0]["spec"]["containers"]
    built: Manifest = findings
    return built


def test_port_of_each_rank_is_a_target_port() -> None:
    manifest = routed(ranked(), networkPolicy={"gateway": [{"podSelector": {}}]})
    assert target_ports(manifest) == [8000, 8001, 8002, 8003]
    built = engine(manifest)
    assert built["args"][1:] == [
        *("--data-parallel-size", "4", "--data-parallel-size-local", "4"),
        "--data-parallel-multi-port-external-lb",
    ]
    assert [port["containerPort"] for port in built["ports"]] == [8000, 8001, 8002, 8003]
    # The supervisor's port, which responds once all ranks do.
    assert built["readinessProbe"]["httpGet"] == {"path": "/health", "port": 9256}


PEERS = [{"podSelector": {}}]


def test_network_policy_and_monitor_have_every_port() -> None:
    manifest = routed(ranked(), networkPolicy={"gateway": PEERS, "metrics": PEERS})
    manifest["spec"]["monitoring"] = {}
    policies = [item for item in objects(manifest, "NetworkPolicy") if "inference" in str(item)]
    (ports,) = [policy["spec"]["ingress"][0]["ports"] for policy in policies if _of_role(policy)]
    assert [port["port"] for port in ports] == [8000, 8001, 8002, 8003]
    (monitor,) = objects(manifest, "PodMonitor")
    endpoints = monitor["spec"]["podMetricsEndpoints"]
    assert [endpoint["portNumber"] for endpoint in endpoints] == [8000, 8001, 8002, 8003]


def _of_role(policy: Manifest) -> bool:
    return "fusioninfer.io/role-name" in policy["spec"]["podSelector"]["matchLabels"]


def test_user_argument_sets_ports_without_changing_pods() -> None:
    built = template(container(image=RELEASE, args=[*BY_HAND, "--port=9000"]))
    manifest = routed(role(template=built))
    assert target_ports(manifest) == [9000, 9001, 9002, 9003]
    assert "ports" not in engine(manifest)
    assert engine(manifest)["readinessProbe"]["httpGet"]["port"] == 9000


def test_sidecar_listens_for_every_rank() -> None:
    prefill = ranked("prefill", "prefiller", kvTransfer={})
    decode = ranked("decode", "decoder", kvTransfer={})
    manifest = routed(prefill, decode, strategy="pd-disaggregation")
    assert target_ports(manifest) == [8000, 8001, 8002, 8003]
    (sidecar,) = pod_templates(manifest)[1]["spec"]["initContainers"]
    assert "--data-parallel-size=4" in sidecar["args"]
    assert [port["containerPort"] for port in sidecar["ports"]] == [8000, 8001, 8002, 8003]
    engine_, *_ = pod_templates(manifest)[1]["spec"]["containers"]
    assert "8004" in engine_["args"]
    declared = {port["containerPort"] for port in engine_["ports"]}
    assert declared >= {8004, 8005, 8006, 8007}
