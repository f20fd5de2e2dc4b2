"""What is refused of pod templates: shapes, names, amounts of resources."""

from __future__ import annotations

from typing import Any

import pytest
from ill_pods import CONTAINERS, PODS, TAKEN
from samples import container, pod, problems

POD = "roles[0].template.spec"
SERVING = f"{POD}.containers[0]"
GPU = f"{SERVING}.resources.limits[nvidia.com/gpu]"


def gpus(amount: Any) -> dict[str, Any]:
    return pod(container(resources={"limits": {"nvidia.com/gpu": amount}}))


@pytest.mark.parametrize(
    ("amount", "message"),
    [
        ("0.5", 'must be a whole number of devices, got "0.5"'),
        (1.5, 'must be a whole number of devices, got "1.5"'),
        ("1500m", 'must be a whole number of devices, got "1500m"'),
        ("-1", 'must be at least 0, got "-1"'),
        ("many", 'must be a Kubernetes quantity such as 8, 500m or 16Gi, got "many"'),
        (True, "must be a Kubernetes quantity such as 8, 500m or 16Gi, got true"),
        (None, "must be a Kubernetes quantity such as 8, 500m or 16Gi, got null"),
    ],
)
def test_devices_are_counted_in_whole_numbers(amount: Any, message: str) -> None:
    assert problems(gpus(amount)) == [f"{GPU}: {message}"]


@pytest.mark.parametrize("amount", [1, "1", 1.0, "1000m", "1e0"])
def test_whole_device_count_is_accepted_in_every_notation(amount: Any) -> None:
    assert problems(gpus(amount)) == []


def test_fractional_cpu_and_memory_are_accepted() -> None:
    assert problems(pod(container(resources={"requests": {"cpu": "0.5", "memory": "1.5Gi"}}))) == []


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({}, ["needs the same amount in limits"]),
        ({"nvidia.com/gpu": 2}, ['must equal limits[nvidia.com/gpu] (2), got "1k"']),
        ({"nvidia.com/gpu": "1000"}, []),
    ],
)
def test_requests_of_a_device_equal_its_limits(limits: Any, expected: list[str]) -> None:
    resources = {"limits": limits, "requests": {"nvidia.com/gpu": "1k"}}
    args = ["--model", "m", "-tp", "1000"]
    at = f"{SERVING}.resources.requests[nvidia.com/gpu]"
    assert problems(pod(container(args=args, resources=resources))) == [
        f"{at}: {each}" for each in expected
    ]


def test_pod_level_resources_must_be_quantities() -> None:
    manifest = pod(
        overhead={"cpu": "abc"}, resources={"limits": {"memory": "lots"}, "requests": [1]}
    )
    quantity = "must be a Kubernetes quantity such as 8, 500m or 16Gi"
    assert problems(manifest) == [
        f'{POD}.overhead.cpu: {quantity}, got "abc"',
        f'{POD}.resources.limits.memory: {quantity}, got "lots"',
        f"{POD}.resources.requests: must be a mapping, got [1]",
    ]


def test_passed_through_value_must_be_json() -> None:
    manifest = pod(
        volumes=[{"name": "v", 1: "a", "b": float("nan")}],
        affinity={"x": {1, 2}},
        hostname="\ud800",
        dnsConfig={"options": [{"value": float("inf")}]},
    )
    assert problems(manifest) == [
        f"{POD}.volumes[0].b: unknown key; Kubernetes has no such field",
        f"{POD}.affinity.x: unknown key; allowed: nodeAffinity, podAffinity, podAntiAffinity",
        f"{POD}.volumes[0]: keys must be strings, got 1; quote it in YAML",
        f"{POD}.volumes[0].b: must be a finite number, got nan",
        f"{POD}.affinity.x: must be plain data, got a set",
        f"{POD}.hostname: contains half of a surrogate pair, which is not valid text",
        f"{POD}.dnsConfig.options[0].value: must be a finite number, got inf",
    ]


@pytest.mark.parametrize(("given", "at", "said"), PODS)
def test_pod_that_the_api_server_rejects_is_rejected(given: Any, at: str, said: str) -> None:
    assert problems(pod(**given)) == [f"{POD}.{at}: {said}"]


@pytest.mark.parametrize(("given", "at", "said"), CONTAINERS)
def test_container_that_the_api_server_rejects_is_rejected(given: Any, at: str, said: str) -> None:
    assert f"{SERVING}.{at}: {said}" in problems(pod(container(**given)))


@pytest.mark.parametrize("given", TAKEN)
def test_pod_that_kubernetes_accepts_is_accepted(given: Any) -> None:
    assert problems(pod(**given)) == []
