"""Serving container and port of a role, launchers, worker commands, and the order of findings."""

from __future__ import annotations

from typing import Any

from rows import each_row
from samples import container, listening, plan_of, rendered, role, service, template


def named(*names: str) -> dict[str, Any]:
    return template(*(container(name) for name in names))


@each_row(
    ("names", "value", "expected"),
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
    names: tuple[str, ...], value: str | None, expected: str
) -> None:
    fields = {"container": value} if value else {}
    (planned,) = plan_of(service(role(template=named(*names), **fields))).roles
    assert planned.pods.leader.container_name == expected


@each_row(
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


def test_role_scaled_to_zero_does_not_choose_service_port() -> None:
    scaled_to_zero = listening("a", 9000, replicas=0)
    running = role("b", replicas=1, port=8000)

    (entry,) = [
        item for item in rendered(service(scaled_to_zero, running)) if item["kind"] == "Service"
    ]

    assert [port["port"] for port in entry["spec"]["ports"]] == [8000]
