"""Serving container and port of a role, launchers, worker commands, and the order of findings."""

from __future__ import annotations

from typing import Any

import pytest
from samples import (
    container,
    listening,
    nodes,
    on,
    plan_of,
    prefill_decode,
    problems,
    rendered,
    role,
    service,
    template,
    warnings,
)

from fusioninfer_pulumi.findings import Severity

SERVING = "roles[0].template.spec.containers[0]"


def named(*names: str) -> dict[str, Any]:
    return template(*(container(name) for name in names))


@pytest.mark.parametrize(
    ("names", "given", "expected"),
    [
        (("one", "two"), None, "one"),
        (("one", "main"), None, "main"),
        (("main", "engine"), None, "engine"),
        (("engine", "sglang"), None, "sglang"),
        (("sglang", "vllm"), None, "vllm"),
        (("vllm", "one"), "one", "one"),
    ],
)
def test_serving_container_is_the_one_named_or_known_or_first(
    names: tuple[str, ...], given: str | None, expected: str
) -> None:
    fields = {"container": given} if given else {}
    (planned,) = plan_of(service(role(template=named(*names), **fields))).roles
    assert planned.pods.leader.name == expected


@pytest.mark.parametrize(
    ("port", "args", "ports", "expected"),
    [
        (None, [], [], 8000),
        (None, [], [{"containerPort": 9000}], 9000),
        (None, [], [{"containerPort": 9400}, {"containerPort": 9000, "name": "http"}], 9000),
        (None, ["--port", "7000"], [{"containerPort": 9000, "name": "http"}], 7000),
        (None, ["--port=7000"], [], 7000),
        (7000, ["--port", "7000"], [{"containerPort": 9000}], 7000),
        (6000, ["--port", "$(PORT)"], [{"containerPort": 9000}], 6000),
    ],
)
def test_serving_port_is_the_most_specific_setting(
    port: int | None, args: list[str], ports: list[Any], expected: int
) -> None:
    serving = container(args=["--model", "m", *args], ports=ports)
    fields = {"port": port} if port else {}
    manifest = service(role(template=template(serving), **fields))
    (planned,) = plan_of(manifest).roles
    assert planned.pods.port == expected
    workload, entry = rendered(manifest)
    assert entry["spec"]["ports"] == [
        {"name": "http", "port": expected, "targetPort": expected, "protocol": "TCP"}
    ]
    pod = workload["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]
    assert pod["containers"][0]["readinessProbe"]["httpGet"]["port"] == expected


def test_launcher_of_a_single_pod_has_no_effect() -> None:
    assert warnings(service(role(multinode=nodes(1, launcher="ray")))) == [
        "warning: roles[0].multinode.launcher: has no effect: a replica is a single pod"
    ]


def test_worker_command_with_launcher_ray_is_rejected() -> None:
    wide = role(
        template=None,
        multinode=nodes(2, launcher="ray"),
        leaderTemplate=template(),
        workerTemplate=template(container(args=["--headless"])),
    )
    assert problems(service(wide)) == [
        (
            "roles[0].workerTemplate.spec.containers[0].args: is replaced by launcher ray, "
            "which starts Ray on the workers; remove it, or use launcher: none and write both "
            "commands"
        )
    ]


def test_multi_node_role_with_unknown_engine_requires_launcher_none() -> None:
    unknown = template(container(image="registry.example.com/own:1", args=None))
    (problem,) = problems(service(role(template=unknown, multinode=nodes(2))))
    assert problem.startswith(f"{SERVING}.args: the container has no command, and the program")
    assert "launcher: none" in problem
    by_hand = role(template=unknown, multinode=nodes(2, launcher="none"))
    assert problems(service(by_hand)) == []


def test_different_ports_behind_one_service_are_a_warning() -> None:
    manifest = service(role("a", port=8000), listening("b", 9000))
    assert warnings(manifest) == [
        (
            "warning: roles: the roles serve on different ports (a 8000, b 9000): the Service "
            "reaches only 8000; give them one port"
        )
    ]


def test_prefill_port_does_not_count_without_router() -> None:
    assert warnings(prefill_decode({"template": on(9000)}, {"port": 8000})) == [
        (
            "warning: roles: no router: nothing pairs prefill with decode, and clients reach only "
            "the decoders; add a role of componentType router"
        )
    ]


def test_findings_come_errors_first() -> None:
    node = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    pod = template(container(gpus=8), nodeSelector=node)
    manifest = prefill_decode({"replicas": 0}, {"startupPolicy": "LeaderReady", "template": pod})
    severities = [finding.severity for finding in plan_of(manifest).findings]
    order = [Severity.ERROR, Severity.WARNING, Severity.INFO]
    assert sorted(severities, key=order.index) == severities
    assert set(severities) == set(order)


def test_role_scaled_to_zero_does_not_choose_service_port() -> None:
    parked = listening("a", 9000, replicas=0)
    running = role("b", replicas=1, port=8000)

    (entry,) = [item for item in rendered(service(parked, running)) if item["kind"] == "Service"]

    assert [port["port"] for port in entry["spec"]["ports"]] == [8000]
