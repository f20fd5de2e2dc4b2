"""Engines whose data parallel ranks serve on a port each, and pools with several target ports."""

from __future__ import annotations

import pytest
from routed import LLM_D, objects, only, pair, routed
from samples import (
    Manifest,
    container,
    listening,
    pod_templates,
    problems,
    role,
    service,
    template,
)

RELEASE = "vllm/vllm-openai:v0.32.0-cpu"
BY_HAND = ["m", "--data-parallel-size=4", "--data-parallel-size-local=4", "-dpm"]


def ranked(name: str = "inference", kind: str = "worker", **fields: object) -> Manifest:
    """A role of four ranks with a port each."""
    plain = template(container(image=RELEASE, args=["m"]))
    ranks = {"data": 4, "portPerRank": True}
    return role(name, kind, **{"template": plain, "parallelism": ranks, **fields})


def target_ports(manifest: Manifest) -> list[int]:
    """The target ports of the one pool."""
    return [port["number"] for port in only(manifest, "InferencePool")["spec"]["targetPorts"]]


def engine(manifest: Manifest) -> Manifest:
    """The serving container of the only role."""
    (found,) = pod_templates(manifest)[0]["spec"]["containers"]
    built: Manifest = found
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
    # The supervisor's: it answers once all ranks do.
    assert built["readinessProbe"]["httpGet"] == {"path": "/health", "port": 9256}


PEERS = [{"podSelector": {}}]


def test_network_policy_and_a_monitor_name_every_port() -> None:
    manifest = routed(ranked(), networkPolicy={"gateway": PEERS, "metrics": PEERS})
    manifest["spec"]["monitoring"] = {}
    policies = [each for each in objects(manifest, "NetworkPolicy") if "inference" in str(each)]
    (ports,) = [policy["spec"]["ingress"][0]["ports"] for policy in policies if _of_role(policy)]
    assert [port["port"] for port in ports] == [8000, 8001, 8002, 8003]
    (monitor,) = objects(manifest, "PodMonitor")
    endpoints = monitor["spec"]["podMetricsEndpoints"]
    assert [endpoint["portNumber"] for endpoint in endpoints] == [8000, 8001, 8002, 8003]


def _of_role(policy: Manifest) -> bool:
    return "fusioninfer.io/role-name" in policy["spec"]["podSelector"]["matchLabels"]


def test_argument_of_the_users_own_gives_ports_too_and_changes_no_pod() -> None:
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


REFUSED: dict[str, tuple[Manifest, str]] = {
    "one rank": (
        routed(ranked(parallelism={"portPerRank": True})),
        "roles[1].parallelism.portPerRank: has no effect without data; remove it",
    ),
    "more than a pool's ports": (
        routed(ranked(parallelism={"data": 16, "portPerRank": True})),
        "roles[0]: InferencePool svc-pool: spec.targetPorts: must have at most 8 items, got 16",
    ),
    "ranks in several pods": (
        routed(ranked(parallelism={"data": 8, "dataLocal": 4, "portPerRank": True})),
        (
            "roles[1].parallelism.portPerRank: needs one pod in a replica, got 2: a pool holds the "
            "first pod of each alone, and the copies of the others would get no requests; set data "
            "for one pod and raise replicas, or remove this"
        ),
    ),
    "SGLang": (
        routed(
            ranked(
                template=template(
                    container(
                        "sglang",
                        image="lmsysorg/sglang:v0.5.4",
                        command=["python3", "-m", "sglang.launch_server", "--model-path=m"],
                        args=[],
                    )
                )
            )
        ),
        "roles[1].parallelism.portPerRank: SGLang has no such argument",
    ),
    "no router": (
        service(ranked()),
        (
            "roles[0].parallelism.portPerRank: inference serves on ports 8000 to 8003, but the "
            "Service reaches only 8000, so the other ranks receive no requests; add a role of "
            "componentType router, or let the ranks share a port"
        ),
    ),
    "roles with different ports": (
        routed(ranked("a"), listening("b", 8000)),
        (
            "roles[0]: pods of a pool must serve on the same ports, got a "
            "8000 to 8003, b 8000; give the roles the same ports"
        ),
    ),
    "ports that leave out the engine's": (
        routed(pool={"targetPorts": [8001, 8002]}),
        (
            "roles[0].pool.targetPorts: lack 8000, on which inference serves; add it, or set "
            "the role's port"
        ),
    ),
    "nine ports": (
        routed(pool={"targetPorts": list(range(8000, 8009))}),
        "roles[0].pool.targetPorts: must contain at most 8 items, got 9",
    ),
    "a sidecar that listens on one": (
        pair(pool={"targetPorts": [8000, 8001]}, endpointPicker={"image": LLM_D}),
        (
            "roles[0].pool.targetPorts: differ from the ports of the sidecar of decode "
            "(8000); remove this, and set parallelism.portPerRank or the sidecar's "
            "--data-parallel-size"
        ),
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_invalid_rank_ports_are_rejected(case: str) -> None:
    manifest, expected = REFUSED[case]
    assert problems(manifest) == [expected]


def test_old_release_rejects_port_per_rank() -> None:
    built = template(container(gpus=4))
    (problem,) = problems(routed(ranked(template=built)))
    assert "--data-parallel-multi-port-external-lb" in problem
    assert "from v0.22.0 on" in problem
